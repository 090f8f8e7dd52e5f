"""Exact answers on a hierarchy, in bounded memory. Confidential: nothing here adds noise.

Queries are sorted by the columns that they name. For each set of columns, the data are encoded as
numbers in mixed radix and counted once; every query is then one look-up. All answers are sums over
groups, so groups are processed in portions that fit the memory.

A query counts owners, each with members: groups with their members, people with themselves, or
people with their relatives. An owner with several matching members counts once, so distinct pairs
of an owner and a member's code are counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...data.domain import Domain, Hierarchy, Int64Array
from .head_leads import head_bands
from .queries import COUPLE, FREE, GROUP, HAS_CHILD, LEAD, PERSON, SPOUSE, Marginal, Queries

MEMORY = 1 << 25  # more is slower: portions should fit a processor's cache
_ROW = 400  # the largest number of bytes per person while queries are counted
_LIMIT = 1 << 62


def exact_answers(hierarchy: Hierarchy, queries: Queries, memory: int = MEMORY) -> Int64Array:
    """int64 (n,) exact counts; memory: bytes besides the data and a few arrays (n,).

    Raises ValueError for queries that do not fit the domain.
    """
    queries.check(hierarchy.domain)
    patterns = [
        (m, rows, queries.take(rows)) for m, rows in queries_by_marginal(hierarchy.domain, queries)
    ]
    counts = np.zeros(len(queries), np.int64)
    for portion in _portions(hierarchy, memory):
        for marginal, rows, pattern_queries in patterns:
            counts[rows] += portion.coded(marginal, pattern_queries).counts()
    return counts


@dataclass(frozen=True)
class _Coded:
    """Rows of data and queries, both as codes below `bound`.

    data: (rows,), the code of each row.
    targets: (queries,), the code that each query counts.
    """

    data: Int64Array
    targets: Int64Array
    bound: int

    @staticmethod
    def blank(rows: int, queries: int) -> _Coded:
        return _Coded(np.zeros(rows, np.int64), np.zeros(queries, np.int64), 1)

    def times(self, codes: _Coded) -> _Coded:
        """The codes of the pairs of both, row by row."""
        a, b = self, codes
        if a.bound * b.bound > _LIMIT:
            a, b = a.dense(), b.dense()
        return _Coded(a.data * b.bound + b.data, a.targets * b.bound + b.targets, a.bound * b.bound)

    def at(self, rows: Int64Array) -> _Coded:
        """The codes of selected rows of data, for equal queries."""
        return _Coded(self.data[rows], self.targets, self.bound)

    def dense(self) -> _Coded:
        """Renumbers the codes, below the number of rows and queries together."""
        codes, renumbered = np.unique(
            np.concatenate([self.data, self.targets]), return_inverse=True
        )
        return _Coded(renumbered[: len(self.data)], renumbered[len(self.data) :], len(codes))

    def counts(self) -> Int64Array:
        """(queries,) the number of rows that a query counts."""
        if self.bound <= 4 * (len(self.data) + len(self.targets)) + (1 << 12):
            return np.bincount(self.data, minlength=self.bound)[self.targets]
        codes, counts = np.unique(self.data, return_counts=True)
        position = np.searchsorted(codes, self.targets)
        present = np.append(codes, -1)[position] == self.targets
        return np.where(present, np.append(counts, 0)[position], 0)


@dataclass(frozen=True)
class _Pairs:
    """Pairs of an owner and a member, owners in increasing order."""

    owner: Int64Array
    member: Int64Array

    @cached_property
    def repeats(self) -> list[Int64Array] | None:
        """For d = 1, 2, ... the rows with the owner of d rows before; None if too many."""
        rows, repeats = np.arange(len(self.owner)), list[Int64Array]()
        while len(rows):
            rows = rows[rows > len(repeats)]
            rows = rows[self.owner[rows] == self.owner[rows - len(repeats) - 1]]
            repeats.append(rows)
            if sum(map(len, repeats)) > 8 * len(self.owner):
                return None
        return repeats

    def distinct(self, owners: _Coded, members: _Coded) -> _Coded:
        """The distinct pairs of an owner's code and the code of a member."""
        owner, codes = self.owner, members.data[self.member]
        if self.repeats is None:
            if len(owners.data) * members.bound > _LIMIT:
                members = members.dense()
                codes = members.data[self.member]
            owner, codes = np.divmod(np.unique(owner * members.bound + codes), members.bound)
        else:
            first = np.ones(len(codes), np.bool_)
            for d, rows in enumerate(self.repeats, 1):
                first[rows[codes[rows] == codes[rows - d]]] = False
            owner, codes = owner[first], codes[first]
        members = _Coded(codes, members.targets, members.bound)
        return owners.at(owner).times(members) if owners.bound > 1 else members


