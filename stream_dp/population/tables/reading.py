"""Tables as columns of reports, in batches, and the reports of their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from stream_dp.celltext import cell_text, id_text
from stream_dp.errors import UserError
from stream_dp.study import Study

from .files import is_text, read_batches, unreadable
from .layout import Header, TableLayout, read_header
from .period_texts import PeriodTexts, period_column

ReportRow = tuple[str, str, dict[str, str]]


@dataclass(frozen=True)
class ReportColumns:
    """Some rows of a table.

    A row of a long table is a report; one of a wide table is a report for each column.

    header: of the file, the same for all of its rows.
    first_row: the number of the first one, from 1 below the header.
    persons: ids, null where a cell is empty.
    periods: of a long table, null where a cell is empty; None for a wide one.
    values: by column of the file, null where a cell is empty.
    """

    header: Header
    first_row: int
    persons: pa.Array
    periods: pa.Array | None
    values: Mapping[str, pa.Array]

    def __len__(self) -> int:
        return len(self.persons)

    def slice(self, start: int, count: int) -> ReportColumns:
        """Some of the rows."""
        periods = self.periods if self.periods is None else self.periods.slice(start, count)
        values = {name: column.slice(start, count) for name, column in self.values.items()}
        persons = self.persons.slice(start, count)
        return ReportColumns(
            header=self.header,
            first_row=self.first_row + start,
            persons=persons,
            periods=periods,
            values=values,
        )


def read_columns(path: Path, study: Study, layout: TableLayout) -> Iterator[ReportColumns]:
    """The rows of a table in batches, the first one empty. Raises UserError."""
    texts = PeriodTexts(study.periods, layout.dates)
    rewrites = {attribute: _rewrite(values) for attribute, values in layout.values.items()}
    header: Header | None = None
    row = 1
    for batch in read_batches(path, layout.form, layout.keys):
        if header is None:
            header = read_header(
                path=path, names=batch.schema.names, study=study, layout=layout, texts=texts
            )
        values = {}
        for name, (_, attribute) in header.sources.items():
            column = _text(path, batch, name, _cells)
            values[name] = (
                rewritten(column, rewrites[attribute]) if attribute in rewrites else column
            )
        periods = None
        if layout.attribute is None:
            periods = rewritten(_text(path, batch, layout.period, period_column), texts.label)
        persons = _padded(_text(path, batch, layout.person, _ids), layout.id_width)
        yield ReportColumns(
            header=header, first_row=row, persons=persons, periods=periods, values=values
        )
        row += len(batch)


def read_reports(path: Path, study: Study, layout: TableLayout) -> Iterator[list[ReportRow]]:
    """Batches of (person, period, values); empty cells are left out. Raises UserError.

    A batch without values is an empty list, so that progress can be shown.
    """
    for columns in read_columns(path, study, layout):
        if columns.periods is not None:
            yield list(rows_of(columns))
        else:
            for name in columns.header.sources:
                yield list(rows_of(columns, [name]))


def rows_of(columns: ReportColumns, names: Sequence[str] | None = None) -> Iterator[ReportRow]:
    """The reports of some rows that have a value at all.

    names: of a wide table, the columns of the periods that are asked for; by default all.
    """
    sources, people = columns.header.sources, columns.persons.to_pylist()
    if columns.periods is None:
        for name in sources if names is None else names:
            period, attribute = sources[name]
            for person, value in zip(people, columns.values[name].to_pylist(), strict=True):
                if value is not None:
                    yield person or "", period, {attribute: value}
        return
    cells = {sources[name][1]: column.to_pylist() for name, column in columns.values.items()}
    periods = columns.periods.to_pylist()
    for i, (person, period) in enumerate(zip(people, periods, strict=True)):
        if values := {a: v for a, column in cells.items() if (v := column[i]) is not None}:
            yield person or "", period or "", values


def rewritten(column: pa.Array, rewrite: Callable[[str], str | None]) -> pa.Array:
    """Every text of a column, rewritten by itself."""
    coded = column.dictionary_encode()
    before = coded.dictionary.to_pylist()
    after = [rewrite(text) for text in before]
    return column if after == before else pa.array(after, pa.string()).take(coded.indices)


def _rewrite(values: Mapping[str, str]) -> Callable[[str], str | None]:
    return lambda text: values.get(text, text) or None


def _padded(ids: pa.Array, width: int | None) -> pa.Array:
    """Ids of digits with zeros in front, up to that width."""
    if width is None:
        return ids
    digits = pc.match_substring_regex(ids, "^[0-9]+$")
    return pc.if_else(digits, pc.utf8_lpad(ids, width, "0"), ids)


def _cells(column: pa.Array, field: pa.Field) -> pa.Array:
    return cell_text(column, field.name)


def _ids(column: pa.Array, field: pa.Field) -> pa.Array:
    return id_text(column, field.name)


def _text(
    path: Path, batch: pa.RecordBatch, name: str, as_text: Callable[[pa.Array, pa.Field], pa.Array]
) -> pa.Array:
    """A column of a batch as text. Raises UserError that names the file."""
    place = batch.schema.names.index(name)
    try:
        cells = as_text(batch.column(place), batch.schema.field(place))
    except UserError as error:
        raise UserError(f"{path}: {line}" for line in error.lines) from None
    if is_text(path) and pc.any(pc.match_substring(cells, "\n")).as_py():
        raise unreadable(
            path, f"a cell of column '{name}' goes over lines; look for a quote that is left open"
        )
    return cells
