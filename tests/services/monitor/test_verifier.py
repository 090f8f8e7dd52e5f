"""The verifier in JavaScript has the verdicts of `stream-dp verify`, on sound and damaged logs."""

from __future__ import annotations

import base64
import json
import random
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from kit.hostile import Draft, drafts, mutated, sealed, sound
from kit.hostile_arrow import ARROW
from kit.movers import moves_public
from kit.panels import StudyFolder, declaration, script
from kit.public_logs import published
from kit.studies import attribute, small_study, window
from kit.verifiers import VERIFIER, verdicts

from stream_dp.log import open_log
from stream_dp.log.log import Record
from stream_dp.log.message import SIGNATURE
from stream_dp.log.signing import SigningKey
from stream_dp.privacy.noise import SeededNoise
from stream_dp.release.certificate import SYSTEM_NOISE
from stream_dp.services.commands import cli
from stream_dp.study.topics import RELEASES

pytest.importorskip("cryptography")

_HEAD = bytes.fromhex("302e020100300506032b657004220420")
KEY, OTHER = (
    SigningKey.of_pem(
        "-----BEGIN PRIVATE KEY-----\n"
        + base64.b64encode(_HEAD + bytes([byte]) * 32).decode()
        + "\n-----END PRIVATE KEY-----\n"
    )
    for byte in (1, 2)
)
Chain = list[Draft]
FAR = "f" * 64


def field(place: int, name: str, value: object) -> Callable[[Chain], None]:
    """Another value in the manifest of a message."""

    def change(chain: Chain) -> None:
        chain[place].head[name] = value

    return change


def without(place: int, name: str) -> Callable[[Chain], None]:
    def change(chain: Chain) -> None:
        del chain[place].head[name]

    return change


def moved(change: Callable[[Chain], object]) -> Callable[[Chain], None]:
    return lambda chain: [change(chain), None][1]


def plan(change: Callable[[dict[str, Any]], object]) -> Callable[[Chain], None]:
    """Another plan in message 0."""

    def apply(chain: Chain) -> None:
        text = json.loads(b"".join(data for _, data in chain[0].parts))
        change(text)
        chain[0].parts = [("plan/0", json.dumps(text).encode())]

    return apply


def part(place: int, name: str, data: Callable[[bytes], bytes]) -> Callable[[Chain], None]:
    """Other bytes in a part, with their hash."""

    def apply(chain: Chain) -> None:
        chain[place].parts = [(n, data(d) if n == name else d) for n, d in chain[place].parts]

    return apply


def as_arrow(name: str) -> Callable[[bytes], bytes]:
    return lambda data: ARROW[name](pa.ipc.open_stream(data).read_all())


def _spread(name: str, value: object) -> Callable[[Chain], None]:
    """A statement that the plan and every certificate share."""

    def apply(chain: Chain) -> None:
        plan(lambda releases: [r["states"].update({name: value}) for r in releases.values()])(chain)
        for one in chain[1:]:
            one.head[name] = value

    return apply


