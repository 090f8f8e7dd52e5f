"""A synthesizer on two tables, of groups and of their members, in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from stream_dp.errors import UserError
from stream_dp.population.arrow_tables import ArrowStream, table_like
from stream_dp.privacy.noise import noise_source
from stream_dp.study.call_arguments import Number, exact_rho
from stream_dp.study.families import Family, Kind, kinds_of
from stream_dp.study.group_releases import KEY_COLUMN, SIZE_COLUMN, BatchRelease

from .data.domain import Column, Domain, Hierarchy
from .data.hierarchy_tables import from_tables, to_tables
from .kinds import load_synthesizer
from .synthesizer import FitContext, FittedModel

Values = Mapping[str, Sequence[int | str]]


G = TypeVar("G", bound=ArrowStream)
P = TypeVar("P", bound=ArrowStream)


@dataclass(frozen=True)
class FittedTables(Generic[G, P]):
    """The result of `fit_tables`.

    model: with its title, its noisy answers and its notes.
    key: the column that ties the tables.
    patterns: tables of the libraries that samples are of.
    """

    model: FittedModel[Hierarchy]
    key: str
    patterns: tuple[G, P] = field(repr=False)

    def __repr__(self) -> str:
        return f"<FittedTables with the key '{self.key}': {self.model.title}>"

    def sample(self, *, seed: int = 0) -> tuple[G, P]:
        """Artificial groups and people, tied by the key, of the libraries and types of the tables.

        A sample costs nothing more. Of a library other than pandas and polars it is of pyarrow.

        seed: the same one gives the same tables again.
        """
        groups, people = to_tables(self.model.sample(seed))
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
    rho: Number,
    kind: str = "mwem",
    rounds: int = 20,
    simulation_seed: int | None = None,
) -> FittedTables[G, P]:
    """Fits a synthesizer to groups and their members.

    The fit is `rho`-zCDP where one person's attributes change (the relation `replace_in_place`);
    which groups there are, their attributes, and who belongs to them are not protected. Each call
    is charged anew; there is no ledger here.

    groups: a row for each group; of pyarrow, pandas from 2.2 on, polars, or any library with
        Arrow's PyCapsule interface.
    people: a row for each member.
    key: the column of both tables that names a group.
    group_values, person_values: the columns to learn, each with its possible values. They are
        public, so state them from what is known beforehand, never from the tables.
    most: how many members a group may have; public too.
    kind: `mwem` (the default, for small domains) and `independent` need no extra, `hpd-fixed` and
        `hpd-gen` need JAX.
    rounds: how often badly answered marginals are picked and measured, at most.
    simulation_seed: for simulations only: repeatable noise, which protects nobody. By default
        noise is from the system's entropy.

    Raises UserError, a line for each kind of fault in the tables.

    >>> import pyarrow, stream_dp
    >>> homes = pyarrow.table({"home": [1, 2], "region": ["north", "south"]})
    >>> people = pyarrow.table({"home": [1, 1, 2], "work": ["yes", "no", "yes"]})
    >>> fitted = stream_dp.fit_tables(
    ...     homes, people, key="home", most=2, rho="1/10", simulation_seed=1,
    ...     group_values={"region": ["north", "south"]}, person_values={"work": ["yes", "no"]})
    >>> synthetic_homes, synthetic_people = fitted.sample(seed=2)
    >>> synthetic_homes.column_names, synthetic_people.column_names
    (['home', 'region'], ['home', 'work'])
    """
    groups_columns = _columns("group_values", group_values)
    persons_columns = _columns("person_values", person_values)
    named = Kind.named(kind)
    if named is None or named.family is not Family.HOUSEHOLDS:
        kinds = ", ".join(kinds_of(Family.HOUSEHOLDS))
        raise UserError(f"fit_tables: kind '{kind}' is none of {kinds}")
    try:
        release = BatchRelease.model_validate(
            {
                "name": "tables",
                "kind": kind,
                "attributes": tuple(person_values),
                "rho": exact_rho("rho", rho),
                "rounds": rounds,
            }
        )
    except ValueError:
        raise UserError(
            "fit_tables: rounds must be a whole number from 1 on, and person_values must name at"
            " least one column"
        ) from None
    fit = load_synthesizer(kind)
    domain = Domain(groups_columns, persons_columns, most)
    hierarchy = from_tables(domain, groups, people, key_group=key, key_person=key)
    noise = noise_source(simulation_seed)
    return FittedTables(fit(hierarchy, release, FitContext(noise)), key, (groups, people))


def _columns(name: str, values: Values) -> tuple[Column, ...]:
    """The columns of an argument. Raises UserError unless it lists values for each column."""
    sound = isinstance(values, Mapping) and all(
        isinstance(symbols, Sequence) and not isinstance(symbols, str)
        for symbols in values.values()
    )
    if not sound:
        raise UserError(f"{name}: must be a dict with a list of values for each column")
    return tuple(Column(name, tuple(symbols)) for name, symbols in values.items())
