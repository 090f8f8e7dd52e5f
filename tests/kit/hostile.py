"""Public logs by somebody who means ill: anything at all in them, under hashes that fit."""

from __future__ import annotations

import copy
import hashlib
import json
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from kit import public_logs
from kit.hostile_arrow import ARROW
from stream_dp.log.log import MAX_RECORD, Record
from stream_dp.log.message import START, Message, build_message, canonical, message_records
from stream_dp.privacy.noise import Measurements, SeededNoise
from stream_dp.release import published_tables as dataset
from stream_dp.release.arrow_parts import measurement_table
from stream_dp.study import Kind, Study
from stream_dp.studyfile import parse_study

PEOPLE, PERIODS = 40, 4
RELEASES = ("pairs", "months", "both")
STUDY = {
    "study": {
        "name": "asked",
        "description": "A small trial",
        "unit": "person",
        "neighbours": "replace_in_place",
        "rho": 4,
        "delta": "1/1000000",
        "periods": {"first": "2021-01", "every": "month", "count": PERIODS},
        "population": {"size": PEOPLE},
    },
    "attributes": {"work": {"values": ["no", "half day", "full"], "missing": "no"}},
    "groups": {"unit": "home", "most": 4, "attributes": {"region": {"values": ["n", "s"]}}},
    "releases": [
        {"name": "pairs", "kind": "window", "attribute": "work", "width": 2, "rho": 1},
        {"name": "months", "kind": "cumulative", "attribute": "work", "event": ["full"], "rho": 1},
        {
            "name": "both",
            "kind": "joint",
            "attribute": "work",
            "width": 2,
            "event": ["full"],
            "rho": 1,
        },
        {"name": "homes", "kind": "mwem", "attributes": ["work"], "every": 4, "rho": 1},
    ],
}


@cache
def sound() -> list[Message]:
    """The messages of a small study: three panels of four periods, and a data set."""
    study = parse_study(copy.deepcopy(STUDY))
    truth = np.random.default_rng(3).integers(0, 3, (PEOPLE, PERIODS), np.uint8)
    sent: list[Message] = public_logs.published(study, {"work": truth}, SeededNoise(4))
    return [*sent, _data_set(study, sent[-1])]


def _data_set(study: Study, before: Message) -> Message:
    (declared,) = study.batches or ()
    sizes = np.array([1, 2, 3, 4] * 4)
    names = dataset.column_values(study, declared)
    groups = np.stack([np.arange(len(sizes)) % 2, sizes - 1], axis=1)
    people = np.arange(sizes.sum())[:, None] % 3
    tables = dataset.coded_tables(names, groups, people, np.repeat(np.arange(len(sizes)), sizes))
    answers = measurement_table(Measurements(("people",), np.array([40]), (Fraction(2),)))
    provenance = dataset.Provenance(Kind.MWEM.data_set.mechanism, {"rounds": 3}, True)
    spent = study.rho
    certificate = dataset.batch_certificate(
        study,
        declared,
        number=4,
        tables=tables,
        measured=1,
        provenance=provenance,
        rho=declared.rho,
        spent=spent,
    )
    parts = dataset.data_set_parts(tables, answers)
    return build_message(before.index + 1, before.hash, certificate.model_dump(mode="json"), parts)


@dataclass
class Draft:
    """A message before its hash. raw: the manifest's bytes, where it is not made of the rest."""

    head: dict[str, Any]
    parts: list[tuple[str, bytes]]
    index: int | None = None
    raw: bytes | None = None
    headers: list[tuple[str, bytes]] = field(default_factory=list)


def drafts(sent: list[Message]) -> list[Draft]:
    return [Draft(copy.deepcopy(m.head), list(m.parts)) for m in sent]


def drafts_and(sent: list[Message], release: str) -> tuple[list[Draft], Draft]:
    """The drafts of all messages, and that of the first message of a release."""
    chain = drafts(sent)
    return chain, next(draft for draft in chain if draft.head.get("release") == release)


