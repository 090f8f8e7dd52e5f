"""Tables as columns of reports, in batches, and the reports of their rows."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stream_dp.celltext import DAMAGED, cell_text, id_text
from stream_dp.errors import UserError
from stream_dp.study import Study

from .files import is_text, read_rows
from .layout import Header, TableLayout, read_header
from .period_texts import PeriodTexts, period_column
from .table_rows import UnreadableRow

ReportRow = tuple[str, str, dict[str, str]]


@dataclass(frozen=True)
class ReportColumns:
    """Some rows of a table.

    A row of a long table is a report; one of a wide table is a report for each column.

    header: of the file, the same for all of its rows.
    rows: the number of each, from 1 below the header.
    persons: ids, null where a cell is empty or no id.
    periods: of a long table, null where a cell is empty; None for a wide one.
    values: by column of the file, null where a cell is empty.
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
        """Some of the rows that fit the header."""
        return ReportColumns(
            header=self.header,
            rows=self.rows[start : start + count],
            persons=self.persons.slice(start, count),
            periods=self.periods if self.periods is None else self.periods.slice(start, count),
            values={name: column.slice(start, count) for name, column in self.values.items()},
        )


def read_columns(
    path: Path, study: Study, layout: TableLayout
) -> Generator[ReportColumns, None, None]:
    """The rows of a table in batches, the first one empty. Raises UserError."""
    texts = PeriodTexts(study.periods, layout.dates)
    rewrites = {attribute: _rewrite(values) for attribute, values in layout.values.items()}
    header: Header | None = None
    with closing(read_rows(path, layout.form, layout.keys)) as source:
        for some in source:
            batch = some.batch
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
            ids = _text(path, batch, layout.person, _lined_ids if is_text(path) else _ids)
            yield ReportColumns(
                header=header,
                rows=some.numbers,
                persons=_padded(ids, layout.id_width),
                periods=periods,
                values=values,
                unreadable=some.unreadable,
                over_lines=some.over_lines,
            )


def read_reports(path: Path, study: Study, layout: TableLayout) -> Iterator[list[ReportRow]]:
    """Batches of (person, period, values); empty cells are left out. Raises UserError.

    A batch without values is an empty list, so that progress can be shown.
    """
    for columns in read_columns(path, study, layout):
        yield from reports_of(columns)


def reports_of(columns: ReportColumns) -> Iterator[list[ReportRow]]:
    """The reports of some rows: of a long table one batch, of a wide one a batch for each column.

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
    return cell_text(column, field.name, DAMAGED)


def _ids(column: pa.Array, field: pa.Field) -> pa.Array:
    """Ids as text, null for those that are damaged."""
    return _without(id_text(column, field.name, DAMAGED), DAMAGED)


def _lined_ids(column: pa.Array, field: pa.Field) -> pa.Array:
    """The same of a text file, where an id over lines is no id, but a quote that is left open."""
    return _without(_ids(column, field), "\n")


def _without(column: pa.Array, text: str) -> pa.Array:
    return pc.if_else(pc.match_substring(column, text), pa.scalar(None, pa.string()), column)


def _text(
    path: Path, batch: pa.RecordBatch, name: str, as_text: Callable[[pa.Array, pa.Field], pa.Array]
) -> pa.Array:
    """A column of a batch as text. Raises UserError that names the file."""
    place = batch.schema.names.index(name)
    try:
        return as_text(batch.column(place), batch.schema.field(place))
    except UserError as error:
        raise UserError(f"{path}: {line}" for line in error.lines) from None
