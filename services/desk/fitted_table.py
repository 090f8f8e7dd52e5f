"""A table of people in, and synthetic tables out, in one call."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, Generic, TypeVar, cast, overload

import numpy as np
import pyarrow as pa

from stream_dp.answers.tables.limited_records import limited_records
from stream_dp.answers.tables.table_answer import Conjunctions
from stream_dp.answers.tables.table_facts import PublishedTables
from stream_dp.batch.data.domain import Codes
from stream_dp.batch.fit_tables import FittedTables, fit_tables
from stream_dp.batch.kinds import load_synthesizer
from stream_dp.batch.people.people_table import People, present_rows, study_people
from stream_dp.batch.synthesizer import FitContext, FittedModel
from stream_dp.errors import UserError
from stream_dp.notebook_html import html_facts
from stream_dp.population.arrow_tables import ArrowStream, arrow_table, missing_columns, table_like
from stream_dp.privacy.noise import noise_source
from stream_dp.privacy.zcdp import epsilon as implied_epsilon
from stream_dp.release.answer import Answer
from stream_dp.release.arrow_parts import measurement_table
from stream_dp.release.certificate import (
    SEEDED_NOISE,
    SYSTEM_NOISE,
    domain_words,
    relation_words,
)
from stream_dp.release.published_tables import binned, coded_people, column_values
from stream_dp.study import PeopleRelease, Study
from stream_dp.study.call_arguments import Number, checked_relation, checked_whole
from stream_dp.study.families import Family, Kind, kinds_of

from .coded_cells import coded_column, column_notices
from .declared_columns import (
    DeclaredColumn,
    Values,
    budget,
    column_name,
    declared_columns,
    listed_values,
    named,
    one_study,
    public_domain,
)

_MOST_SEEDS = 1 << 64  # further samples for one table have seeds beyond those of callers


T = TypeVar("T", bound=ArrowStream)


@dataclass(frozen=True)
class FittedTable(Generic[T]):
    """A model of a table of people: the result of `fit`.

    study: the declaration behind it, of one period and one release.
    columns: with their values.
    model: with its title, its noisy answers and its notes.
    pattern: a table of the library that samples are of.
    left_out: the table's other columns, which are not learnt.
    simulated: whether the noise came from a seed.
    """

    study: Study
    columns: tuple[DeclaredColumn, ...]
    model: FittedModel[People]
    pattern: T = field(repr=False)
    left_out: tuple[str, ...] = ()
    simulated: bool = False

    def __repr__(self) -> str:
        return (
            f"<FittedTable of {', '.join(column.name for column in self.columns)}:"
            f" rho {float(self.rho):.6g}{' SIMULATED' * self.simulated}>"
        )

    @property
    def rho(self) -> Fraction:
        """The cost in zCDP."""
        return self.study.rho

    @property
    def epsilon(self) -> Decimal:
        """The epsilon of the cost at the declared delta."""
        return implied_epsilon(self.study.rho, self.study.delta)

    @property
    def reading(self) -> tuple[str, ...]:
        """How the table was read: a line a column, and last the columns that were left out."""
        lines = [f"{column.name}: {column.words}" for column in self.columns]
        return *lines, *([f"left out: {', '.join(self.left_out)}"] if self.left_out else [])

    @property
    def guarantee(self) -> str:
        """What is protected, in words."""
        return relation_words(self.study)

    @property
    def measurements(self) -> pa.Table:
        """The noisy answers: query, value, variance, standard_error."""
        return measurement_table(self.model.measurements)

    def sample(self, rows: int | None = None, *, seed: int = 0) -> T:
        """A table of artificial people, of the library and types of the fitted table.

        A sample costs nothing more. Of a library other than pandas and polars it is of pyarrow.

        rows: how many people; by default as many as the model has, which is the public number of
            rows, or a noisy one.
        seed: the same seed gives the same table again.

        Raises UserError.
        """
        number = None if rows is None else checked_whole("rows", rows)
        answers = self.model.sample(checked_whole("seed", seed, 0)).answers
        if number is not None:
            answers = self._drawn(number, answers, seed)
        cells = {c.name: c.cells(answers[:, i]) for i, c in enumerate(self.columns)}
        return table_like(pa.table(cells), self.pattern)

    def _drawn(self, rows: int, answers: Codes, seed: int) -> Codes:
        """(rows, columns) the answers of `rows` people, from enough samples.

        answers: of the sample with this seed.
        """
        if not len(answers):
            raise UserError("rows: the model is of no people; leave rows out")
        rng, samples = np.random.default_rng([seed, rows]), [answers]
        while sum(map(len, samples)) < rows:
            samples.append(self.model.sample(seed + len(samples) * _MOST_SEEDS).answers)
        whole = sum(map(len, samples[:-1]))
        some = np.sort(rng.permutation(len(samples[-1]))[: rows - whole])
        return np.concatenate([*samples[:-1], samples[-1][some]])

    def answer(self, query: str, *, count: bool = False) -> Answer:
        """The answer to a query like `sex=f & work=yes`, with the error of the noise.

        count: whether as a number of people, not as a share. Raises UserError.
        """
        unbiased = Conjunctions(self._published).answer(query, count=count)
        return limited_records(unbiased)

    @cached_property
    def _published(self) -> PublishedTables:
        release = _release(self.study)
        columns = column_values(self.study, release)
        exact = {"people": coded_people(columns["people"], self.model.sample(0).answers)}
        labels, tables = binned(columns, exact)
        numbers = self.model.sample(0).domain.numbers
        names = [release.names[column] for column in numbers]
        return PublishedTables(
            study=self.study,
            declared=release,
            period=self.study.periods.labels[0],
            columns=labels,
            tables=tables,
            measurements=self.measurements,
            numbers=dict(zip(names, numbers.values(), strict=True)),
            number_codes={n: exact["people"][n].to_numpy().astype(np.int64) for n in names},
        )

    def _repr_html_(self) -> str:
        return html_facts(
            "A model of a table of people",
            [
                ("columns", "; ".join(self.reading)),
                ("values", domain_words(self.study)),
                ("guarantee", self.guarantee),
                ("cost", f"rho {float(self.rho):.6g}, eps {self.epsilon} at this delta"),
                ("mechanism", self.model.title),
                ("noise", SEEDED_NOISE if self.simulated else SYSTEM_NOISE),
            ],
        )


P = TypeVar("P", bound=ArrowStream)


@overload
def fit(
    table: T,
    *,
    neighbours: str,
    delta: Number,
    epsilon: Number | None = None,
    rho: Number | None = None,
    values: Mapping[str, Values] | None = None,
    domain_from: ArrowStream | None = None,
    bins: Mapping[str, Sequence[int]] | None = None,
    special: Mapping[str, Sequence[int]] | None = None,
    rules: Sequence[str] = (),
    derived: Mapping[str, Mapping[str, Any]] | None = None,
    kind: str | None = None,
    unit: str = "person",
    simulation_seed: int | None = None,
) -> FittedTable[T]: ...


@overload
def fit(
    table: T,
    *,
    members: P,
    key: str,
    most: int,
    neighbours: str,
    delta: Number,
    epsilon: Number | None = None,
    rho: Number | None = None,
    values: Mapping[str, Values],
    kind: str | None = None,
    simulation_seed: int | None = None,
) -> FittedTables[T, P]: ...


def fit(
    table: T,
    *,
    neighbours: str,
    delta: Number,
    epsilon: Number | None = None,
    rho: Number | None = None,
    values: Mapping[str, Values] | None = None,
    domain_from: ArrowStream | None = None,
    bins: Mapping[str, Sequence[int]] | None = None,
    special: Mapping[str, Sequence[int]] | None = None,
    rules: Sequence[str] = (),
    derived: Mapping[str, Mapping[str, Any]] | None = None,
    kind: str | None = None,
    unit: str = "person",
    members: P | None = None,
    key: str | None = None,
    most: int | None = None,
    simulation_seed: int | None = None,
) -> FittedTable[T] | FittedTables[T, P]:
    """Fits a synthesizer to a table of people, or to households and their members.

    Each call is charged anew; there is no ledger here. The kinds `mixture` and `rap` need JAX, the
    `batch` extra.

    table: a row for each person, or for each household where `members` is given; of pyarrow, pandas
        from 2.2 on, polars, or any library with Arrow's PyCapsule interface.
    neighbours: the relation that is protected. Under `add_remove` a row comes or goes, and the
        number of rows is private. Under `replace_one` and `replace_in_place` a row is replaced by
        any other, and the number of rows is public. There is no default.
    delta: for stating the cost as (epsilon, delta).
    epsilon: the cost as (epsilon, delta)-differential privacy, or
    rho: the cost as zero-concentrated differential privacy.
    values: the columns to learn, each with its possible values: a list, with None among them if
        cells may be empty, or a range of whole numbers. A list may have a range beside codes, such
        as `[-9, -8, range(0, 98)]`. Values are public: never take them from the table.
    domain_from: a public table, such as last year's publication. Its columns and values are
        learnt beside those of `values`. Never `table` itself.
    bins: by column with a range, the public edges of its bins; by default about 20 bins that begin
        at multiples of a round number, and one for 0.
    special: by column, the codes that are answers and no numbers, such as `{"hours": [-9, -8]}`:
        each is a value of its own, beside the range. An empty list says that there are none.
    rules: structural rules that every synthetic row keeps, such as `["start <= end", "age < 16 ->
        married = no"]`. They are public, known without the table; rows that break one are learnt
        as they are.
    derived: columns of `values` that are a public function of another column, such as
        `{"sector": {"of": "trade", "values": {"baker": "food", "smith": "metal"}}}`. Every
        synthetic row keeps the function.
    kind: `table` by default; `mixture`, `rap` or `match`. With `members`, the kinds and the default
        are those of `fit_tables`.
    unit: who is protected, for the words of the guarantee.
    members: a row for each member of a household. The result is that of `fit_tables`, with the
        relation `replace_in_place`; `values` has the columns of both tables.
    key: the column of both tables that names a household.
    most: how many members a household may have; public too.
    simulation_seed: for simulations only: repeatable noise, which protects nobody. By default
        noise is from the system's entropy.

    Numbers between two numbers of a range are rounded to the nearest. Warnings say how many, and
    which ranges may have codes among their numbers.

    Raises UserError, a line for each column with undeclared cells.

    >>> import pyarrow, stream_dp
    >>> people = pyarrow.table({"work": ["yes", "no", "yes"] * 50, "car": ["a", "b", "a"] * 50})
    >>> fitted = stream_dp.fit(
    ...     people, epsilon=1.0, delta=1e-9, neighbours="add_remove", simulation_seed=1,
    ...     values={"work": ["yes", "no"], "car": ["a", "b", "c"]})
    >>> fitted.sample().column_names
    ['work', 'car']
    """
    spent, exact = budget(rho, epsilon, delta)
    relation = checked_relation(neighbours)
    if members is not None:
        if relation != "replace_in_place":
            raise UserError("neighbours: of households, only 'replace_in_place' has a proved cost")
        if any((domain_from is not None, bins, special, rules, derived)):
            raise UserError(
                "domain_from, bins, special, rules, derived: are for one table; leave them out"
            )
        if key is None or most is None:
            raise UserError(
                "key, most: with members, name the column of both tables that names a household,"
                " and the number of members that one may have, such as key='household', most=8"
            )
        of_groups, of_members = _split(values, table, members)
        return fit_tables(
            table,
            members,
            key=column_name(key, "key"),
            group_values=of_groups,
            person_values=of_members,
            most=checked_whole("most", most),
            rho=spent,
            delta=exact,
            kind=kind,
            simulation_seed=simulation_seed,
        )
    if key is not None or most is not None:
        raise UserError("key, most: are for households; give their members, too")
    rows = arrow_table(table, "table")
    public = None if domain_from is None else public_domain(domain_from, rows)
    columns = declared_columns(values, public, bins, special)
    if len(columns) < 2:
        raise UserError("values: declare at least two columns; one alone needs no synthesizer")
    chosen = Kind.TABLE if kind is None else Kind.named(kind)
    if chosen is None or chosen.family is not Family.PEOPLE:
        raise UserError(f"kind: must be one of {', '.join(kinds_of(Family.PEOPLE))}")
    noise = noise_source(simulation_seed)
    if relation != "add_remove" and not rows.num_rows:
        raise UserError("table: has no rows, and their number is public under this relation")
    release = {"name": "table", "kind": str(chosen), "every": 1, **_checked_rules(rules, derived)}
    for name in derived or ():
        if name not in [column.name for column in columns]:
            raise UserError(f"derived: '{name}' is none of the columns of values; name its values")
    study = one_study(
        {column.name: column.declaration() for column in columns},
        [{**release, "attributes": [column.name for column in columns]}],
        unit=unit,
        neighbours=relation,
        rho=spent,
        delta=exact,
        size=None if relation == "add_remove" else rows.num_rows,
        periods={"first": 1, "every": "step", "count": 1},
    )
    synthesizer = load_synthesizer(chosen)
    people, notices = _people(rows, columns, study)
    if notices:
        warnings.warn("\n".join(["fit:", *notices]), stacklevel=2)
    model = synthesizer(people, _release(study), FitContext(noise))
    left_out = [name for name in rows.column_names if name not in study.attributes]
    return FittedTable(study, columns, model, table, tuple(left_out), noise.simulated)


def _checked_rules(
    rules: Sequence[str], derived: Mapping[str, Mapping[str, Any]] | None
) -> dict[str, object]:
    """The keys of a release for structural rules. Raises UserError."""
    if isinstance(rules, str) or not all(isinstance(rule, str) for rule in rules):
        raise UserError("rules: must be a list of texts such as 'start <= end'")
    functions = {}
    for name, function in (derived or {}).items():
        if not isinstance(function, Mapping) or {*function} != {"of", "values"}:
            raise UserError(
                f"derived: '{name}' must be a dict of 'of', a column, and 'values', a dict with its"
                " value for each of that column's"
            )
        values = {str(value): symbol for value, symbol in function["values"].items()}
        functions[name] = {"of": function["of"], "values": values}
    return {"rules": [*rules], **({"derived": functions} if functions else {})}


def _split(
    values: Mapping[str, Values] | None, groups: ArrowStream, members: ArrowStream
) -> tuple[dict[str, Values], dict[str, Values]]:
    """The values of the columns of households, and of their members. Raises UserError."""
    declared: dict[str, Values] = {}
    for name, given in named(values, "values").items():
        several = listed_values(given)
        if several is None:
            raise UserError(f"values: '{name}' needs a list of its possible values")
        declared[name] = several
    homes = arrow_table(groups, "table").column_names
    people = arrow_table(members, "members").column_names
    for name in declared:
        if (name in homes) == (name in people):
            where = "both tables; rename one" if name in homes else "neither table"
            raise UserError(f"values: '{name}' is a column of {where}")
    of_groups = {name: several for name, several in declared.items() if name in homes}
    return of_groups, {n: several for n, several in declared.items() if n not in homes}


def _people(
    rows: pa.Table, columns: Sequence[DeclaredColumn], study: Study
) -> tuple[People, list[str]]:
    """The people of a table, and notices. Confidential.

    Raises UserError, a line for each faulty column.
    """
    faults = missing_columns("table", rows.column_names, [column.name for column in columns])
    if faults:
        raise UserError(faults)
    coded = [coded_column(c, rows, study.attributes[c.name]) for c in columns]
    faults = [line for column in coded if (line := column.fault_line) is not None]
    if faults:
        raise UserError(faults)
    release, codes = _release(study), {c.column.name: c.codes for c in coded}
    people = People.of_answers(study_people(study, release), present_rows(study, release, codes))
    return people, column_notices(coded)


def _release(study: Study) -> PeopleRelease:
    """The only release of the study, with the rho of its only table."""
    (declared,) = study.batches or ()
    (release,) = study.schedule(declared).values()
    return cast(PeopleRelease, release)