@dataclass(frozen=True)
class _Portion:
    """Consecutive groups, with the pairs of relatives among their members."""

    hierarchy: Hierarchy
    pairs_by_level: dict[int, _Pairs] = field(default_factory=dict)

    def coded(self, marginal: Marginal, queries: Queries) -> _Coded:
        """The codes of the rows that these queries of a marginal count."""
        hierarchy, values = self.hierarchy, self.hierarchy.domain.person_values
        if marginal.level == LEAD:
            column = marginal.person[0]
            targets = queries.person[:, column].astype(np.int64)
            return _Coded(head_bands(hierarchy, column)[1], targets, marginal.size)
        owners = _columns(
            hierarchy.groups, queries.group, marginal.group, hierarchy.domain.group_values
        )
        persons = _columns(hierarchy.people, queries.person, marginal.person, values)
        if marginal.level == GROUP:
            if not marginal.person:  # every group has a member
                return owners
            return self.pairs(GROUP).distinct(owners, persons)
        if marginal.group:
            persons = owners.at(hierarchy.group_of).times(persons)
        owners = persons
        if marginal.level == PERSON:
            return owners
        relatives = _columns(hierarchy.people, queries.relative, marginal.relative, values)
        return self.pairs(marginal.level).distinct(owners, relatives)

    def pairs(self, level: int) -> _Pairs:
        """The pairs of a level: groups and their members, or people and their relatives."""
        if level not in self.pairs_by_level:
            owner, member = self._unsorted_pairs(level)
            order = np.argsort(owner, kind="stable")
            self.pairs_by_level[level] = _Pairs(owner[order], member[order])
        return self.pairs_by_level[level]

    def _unsorted_pairs(self, level: int) -> tuple[Int64Array, Int64Array]:
        """(n,) owners and (n,) members: groups and people, or people and their relatives."""
        if level == GROUP:
            return self.hierarchy.group_of, np.arange(self.hierarchy.N)
        head, spouse, children = self.roles
        if level in (SPOUSE, COUPLE):
            paired = spouse >= 0
            a, b = head[paired], spouse[paired]
            if level == COUPLE:
                return a, b
            return np.concatenate([a, b]), np.concatenate([b, a])
        of_child = self.hierarchy.group_of[children]
        paired = spouse[of_child] >= 0
        parents = np.concatenate([head[of_child], spouse[of_child][paired]])
        of_parents = np.concatenate([children, children[paired]])
        return (parents, of_parents) if level == HAS_CHILD else (of_parents, parents)

    @cached_property
    def roles(self) -> tuple[Int64Array, Int64Array, Int64Array]:
        """The head and the spouse of every group (-1 without a spouse), and all children."""
        role = self.hierarchy.people[:, self.hierarchy.domain.role_column]
        head, partner, children = (
            np.flatnonzero(role == c) for c in self.hierarchy.domain.role_codes
        )
        spouse = np.full(self.hierarchy.G, -1, np.int64)
        spouse[self.hierarchy.group_of[partner]] = partner
        return head, spouse, children


def _columns(
    codes: NDArray[np.integer],
    targets: NDArray[np.int16],
    columns: tuple[int, ...],
    values: tuple[int, ...],
) -> _Coded:
    """The joint codes of columns; values: the number of values of every column."""
    coded = _Coded.blank(len(codes), len(targets))
    for c in columns:
        column = _Coded(codes[:, c].astype(np.int64), targets[:, c].astype(np.int64), values[c])
        coded = coded.times(column)
    return coded


def _portions(hierarchy: Hierarchy, memory: int) -> Iterator[_Portion]:
    """All groups, in portions of at least a group that fit the memory."""
    people = memory // _ROW
    first = 0
    while first < hierarchy.G:
        end = hierarchy.starts[first] + people
        last = max(first + 1, int(np.searchsorted(hierarchy.starts, end, side="right")) - 1)
        yield _Portion(hierarchy.part(first, last))
        first = last


def relative_pairs(hierarchy: Hierarchy, level: int) -> tuple[Int64Array, Int64Array]:
    """The rows of people and of their relatives at a level, as pairs, by person."""
    pairs = _Portion(hierarchy).pairs(level)
    return pairs.owner, pairs.member


def queries_by_marginal(domain: Domain, queries: Queries) -> Iterator[tuple[Marginal, Int64Array]]:
    """Every marginal with cells among the queries, and the rows of these queries.

    Queries are of one marginal if they have one level and targets in the same columns. `number`
    tells such patterns apart; it takes 32 columns as bits at a time, and is then made small again.
    """
    fixed = np.column_stack([a != FREE for a in (queries.group, queries.person, queries.relative)])
    number = queries.level.astype(np.int64)
    for start in range(0, fixed.shape[1], 32):
        bits = fixed[:, start : start + 32]
        number = number << bits.shape[1] | bits @ (1 << np.arange(bits.shape[1]))
        number = np.unique(number, return_inverse=True)[1]
    order = np.argsort(number, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(number[order])) + 1) if len(order) else []:
        q = queries.take(rows[:1])
        named = (np.flatnonzero(a[0] != FREE) for a in (q.group, q.person, q.relative))
        yield Marginal(domain, int(q.level[0]), *(tuple(c.tolist()) for c in named)), rows
