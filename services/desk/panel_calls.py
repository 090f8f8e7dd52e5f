"""Answers of people by period in, and synthetic panels out, in one call."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from stream_dp.errors import UserError
from stream_dp.population.arrow_tables import ArrowStream
from stream_dp.population.tables import Judgement
from stream_dp.population.tables.reading_facts import stated_layout
from stream_dp.study.call_arguments import Number, checked_relation

from ..intake.table_judging import fault_table
from ..releaser.study_in_memory import run_table
from .declared_columns import (
    DeclaredColumn,
    Values,
    budget,
    checked_codes,
    declared_columns,
    named,
    one_study,
    public_domain,
)
from .fitted_panel import FittedPanel
from .panel_tables import PanelTable, by_column, panel_table

COLUMN = "value"  # the name of the answers of an array or a wide table
_COMPLETE = "every person has an answer in every period, as declared"


def window(
    table: ArrowStream | ArrayLike,
    *,
    width: int,
    neighbours: str,
    delta: Number,
    epsilon: Number | None = None,
    rho: Number | None = None,
    person: str | int | None = None,
    period: str | int | None = None,
    first: str | int | None = None,
    count: int | None = None,
    values: Mapping[str, Values] | Values | None = None,
    domain_from: ArrowStream | None = None,
    missing: object = None,
    special: Mapping[str, Sequence[int]] | Sequence[int] | None = None,
    rows: int | None = None,
    unit: str = "person",
    reading: Mapping[str, object] | None = None,
    simulation_seed: int | None = None,
) -> FittedPanel:
    """Publishes a panel with every pattern of the last periods.

    The releases are those of a study, whose public log lies in memory. Each call is charged anew;
    there is no ledger here.

    table: an array of NumPy, (people, periods); a wide table, a row for each person and a column
        for each period; or a long table, a row for each person and period. Tables are of pyarrow,
        pandas from 2.2 on, polars, or any library with Arrow's PyCapsule interface.
    width: how many periods a pattern has.
    neighbours: the relation that is protected; there is no default. Under `add_remove` the number
        of people is private, under `replace_one` and `replace_in_place` it is public.
    delta: for stating the cost as (epsilon, delta).
    epsilon: the cost as (epsilon, delta)-differential privacy, or
    rho: the cost as zero-concentrated differential privacy, shared equally among the columns of
        answers.
    person: the column that names the person. By default each row of a wide table is a person.
    period: of a long table, the column that names the period. Periods are dates or labels.
    first, count: the first period, such as `2026-01`, `2026-Q1`, `2026` or 1, and how many follow
        one another. They are public. A long table needs both; columns tell the periods otherwise.
    values: the possible values, by default 0 and 1; of a long table by column. A column of an
        array or a wide table may be named so, too: `{"work": ["y", "n"]}`. Values are public:
        never take them from the table.
    domain_from: a public table, whose columns and values are published beside those of `values`;
        never `table` itself. Certificates have its hash.
    missing: what an empty cell means: `"absent"`, a symbol more, or one of the values; or by
        column. By default no cell is empty, which is declared and costs nothing: a table with an
        empty cell is refused before any noise is drawn.
    special: the codes that count as no answer, such as `[-9, -8]`, or by column.
    rows: under `add_remove` with `absent`, a public bound on the number of people.
    unit: who is protected, for the words of the guarantee.
    reading: how texts are read, as in `run_study`, for example `{"dates": "%d.%m.%Y"}`.
    simulation_seed: for simulations only: repeatable noise, which protects nobody.

    Raises UserError. With `missing`, a warning says how many cells of the table do not count, and
    why.

    >>> import numpy, stream_dp
    >>> poor = numpy.array([[0, 1, 1], [0, 0, 0], [1, 1, 1]])
    >>> fitted = stream_dp.window(
    ...     poor, width=2, rho=1, delta=1e-6, neighbours="replace_one", simulation_seed=1)
    >>> numpy.asarray(fitted.panel).shape
    (3, 3)
    >>> fitted.estimates("value=1")["period"].to_pylist()
    ['1', '2', '3']
    """
    call = _Call(table, person, period, first, count, neighbours, delta, epsilon, rho)
    release = {"kind": "window", "width": width}
    return call.fitted(
        release, values, domain_from, missing, special, rows, unit, reading, simulation_seed
    )


def cumulative(
    table: ArrowStream | ArrayLike,
    *,
    neighbours: str,
    delta: Number,
    epsilon: Number | None = None,
    rho: Number | None = None,
    event: object = None,
    person: str | int | None = None,
    period: str | int | None = None,
    first: str | int | None = None,
    count: int | None = None,
    values: Mapping[str, Values] | Values | None = None,
    domain_from: ArrowStream | None = None,
    missing: object = None,
    special: Mapping[str, Sequence[int]] | Sequence[int] | None = None,
    rows: int | None = None,
    unit: str = "person",
    reading: Mapping[str, object] | None = None,
    simulation_seed: int | None = None,
) -> FittedPanel:
    """Publishes a panel with the number of people who have had an event in at least b periods.

    event: the value that counts as the event, or a list of several; by default 1.

    Every other argument is that of `window`.

    >>> import numpy, stream_dp
    >>> poor = numpy.array([[0, 1, 1], [0, 0, 0], [1, 1, 1]])
    >>> fitted = stream_dp.cumulative(
    ...     poor, rho=100, delta=1e-6, neighbours="replace_one", simulation_seed=1)
    >>> round(fitted.estimate("total at-least 2", "3", count=True).value)
    2
    """
    call = _Call(table, person, period, first, count, neighbours, delta, epsilon, rho)
    release = {"kind": "cumulative", "event": _events(event)}
    return call.fitted(
        release, values, domain_from, missing, special, rows, unit, reading, simulation_seed
    )


def joint(
    table: ArrowStream | ArrayLike,
    *,
    width: int,
    neighbours: str,
    delta: Number,
    epsilon: Number | None = None,
    rho: Number | None = None,
    event: object = None,
    person: str | int | None = None,
    period: str | int | None = None,
    first: str | int | None = None,
    count: int | None = None,
    values: Mapping[str, Values] | Values | None = None,
    domain_from: ArrowStream | None = None,
    missing: object = None,
    special: Mapping[str, Sequence[int]] | Sequence[int] | None = None,
    rows: int | None = None,
    unit: str = "person",
    reading: Mapping[str, object] | None = None,
    simulation_seed: int | None = None,
) -> FittedPanel:
    """Publishes one panel for both: patterns of the last periods, and totals of an event.

    event: as of `cumulative`. Every other argument is that of `window`.

    >>> import numpy, stream_dp
    >>> poor = numpy.array([[0, 1, 1], [0, 0, 0], [1, 1, 1]])
    >>> fitted = stream_dp.joint(
    ...     poor, width=2, rho=100, delta=1e-6, neighbours="replace_one", simulation_seed=1)
    >>> [round(fitted.estimate(query, "3", count=True).value)
    ...  for query in ("pattern 1 1", "total at-least 3")]
    [2, 1]
    """
    call = _Call(table, person, period, first, count, neighbours, delta, epsilon, rho)
    release = {"kind": "joint", "width": width, "event": _events(event)}
    return call.fitted(
        release, values, domain_from, missing, special, rows, unit, reading, simulation_seed
    )


@dataclass(frozen=True)
class _Call:
    """The arguments about the table and its protection."""

    table: ArrowStream | ArrayLike
    person: str | int | None
    period: str | int | None
    first: str | int | None
    count: int | None
    neighbours: str
    delta: Number
    epsilon: Number | None
    rho: Number | None

    def fitted(
        self,
        release: Mapping[str, object],
        values: Mapping[str, Values] | Values | None,
        domain_from: ArrowStream | None,
        missing: object,
        special: Mapping[str, Sequence[int]] | Sequence[int] | None,
        bound: int | None,
        unit: str,
        reading: Mapping[str, object] | None,
        seed: int | None,
    ) -> FittedPanel:
        """The published panels. release: a release of a study file, without its attribute."""
        spent, exact = budget(self.rho, self.epsilon, self.delta)
        relation = checked_relation(self.neighbours)
        answers = panel_table(self.table, self.person, self.period, self.first, self.count)
        columns = _columns(answers, values, domain_from)
        names = [column.name for column in columns]
        rules = named(by_column(missing, names), "missing")
        codes = checked_codes(named(by_column(special or (), names), "special"))
        for argument, of_columns in (("missing", rules), ("special", codes)):
            if unknown := of_columns.keys() - {*names}:
                raise UserError(f"{argument}: '{min(unknown)}' is none of the columns in values")
        if long := [column.name for column in columns if column.edges]:
            raise UserError(f"values: '{long[0]}' has too many values for a panel; declare fewer")
        reports = answers.reports(names)
        layout = stated_layout(reading, answers.layout(names[0]))
        people = len({*reports[0].unique().to_pylist()} - {None, *layout.nobody})
        if relation != "add_remove" and not people:
            raise UserError("table: has no people, and their number is public under this relation")
        study = one_study(
            {
                c.name: c.declaration(rules.get(c.name))
                | ({"missing_codes": list(codes[c.name])} if codes.get(c.name) else {})
                for c in columns
            },
            [
                {"name": name, "attribute": name, **release}
                | ({} if bound is None else {"rows": bound})
                for name in names
            ],
            unit=unit,
            neighbours=relation,
            rho=spent,
            delta=exact,
            size=None if relation == "add_remove" else people,
            periods=answers.periods.model_dump(include={"first", "every", "count"}),
        )
        needed = [c for c in columns if rules.get(c.name) is None and not c.empty]
        complete = [column.name for column in needed]
        whole = people * study.periods.count

        def require(judgement: Judgement) -> None:
            for column in needed:
                cells = study.periods.labels if answers.wide else [column.name]
                _require_answers(judgement, column, cells, whole)

        log = run_table(
            study,
            reports,
            layout,
            tell=lambda text: warnings.warn(f"{release['kind']}:{text}", stacklevel=6),
            require=require,
            simulation_seed=seed,
        )
        stated = [f"{', '.join(complete)}: {_COMPLETE}"] if complete else []
        return FittedPanel(log, tuple(names), (*log.reading, *stated))


def _columns(
    answers: PanelTable,
    values: Mapping[str, Values] | Values | None,
    domain_from: ArrowStream | None,
) -> list[DeclaredColumn]:
    """The columns of answers with their values. Raises UserError."""
    if answers.period is not None:
        public = domain_from and public_domain(domain_from, answers.rows, answers.ids)
        if values is not None and not isinstance(values, Mapping):
            raise UserError("values: of a long table must be a dict with an entry for each column")
        declared = declared_columns(values, public, None)
        return [column for column in declared if column.name not in answers.ids]
    if domain_from is not None:
        raise UserError("domain_from: is for long tables; declare values")
    declared = declared_columns(
        values if isinstance(values, Mapping) else {COLUMN: (0, 1) if values is None else values},
        None,
        None,
    )
    if len(declared) != 1:
        raise UserError("values: the cells of an array or a wide table are one column of answers")
    return list(declared)


def _require_answers(
    judgement: Judgement, declared: DeclaredColumn, columns: Sequence[str], whole: int
) -> None:
    """Raises UserError unless every person has an answer in every period.

    columns: of the table, with the answers of the declared column.
    whole: the number of people times the number of periods.
    """
    repeated = (judgement.repeated.get(column) for column in columns)
    answered = sum(judgement.answered[column] for column in columns)
    answered -= sum(places.cells for places in repeated if places is not None)
    if answered != whole:
        undeclared = sum(
            fault.cells
            for (column, reason), fault in judgement.faults.items()
            if column in columns and reason == "value"
        )
        line = (
            f"table: '{declared.name}' has an answer in {answered} of {whole} cells; declare what a"
            " cell without an answer means: missing='absent', a symbol more, or missing= one of the"
            " values"
        )
        if undeclared:
            line = (
                f"table: {undeclared} cells of '{declared.name}' have other values than the"
                f" declared {declared.words}; declare all in values=, and those that stand for no"
                " answer in special="
            )
        faults = fault_table("table", judgement, "none is used") if judgement.faulty else []
        raise UserError([line, *faults])


def _events(event: object) -> list[Any]:
    """The argument `event` as a list of values; by default 1 alone."""
    if event is None:
        return [1]
    several = isinstance(event, Sequence) and not isinstance(event, str)
    return list(event) if several else [event]  # type: ignore[call-overload]
