"""Generates reports in bulk: usual ones in many spellings, and hostile ones.

A report is joined from parts, which are drawn column by column. Most parts are usual; an odd part,
such as an escape, a repeated name or a fraction, makes a report that few senders would write.
Then some bytes are changed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kit.studies import attribute, small_study, window
from stream_dp.study import Study

# Of the parts of a batch, the share of odd ones; a report has about 50 parts.
ODD = (0.0002, 0.0002, 0.001, 0.006)
CHANGED = 0.02  # the share of reports with changed bytes
LONG = "a value of more than 15 bytes"
PERIODS = [b"2001", b"2002", b"2003", b"2004"]
ODD_PERIODS = [
    *(b'"2000"', b'"2005"', b"2000", b"20010", b"2001.0", b"2e3", b"-2001", b"02001", b"null"),
    *(b'"2001 "', b'"\\u0032001"', b"true", b"[2001]", b'""', b'"200\xef\xbc\x91"', b"", b"{}"),
]
VALUES = {
    "a": [b"0", b"1", b"2", b'"0"', b"null"],
    "b": [b'"x"', b'"y"', '"ü"'.encode(), b"null"],
    "n": [b"0", b"5", b"-100", b"100", b'"95"', b'"-5"', b"null", b"-9", b'"no"'],
    "h-1": [b"0", b"1"],
    "k": [*(b"%d" % i for i in range(10)), f'"{LONG}"'.encode(), '"β"'.encode()],
}
ODD_VALUES = [
    *(b"3", b"-1", b"7", b"105", b"-105", b"-0", b"00", b"01", b"1.0", b"1e0", b"10e-1", b".5"),
    *(b"+1", b"9" * 17, b"9" * 18, b"9" * 40, b"-" + b"9" * 17, b"true", b"NaN", b"Infinity"),
    *(b'"absent"', b'"X"', b'""', b'" 0"', b'"0 "', b'"00"', b'"1.0"', b'"u\xcc\x88"', b"nul"),
    *(b"nullx", b'"\\u0030"', b'"\\u00fc"', b'"\\x"', b'"x', b"'x'", b"{}", b"[]", b"[0]", b""),
    *(b'{"a":0}', b"0,", b'0,"a":1', b"\xff", b'"\xff"', b'"\xed\xa0\x80"', b'"\x00"', b'"\x7f"'),
    *(b"0" * 20, b'"' + b"9" * 17 + b'"', LONG.encode(), f'"{LONG} "'.encode(), b"1_0", b"0x1"),
]
BLANKS = [b"", b" ", b"\n", b"\t", b"\r\n", b"   "]
ODD_BLANKS = [b"\xc2\xa0", b"\x0b", b"\x0c", b"\x00", b"//", b"\xef\xbb\xbf", b"\xe2\x80\xa8"]
MARKS = {b"{": [b"", b"{{", b"[", b"("], b"}": [b"", b"}}", b"]", b",}"], b":": [b"", b"=", b"::"]}
MARKS[b","] = [
    *(b"", b",,", b";", b',"person":"q",', b',"period":"2001",', b',"values":{"a":1},'),
    *(b',"more":1,', b',"values":{},', b"}"),
]
IDS = [b"person-", b"p", b"P", b"ID ", "Müller ".encode(), b"x" * 121, b"x" * 123, b""]
ODD_IDS = [
    *(b" ", b"\t", b"n" * 250, b"n" * 300, b"x" * 113, "é".encode() * 250, "straße ".encode()),
    *("ǅ".encode(), "ﬁ".encode(), "İ".encode(), "e\u0301".encode(), "Ω".encode(), b"\\u0041"),
    *(b"\\n", b"\\", b"\x00", b"\x1f", b"\x7f", b"\xff", b"\xc3", b"\xed\xa0\x80", b'"', b"\xf0"),
    *("𝒳".encode(), "\u00a0".encode(), "\u2003".encode(), "\u200b".encode(), b"\\ud800", b"\\/"),
]
ODD_IDS += [b"1.5E+", b"NA", b"h-1/", b"1.", b"-", b"'", b"#", b"anna.maria-", b"12-Ja", b"n/"]
WHOLE_IDS = [
    *(
        b"1.23E+11",
        b"1,2e+05",
        b"3-Jan",
        b"Jan-03",
        b"12. Mrz",
        b"1234567890123450",
        b"12.0",
        b"7,00",
    ),
    *(
        b"'0012",
        b"#N/A",
        b"####",
        b"Err:502",
        b"NA",
        b"n/a",
        b"Grand total",
        b"null",
        b"-",
        b" x",
        b"x ",
    ),
    *(
        b"123456789012345",
        b"1234567890123456",
        b"anna",
        b"anna-maria-schmidt",
        b"h1-2",
        b"0",
        b"-7",
    ),
    *(
        b"7f9c2ba4-e88f-11ec-8fea-0242ac120002",
        b"a@b.org",
        b"2021-03-01",
        "Jürgen".encode(),
        b"abc-1",
    ),
]
ENDS = [b"", b" ", b"K"]
ODD_ENDS = [b"  ", b"\t", b"\\t", "é".encode(), "\u3000".encode(), b"\x85", b"n" * 200, b'"']
WHOLE = [None, b"", b"{}", b"null", b"[" * 5000, b"[]", b'"x"', b"0", b"{" * 40, b'{"values":']
SPLICES = [
    *(b'"', b"\\", b"\\u0041", b"\x00", b"\x1f", b"\n12,", b"\x7f", b"\xff", b"\xc3", b"{", b"}"),
    *(b"[", b"]", b":", b",", b" ", b"\t", b"0", b"-", b"1.0", b"1e2", b"null", b"'", b'"a":1'),
]

Draw = np.random.Generator


def fuzzed_study(**ids: object) -> Study:
    """A study with listed values, beyond ASCII and of many bytes too, and with numbers."""
    return small_study(
        periods={"first": "2001", "every": "year", "count": 4},
        **({"ids": ids} if ids else {}),
        attributes={
            "a": attribute([0, 1, 2], missing=0),
            "b": attribute(["x", "y", "ü"], missing="absent"),
            "n": {
                **{"number": {"least": -100, "most": 100, "step": 5}, "bins": [0], "missing": 0},
                **{"special": [-9, 12], "missing_codes": [-8, "no"]},
            },
            "h-1": attribute([0, 1], missing=0) | {"missing_codes": [2, "x"]},
            "k": attribute([*range(10), LONG, "β"], missing=0),
        },
        releases=[window("w", "a", width=1, rho=1)],
    )


class Parts:
    """Draws columns of parts, a part for each report."""

    def __init__(self, draw: Draw, count: int) -> None:
        self.draw, self.count, self.odd = draw, count, draw.choice(ODD)

    def column(self, usual: Sequence[bytes], odd: Sequence[bytes]) -> pa.Array:
        """Draws usual parts, and some odd parts. Half of all columns have few parts."""
        kinds = self.draw.permutation(len(usual))
        if self.draw.random() < 0.5:
            kinds = kinds[:1]
        chosen = kinds[self.draw.integers(len(kinds), size=self.count)]
        rows = self.draw.integers(self.count, size=self.draw.binomial(self.count, self.odd))
        chosen[rows] = len(usual) + self.draw.integers(len(odd), size=rows.size)
        return pa.array([*usual, *odd], pa.large_binary()).take(pa.array(chosen))

    def blank(self) -> pa.Array:
        return self.column(BLANKS if self.draw.random() < 0.3 else [b""], ODD_BLANKS)

    def mark(self, mark: bytes) -> list[pa.Array]:
        """Draws a punctuation mark with blanks around it."""
        return [self.blank(), self.column([mark], MARKS[mark]), self.blank()]

    def name(self, name: str) -> list[pa.Array]:
        """Draws the name of a field, and a colon."""
        text = name.encode()
        escape = b'"\\u%04x%s"' % (text[0], text[1:])
        odd = [escape, b'"' + text.upper() + b'"', b'"' + text + b' "', text, b'"a"', b'""', b'"']
        return [self.column([b'"' + text + b'"'], odd), *self.mark(b":")]

    def person(self) -> list[pa.Array]:
        """Draws ids, numbers in a tenth of the calls."""
        numbers = self.draw.integers(self.draw.choice([10, 1000, 1_000_000]), size=self.count)
        texts = pc.cast(pc.cast(pa.array(numbers), pa.large_string()), pa.large_binary())
        if self.draw.random() < 0.1:
            odd = [b"-", b"0", b"1.", b"1e", b"9" * 12, b"9" * 250, b'"']
            return [self.column([b"", b"1"], odd), texts]
        quote = self.column([b'"'], [b"", b"'"])
        if self.draw.random() < 0.2:
            return [quote, self.column(WHOLE_IDS, ODD_IDS), quote]
        return [quote, self.column(IDS, ODD_IDS), texts, self.column(ENDS, ODD_ENDS), quote]

    def period(self) -> list[pa.Array]:
        quoted = [b'"' + period + b'"' for period in PERIODS]
        return [self.column(quoted if self.draw.random() < 0.7 else PERIODS, ODD_PERIODS)]

    def values(self) -> list[pa.Array]:
        """Draws values for some attributes; a tenth of the cells are left out."""
        names = self.draw.permutation(list(VALUES))[: self.draw.integers(1, len(VALUES) + 1)]
        columns, before = self.mark(b"{"), np.zeros(self.count, bool)
        for name in names:
            said = self.draw.random(self.count) < 0.9
            pair = [*self.name(name), self.column(VALUES[name], ODD_VALUES)]
            columns += [_where(said & before, mark) for mark in self.mark(b",")]
            columns += [_where(said, part) for part in pair]
            before |= said
        return columns + self.mark(b"}")


def _where(present: NDArray[np.bool_], column: pa.Array) -> pa.Array:
    return pc.if_else(pa.array(present), column, pa.scalar(b"", pa.large_binary()))


def fuzzed_values(draw: Draw, count: int) -> pa.Array:
    """Draws the values of records, an array of `large_binary` with some nulls."""
    parts = Parts(draw, count)
    fields = {"person": parts.person, "period": parts.period, "values": parts.values}
    names = list(fields)
    if draw.random() < 0.3:
        names = draw.permutation(names).tolist()
    columns = parts.mark(b"{")
    for place, name in enumerate(names):
        columns += parts.mark(b",") if place else []
        columns += [*parts.name(name), *fields[name]()]
    columns += parts.mark(b"}")
    texts = pc.binary_join_element_wise(*columns, pa.scalar(b"", pa.large_binary()))
    rows = np.flatnonzero(draw.random(count) < CHANGED)
    changed = [changed_text(draw, text) for text in texts.take(pa.array(rows)).to_pylist()]
    mask = np.zeros(count, bool)
    mask[rows] = True
    return pc.replace_with_mask(texts, pa.array(mask), pa.array(changed, pa.large_binary()))


def changed_text(draw: Draw, text: bytes) -> bytes | None:
    """Changes some bytes of a report."""
    kind, at, other, length, byte = draw.integers(1 << 30, size=5).tolist()
    at, other, length = at % (len(text) + 1), other % (len(text) + 1), 1 + length % 8
    match kind % 16:
        case 0 | 1 | 2 | 3 | 4 | 5:
            return text[:at] + SPLICES[byte % len(SPLICES)] + text[at + kind // 16 % 3 :]
        case 6 | 7 | 8:
            return text[:at] + text[at + length :]
        case 9 | 10:
            return text[:at] + text[other : other + 4 * length] + text[at:]
        case 11 | 12 | 13 | 14:
            return text[:at] + bytes([byte % 256]) + text[at + 1 :]
        case _:
            return WHOLE[byte % len(WHOLE)] if length > 4 else text[:at]
