"""Counting queries on groups and their members, as arrays of target codes.

Source: Liu and Wu 2022, "Private synthetic data with hierarchical structure" (arXiv 2206.05942),
section 3, and the appendix for relations. What a query counts, by its level:

- GROUP: groups that have the group targets and at least one member with all person targets
  (without person targets: groups);
- PERSON: people who have the person targets, in groups that have the group targets;
- SPOUSE: such people whose spouse has the relative's targets. Head and spouse are each other's;
- HAS_CHILD: such people with at least one child who has them. Children are head's and spouse's;
- HAS_PARENT: such people with at least one parent, head or spouse, who has them;
- COUPLE: such heads whose spouse has them: each couple once;
- LEAD: heads whose lead over their children in one column is in a band (`head_leads.py`). The
  number of the band stands as the person's target in this column, and all else is free.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

from ...data.domain import Column, Domain
from .head_leads import band_starts, band_texts, lead_columns

GROUP, PERSON, SPOUSE, HAS_CHILD, HAS_PARENT, COUPLE, LEAD = range(7)
LEVELS = (
    "groups",
    "people",
    "people with a spouse",
    "people with a child",
    "people with a parent",
    "heads with a spouse",
    "heads with a child",
)
FREE = -1


def level_words(domain: Domain, level: int) -> str:
    """The rows that queries of a level count: of groups and members, the names of their tables."""
    return domain.tables[level] if level < SPOUSE else LEVELS[level]


Targets = NDArray[np.int16]


@dataclass(frozen=True, eq=False)
class Queries:
    """n queries.

    level: int8 (n,), one of the seven levels.
    group: int16 (n, group columns), the target code in each column of `Hierarchy.groups`, the size
        last; -1 if the column is free.
    person: int16 (n, person columns), likewise for the person.
    relative: int16 (n, person columns), likewise for the relative; all -1 at the levels GROUP and
        PERSON.
    Raises ValueError for arrays of other shapes or values.
    """

    level: NDArray[np.int8]
    group: Targets
    person: Targets
    relative: Targets

    def __post_init__(self) -> None:
        object.__setattr__(self, "level", np.asarray(self.level, np.int8))
        for name in ("group", "person", "relative"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), np.int16))
        n = self.level.shape
        if len(n) != 1 or any(a.shape[:1] != n or a.ndim != 2 for a in self._targets):
            raise ValueError("queries need one level and one row of each kind of targets")
        if self.person.shape != self.relative.shape:
            raise ValueError("a relative has the columns of a person")
        if ((self.level < GROUP) | (self.level > LEAD)).any():
            raise ValueError("a level of a query is none of the seven")
        if any((a < FREE).any() for a in self._targets):
            raise ValueError("a target is a code, or -1")
        if (self.relative[self.level < SPOUSE] != FREE).any():
            raise ValueError("a query about groups or people has no targets of relatives")

    @property
    def _targets(self) -> tuple[Targets, Targets, Targets]:
        return self.group, self.person, self.relative

    def __len__(self) -> int:
        return len(self.level)

    def take(self, rows: NDArray[np.integer] | NDArray[np.bool_] | slice) -> Queries:
        """The queries at `rows`, in this order."""
        return Queries(self.level[rows], *(a[rows] for a in self._targets))

    @staticmethod
    def joined(queries: Iterable[Queries]) -> Queries:
        """Joins queries, in order. `queries` must not be empty."""
        blocks = list(queries)
        return Queries(
            np.concatenate([q.level for q in blocks]),
            np.concatenate([q.group for q in blocks]),
            np.concatenate([q.person for q in blocks]),
            np.concatenate([q.relative for q in blocks]),
        )

    def check(self, domain: Domain) -> None:
        """Raises ValueError for queries of other columns, codes or levels than the domain has."""
        sizes = domain.group_values, domain.person_values, domain.person_values
        for targets, values in zip(self._targets, sizes, strict=True):
            if targets.shape[1] != len(values):
                raise ValueError("queries and domain differ in their columns")
            if (targets >= np.array(values, np.int64)).any():
                raise ValueError("a wanted code lies outside its column")
        if domain.roles is None and (self.level >= SPOUSE).any():
            raise ValueError("queries of relations need a domain with roles")
        lead = self.take(self.level == LEAD)
        bands = np.zeros(len(domain.person_values), np.int64)
        for column, codes in lead_columns(domain).items():
            bands[column] = len(band_starts(len(codes))) + 1
        free = (lead.group == FREE).all() and (lead.relative == FREE).all()
        single = ((lead.person != FREE).sum(axis=1) == 1).all()
        if not (free and single and (lead.person < bands).all()):
            raise ValueError("a query about leads has one target, a band of a column of numbers")

    def text(self, i: int, domain: Domain) -> str:
        """Query i in words, for example `people: region=2, age=<18; child: sex=1`."""
        if self.level[i] == LEAD:
            column = int(self.person[i].argmax())
            return f"{LEVELS[LEAD]}: {band_texts(domain, column)[self.person[i, column]]}"
        targets = _words(domain.group_columns, self.group[i]) + _words(
            domain.person, self.person[i]
        )
        text = level_words(domain, int(self.level[i]))
        text += f": {', '.join(targets)}" if targets else ""
        relative_targets = _words(domain.person, self.relative[i])
        return text + (f"; who has {', '.join(relative_targets)}" if relative_targets else "")


@dataclass(frozen=True)
class Marginal:
    """All combinations of values of columns: a query of the level for each combination.

    group: indices of columns of `Hierarchy.groups`, in increasing order.
    person: indices of columns of people, in increasing order.
    relative: likewise, for the relative.
    At the level LEAD there is one person column, of numbers, and a cell for each band.
    Cells are in C order of (group, person, relative): the last column runs fastest. Raises
    ValueError for columns or a level that the domain does not have.
    """

    domain: Domain
    level: int
    group: tuple[int, ...] = ()
    person: tuple[int, ...] = ()
    relative: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not GROUP <= self.level <= LEAD:
            raise ValueError("a level of a query is none of the seven")
        if self.level < SPOUSE and self.relative:
            raise ValueError("a query about groups or people has no targets of relatives")
        if self.level >= SPOUSE and self.domain.roles is None:
            raise ValueError("queries of relations need a domain with roles")
        people = range(len(self.domain.person_values))
        existing = (range(len(self.domain.group_values)), people, people)
        for chosen, columns in zip((self.group, self.person, self.relative), existing, strict=True):
            if list(chosen) != sorted(set(chosen)) or not set(chosen) <= set(columns):
                raise ValueError("a marginal names columns that are there, in increasing order")
        of_leads = [(c,) for c in lead_columns(self.domain)]
        if self.level == LEAD and (self.group or self.relative or self.person not in of_leads):
            raise ValueError("a marginal of leads is of one column of numbers")

    @property
    def shape(self) -> tuple[int, ...]:
        of_people = self.domain.person_values
        if self.level == LEAD:
            return (len(band_texts(self.domain, self.person[0])),)
        return (
            *(self.domain.group_values[c] for c in self.group),
            *(of_people[c] for c in self.person),
            *(of_people[c] for c in self.relative),
        )

    @property
    def size(self) -> int:
        return prod(self.shape)

    def queries(self, cells: NDArray[np.int64] | None = None) -> Queries:
        """A query for every cell, or for the cells of the numbers `cells`."""
        cells = np.arange(self.size) if cells is None else cells
        codes = np.unravel_index(cells, self.shape) if self.shape else ()
        people = len(self.domain.person_values)
        targets_by_kind, widths = [], (len(self.domain.group_values), people, people)
        for columns, width in zip((self.group, self.person, self.relative), widths, strict=True):
            targets = np.full((len(cells), width), FREE, np.int16)
            for column, code in zip(columns, codes[: len(columns)], strict=True):
                targets[:, column] = code
            codes = codes[len(columns) :]
            targets_by_kind.append(targets)
        return Queries(np.full(len(cells), self.level, np.int8), *targets_by_kind)

    @property
    def text(self) -> str:
        """In words, for example `people: region, age`."""
        if self.level == LEAD:
            name = self.domain.person[self.person[0]].name
            return f"{LEVELS[LEAD]}: {name} against the children's highest"
        names = [self.domain.group_columns[c].name for c in self.group]
        names += [self.domain.person[c].name for c in self.person]
        relative_names = [self.domain.person[c].name for c in self.relative]
        text = level_words(self.domain, self.level) + (f": {', '.join(names)}" if names else "")
        return text + (f"; who has {', '.join(relative_names)}" if relative_names else "")


def all_marginals(
    domain: Domain, k: int, levels: Sequence[int], columns: Iterable[str] | None = None
) -> tuple[Marginal, ...]:
    """The marginals of every choice of k attributes of groups and persons, at every level.

    At the levels of relations the choice includes at least one attribute of the relative, which
    counts as different from the person's attribute of the same name.

    columns: restricts the choice to columns of these names (`size` for the size).
    Raises ValueError for a name that no column has.
    """
    names = [c.name for c in (*domain.group_columns, *domain.person)]
    if columns is not None and not (chosen_names := set(columns)) <= set(names):
        raise ValueError(f"no column is called {', '.join(sorted(chosen_names - set(names)))}")
    allowed = set(names if columns is None else chosen_names)
    group = [(0, i) for i, c in enumerate(domain.group_columns) if c.name in allowed]
    person = [i for i, c in enumerate(domain.person) if c.name in allowed]
    attributes = [*group, *((1, i) for i in person)]
    marginals = []
    for level in levels:
        relative_attributes = [(2, i) for i in person] if level >= SPOUSE else []
        for chosen in combinations([*attributes, *relative_attributes], k):
            columns_by_kind = [
                tuple(i for kind, i in chosen if kind == which) for which in range(3)
            ]
            if level < SPOUSE or columns_by_kind[2]:
                marginals.append(Marginal(domain, level, *columns_by_kind))
    return tuple(marginals)


def _words(columns: Sequence[Column], targets: Targets) -> list[str]:
    pairs = zip(columns, targets, strict=True)
    return [f"{column.name}={column.values[code]}" for column, code in pairs if code != FREE]
