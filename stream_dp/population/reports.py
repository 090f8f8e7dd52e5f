"""Reports: what one person says for one period, decoded in batches into columns of cells.

A report is JSON, `{"person": "p1", "period": "2021-01", "values": {"poverty": 1}}`; `null` clears
a value. What cannot be used is rejected with one of a few reasons; no message quotes it.
"""

from __future__ import annotations

import hashlib
from collections import Counter as Tally
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dp.log.base import Stored, memory_bytes
from stream_dp.study import Study

from .cells import CLEARED, EMPTY, Cells

Reason = Literal["unreadable", "person", "period", "late", "attribute", "value", "full", "fixed"]

REASONS: dict[Reason, str] = {
    "unreadable": "not a JSON report with person, period and values, or over 64 kB, or with headers"
    " that are not text",
    "person": "the person's id is empty, too long or not text",
    "period": "the period is not one of the study's",
    "late": "the period is closed",
    "attribute": "no such attribute is declared",
    "value": "not one of the attribute's values",
    "full": "no place in the population: its declared size, or the table of members, is full",
    "fixed": "the person has another value of a fixed attribute, for good",
}

_NONE, _BAD = 255, 253
LONGEST_ID = 256
LARGEST_REPORT = (
    64_000  # bytes of a report by `log.base.memory_bytes`: its key, its value and its headers
)


@dataclass(frozen=True)
class RejectedRecord:
    """A record of a batch, by its place in it, and how many of its cells fail for which reason."""

    place: int
    cells: dict[Reason, int]


