"""Reports: the answers of one person for one period, decoded in batches into columns of cells.

A report is JSON, `{"person": "p1", "period": "2021-01", "values": {"poverty": 1}}`; `null` clears
a value. What cannot be used is rejected for one of a few reasons, which never quote the report.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_dp.errors import Inconsistent
from stream_dp.log.base import Stored, memory_bytes
from stream_dp.log.records import Records
from stream_dp.study import Attribute, Study

from .cells import CLEARED, EMPTY, Cells, cell_type
from .hashing import Hasher
from .rejected import Reason, RejectedRecord
from .templates import divide

CHANGED_INPUT = (
    "run.input: it has changed since a period was closed that has to be read again, for its"
    " snapshot is gone; restore the [run.input] of then, or the snapshot"
)

_NONE, _BAD = -2, -3  # codes: the attribute is not in the report; its value is not declared
_SHARED = 4  # reports that share a template, at least, in the mean; with fewer it gains nothing
LONGEST_ID = 256  # characters
LARGEST_REPORT = 64_000  # bytes of its key, value and headers, as `memory_bytes` counts them


class SchemaUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """A schema that reports of a period were read with.

    sha256: of its JSON with sorted keys.
    since: by partition, the first position from which on it was known, where it was asked for and
        not known before; else it was known all along.
    """

    sha256: str
    since: dict[int, int] = {}

    def known_at(self, partition: int, offset: int) -> bool:
        """Whether it was known when the record at that position was read."""
        return offset >= self.since.get(partition, 0)


class ReadAs(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the records of a period were read, where they were not plain reports.

    mapping: the hash of the mapping.
    schemas: by schema id, those that something was read with.
    """

    mapping: str
    schemas: dict[int, SchemaUse] = {}


