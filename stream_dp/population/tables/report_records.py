"""The records of a table's rows: reports, and records of rows that make no report.

A row that makes no report is sent too: the reader of the reports counts it and keeps it as a dead
letter. Its record is no report, whatever the row says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from stream_dp.study import Study

from ..report_decoding import LARGEST_REPORT
from .table_reading import ReportColumns, ReportRow, reports_of

_MOST_TEXT = 8000  # characters of a row; in JSON one is at most six bytes
_encode = msgspec.json.Encoder().encode
SentRecord = tuple[str, bytes]  # key and value


def id_rule(study: Study) -> Callable[[str], str]:
    """Returns the function to the normal form of ids by the study's rule."""
    return str if study.ids is None else study.ids.normal


def records_of(
    columns: ReportColumns, normal: Callable[[str], str], overhead: int
) -> Iterator[list[SentRecord]]:
    """Yields the records of rows, in batches.

    The key is the normal form of the id, so that a person's reports are in one partition.

    overhead: bytes of a record beside its key and its value.
    """
    if columns.unreadable:
        yield [_row_record(row, text) for row, text in columns.unreadable]
    for batch in reports_of(columns):
        records = [report_record(report, normal) for report in batch]
        for index, record in enumerate(records):
            if is_too_large(record, overhead):
                records[index] = _row_record(None, record[1].decode())
        yield records


def report_record(report: ReportRow, normal: Callable[[str], str]) -> SentRecord:
    """Encodes a report as a record."""
    person, period, values = report
    return normal(person), _encode({"person": person, "period": period, "values": values})


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
