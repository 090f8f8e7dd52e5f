"""Reads tables: columns of reports in batches, the reports of their rows, and whole columns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stream_dp.errors import UserError
from stream_dp.study import Study

from ..arrow_tables import TableSource, missing_columns
from ..celltext import DAMAGED, cell_text, id_text, paired_ids
from ..table_bounds import readable
from .column_layout import Header, TableLayout, read_header
from .labelled_files import file_labels, is_labelled
from .period_texts import PeriodTexts, period_column
from .row_batches import TableRows, UnreadableRow
from .table_files import FileForm, is_text, read_rows

ReportRow = tuple[str, str, dict[str, str]]


@dataclass(frozen=True)
class ReportColumns:
    """A batch of rows of a table.

    A row of a long table is a report; a row of a wide table is a report for each column.

    header: of the file, the same for all of its rows.
    rows: the row numbers, from 1 below the header.
    persons: ids, null for a cell that is empty or no id.
    periods: of a long table, null for an empty cell; None for a wide table.
    values: by column of the file, null for an empty cell.
    unreadable: rows beside these that do not fit the header.
    over_lines: the numbers of rows that have line ends in a cell.
    """

    header: Header
    rows: NDArray[np.int64]
    persons: pa.Array
    periods: pa.Array | None
    values: Mapping[str, pa.Array]
    unreadable: Sequence[UnreadableRow] = ()
    over_lines: Sequence[int] = ()

    def __len__(self) -> int:
        return len(self.persons)

    def slice(self, start: int, count: int) -> ReportColumns:
        """Selects a range of the rows with as many cells as the header."""
        return ReportColumns(
            header=self.header,
            rows=self.rows[start : start + count],
            persons=self.persons.slice(start, count),
            periods=self.periods if self.periods is None else self.periods.slice(start, count),
            values={name: column.slice(start, count) for name, column in self.values.items()},
        )


def read_columns(
    path: TableSource, study: Study, layout: TableLayout
) -> Generator[ReportColumns, None, None]:
    """Reads the rows of a table in batches, the first batch empty. Raises UserError.

    A file without a header that the layout understands is refused before any row is read.
    """
    texts = PeriodTexts(study.periods, layout.dates)
    reading: _Reading | None = None
    rows = read_rows(path, layout.form, layout.ids, layout.keys)
    with readable(path), closing(rows) as source:
        for table_rows in source:
            if reading is None:
                labels = file_labels(path, layout.form.encoding).values
                names = table_rows.batch.schema.names
                header = read_header(
                    path=path, names=names, study=study, layout=layout, texts=texts
                )
                reading = _Reading(path, study, layout, texts, header, labels)
            yield reading.columns(table_rows)


@dataclass(frozen=True)
class _Reading:
    """How the rows of a file become columns of reports.

    labels: the file's own labels of codes, by column.
    """

    path: TableSource
    study: Study
    layout: TableLayout
    texts: PeriodTexts
    header: Header
    labels: Mapping[str, Mapping[str, str]]

    def columns(self, table_rows: TableRows) -> ReportColumns:
        """A batch of rows as columns of reports."""
        batch, rows = table_rows.batch, table_rows.numbers
        unreadable, events = table_rows.unreadable, None
        if self.header.slots and self.layout.event is not None:
            has_event, events = self._events(batch, self.layout.event)
            unreadable = (*unreadable, *_without_an_event(batch, rows, has_event))
            batch, rows = batch.filter(has_event), rows[has_event.to_numpy(zero_copy_only=False)]
        return ReportColumns(
            header=self.header,
            rows=rows,
            values={name: self._values(batch, name, events) for name in self.header.sources},
            periods=self._periods(batch),
            persons=self._persons(batch),
            unreadable=unreadable,
            over_lines=table_rows.over_lines,
        )

    def _text(
        self, batch: pa.RecordBatch, name: str, as_text: Callable[[pa.Array, pa.Field], pa.Array]
    ) -> pa.Array:
        """Converts a column of a batch to text. Raises UserError with the file's name."""
        index = batch.schema.names.index(name)
        try:
            return as_text(batch.column(index), batch.schema.field(index))
        except UserError as error:
            raise UserError(f"{self.path}: {line}" for line in error.lines) from None

    def _events(self, batch: pa.RecordBatch, column: str) -> tuple[pa.Array, pa.Array]:
        """Which rows have the number of an event, and the numbers of these rows, from 1."""
        texts = pc.utf8_trim_whitespace(self._text(batch, column, _cells))
        numbers = [str(number) for number in range(1, self.header.most_events + 1)]
        plain = pc.replace_substring_regex(texts, r"^0+|\.0$", "")
        index = pc.index_in(plain, value_set=pa.array(numbers, pa.string()))
        has_event = pc.is_valid(index)
        return has_event, pc.add(index.filter(has_event), 1)

    def _values(self, batch: pa.RecordBatch, name: str, events: pa.Array | None) -> pa.Array:
        """The answers of one source of the header: texts of the study, null for an empty cell.

        events: by row, the number of its event. A source that is a slot has those of one event.
        """
        _, attribute = self.header.sources[name]
        in_file, event = self.header.slots.get(name, (name, None))
        column = self._text(batch, in_file, _cells)
        if event is not None:
            column = pc.if_else(pc.equal(events, event), column, pa.scalar(None, pa.string()))
        if (meanings := self.layout.values.get(attribute)) is not None:
            column = rewritten(column, lambda text: meanings.get(text, text) or None)
        if in_file in self.labels:
            codes = self.study.attributes[attribute].codes
            column = labelled(column, codes, self.labels[in_file])
        return column

    def _periods(self, batch: pa.RecordBatch) -> pa.Array | None:
        """The labels of the rows' periods; None for a wide table, whose columns have them."""
        if self.header.period:
            return pa.array([self.header.period] * len(batch), pa.string())
        if self.layout.attribute is not None:
            return None
        return rewritten(self._text(batch, self.layout.period, period_column), self.texts.label)

    def _persons(self, batch: pa.RecordBatch) -> pa.Array:
        """The ids of the rows' persons, of one column or of a group and a member within it."""
        as_ids = _lined_ids if is_text(self.path) else _ids
        ids, *of_members = (self._text(batch, name, as_ids) for name in self.layout.ids)
        for column in of_members:
            ids = paired_ids(ids, column)
        return _padded(ids, self.layout.id_width)