class Decoder:
    """Decodes the reports of one study. key: the secret key of the hashes of ids."""

    def __init__(self, study: Study, key: bytes) -> None:
        self._hasher = Hasher(key)
        self._rule = study.ids
        self._names = tuple(study.attributes)
        self._attributes = tuple(study.attributes.values())
        self._find = [_finder(attribute) for attribute in self._attributes]
        self._type = cell_type(max((len(a.symbols) for a in study.attributes.values()), default=1))
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
        """The 128-bit keyed BLAKE2b hash of each id, as its two halves, (n, 2)."""
        return self._hasher.hashes(_binary([person.encode() for person in ids]))

    def decode(self, records: Sequence[Stored], closed: int) -> tuple[Cells, list[RejectedRecord]]:
        """Cells of the records that can be used, and what is rejected.

        closed: the last closed period; cells for it or an earlier one are late.
        """
        columns = Records.of(records)
        sized = _sized(columns)
        cells, usable = self._alike(columns, sized, closed)
        left = np.ones(len(columns), bool)
        left[usable] = False
        if not left.any():
            return cells, []
        typed, rejected = self._one_by_one(columns, sized, np.flatnonzero(left).tolist(), closed)
        return Cells.joined([cells, typed]), rejected

    def _alike(
        self, records: Records, sized: NDArray[np.bool_], closed: int
    ) -> tuple[Cells, NDArray[np.int64]]:
        """The cells of reports that share templates, and which records these are.

        Only those of which every cell is accepted.

        sized: which records have a value, and are not too large.
        """
        places, values = np.flatnonzero(sized), records.values
        if places.size < len(values):
            some = list(map(values.objects().__getitem__, places.tolist()))
            divided = divide(_binary(some))
        else:
            divided = divide(values.array())
        count = len(divided.templates)
        if _SHARED * count > divided.rows.size:
            return EMPTY, np.zeros(0, np.int64)
        period = np.zeros(count, np.int64)
        code = np.full((len(self._names), count), _BAD, self._type)
        for number, template in enumerate(divided.templates):
            if (read := self._template(*template)) is not None:
                period[number], code[:, number] = read
        fit = (code != _BAD).all(axis=0) & (code != _NONE).any(axis=0) & (period > closed)
        kept, ids, lengths = fit[divided.template], divided.ids, divided.lengths
        if self._rule is not None:
            normal = self.ids([person.decode() for person in ids.to_pylist()])
            ids = _binary([person.encode() for person in normal])
            lengths = np.fromiter(map(len, normal), np.int64, len(normal))
        kept &= (lengths > 0) & (lengths <= LONGEST_ID)
        if not kept.all():
            ids = ids.filter(pa.array(kept))
        rows, template = places[divided.rows[kept]], divided.template[kept]
        hashes, codes = self._hasher.hashes(ids), code[:, template]
        attribute, row_of = np.nonzero(codes != _NONE)
        return Cells(
            hi=hashes[row_of, 0],
            lo=hashes[row_of, 1],
            period=period.astype(np.uint16)[template[row_of]],
            attribute=attribute.astype(np.uint16),
            code=codes[attribute, row_of],
            partition=np.array(records.partitions, np.uint16)[rows[row_of]],
            offset=np.array(records.offsets, np.int64)[rows[row_of]],
        ), rows

    def _template(self, head: bytes, tail: bytes) -> tuple[int, list[int]] | None:
        """The period and the codes of reports with these bytes before and after the id.

        None where they are not read as reports in this way: where another text in the place of the
        id does not come back as the id, that place is not the id's.
        """
        try:
            reports: list[Any] = [self._decode(head + probe + tail) for probe in (b"x", b"y")]
        except (msgspec.DecodeError, ValueError, RecursionError):
            return None
        if [report.person for report in reports] != ["x", "y"]:
            return None
        report = reports[0]
        codes = [find(getattr(report.values, f"a{i}"), _BAD) for i, find in enumerate(self._find)]
        return self._periods.get(report.period, 0), codes

    def _one_by_one(
        self, records: Records, sized: NDArray[np.bool_], rows: list[int], closed: int
    ) -> tuple[Cells, list[RejectedRecord]]:
        """As `decode`, for the records in these rows."""
        reports: list[Any] = []
        places: list[int] = []
        irregular: list[int] = []
        decode, values, usable = self._decode, records.values.objects(), sized.tolist()
        for place in rows:
            try:
                if usable[place]:
                    reports.append(decode(values[place]))  # type: ignore[arg-type]
                    places.append(place)
                    continue
            except (msgspec.DecodeError, ValueError, RecursionError):
                pass
            irregular.append(place)
        cells, rejected = self._typed(reports, places, records, closed)
        parts = [cells]
        for place in irregular:
            some, reasons = self._irregular(records[place], closed)
            parts.append(some)
            if reasons:
                rejected.append(RejectedRecord(place, dict(reasons)))
        return Cells.joined(parts), rejected

    def close_period(self) -> ReadAs | None:
        """How records were read since the last close; None for plain reports."""
        return None

    @property
    def unknown(self) -> frozenset[int]:
        """Ids of schemas that records named since the last close, and that nobody knew."""
        return frozenset()

    def repeat(self, read_as: ReadAs | None) -> None:
        """Decode from now on as a closed period was decoded. Raises Inconsistent."""
        if read_as is not None:
            raise Inconsistent(CHANGED_INPUT)

    def go_on(self, periods: Sequence[ReadAs | None]) -> None:
        """Decode from now on what follows these closed periods. Raises Inconsistent."""

    def _typed(
        self, reports: list[Any], places: list[int], records: Records, closed: int
    ) -> tuple[Cells, list[RejectedRecord]]:
        """The cells of reports with declared attributes and plain values, column by column."""
        count = len(reports)
        persons = self.ids(
            [r.person if r.person.__class__ is str else plain_text(r.person) or "" for r in reports]
        )
        get = self._periods.get
        period = np.fromiter((get(r.period, 0) for r in reports), np.int64, count)
        sound = np.fromiter((0 < len(p) <= LONGEST_ID for p in persons), bool, count)
        code = np.empty((len(self._names), count), self._type)
        for i, find in enumerate(self._find):
            name = f"a{i}"
            code[i] = np.fromiter(
                (find(getattr(r.values, name), _BAD) for r in reports), self._type, count
            )
        present = code != _NONE
        usable = sound & (period > closed) & present.any(axis=0)
        good = usable & (code != _BAD) & present
        rejected = []
        for row in np.flatnonzero(~usable | ((code == _BAD).any(axis=0))):
            reasons = self._reasons(
                sound=bool(sound[row]),
                period=int(period[row]),
                closed=closed,
                present=int(present[:, row].sum()),
                bad=Tally(
                    self._fault(i, getattr(reports[row].values, f"a{i}"))
                    for i in np.flatnonzero(code[:, row] == _BAD).tolist()
                ),
            )
            rejected.append(RejectedRecord(places[row], dict(reasons)))
        hashes = self.hashes(persons)
        partition = np.fromiter(map(records.partitions.__getitem__, places), np.uint16, count)
        offset = np.fromiter(map(records.offsets.__getitem__, places), np.int64, count)
        attribute, row_of = np.nonzero(good)
        cells = Cells(
            hi=hashes[row_of, 0],
            lo=hashes[row_of, 1],
            period=period[row_of].astype(np.uint16),
            attribute=attribute.astype(np.uint16),
            code=code[attribute, row_of],
            partition=partition[row_of],
            offset=offset[row_of],
        )
        return cells, rejected

    def _fault(self, attribute: int, value: Any) -> Reason:
        """Why a value has no code."""
        fault = "value" if plain_text(value) is None else self._attributes[attribute].read(value)
        assert isinstance(fault, str)  # it has none
        return fault

    @staticmethod
    def _reasons(
        *, sound: bool, period: int, closed: int, present: int, bad: Tally[Reason]
    ) -> Tally[Reason]:
        """By reason, the rejected cells of a report.

        sound: whether its id is neither empty nor too long.
        period: its number, 0 where it is none of the study's.
        closed: the last closed period.
        present: how many cells it has.
        bad: those of them whose value is not declared, by reason.
        """
        if not sound:
            return Tally({"person": max(present, 1)})
        if present == 0:
            return Tally({"unreadable": 1})
        if period == 0:
            return Tally({"period": present})
        if period <= closed:
            return Tally({"late": present})
        return bad

    def _irregular(self, record: Stored, closed: int) -> tuple[Cells, Tally[Reason]]:
        """The usable cells of a report that the typed decoder refuses, and what is rejected."""
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
            code = self._find[index](value, _BAD) if plain else _BAD
            if code == _BAD:
                reasons[self._fault(index, value)] += 1
            else:
                codes.append((index, code))
        if not codes:
            return EMPTY, reasons
        n = len(codes)
        hashes = np.repeat(self.hashes([name]), n, axis=0)
        return Cells(
            hi=hashes[:, 0],
            lo=hashes[:, 1],
            period=np.full(n, number, np.uint16),
            attribute=np.array([a for a, _ in codes], np.uint16),
            code=np.array([c for _, c in codes], self._type),
            partition=np.full(n, record.partition, np.uint16),
            offset=np.full(n, record.offset, np.int64),
        ), reasons