def sealed(chain: list[Draft]) -> list[Record]:
    """The records of a chain, every link and hash of which fits."""
    records, previous = [], START
    for place, one in enumerate(chain):
        index = place if one.index is None else one.index
        listed = [
            {"name": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for name, data in one.parts
        ]
        head = {**one.head, "index": index, "previous": previous, "parts": listed}
        manifest = one.raw
        if manifest is None:
            manifest = json.dumps(head, sort_keys=True, separators=(",", ":")).encode()
        previous = hashlib.sha256(manifest).hexdigest()
        sent = Message(
            index=index,
            head={},
            parts=tuple(one.parts),
            previous="",
            hash=previous,
            manifest=manifest,
        )
        own_records = message_records(
            sent, "releases", kind="k", source="s", content="c", time=None
        )
        records += [
            Record(
                topic=r.topic,
                value=r.value,
                key=r.key,
                headers=(*r.headers, *one.headers),
                partition=0,
                time=r.time,
            )
            for r in own_records
        ]
    return [r for r in records if len(r.value or b"") < MAX_RECORD - 1000]


# What is hostile.

WORDS: list[Any] = [
    None, True, False, -1, 0, 1, 2, 10**12, 10**30, -(10**400), 0.5, -0.0, 1e308,
    float("nan"), float("inf"), "", "abc", "1", "-1", "1/0", "1e999999999", "9" * 2000,
    "\x1b[31m\x1b]0;x\x07", "\x9b31m", "\u202eevil\u2066", "\ud800", "a\nhead 00", "\x00",
    "x" * 5000, [], {}, [[]], [None], {"a": {}}, "2021-09", "pairs", "homes", "absent",
    [1] * 300, ["v"] * 300, "\x7f", "stream-dp.study", "stream-dp.release", "stream-dp.batch",
]  # fmt: skip


def deep(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    keys = value.keys() if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield (*path, key)
        if isinstance(value[key], (dict, list)):
            yield from _places(value[key], (*path, key))


def strange_field(draw: random.Random, chain: list[Draft]) -> None:
    """A field anywhere in a manifest is another thing, or gone, or there is one more."""
    head = draw.choice(chain).head
    if draw.random() < 0.3:
        head = chain[0].head["study"]
    place = draw.choice(list(_places(head)))
    inner = head
    for key in place[:-1]:
        inner = inner[key]
    what = draw.random()
    if what < 0.1:
        del inner[place[-1]]
    elif what < 0.2 and isinstance(inner, dict):
        inner[draw.choice(["more", "\x1b[2J", "format", "index", "parts"])] = draw.choice(WORDS)
    elif what < 0.25:
        inner[place[-1]] = deep(draw.choice([50, 900]))
    else:
        inner[place[-1]] = draw.choice(WORDS)


def strange_number(draw: random.Random, chain: list[Draft]) -> None:
    """A number is another one, or stands there as a string."""
    head = draw.choice(chain).head
    names = [n for n, v in head.items() if isinstance(v, int) or n.startswith(("rho", "eps"))]
    if names:
        name = draw.choice(names)
        head[name] = draw.choice([head[name], str(head[name]), 3, 7, 10**9, "2", "1/3", "0.25"])


def strange_bytes(draw: random.Random, chain: list[Draft]) -> None:
    """Some bytes of a part are others, or gone, or more."""
    one = draw.choice([d for d in chain if d.parts])
    place = draw.randrange(len(one.parts))
    name, data = one.parts[place]
    damaged = bytearray(data)
    what = draw.random()
    if what < 0.6:
        for _ in range(draw.choice([1, 1, 2, 8])):
            damaged[draw.randrange(len(damaged))] = draw.choice(
                [0, 1, 127, 128, 255, draw.randrange(256)]
            )
    elif what < 0.75:
        del damaged[draw.randrange(len(damaged)) :]
    elif what < 0.9:
        start = draw.randrange(len(damaged))
        damaged[start : start + 8] = draw.choice([b"\xff" * 8, bytes(8), b"\xff" * 7 + b"\x7f"])
    else:
        damaged += draw.randbytes(draw.choice([1, 8, 100]))
    one.parts[place] = (name, bytes(damaged))


def strange_parts(draw: random.Random, chain: list[Draft]) -> None:
    """Parts that are missing, twice, moved, renamed, or another message's."""
    one = draw.choice([d for d in chain if d.parts])
    place = draw.randrange(len(one.parts))
    name, data = one.parts[place]
    what = draw.randrange(7)
    if what == 0:
        del one.parts[place]
    elif what == 1:
        one.parts.append(one.parts[place])
    elif what == 2:
        draw.shuffle(one.parts)
    elif what == 3:
        names = ["panel", "panel/7", "panel/1", "manifests", "\x1b[31m", "", "/", "groups/0"]
        one.parts[place] = (draw.choice(names), data)
    elif what == 4:
        one.parts[place] = (name, draw.choice(draw.choice([d for d in chain if d.parts]).parts)[1])
    elif what == 5:
        one.parts.append((name.replace("/0", "/1"), data))
    else:
        one.parts = []


def strange_chain(draw: random.Random, chain: list[Draft]) -> None:
    """Messages that are missing, twice, in another order, or of another number."""
    what, place = draw.randrange(5), draw.randrange(len(chain))
    if what == 0:
        del chain[place]
    elif what == 1:
        chain.insert(place, copy.deepcopy(draw.choice(chain)))
    elif what == 2:
        draw.shuffle(chain)
    elif what == 3:
        numbers: list[Any] = [-1, 10**40, "x", None, True, place + 1, 0.0, "\x1b[1m"]
        chain[place].index = draw.choice(numbers)
    else:
        del chain[draw.choice([1, place]) :]


def strange_manifest(draw: random.Random, chain: list[Draft]) -> None:
    """A manifest that is no JSON, or JSON of a kind that hurts."""
    chain[draw.randrange(len(chain))].raw = draw.choice(
        [
            b"",
            b"{",
            b"\xff\xfe",
            b"[" * 200_000,
            b'{"a":' * 100_000,
            b'{"index":' + b"9" * 100_000 + b"}",
            b'{"index":NaN,"previous":"","parts":[]}',
            b'{"index":0,"previous":"","parts":[{}]}',
            b"[" + b"{}," * 200_000 + b"{}]",
            draw.randbytes(50),
        ]
    )


def strange_headers(draw: random.Random, chain: list[Draft]) -> None:
    """Records that say that they are another part."""
    name = draw.choice([b"manifest", b"\xff", b"", b"panel/0", b"\x1b[31m"])
    draw.choice(chain).headers.append(("stream-dp-part", name))


def strange_arrow(draw: random.Random, chain: list[Draft]) -> None:
    """A part is another kind of table."""
    one = draw.choice([d for d in chain if d.parts])
    place = draw.randrange(len(one.parts))
    name, data = one.parts[place]
    table = pa.ipc.open_stream(data).read_all()
    one.parts[place] = (name, ARROW[draw.choice(list(ARROW))](table))


STRANGE = (
    strange_field,
    strange_field,
    strange_number,
    strange_bytes,
    strange_parts,
    strange_chain,
    strange_manifest,
    strange_headers,
    strange_arrow,
)


def mutated(draw: random.Random, sent: list[Message]) -> list[Record]:
    """The chain with one to three strange things in it."""
    chain = drafts(sent)
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        change = draw.choice(STRANGE)
        try:
            change(draw, chain)
        except (IndexError, KeyError, TypeError, ValueError, OSError, pa.ArrowException):
            continue  # nothing of the kind is left in this chain
    if chain and draw.random() < 0.5:
        _hash_again(chain)
    return sealed(chain)


def replan(chain: list[Draft], **stated: Callable[[str], str]) -> None:
    """The plan of every release states other texts. stated: by field, of the text that it had."""
    (first,) = chain[0].parts
    plan = json.loads(first[1])
    for release in plan.values():
        for name, changed in stated.items():
            release["states"][name] = changed(release["states"][name])
    chain[0].parts = [(first[0], canonical(plan))]


def _hash_again(chain: list[Draft]) -> None:
    """A changed declaration has its own hash again, in every certificate."""
    try:
        declared = Study.model_validate(chain[0].head["study"])
        digest = hashlib.sha256(canonical(declared.model_dump(mode="json", exclude_none=True)))
    except Exception:  # whatever it is now, it is no study
        return
    for one in chain:
        if isinstance(one.head, dict):
            one.head["study_hash"] = digest.hexdigest()
    with suppress(ValueError, KeyError, TypeError, AttributeError):  # a strange plan stays as it is
        replan(chain, study_hash=lambda _: digest.hexdigest())