def read_table(
    path: TableSource, columns: Sequence[str], form: FileForm, ids: Collection[str] = ()
) -> pa.Table:
    """Reads columns of a whole table, of the types that a file has; a text file has texts.

    ids: the columns of ids among them.

    Raises UserError also for a row or a cell that cannot be read.
    """
    columns = list(dict.fromkeys(columns))
    tables, names = list[pa.Table](), None
    with readable(path), closing(read_rows(path, form, ids, columns)) as source:
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
    return pa.table({name: _sound(path, name, table.column(name)) for name in columns})


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


def _without_an_event(
    batch: pa.RecordBatch, rows: NDArray[np.int64], has_event: pa.Array
) -> list[UnreadableRow]:
    """The rows without the number of an event."""
    rest = batch.filter(pc.invert(has_event)).to_pylist()
    numbers = rows[~has_event.to_numpy(zero_copy_only=False)].tolist()
    texts = (",".join("" if v is None else str(v) for v in row.values()) for row in rest)
    return [UnreadableRow(number, text) for number, text in zip(numbers, texts, strict=True)]


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


def rewritten(column: pa.Array, rewrite: Callable[[str], str | None]) -> pa.Array:
    """Rewrites every text of a column, text by text."""
    coded = column.dictionary_encode()
    texts = coded.dictionary.to_pylist()
    new_texts = [rewrite(text) for text in texts]
    return column if new_texts == texts else pa.array(new_texts, pa.string()).take(coded.indices)


def labelled(
    column: pa.Array, values: Collection[int | str], labels: Mapping[str, str]
) -> pa.Array:
    """Rewrites codes of a file that are no declared values to the declared values of their labels.

    column: of texts. labels: of the file, by code.
    """
    declared = {text for text in values if isinstance(text, str)}
    named = {c: label for c, label in labels.items() if c not in declared and label in declared}
    return rewritten(column, lambda text: named.get(text, text))


def _padded(ids: pa.Array, width: int | None) -> pa.Array:
    """Fills ids of digits with zeros in front, up to that width."""
    if width is None:
        return ids
    digits = pc.match_substring_regex(ids, "^[0-9]+$")
    return pc.if_else(digits, pc.utf8_lpad(ids, width, "0"), ids)


def _cells(column: pa.Array, field: pa.Field) -> pa.Array:
    return cell_text(column, field.name, DAMAGED)


def _ids(column: pa.Array, field: pa.Field) -> pa.Array:
    """Converts ids to text, damaged ids to null."""
    return _without(id_text(column, field.name, DAMAGED), DAMAGED)


def _lined_ids(column: pa.Array, field: pa.Field) -> pa.Array:
    """Converts ids of a text file; an id with a line end comes from an open quote and is null."""
    return _without(_ids(column, field), "\n")


def _without(column: pa.Array, text: str) -> pa.Array:
    return pc.if_else(pc.match_substring(column, text), pa.scalar(None, pa.string()), column)