# What somebody who has the key writes: hashes, links and signatures fit.
WRITTEN: dict[str, Callable[[Chain], None]] = {
    **{
        f"another {name}": field(2, name, value)
        for name, value in {
            "guarantee": "Nobody learns anything.",
            "invariants": "none",
            "domain": "declared by nobody",
            "mechanism": "another one",
            "noise": "quantum",
            "parameters": {"width": 3},
            "unit": "household",
            "neighbours": "add_remove",
            "rho": "1/1000",
            "rho_spent": "0",
            "rho_total": "5",
            "delta": "1/10",
            "epsilon_spent": "0.1",
            "epsilon_total": "0.1",
            "panel_bias": "none",
            "padding": 7,
            "noise_variance": "1/3",
            "rows": 3,
            "columns": ["2021-02"],
            "number": 3,
            "horizon": 5,
            "period": "2021-03",
            "study": "another",
            "study_hash": FAR,
            "kind": "cumulative",
            "release": "months",
            "type": "stream-dp.batch",
            "values": [0, 1, 2],
            "attribute": "income",
            "format": 2,
        }.items()
    },
    "a release that is not declared": field(2, "release", "none"),
    "an unknown type": field(2, "type", "other"),
    "a certificate without rho": without(2, "rho"),
    "a certificate without a bias": without(2, "panel_bias"),
    "an unknown field": field(2, "more", {"a": [1]}),
    "a digit of epsilon": lambda chain: chain[2].head.update(
        epsilon_spent=chain[2].head["epsilon_spent"][:-1]
        + str((int(chain[2].head["epsilon_spent"][-1]) + 1) % 10)
    ),
    "a huge rho": field(2, "rho", "9" * 40),
    "a rho over nothing": field(2, "rho", "1/0"),
    "a rho in decimals": field(2, "rho", 0.5),
    "a huge number of rows": field(2, "rows", 10**30),
    "fewer rows than none": field(2, "rows", -1),
    "huge notes": field(2, "notes", {"a": 10**400}),
    "noise of two kinds": field(2, "noise", SYSTEM_NOISE),
    "a message twice": moved(lambda chain: chain.insert(3, chain[2])),
    "a message left out": moved(lambda chain: chain.pop(2)),
    "messages swapped": moved(lambda chain: chain.insert(2, chain.pop(3))),
    "the last message left out": moved(lambda chain: chain.pop()),
    "a declaration of another rho": lambda chain: chain[0].head["study"].update(rho="5"),
    "another hash of the study": field(0, "study_hash", FAR),
    "no study": field(0, "study", {"name": "x"}),
    "no declaration": field(0, "type", "other"),
    "no plan": lambda chain: chain[0].parts.clear(),
    "a plan that is no JSON": lambda chain: chain[0].parts.__setitem__(0, ("plan/0", b"{")),
    "a plan without a release": plan(lambda releases: releases.pop("pairs")),
    "a smaller charge in the plan": plan(
        lambda releases: releases["pairs"]["charges"].update({"2021-02": "1/9"})
    ),
    "a charge outside the horizon": plan(
        lambda releases: releases["pairs"]["charges"].update({"2022-02": "0"})
    ),
    "another guarantee everywhere": _spread("guarantee", "Nobody learns anything."),
    "another unit everywhere": _spread("unit", "household"),
    "a part left out": lambda chain: chain[2].parts.pop(0),
    "a part twice": lambda chain: chain[2].parts.insert(1, chain[2].parts[0]),
    "a part more": lambda chain: chain[2].parts.append(("more/0", b"")),
    "another release's panel": lambda chain: chain[2].parts.__setitem__(0, chain[1].parts[0]),
    "a code above the values": lambda chain: chain[2].head.update(values=["no"]),
    **{f"a panel in Arrow, {name}": part(2, "panel/0", as_arrow(name)) for name in list(ARROW)[:6]},
    "a part of no bytes": part(2, "panel/0", lambda data: b""),
    "half a part": part(2, "estimates/0", lambda data: data[: len(data) // 2]),
    "fewer members": field(-1, "people", 3),
    "other columns of members": field(-1, "columns", {}),
    "fewer measurements": field(-1, "measured", 0),
}
Records = list[Record]


def _with(place: int, **changed: Any) -> Callable[[Records], Records]:
    return lambda records: [
        replace(r, **changed) if i == place % len(records) else r for i, r in enumerate(records)
    ]


def _signature(text: Callable[[Record, Records], str | None]) -> Callable[[Records], Records]:
    """Another signature on the second message."""

    def apply(records: Records) -> Records:
        at = [i for i, r in enumerate(records) if SIGNATURE in dict(r.headers)][1]
        headers = tuple(h for h in records[at].headers if h[0] != SIGNATURE)
        new = text(records[at], records)
        headers = headers if new is None else (*headers, (SIGNATURE, new.encode()))
        return _with(at, headers=headers)(records)

    return apply


def _of_the_first(record: Record, records: Records) -> str:
    return next(v.decode() for r in records for n, v in r.headers if n == SIGNATURE)


# What somebody does to the records of a log without the key.
STORED: dict[str, Callable[[Records], Records]] = {
    "nothing": lambda records: records,
    "nothing is left": lambda records: [],
    "cut in a message": lambda records: records[:-2],
    "cut behind a message": lambda records: records[:6],
    "records swapped": lambda records: [*records[:3], records[4], records[3], *records[5:]],
    "the first record is gone": lambda records: records[1:],
    "a record in the middle is gone": lambda records: [*records[:3], *records[4:]],
    "a record twice": lambda records: [*records[:4], *records[3:]],
    "another byte in a part": lambda records: _with(
        3, value=bytes([(records[3].value or b"")[0] ^ 1]) + (records[3].value or b"")[1:]
    )(records),
    "another byte in a manifest": lambda records: _with(
        -1, value=(records[-1].value or b"").replace(b"1", b"2", 1)
    )(records),
    "a manifest that is no JSON": _with(-1, value=b"{"),
    "a manifest that is a list": _with(-1, value=b"[1]"),
    "a manifest without a number": _with(-1, value=b'{"index":NaN,"previous":"","parts":[]}'),
    "a manifest of a huge number": _with(
        -1, value=b'{"index":' + b"9" * 4000 + b',"previous":"","parts":[]}'
    ),
    "a manifest out of UTF-8": _with(-1, value=b'{"a":"\xff"}'),
    "a record without headers": _with(-1, headers=()),
    "a signature left out": _signature(lambda record, records: None),
    "a signature by another key": _signature(lambda r, records: OTHER.sign(r.value or b"")),
    "a signature of another message": _signature(_of_the_first),
    "a signature with a space": _signature(lambda r, records: KEY.sign(r.value or b"") + " "),
}


def _not_a_log(path: Path) -> None:
    path.write_bytes(b"person,period\n" * 100)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 3])


