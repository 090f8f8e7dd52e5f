"""The records of a table's rows: reports, and records of rows that make no report.

A row that makes no report is sent too: the reader of the reports counts it and keeps it as a dead
letter. Its record is no report, whatever the row says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from stream_dp.log.records import Texts
from stream_dp.study.declared_sections import Ids

from ..celltext import bytes_of, has_byte
from ..id_index import normal_ids
from ..report_decoding import LARGEST_REPORT
from ..report_judging import LONGEST_ID
from .reading import ReportColumns
from .table_reading import ReportRow, reports_of

_MOST_TEXT = 8000  # characters of a row; in JSON one is at most six bytes
_LARGEST_KEY = 16 * LONGEST_ID  # bytes of a key that is not counted in detail
_ESCAPED = bytes_of('"\\' + "".join(map(chr, range(ord(" ")))))  # have an escape in JSON
_encode = msgspec.json.Encoder().encode
SentRecord = tuple[str, bytes]  # key and value


@dataclass(frozen=True)
class SentRecords:
    """Records of reports, in columns of equal length; iterates over (key, value)."""

    keys: Texts
    values: Texts

    @classmethod
    def of(cls, records: Sequence[SentRecord]) -> SentRecords:
        """Makes columns of keys and values."""
        keys = Texts.of([key.encode() for key, _ in records])
        return cls(keys, Texts.of([value for _, value in records]))

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[SentRecord]:
        pairs = zip(self.keys, self.values, strict=True)
        return (((key or b"").decode(), value or b"") for key, value in pairs)


def records_of(columns: ReportColumns, rule: Ids, overhead: int) -> Iterator[SentRecords]:
    """Yields the records of rows, in batches.

    The key is the normal form of the id, so that a person's reports are in one partition.

    overhead: bytes of a record beside its key and its value.
    """
    if columns.unreadable:
        yield SentRecords.of([_row_record(row, text) for row, text in columns.unreadable])
    if (plain := _plain_records(columns, rule, overhead)) is not None:
        yield from plain
        return
    for batch in reports_of(columns):
        records = [report_record(report, rule) for report in batch]
        for index, record in enumerate(records):
            if is_too_large(record, overhead):
                records[index] = _row_record(None, record[1].decode())
        yield SentRecords.of(records)


def _plain_records(columns: ReportColumns, rule: Ids, overhead: int) -> list[SentRecords] | None:
    """Encodes rows whose texts need no escape in JSON, column by column.

    Returns the records that `report_record` makes; None if a text needs an escape, or a record may
    be too large.
    """
    persons = pc.fill_null(columns.persons, "")
    texts = [persons, *columns.values.values()]
    if columns.periods is not None:
        texts.append(columns.periods)
    if any(has_byte(column, _ESCAPED) for column in texts):
        return None
    sources = columns.header.sources
    if columns.periods is not None:
        periods = pc.fill_null(columns.periods, "")
        cells = {sources[name][1]: column for name, column in columns.values.items()}
        groups = [(periods, cells)]
    else:
        groups = [
            (pa.scalar(sources[name][0]), {sources[name][1]: column})
            for name, column in columns.values.items()
        ]
    batches, room = [], overhead + _LARGEST_KEY
    for period, cells_of_group in groups:
        told = pc.invert(
            reduce(pc.and_, [pc.is_null(column) for column in cells_of_group.values()])
        )
        values = _joined_reports(persons, period, cells_of_group)
        people = persons.cast(pa.large_binary())
        if not pc.all(told).as_py():
            values, people = values.filter(told), people.filter(told)
        if (pc.max(pc.binary_length(values)).as_py() or 0) + room > LARGEST_REPORT:
            return None
        keys = normal_ids(people, rule)
        if (pc.max(pc.binary_length(keys)).as_py() or 0) > _LARGEST_KEY:
            return None
        batches.append(SentRecords(Texts.of(keys), Texts.of(values.cast(pa.large_binary()))))
    return batches


def _joined_reports(persons: pa.Array, period: Any, cells: dict[str, pa.Array]) -> pa.Array:
    """Returns a report of every row in JSON."""
    members = [
        pc.binary_join_element_wise(
            _large(f',{_encode(attribute).decode()}:"'), _large(column), _large('"'), _large("")
        )
        for attribute, column in cells.items()
    ]
    told = [pc.fill_null(member, "") for member in members]
    values = pc.ascii_ltrim(pc.binary_join_element_wise(*told, _large("")), ",")
    return pc.binary_join_element_wise(
        _large('{"person":"'),
        _large(persons),
        _large('","period":"'),
        _large(period),
        _large('","values":{'),
        values,
        _large("}}"),
        _large(""),
    )


def _large(text: Any) -> Any:
    """Converts text to text with long offsets: the reports of a batch may be over 2 GB."""
    if isinstance(text, str):
        return pa.scalar(text, pa.large_string())
    return text.cast(pa.large_string())


def report_record(report: ReportRow, rule: Ids) -> SentRecord:
    """Encodes a report in a record."""
    person, period, values = report
    return rule.normal(person), _encode({"person": person, "period": period, "values": values})


def is_too_large(record: SentRecord, overhead: int) -> bool:
    """Tells whether a record is over the largest size.

    overhead: bytes of a record beside its key and its value.
    """
    key, value = record
    # A character is at most four bytes.
    if len(value) + 4 * len(key) + overhead <= LARGEST_REPORT:
        return False
    return len(value) + len(key.encode()) + overhead > LARGEST_REPORT


def _row_record(row: int | None, text: str) -> SentRecord:
    """Encodes a row that makes no report. Its record has no person, period and values."""
    return "", _encode({"row": row, "text": text[:_MOST_TEXT]})
