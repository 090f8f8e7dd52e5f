"""Generates reports: usual ones in many spellings, and hostile ones with changed bytes."""

from __future__ import annotations

import json
import random

from kit.studies import attribute, small_study, window
from stream_dp.study import Study

HOSTILE = 0.3  # the share of hostile records
VALUES = [0, 1, 2, "0", "1", "x", "y", "ü", "absent", None, -5, 5, 100, "100", "-95", 105, 7]
NAMES = ["a", "b", "n", "h-1"]
PERIODS = ["2001", "2002", "2003", "2004", 2001, 2002, 2003, "2000", "2005"]
PEOPLE = [
    "p1",
    "P1",
    " p1 ",
    "person-%d",
    "Müller %d",
    "straße",
    "n" * 256,
    "é" * 256,
    "",
    7,
    -7,
    0,
]
SPLICES = [
    *(
        b'"',
        b"\\",
        b"\\u0041",
        b"\x00",
        b"\x1f",
        b"\n12,",
        b"\x7f",
        b"\xff",
        b"\xc3",
        b"\xed\xa0\x80",
    ),
    *(b"{", b"}", b"[", b"]", b":", b",", b",,", b" ", b"\t", b"\xef\xbb\xbf", b"\xc2\xa0", b"//"),
    *(b"0", b"-", b"-0", b"00", b"1.0", b"1e2", b".5", b"+1", b"9" * 17, b"9" * 18, b"9" * 40),
    *(b"null", b"nul", b"nullx", b"true", b"NaN", b'"a":1', b',"a":0', b'"person":"q",', b"'"),
]


def fuzzed_study(**ids: object) -> Study:
    """A study with listed values, beyond ASCII too, and with numbers."""
    return small_study(
        periods={"first": "2001", "every": "year", "count": 4},
        **({"ids": ids} if ids else {}),
        attributes={
            "a": attribute([0, 1, 2], missing=0),
            "b": attribute(["x", "y", "ü"], missing="absent"),
            "n": {"number": {"least": -100, "most": 100, "step": 5}, "bins": [0], "missing": 0},
            "h-1": attribute([0, 1], missing=0),
        },
        releases=[window("w", "a", width=1, rho=1)],
    )


def usual_report(draw: random.Random) -> bytes:
    """A report as a sender writes it; its values may be undeclared."""
    person = draw.choice(PEOPLE)
    if isinstance(person, str) and "%d" in person:
        person %= draw.randrange(1000)
    names = draw.sample(NAMES, draw.randint(1, len(NAMES)))
    report = {
        "person": person,
        "period": draw.choice(PERIODS),
        "values": {name: draw.choice(VALUES) for name in names},
    }
    if draw.random() < 0.2:
        report = dict(draw.sample(list(report.items()), len(report)))
    separators = draw.choice([(",", ":"), (", ", ": "), (" ,\t", " :\n")])
    return json.dumps(report, separators=separators, ensure_ascii=draw.random() < 0.3).encode()


def hostile_record(draw: random.Random) -> bytes | None:
    """A report with one to three changes, or no report at all."""
    if draw.random() < 0.02:
        return draw.choice([None, b"", b"{}", b"[" * 5000, b"null", draw.randbytes(40)])
    text = bytearray(usual_report(draw))
    for _ in range(draw.choice([1, 1, 2, 3])):
        at = draw.randrange(len(text) + 1)
        what = draw.random()
        if what < 0.5:
            text[at : at + draw.choice([0, 0, 1, 2, 5])] = draw.choice(SPLICES)
        elif what < 0.7:
            del text[at : at + draw.choice([1, 1, 2, 8])]
        elif what < 0.85:
            other = draw.randrange(len(text) + 1)
            text[at:at] = text[other : other + draw.randrange(1, 30)]
        else:
            text[at : at + 1] = bytes([draw.randrange(256)])
    return bytes(text)


def fuzzed_records(draw: random.Random, count: int) -> list[bytes | None]:
    """Values of records, a share of HOSTILE hostile."""
    return [
        hostile_record(draw) if draw.random() < HOSTILE else usual_report(draw)
        for _ in range(count)
    ]