def _scribbled(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096:] = random.Random(1).randbytes(len(data) - 4096)
    path.write_bytes(bytes(data))


def _edited(*statements: str) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        with closing(sqlite3.connect(path)) as db, db:
            for statement in statements:
                db.execute(statement)

    return apply


FILES: dict[str, Callable[[Path], None]] = {
    "no log at all": _not_a_log,
    "a third of the file": _cut,
    "pages overwritten": _scribbled,
    "a later version of the file": _edited("UPDATE log SET version = 9"),
    "two partitions": _edited("UPDATE topics SET partitions = 2"),
    "the beginning deleted": _edited("DELETE FROM records WHERE offset < 2"),
}
CASES = {**WRITTEN, **STORED, **FILES}


def _signed(records: Records) -> Records:
    return [
        replace(r, headers=(*r.headers, (SIGNATURE, KEY.sign(r.value or b"").encode())))
        if dict(r.headers)["stream-dp-part"] == b"manifest"
        else r
        for r in records
    ]


def _log(path: Path, records: Records) -> Path:
    with closing(open_log(f"sqlite:{path.name}", path.parent, public=True)) as log:
        log.create({RELEASES: 1})
        log.append(records)
    return path


def _damaged(path: Path, name: str) -> Path:
    """A signed log with the damage of this name."""
    chain = drafts(sound())
    chain[0].head["signer"] = KEY.public
    WRITTEN.get(name, lambda chain: None)(chain)
    records = STORED.get(name, lambda records: records)(_signed(sealed(chain)))
    FILES.get(name, lambda path: None)(_log(path, records))
    return path


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, int, Any]]:
    """By damage: the file, and what the verifier says of it."""
    folder = tmp_path_factory.mktemp("damaged")
    files = {name: _damaged(folder / f"{i}.db", name) for i, name in enumerate(CASES)}
    answers = verdicts([(path, {}) for path in files.values()])
    return {
        name: (path, *answer) for (name, path), answer in zip(files.items(), answers, strict=True)
    }


def said(capsys: pytest.CaptureFixture[str], path: Path, *options: str) -> tuple[int, Any]:
    """The exit code of `verify`, and its verdict or the line of its error."""
    code = cli.main(["verify", f"sqlite:{path}", "--all", "--json", *options])
    out, error = capsys.readouterr()
    return code, json.loads(out) if out else json.loads(error)["lines"][0]


def plain(verdict: Any) -> str:
    """A verdict without what SQLite says in parentheses."""
    return re.sub(r" \((?!broken)[^()]*\)", "", json.dumps(verdict, sort_keys=True))


