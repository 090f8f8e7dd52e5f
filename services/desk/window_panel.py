"""A long table of people and periods in, and a public log with panels out, in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from stream_dp.batch.data.hierarchy_tables import id_column
from stream_dp.client import PublicLog
from stream_dp.errors import UserError
from stream_dp.population.arrow_tables import ArrowStream, NamedTable, arrow_table, missing_columns
from stream_dp.population.tables import TableLayout
from stream_dp.population.tables.reading import Reading
from stream_dp.population.tables.reading_facts import reading_lines, stated_layout
from stream_dp.study.call_arguments import Number, checked_relation
from stream_dp.study.field_types import ABSENT
from stream_dp.study.period_texts import named_period
from stream_dp.study.periods import period_text

from ..releaser.study_in_memory import run_study
from .declared_columns import (
    DeclaredColumn,
    Values,
    budget,
    checked_codes,
    column_name,
    declared_columns,
    named,
    one_study,
)
from .public_domain import public_domain

# By unit of periods, the label of a date as `strftime` writes it.
_LABELS = {"day": "%Y-%m-%d", "week": "%G-W%V", "month": "%Y-%m", "year": "%Y"}


def window(
    table: ArrowStream,
    *,
    person: str | int,
    period: str | int,
    first: str | int,
    count: int,
    width: int,
    neighbours: str,
    delta: Number,
    epsilon: Number | None = None,
    rho: Number | None = None,
    values: Mapping[str, Values] | None = None,
    domain_from: ArrowStream | None = None,
    missing: Mapping[str, object] | None = None,
    special: Mapping[str, Sequence[int]] | None = None,
    rows: int | None = None,
    unit: str = "person",
    reading: Mapping[str, object] | None = None,
    simulation_seed: int | None = None,
) -> PublicLog:
    """Publishes a panel for each column of a long table, with every pattern of the last periods.

    The releases are those of a study, whose public log lies in memory: `panel`, `answer` and
    `release_table` of the result read it. Each call is charged anew; there is no ledger here.

    table: a row for each person and period; of pyarrow, pandas from 2.2 on, polars, or any library
        with Arrow's PyCapsule interface.
    person, period: the columns that name the person and the period. Periods are dates or labels.
    first, count: the first period, such as `2026-01`, `2026-Q1`, `2026` or 1, and how many follow
        one another. They are public.
    width: how many periods a pattern has.
    neighbours: the relation that is protected; there is no default. Under `add_remove` the number
        of people is private, under `replace_one` and `replace_in_place` it is public.
    delta: for stating the cost as (epsilon, delta).
    epsilon: the cost as (epsilon, delta)-differential privacy, or
    rho: the cost as zero-concentrated differential privacy, shared equally among the columns.
    values: the columns to publish, each with its possible values. Values are public: never take
        them from the table.
    domain_from: a public table, whose columns and values are published beside those of `values`;
        never `table` itself. Certificates have its hash.
    missing: by column, the value of a person without an answer; by default `absent`, a symbol more.
    special: by column, the codes that count as no answer, such as `{"work": [-9, -8]}`.
    rows: under `add_remove` with `absent`, a public bound on the number of people.
    unit: who is protected, for the words of the guarantee.
    reading: how texts are read, as in `run_study`, for example `{"dates": "%d.%m.%Y"}`.
    simulation_seed: for simulations only: repeatable noise, which protects nobody.

    Raises UserError. A warning says how many cells of the table do not count, and why.

    >>> import pyarrow, stream_dp
    >>> answers = pyarrow.table({
    ...     "id": [1, 1, 2, 2], "month": ["2026-01", "2026-02"] * 2, "work": ["y", "n", "y", "y"]})
    >>> public = stream_dp.window(
    ...     answers, person="id", period="month", first="2026-01", count=2, width=2,
    ...     values={"work": ["y", "n"]}, rho=1, delta=1e-6, neighbours="replace_one",
    ...     simulation_seed=1)
    >>> public.panel("work").table().column_names
    ['row', '2026-01', '2026-02']
    """
    spent, exact = budget(rho, epsilon, delta)
    relation = checked_relation(neighbours)
    ids = column_name(person, "person"), column_name(period, "period")
    answers = arrow_table(table, "table")
    public = None
    if domain_from is not None:
        public = public_domain(domain_from, answers, ids)
    columns = [c for c in declared_columns(values, public, None) if c.name not in ids]
    rules, codes = named(missing, "missing"), checked_codes(named(special, "special"))
    label = period_text(first)
    first_period = named_period(label) if isinstance(label, str) else None
    if first_period is None:
        raise UserError(
            "first: write a period such as 2026-01-31, 2026-W05, 2026-01, 2026-Q1 or 2026"
        )
    every, label = first_period
    for argument, of_columns in (("missing", rules), ("special", codes)):
        if unknown := of_columns.keys() - {column.name for column in columns}:
            raise UserError(f"{argument}: '{min(unknown)}' is none of the columns in values")
    wide = [column.name for column in columns if column.edges]
    if wide:
        raise UserError(f"values: '{wide[0]}' has too many values for a panel; declare fewer")
    reports = _reports(answers, *ids, columns, every)
    layout = stated_layout(reading, TableLayout(*ids))
    people = len({*reports["person"].unique().to_pylist()} - {None, *layout.nobody})
    if relation != "add_remove" and not people:
        raise UserError("table: has no people, and their number is public under this relation")
    study = one_study(
        {
            c.name: c.declaration(rules.get(c.name, ABSENT))
            | ({"missing_codes": list(codes[c.name])} if codes.get(c.name) else {})
            for c in columns
        },
        [
            {"name": c.name, "kind": "window", "attribute": c.name, "width": width}
            | ({} if rows is None else {"rows": rows})
            for c in columns
        ],
        unit=unit,
        neighbours=relation,
        rho=spent,
        delta=exact,
        size=None if relation == "add_remove" else people,
        periods={"first": label, "every": every, "count": count},
    )
    shown = Reading.of(NamedTable("table", answers), answers.column_names, study, layout)
    result = run_study(study, reports, reading=reading, simulation_seed=simulation_seed)
    result.reading = tuple(reading_lines(shown))
    return result


def _reports(
    table: pa.Table, person: str, period: str, columns: list[DeclaredColumn], every: str
) -> pa.Table:
    """The table as `run_study` takes reports. Confidential. Raises UserError."""
    names = [column.name for column in columns]
    faults = missing_columns("table", table.column_names, [person, period, *names])
    if faults:
        raise UserError(faults)
    cells = {"person": id_column(table, person), "period": _labels(table[period], every)}
    return pa.table(cells | {name: table[name] for name in names})


def _labels(column: pa.ChunkedArray, every: str) -> pa.ChunkedArray:
    """The labels of periods that are written as dates; any other column as it is."""
    if not pa.types.is_date(column.type) and not pa.types.is_timestamp(column.type):
        return column
    if every == "quarter":
        quarters = pc.cast(pc.quarter(column), pa.string())
        return pc.binary_join_element_wise(pc.strftime(column, "%Y"), quarters, "-Q")
    return pc.strftime(column, _LABELS[every]) if every in _LABELS else column