def _sized(records: Records) -> NDArray[np.bool_]:
    """Which records have a value, headers that can be read, and no more bytes than they may."""
    keys, values, headers = records.keys, records.values, records.headers
    sized: NDArray[np.bool_] = values.lengths() + keys.lengths() <= LARGEST_REPORT
    sized[records.empty()] = False
    if headers.count(()) < len(records):
        for row in np.flatnonzero(sized).tolist():
            several = headers[row]
            sized[row] = several is not None and (
                memory_bytes(keys[row], values[row], several) <= LARGEST_REPORT
            )
    return sized


def _binary(column: Sequence[bytes | None]) -> Any:
    """A column as an array."""
    return pa.array(column, pa.large_binary())


DecoderMaker = Callable[[Study, bytes], Decoder]


def _finder(attribute: Attribute) -> Callable[[Any, int], int]:
    """The function that gives a reported value's code, or its second argument."""
    listed: dict[Any, int] = {**attribute.codes, None: CLEARED, msgspec.UNSET: _NONE}
    scale = attribute.number
    if scale is None:
        return listed.get

    def find(value: Any, bad: int) -> int:
        code = listed.get(value)
        if code is None:
            place = scale.read(value)
            code = bad if isinstance(place, str) else place
        return code

    return find


def plain_text(value: object) -> str | None:
    """An id, period or value as text; None unless it is text or an integer of 64 bits."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63:
        return str(value)
    return None