@pytest.mark.parametrize("name", CASES)
def test_a_damaged_log_has_the_same_verdict(
    name: str, judged: dict[str, tuple[Path, int, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    path, code, verdict = judged[name]
    known_code, known = said(capsys, path)
    assert (code, plain(verdict)) == (known_code, plain(known))


def test_most_damages_are_found(judged: dict[str, tuple[Path, int, Any]]) -> None:
    assert len(judged) >= 50
    holds = {name for name, (_, code, _) in judged.items() if code == 0}
    # A log that ends early is sound in itself: only a head that was kept elsewhere tells.
    assert holds == {
        *(
            "nothing",
            "an unknown field",
            "huge notes",
            "cut behind a message",
            "the last message left out",
        )
    }


@pytest.mark.parametrize(
    "options",
    [
        {"key": KEY.public},
        {"key": OTHER.public},
        {"key": "abc"},
        {"head": FAR},
        {"head": "of the log"},
        {"key": OTHER.public, "head": FAR},
    ],
)
def test_pins_have_the_same_verdict(
    options: dict[str, str],
    judged: dict[str, tuple[Path, int, Any]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    path, _, verdict = judged["nothing"]
    pins = {k: verdict["head"] if v == "of the log" else v for k, v in options.items()}
    flags = [word for name, value in pins.items() for word in (f"--{name}", value)]
    ((code, answer),) = verdicts([(path, pins)])
    known_code, known = said(capsys, path, *flags)
    assert (code, plain(answer)) == (known_code, plain(known))


def test_sizes_have_the_same_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(moves_public(tmp_path).partition(":")[2])
    capsys.readouterr()
    ((code, answer),) = verdicts([(path, {})])
    assert (code, answer) == said(capsys, path) == (0, answer)


def test_a_closed_cohort_has_the_same_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = declaration(neighbours="add_remove", size=None, closed=True)
    place = StudyFolder(tmp_path / "cohort", text)
    place.send([record for records in script() for record in records])
    assert place.run()
    capsys.readouterr()
    ((code, answer),) = verdicts([(place.public_db, {})])
    assert (code, answer) == said(capsys, place.public_db) == (0, answer)


LEAST = {
    "nothing": (None, None),
    "a millionth more": ("least_epsilon_spent", 3),
    "a millionth less": ("least_epsilon_spent", -3),
    "more in the end": ("least_epsilon_total", 3),
    "less in the end": ("least_epsilon_total", -3),
    "zCDP's": ("least_epsilon_spent", "epsilon_spent"),
    "none": ("least_epsilon_spent", None),
    "another variance": ("least_variance", "7"),
}


@pytest.mark.parametrize(
    ("rho", "delta"), [("1/10000", "1/1000"), ("1/10", "1/10000000"), ("1/2", "1/1000000")]
)
def test_the_epsilon_below_that_of_zcdp_is_computed_again(
    rho: str, delta: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = small_study(
        attributes={"a": attribute([0, 1], missing=0)},
        releases=[window("w", "a", width=2, rho=rho)],
        rho=rho,
        delta=delta,
        size=8,
    )
    sent = published(study, {"a": np.zeros((8, 3), np.uint8)}, SeededNoise(1))
    files = {}
    for i, (name, (field_name, value)) in enumerate(LEAST.items()):
        chain = drafts(sent)
        head = chain[-1].head
        if isinstance(value, int):
            value = str(Decimal(head[field_name]) + value * Decimal("1e-6"))
        if field_name is not None:
            head[field_name] = head.get(value, value)
        files[name] = _log(tmp_path / f"{i}.db", sealed(chain))
    answers = verdicts([(path, {}) for path in files.values()])
    for (name, path), (code, answer) in zip(files.items(), answers, strict=True):
        known_code, known = said(capsys, path)
        assert (code, plain(answer)) == (known_code, plain(known)), name
        assert (code == 0) == (name == "nothing"), name


# The declaration of a study is not checked in full, nor all types in a certificate.
LOOSE = re.compile(r"does not begin with a study|certificate cannot be read|plan of|columns is")


@pytest.mark.parametrize("first", [0, pytest.param(1000, marks=pytest.mark.slow)])
def test_strange_logs_have_the_same_verdict(
    first: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Messages with one to three strange things in them."""
    seeds = range(first, first + (40 if first == 0 else 200))
    files = [_log(tmp_path / f"{s}.db", mutated(random.Random(s), sound())) for s in seeds]
    for path, (code, answer) in zip(files, verdicts([(p, {}) for p in files]), strict=True):
        known_code, known = said(capsys, path)
        assert code == known_code, (path.name, answer, known)
        if not LOOSE.search(json.dumps([answer, known])):
            assert plain(answer) == plain(known), path.name


def test_the_verifier_is_one_file_that_imports_nothing() -> None:
    text = VERIFIER.read_text("utf-8")
    assert re.findall(r"\bimport\b[^;]*", text) == ['import("node:fs")']
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|eval|Function)\b", text)