class Decoder:
    """Decodes the reports of one study. key: secret, of the hash of ids."""

    def __init__(self, study: Study, key: bytes) -> None:
        self._key = key
        self._rule = study.ids
        self._names = tuple(study.attributes)
        self._codes = [
            {**attribute.codes, None: CLEARED, msgspec.UNSET: _NONE}
            for attribute in study.attributes.values()
        ]
        labels = study.periods.numbers
        self._periods: dict[str | int, int] = {int(x): n for x, n in labels.items() if x.isdigit()}
        self._periods.update(labels)
        cell = str | int | None | msgspec.UnsetType
        values = msgspec.defstruct(
            "Values",
            [(f"a{i}", cell, msgspec.UNSET) for i in range(len(self._names))],
            rename={f"a{i}": name for i, name in enumerate(self._names)},
            forbid_unknown_fields=True,
            gc=False,
        )
        report = msgspec.defstruct(
            "Report",
            [("person", str | int), ("period", str | int), ("values", values)],
            gc=False,
        )
        self._decode = msgspec.json.Decoder(report).decode

    def ids(self, persons: Sequence[str]) -> Sequence[str]:
        """Ids by the study's rule, under which several spellings are one person."""
        return persons if self._rule is None else [self._rule.normal(p) for p in persons]

    def hashes(self, ids: Sequence[str]) -> NDArray[np.uint64]:
        """(n, 2): the high and low halves of the 128-bit keyed BLAKE2b hash of each id by `ids`."""
        start = hashlib.blake2b(key=self._key, digest_size=16).copy
        digests = []
        for one in ids:
            state = start()
            state.update(one.encode())
            digests.append(state.digest())
        flat = np.frombuffer(b"".join(digests), ">u8").astype(np.uint64)
        return flat.reshape(-1, 2)

    def decode(self, records: Sequence[Stored], closed: int) -> tuple[Cells, list[RejectedRecord]]:
        """Cells of the records that can be used, and what is rejected.

        closed: the last closed period; cells for it or an earlier one are late.
        """
        reports: list[Any] = []
        places: list[int] = []
        odd: list[int] = []
        decode = self._decode
        for place, record in enumerate(records):
            value, headers = record.value, record.headers
            try:
                # Where there is neither a key nor a header, the value is all of its size.
                if (headers != () or record.key or len(value) > LARGEST_REPORT) and (  # type: ignore[arg-type]
                    headers is None or memory_bytes(record.key, value, headers) > LARGEST_REPORT
                ):
                    odd.append(place)
                    continue
                reports.append(decode(value))  # type: ignore[arg-type]
                places.append(place)
            except (msgspec.DecodeError, TypeError, ValueError, RecursionError):
                odd.append(place)
        cells, rejected = self._typed(reports, places, records, closed)
        parts = [cells]
        for place in odd:
            usable, reasons = self._odd(records[place], closed)
            parts.append(usable)
            if reasons:
                rejected.append(RejectedRecord(place, dict(reasons)))
        return Cells.joined(parts), rejected

    def _typed(
        self, reports: list[Any], places: list[int], records: Sequence[Stored], closed: int
    ) -> tuple[Cells, list[RejectedRecord]]:
        """Reports with only known attributes and plain values, column by column."""
        count = len(reports)
        persons = self.ids(
            [r.person if r.person.__class__ is str else plain_text(r.person) or "" for r in reports]
        )
        get = self._periods.get
        period = np.fromiter((get(r.period, 0) for r in reports), np.int64, count)
        sound = np.fromiter((0 < len(p) <= LONGEST_ID for p in persons), bool, count)
        code = np.empty((len(self._names), count), np.uint8)
        for i, codes in enumerate(self._codes):
            find, name = codes.get, f"a{i}"
            code[i] = np.fromiter(
                (find(getattr(r.values, name), _BAD) for r in reports), np.uint8, count
            )
        present = code != _NONE
        usable = sound & (period > closed) & present.any(axis=0)
        good = usable & (code != _BAD) & present
        rejected = []
        for row in np.flatnonzero(~usable | ((code == _BAD).any(axis=0))):
            reasons = self._why(
                bool(sound[row]), int(period[row]), closed, int(present[:, row].sum()),
                int((code[:, row] == _BAD).sum()),
            )  # fmt: skip
            rejected.append(RejectedRecord(places[row], dict(reasons)))
        hashes = self.hashes(persons)
        partition = np.fromiter((records[p].partition for p in places), np.uint16, count)
        offset = np.fromiter((records[p].offset for p in places), np.int64, count)
        attribute, row_of = np.nonzero(good)
        cells = Cells(
            hashes[row_of, 0],
            hashes[row_of, 1],
            period[row_of].astype(np.uint16),
            attribute.astype(np.uint16),
            code[attribute, row_of],
            partition[row_of],
            offset[row_of],
        )
        return cells, rejected

    @staticmethod
    def _why(sound: bool, period: int, closed: int, present: int, bad: int) -> Tally[Reason]:
        if not sound:
            return Tally({"person": max(present, 1)})
        if present == 0:
            return Tally({"unreadable": 1})
        if period == 0:
            return Tally({"period": present})
        if period <= closed:
            return Tally({"late": present})
        return Tally({"value": bad})

    def _odd(self, record: Stored, closed: int) -> tuple[Cells, Tally[Reason]]:
        """One report that is not of the plain form: cell by cell, as far as it can be read."""
        if (
            record.headers is None
            or memory_bytes(record.key, record.value, record.headers) > LARGEST_REPORT
        ):
            return EMPTY, Tally({"unreadable": 1})
        try:
            report = msgspec.json.decode(record.value or b"")
            person, period, values = report["person"], report["period"], report["values"]
        except (msgspec.DecodeError, TypeError, KeyError, ValueError, RecursionError):
            return EMPTY, Tally({"unreadable": 1})
        if not isinstance(values, dict) or not values:
            return EMPTY, Tally({"unreadable": 1})
        (name,) = self.ids([plain_text(person) or ""])
        if not 0 < len(name) <= LONGEST_ID:
            return EMPTY, Tally({"person": len(values)})
        number = 0 if plain_text(period) is None else self._periods.get(period, 0)
        if number <= closed:
            return EMPTY, Tally({"late" if number else "period": len(values)})
        reasons: Tally[Reason] = Tally()
        codes: list[tuple[int, int]] = []
        for attribute, value in values.items():
            if attribute not in self._names:
                reasons["attribute"] += 1
                continue
            index = self._names.index(attribute)
            plain = value is None or plain_text(value) is not None
            code = self._codes[index].get(value, _BAD) if plain else _BAD
            if code == _BAD:
                reasons["value"] += 1
            else:
                codes.append((index, code))
        if not codes:
            return EMPTY, reasons
        n = len(codes)
        hashed = np.repeat(self.hashes([name]), n, axis=0)
        return Cells(
            hashed[:, 0],
            hashed[:, 1],
            np.full(n, number, np.uint16),
            np.array([a for a, _ in codes], np.uint16),
            np.array([c for _, c in codes], np.uint8),
            np.full(n, record.partition, np.uint16),
            np.full(n, record.offset, np.int64),
        ), reasons


def plain_text(value: object) -> str | None:
    """Ids, periods and values are text or whole numbers, nothing else."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63:
        return str(value)
    return None
