"""Arrays, wide tables and long tables of answers by person and period, as one kind of table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from stream_dp.batch.data.hierarchy_tables import id_column
from stream_dp.errors import UserError, visible
from stream_dp.population.arrow_tables import ArrowStream, arrow_table, missing_columns
from stream_dp.population.tables import TableLayout
from stream_dp.study import Periods
from stream_dp.study.call_arguments import checked_whole
from stream_dp.study.period_texts import named_period
from stream_dp.study.periods import period_text

from .declared_columns import column_name

_PERSON = "person"


@dataclass(frozen=True)
class PanelTable:
    """A table of answers.

    rows: the table as the caller gave it. Confidential.
    periods: the declared periods.
    person: the column of persons.
    period: of a long table, the column of periods.
    wide: of a wide table, its columns, a period each in order; empty for a long table.
    """

    rows: pa.Table
    periods: Periods
    person: str
    period: str | None = None
    wide: tuple[str, ...] = ()

    @property
    def ids(self) -> tuple[str, ...]:
        """The columns that are no answers."""
        return (self.person,) if self.period is None else (self.person, self.period)

    def layout(self, attribute: str) -> TableLayout:
        """How `reports` are read. attribute: of the cells of a wide table."""
        if self.period is None:
            return TableLayout(self.person, attribute=attribute)
        return TableLayout(self.person, self.period)

    def reports(self, columns: Iterable[str]) -> pa.Table:
        """The table as `run_study` takes reports. Confidential. Raises UserError.

        columns: of a long table, those with answers.
        """
        answers = [] if self.wide else [*columns]
        faults = missing_columns("table", self.rows.column_names, [*self.ids, *answers])
        if faults:
            raise UserError(faults)
        cells = {self.person: id_column(self.rows, self.person)}
        if self.period is None:
            names = zip(self.periods.labels, self.wide, strict=True)
            return pa.table(cells | {label: self.rows[name] for label, name in names})
        return pa.table(cells | {name: self.rows[name] for name in (self.period, *answers)})


def panel_table(
    table: ArrowStream | ArrayLike,
    person: str | int | None,
    period: str | int | None,
    first: str | int | None,
    count: int | None,
) -> PanelTable:
    """The table of a call, with its declared periods. Raises UserError.

    The number of an array's or a wide table's columns is the number of periods, and public.
    """
    if not isinstance(table, ArrowStream):
        return _of_array(table, person, period, first, count)
    rows = arrow_table(table, "table")
    if period is None:
        return _of_wide(rows, _person(table, rows, person), first, count)
    if person is None or first is None or count is None:
        raise UserError(
            "table: with a column of periods it is long: name the column person=, the first period"
            " first= and their number count= too"
        )
    ids = column_name(person, "person"), column_name(period, "period")
    return PanelTable(rows, _declared(first, count), *ids)


def _of_array(
    array: ArrayLike,
    person: object,
    period: object,
    first: str | int | None,
    count: int | None,
) -> PanelTable:
    cells = _cells(array)
    if person is not None or period is not None:
        raise UserError("person, period: an array has no columns with names; leave them out")
    periods = _declared(1 if first is None else first, cells.shape[1])
    _require_count(count, periods)
    columns = {
        label: _column(column) for label, column in zip(periods.labels, cells.T, strict=True)
    }
    numbers = {_PERSON: pa.array(np.arange(1, len(cells) + 1))}
    return PanelTable(pa.table(numbers | columns), periods, _PERSON, wide=tuple(columns))


def _cells(array: ArrayLike) -> np.ndarray[Any, Any]:
    """An array (people, periods). Raises UserError for anything else."""
    try:
        cells = np.asarray(array)
    except (ValueError, TypeError):
        cells = np.empty(0)
    if cells.ndim != 2 or cells.dtype.kind not in "biufUO" or not cells.shape[1]:
        raise UserError(
            "table: must be an array of NumPy (people, periods), or a table of pyarrow, pandas (2.2"
            " or newer), polars or another library with Arrow's PyCapsule interface; not"
            f" {type(array).__name__}"
            + (f" of the shape {cells.shape}" if isinstance(array, np.ndarray) else "")
        )
    return cells


def _column(cells: np.ndarray[Any, Any]) -> pa.Array:
    """A column of an array. True and false are 1 and 0; NaN is an empty cell. Raises UserError."""
    if cells.dtype.kind == "b":
        return pa.array(cells.astype(np.int8))
    try:
        return pa.array(cells.tolist(), from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError):
        raise UserError("table: the cells of an array must all be numbers or all texts") from None


def _of_wide(
    rows: pa.Table, person: str | None, first: str | int | None, count: int | None
) -> PanelTable:
    if person is None and _PERSON in rows.column_names:
        raise UserError(
            f"table: has a column '{_PERSON}': name it, person='{_PERSON}'; a long table needs"
            " period=, first= and count= too"
        )
    if person is None:
        rows = rows.append_column(_PERSON, pa.array(np.arange(1, rows.num_rows + 1)))
        person = _PERSON
    faults = missing_columns("table", rows.column_names, [person])
    if faults:
        raise UserError(faults)
    names = [name for name in rows.column_names if name != person]
    if not names:
        raise UserError("table: has no columns of periods")
    units = [named_period(name) for name in names]
    if first is not None:
        periods = _declared(first, len(names))
    elif units[0] is None or None in units:
        wrong = names[units.index(None)]
        raise UserError(
            f"table: column '{visible(wrong)}' is no period such as 2026-01, 2026-Q1 or 1; a long"
            " table needs period=, a wide one first= for the first of its columns, and person= for"
            " the column of persons"
        )
    else:
        periods = _declared(units[0][1], len(names))
    for name, unit, label in zip(names, units, periods.labels, strict=True):
        if unit is not None and unit != (periods.every, label):
            raise UserError(
                f"table: column '{visible(name)}' stands where the period {label} is to be; the"
                " columns of a wide table are periods in order, without a gap"
            )
    _require_count(count, periods)
    return PanelTable(rows, periods, person, wide=tuple(names))


def _person(table: object, rows: pa.Table, person: str | int | None) -> str | None:
    """The column of persons of a wide table; by default the named index of a table of pandas."""
    if person is not None:
        return column_name(person, "person")
    name = getattr(getattr(table, "index", None), "name", None)
    return name if name in rows.column_names else None


def _declared(first: str | int, count: int) -> Periods:
    """The periods of a call. Raises UserError."""
    label = period_text(first)
    named = named_period(label) if isinstance(label, str) else None
    if named is None:
        raise UserError(
            "first: write a period such as 2026-01-31, 2026-W05, 2026-01, 2026-Q1, 2026 or 1"
        )
    every, label = named
    try:
        return Periods(every=every, first=label, count=checked_whole("count", count))
    except ValueError:
        raise UserError("first, count: must name at most 10000 periods of the calendar") from None


def _require_count(count: int | None, periods: Periods) -> None:
    if count is not None and count != periods.count:
        raise UserError(f"count: the table has {periods.count} columns of periods; leave count out")


def by_column(argument: object, columns: Iterable[str]) -> Mapping[Any, Any]:
    """An argument by column: itself, or the same for every column."""
    return argument if isinstance(argument, Mapping) else dict.fromkeys(columns, argument)
