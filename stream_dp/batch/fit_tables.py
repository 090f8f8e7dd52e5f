"""A synthesizer on two tables, of groups and of their members, in one call."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from importlib.util import find_spec
from typing import Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from stream_dp.errors import UserError
from stream_dp.population.arrow_tables import ArrowStream, table_like
from stream_dp.privacy.noise import noise_source
from stream_dp.privacy.zcdp import epsilon as implied_epsilon
from stream_dp.privacy.zcdp import rho_within
from stream_dp.study.call_arguments import Number, exact_delta, exact_rho
from stream_dp.study.families import Family, Kind, kinds_of
from stream_dp.study.group_releases import KEY_COLUMN, SIZE_COLUMN, BatchRelease

from .data.domain import Column, Domain, Hierarchy
from .data.hierarchy_tables import from_tables, to_tables
from .kinds import load_synthesizer
from .synthesizer import FitContext, FittedModel

Values = Mapping[str, Sequence[int | str | bool | range | None]]
_EMPTY = "(empty)"  # the value of an empty cell, where the declared values have None

G = TypeVar("G", bound=ArrowStream)
P = TypeVar("P", bound=ArrowStream)


@dataclass(frozen=True)
class FittedTables(Generic[G, P]):
    """The result of `fit_tables`.

    model: with its title, its noisy answers and its notes.
    kind: of the synthesizer.
    rho: the cost in zCDP.
    delta: at which `epsilon` is stated; None if none was given.
    key: the column that ties the tables.
    patterns: tables of the libraries that samples are of.
    simulated: whether the noise came from a seed.
    """

    model: FittedModel[Hierarchy]
    kind: str
    rho: Fraction
    delta: Fraction | None
    key: str
    patterns: tuple[G, P] = field(repr=False)
    simulated: bool = False

    def __repr__(self) -> str:
        return (
            f"<FittedTables of kind {self.kind} with the key '{self.key}':"
            f" rho {float(self.rho):.6g}{' SIMULATED' * self.simulated}>"
        )

    @property
    def epsilon(self) -> Decimal | None:
        """The epsilon of the cost at the given delta; None without a delta."""
        return None if self.delta is None else implied_epsilon(self.rho, self.delta)

    def sample(self, *, seed: int = 0) -> tuple[G, P]:
        """Artificial groups and people, tied by the key, of the libraries and types of the tables.

        A sample costs nothing more. Of a library other than pandas and polars it is of pyarrow.

        seed: the same one gives the same tables again.
        """
        made = self.model.sample(seed)
        groups, people = to_tables(made)
        groups = _with_empty_cells(groups, made.domain.group)
        people = _with_empty_cells(people, made.domain.person)
        groups = groups.drop_columns([SIZE_COLUMN]).rename_columns({KEY_COLUMN: self.key})
        people = people.rename_columns({KEY_COLUMN: self.key})
        of_groups, of_people = self.patterns
        return table_like(groups, of_groups), table_like(people, of_people)


def fit_tables(
    groups: G,
    people: P,
    *,
    key: str,
    group_values: Values,
    person_values: Values,
    most: int,
    epsilon: Number | None = None,
    delta: Number | None = None,
    rho: Number | None = None,
    kind: str | None = None,
    rounds: int = 20,
    simulation_seed: int | None = None,
) -> FittedTables[G, P]:
    """Fits a synthesizer to groups and their members.

    What is protected is one person whose attributes change (the relation `replace_in_place`);
    which groups there are, their attributes, and who belongs to them are not protected. Each call
    is charged anew; there is no ledger here.

    groups: a row for each group; of pyarrow, pandas from 2.2 on, polars, or any library with
        Arrow's PyCapsule interface.
    people: a row for each member.
    key: the column of both tables that names a group.
    group_values, person_values: the columns to learn, each with its possible values, with None
        among them if cells may be empty. They are public, so state them from what is known
        beforehand, never from the tables.
    most: how many members a group may have; public too.
    epsilon: the cost as (epsilon, delta)-differential privacy, or
    rho: the cost as zero-concentrated differential privacy.
    delta: needed with `epsilon`.
    kind: `hpd-fixed` by default, which needs JAX, the `batch` extra. Without JAX it is
        `independent`, which learns each column alone, and a warning says so. `mwem` is for small
        domains and needs no extra; `hpd-gen` needs JAX.
    rounds: how often badly answered marginals are picked and measured, at most.
    simulation_seed: for simulations only: repeatable noise, which protects nobody. By default
        noise is from the system's entropy.

    Raises UserError, a line for each kind of fault in the tables.

    >>> import pyarrow, stream_dp
    >>> homes = pyarrow.table({"home": [1, 2], "region": ["north", "south"]})
    >>> people = pyarrow.table({"home": [1, 1, 2], "work": ["yes", "no", "yes"]})
    >>> fitted = stream_dp.fit_tables(
    ...     homes, people, key="home", most=2, epsilon=1, delta=1e-9, simulation_seed=1,
    ...     group_values={"region": ["north", "south"]}, person_values={"work": ["yes", "no"]},
    ...     kind="independent")
    >>> synthetic_homes, synthetic_people = fitted.sample(seed=2)
    >>> synthetic_homes.column_names, synthetic_people.column_names
    (['home', 'region'], ['home', 'work'])
    """
    groups_columns = _columns("group_values", group_values)
    persons_columns = _columns("person_values", person_values)
    named = None if kind is None else Kind.named(kind)
    if kind is not None and (named is None or named.family is not Family.HOUSEHOLDS):
        kinds = ", ".join(kinds_of(Family.HOUSEHOLDS))
        raise UserError(f"fit_tables: kind '{kind}' is none of {kinds}")
    spent, declared_delta = exact_budget(rho, epsilon, delta)
    chosen = kind or _best_kind()
    try:
        release = BatchRelease.model_validate(
            {
                "name": "tables",
                "kind": chosen,
                "attributes": tuple(person_values),
                "rho": spent,
                "rounds": rounds,
            }
        )
    except ValueError:
        raise UserError(
            "fit_tables: rounds must be a whole number from 1 on, and person_values must name at"
            " least one column"
        ) from None
    fit = load_synthesizer(chosen)
    domain = Domain(groups_columns, persons_columns, most)
    hierarchy = from_tables(domain, groups, people, key_group=key, key_person=key)
    noise = noise_source(simulation_seed)
    model = fit(hierarchy, release, FitContext(noise))
    return FittedTables(
        model, chosen, spent, declared_delta, key, (groups, people), simulation_seed is not None
    )


def exact_budget(
    rho: Number | None, epsilon: Number | None, delta: Number | None
) -> tuple[Fraction, Fraction | None]:
    """rho, and delta. Raises UserError unless one of rho and epsilon is given, and sound.

    delta: may be None if rho is given.
    """
    if (rho is None) == (epsilon is None):
        raise UserError("rho, epsilon: give one of the two")
    exact = None if delta is None else exact_delta(delta)
    if epsilon is None:
        return exact_rho("rho", rho), exact
    if exact is None:
        raise UserError("delta: is needed with epsilon; choose it below 1 / number of people")
    return rho_within(exact_rho("epsilon", epsilon), exact), exact


def _best_kind() -> str:
    """The kind with the least errors that this installation can fit to any domain."""
    if find_spec("jax") is not None:
        return str(Kind.HPD_FIXED)
    warnings.warn(
        "fit: without JAX the kind is 'independent', which learns each column alone, and not who"
        " lives with whom; kind 'hpd-fixed' does: in a clone of stream-dp, pip install '.[batch]'",
        stacklevel=3,
    )
    return str(Kind.INDEPENDENT)


def _columns(name: str, values: Values) -> tuple[Column, ...]:
    """The columns of an argument. Raises UserError unless it lists values for each column."""
    sound = isinstance(values, Mapping) and all(
        isinstance(symbols, Sequence) and not isinstance(symbols, str)
        for symbols in values.values()
    )
    if not sound:
        raise UserError(f"{name}: must be a dict with a list of values for each column")
    return tuple(_column(column, symbols) for column, symbols in values.items())


def _column(name: str, symbols: Sequence[int | str | bool | range | None]) -> Column:
    flat = [v for symbol in symbols for v in (symbol if isinstance(symbol, range) else (symbol,))]
    empty = _EMPTY if None in flat else None
    # A cell with a truth value reads `true` or `false`.
    values = [str(v).lower() if isinstance(v, bool) else v for v in flat if v is not None]
    return Column(name, (*values, *([empty] if empty else [])), empty)


def _with_empty_cells(table: pa.Table, columns: Sequence[Column]) -> pa.Table:
    for column in columns:
        if column.missing == _EMPTY:
            cells = table[column.name]
            cells = pc.if_else(pc.equal(cells, _EMPTY), None, cells)
            if all(isinstance(value, int) for value in column.values[:-1]):
                cells = cells.cast(pa.int64())
            table = table.set_column(table.column_names.index(column.name), column.name, cells)
    return table
