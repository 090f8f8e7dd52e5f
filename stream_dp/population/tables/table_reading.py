"""Reads tables: columns of reports in batches, their rows as records, and whole columns.

A row that makes no report is sent too: the reader of the reports counts it and keeps it as a dead
letter. Its record is no report, whatever the row says.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_dp.errors import UserError
from stream_dp.log.records import Texts
from stream_dp.study import Study
from stream_dp.study.declared_sections import Ids
from stream_dp.study.id_forms import IdForm

from ..arrow_tables import TableSource, missing_columns
from ..celltext import DAMAGED, bytes_of, has_byte
from ..id_index import normal_ids
from ..report_decoding import LARGEST_REPORT
from ..report_judging import LONGEST_ID
from ..table_bounds import readable
from .column_layout import TableLayout
from .id_shapes import DAMAGED_IDS, read_ids
from .labelled_files import is_labelled
from .reading import Reading, ReportColumns
from .table_files import FileForm, has_rows_above_a_header, header_names, read_rows

_FIRST_ROWS = 12  # among which a header is looked for
ReportRow = tuple[str, str, dict[str, str]]


def read_columns(
    path: TableSource, study: Study, layout: TableLayout
) -> Generator[ReportColumns, None, None]:
    """Reads the rows of a table in batches, the first batch empty. Raises UserError.

    A file without a header that the layout understands is refused before any row is read.
    """
    reading: Reading | None = None
    as_written = study.id_rule.as_written is True
    rows = read_rows(path, layout.form, layout.ids, layout.keys, as_written=as_written)
    with readable(path), closing(rows) as source:
        for table_rows in source:
            if reading is None:
                names = table_rows.batch.schema.names
                try:
                    reading = Reading.of(path, names, study, layout)
                except UserError as error:
                    raise UserError([*error.lines, *_header_below(path, study, layout)]) from None
            yield reading.columns(table_rows)


def _header_below(path: TableSource, study: Study, layout: TableLayout) -> list[str]:
    """A line with the row among the first that the layout understands as a header, if any."""
    if (
        not isinstance(path, Path)
        or layout.form.header_row is not None
        or not has_rows_above_a_header(path)
    ):
        return []
    for row in range(2, _FIRST_ROWS + 1):
        form = replace(layout.form, header_row=row)
        with suppress(UserError):
            Reading.of(path, header_names(path, form, layout.keys), study, layout)
            return [f"{path}: row {row} has the names of these columns: --header-row {row}"]
    return []


def read_table(
    path: TableSource,
    columns: Sequence[str],
    form: FileForm,
    ids: Collection[str] = (),
    *,
    as_written: bool = False,
) -> pa.Table:
    """Reads columns of a whole table, of the types that a file has; a text file has texts.

    ids: the columns of ids among them.
    as_written: whether ids are right as they stand.

    Raises UserError also for a row or a cell that cannot be read.
    """
    columns = list(dict.fromkeys(columns))
    tables, names = list[pa.Table](), None
    with (
        readable(path),
        closing(read_rows(path, form, ids, columns, as_written=as_written)) as source,
    ):
        for rows in source:
            if names is None:
                names = rows.batch.schema.names
                if lines := missing_columns(str(path), names, columns):
                    raise UserError(lines)
            if rows.unreadable:
                raise UserError(
                    f"{path}: cannot be read as a table: row {rows.unreadable[0].row} below the"
                    " header has more or fewer cells than the header, or too long a cell"
                )
            tables.append(pa.Table.from_batches([rows.batch]).select(columns))
        # The first batch has no rows, and texts where a file of SPSS has numbers.
        table = pa.concat_tables(tables[1:] or tables, promote_options="permissive")
    sound = {name: _sound(path, name, table.column(name)) for name in columns}
    for name in () if as_written else ids:
        sound[name] = _sound_ids(path, name, sound[name])
    return pa.table(sound)


def _sound_ids(path: TableSource, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The ids of a whole table, read like those of reports. Raises UserError for a damaged id."""
    if not (pa.types.is_string(column.type) or pa.types.is_integer(column.type)):
        return column
    ids = read_ids(column.cast(pa.string()).combine_chunks())
    if (damaged := ids.forms.get(IdForm.DAMAGED)) is not None:
        raise UserError(
            f"{path}: column '{name}': {damaged.sum()} ids are damaged, the first in row"
            f" {1 + int(np.argmax(damaged))} below the header: {DAMAGED_IDS}"
        )
    return pa.chunked_array([ids.texts])


def _sound(path: TableSource, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column. Numbers of a file of SPSS, which are doubles, are whole where all of them are.

    Raises UserError for a text that the reader of its file marks as damaged.
    """
    if pa.types.is_string(column.type):
        damaged = pc.index(pc.match_substring(column, DAMAGED), True).as_py()
        if damaged >= 0:
            raise UserError(
                f"{path}: column '{name}': row {damaged + 1} below the header holds text of another"
                " encoding, or an id that is no whole number or has lost digits"
            )
    elif pa.types.is_floating(column.type) and is_labelled(path):
        with suppress(pa.ArrowInvalid):
            return column.cast(pa.int64())
    return column


def read_reports(path: TableSource, study: Study, layout: TableLayout) -> Iterator[list[ReportRow]]:
    """Yields batches of (person, period, values); empty cells are left out. Raises UserError.

    A batch without values is an empty list, so that progress can be shown.
    """
    for columns in read_columns(path, study, layout):
        yield from reports_of(columns)


def reports_of(columns: ReportColumns) -> Iterator[list[ReportRow]]:
    """Yields the reports of rows: a batch of a long table, a batch a column of a wide table.

    Rows without a value are left out.
    """
    if columns.periods is not None:
        yield list(_long_reports(columns, columns.periods))
        return
    people = columns.persons.to_pylist()
    for name, (period, attribute) in columns.header.sources.items():
        cells = zip(people, columns.values[name].to_pylist(), strict=True)
        yield [(person or "", period, {attribute: v}) for person, v in cells if v is not None]


def _long_reports(columns: ReportColumns, period_cells: pa.Array) -> Iterator[ReportRow]:
    sources, people = columns.header.sources, columns.persons.to_pylist()
    cells = {sources[name][1]: column.to_pylist() for name, column in columns.values.items()}
    periods = period_cells.to_pylist()
    for i, (person, period) in enumerate(zip(people, periods, strict=True)):
        if values := {a: v for a, column in cells.items() if (v := column[i]) is not None}:
            yield person or "", period or "", values


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
