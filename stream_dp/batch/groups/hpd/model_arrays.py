"""The arrays of a model of households: its sizes, its slots, and queries as row numbers.

A table of probabilities has a row for each value of every column. A query is a list of rows to be
multiplied, padded with the number after the last row, which changes nothing. So all queries have
the same shape.

Many queries differ in their groups alone, or in their members alone: so do the cells of a marginal.
Queries are therefore packed into chunks of a single kind, as tables: a row for each different list
of group targets, a column for each different list of the others. The number of chunks is a power of
two, so that few different shapes occur and few programs are compiled.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...data.domain import Domain
from ..workload.head_leads import lead_columns
from ..workload.queries import GROUP, Queries

Int32Array = NDArray[np.int32]
Array = Any  # NumPy's outside compiled programs, JAX's inside them

LEAD_DECAY = 0.5  # of the usual decay

# Kinds of chunks: about groups alone, about groups with a member, then by level.
GROUPS, SOMEONE, PEOPLE, WITH_SPOUSE, WITH_CHILD, WITH_PARENT, COUPLES, LEADS = range(8)
_KINDS = np.arange(SOMEONE, LEADS + 1)  # by level
_MOST_GROUPS = 1024  # rows of a chunk
_MOST_CELLS = 1 << 25  # of empty room


@dataclass(frozen=True)
class RoleSlots:
    """The slots of a household with roles: a head, perhaps a spouse, children, further members.

    column: the person column that states the role.
    codes: its codes of head, spouse and child.
    children: the largest number of children.
    other_slots: the largest number of others.
    other_codes: the codes that others may have in that column.
    """

    column: int
    codes: tuple[int, int, int]
    children: int
    other_slots: int = 0
    other_codes: tuple[int, ...] = ()


@dataclass(frozen=True)
class ModelLayout:
    """The sizes on which a compiled program depends; hashable.

    group_values: the number of values of each group column, without the size.
    person_values: the number of values of each person column.
    max_size: the largest number of members.
    types: the slots of members with roles, each kind filled in order; None: members have no roles
        and fill the slots 1..most in order.
    weighted: whether mixture rows have weights, which are fitted; otherwise all weigh the same.
    least: the smallest number of members: 0 for people and their events, otherwise 1.
    leads: the person columns with leads, and the codes of their numbers in increasing order.
    """

    group_values: tuple[int, ...]
    person_values: tuple[int, ...]
    max_size: int
    types: RoleSlots | None = None
    weighted: bool = False
    least: int = 1
    leads: tuple[tuple[int, tuple[int, ...]], ...] = ()

    @property
    def sizes(self) -> int:
        """The number of possible sizes, whose codes are 0 to `sizes` - 1."""
        return self.max_size + 1 - self.least

    @property
    def any_size(self) -> int:
        """The code of the size in a query that does not ask for a size."""
        return self.sizes

    @property
    def slots(self) -> int:
        return (
            self.max_size
            if self.types is None
            else 2 + self.types.children + self.types.other_slots
        )

    @property
    def free_columns(self) -> tuple[int, ...]:
        """The person columns with parameters in every slot: all but the role's."""
        role = None if self.types is None else self.types.column
        return tuple(c for c in range(len(self.person_values)) if c != role)

    @property
    def group_rows(self) -> int:
        return sum(self.group_values)

    @property
    def person_rows(self) -> int:
        return sum(self.person_values)

    @property
    def heads(self) -> dict[str, int]:
        """The number of logits of a mixture row by name; each column of a slot has its softmax."""
        free = sum(self.person_values[c] for c in self.free_columns)
        lengths = {"group": self.group_rows, "person": self.slots * free}
        if self.types is None:
            return lengths | {"size": self.sizes}
        lengths |= {"spouse": 2, "child": self.types.children + 1}
        lengths |= {"row": 1} if self.weighted else {}
        if self.types.other_slots:
            lengths |= {"other": self.types.other_slots + 1}
            lengths |= {"role": self.types.other_slots * len(self.types.other_codes)}
        return lengths

    @cached_property
    def decay_parts(self) -> dict[str, NDArray[np.float32]]:
        """By the name of logits, (length, 1) factors of their decay; 1 for names left out.

        The whole decay would move children above heads in rows that the fit has kept free of them.
        So it is halved in columns with leads.
        """
        parts, leads = list[float](), {column for column, _ in self.leads}
        for column in self.free_columns:
            parts += [LEAD_DECAY if column in leads else 1.0] * self.person_values[column]
        of_person = np.tile(np.array(parts, np.float32), self.slots)[:, None]
        return {"person": of_person} if leads else {}

    @cached_property
    def counts(self) -> dict[str, NDArray[np.int64]]:
        """All compositions of a group, as indices into their heads.

        The logit of a composition is the sum of the logits at these indices; it has 1 to `max_size`
        members. So the numbers of spouses, children and others are independent, except that their
        sum is bounded.
        """
        if self.types is None:
            return {"size": np.arange(self.sizes)}
        names = [name for name in ("spouse", "child", "other") if name in self.heads]
        numbers = np.indices([self.heads[name] for name in names]).reshape(len(names), -1)
        return dict(zip(names, numbers[:, numbers.sum(axis=0) < self.max_size], strict=True))

    @cached_property
    def filled(self) -> NDArray[np.bool_]:
        """(compositions, slots): whether a composition fills a slot; first slots first."""
        counts, blocks = self.counts, []
        if self.types is None:
            blocks = [counts["size"][:, None] + self.least > np.arange(self.max_size)]
        else:
            blocks = [np.ones((len(counts["spouse"]), 1), bool)]
            for name, number in counts.items():
                blocks.append(number[:, None] > np.arange(self.heads[name] - 1))
        return np.concatenate(blocks, axis=1)

    def role_table(self) -> NDArray[np.float32]:
        """(slots, values of the role column): 1 for the role of a slot, else 0.

        The slots are head, spouse and children, whose roles follow from the slot; others' do not.
        """
        assert self.types is not None
        slots = 2 + self.types.children
        table = np.zeros((slots, self.person_values[self.types.column]), np.float32)
        table[np.arange(slots), [self.types.codes[min(s, 2)] for s in range(slots)]] = 1
        return table


def model_layout(domain: Domain, other_slots: int | None = None) -> ModelLayout:
    """The layout of a domain.

    other_slots: the largest number of people who are neither head, spouse nor child; by default the
        room of a group. The number is 0 if the role column has no further value.
    """
    if domain.roles is None:
        values = domain.group_values[:-1], domain.person_values
        return ModelLayout(*values, domain.most, least=domain.least)
    column, codes = domain.role_column, domain.role_codes
    rest = tuple(c for c in range(domain.person_values[column]) if c not in codes)
    room = domain.most - 1 if rest else 0
    others_room = room if other_slots is None else min(other_slots, room)
    types = RoleSlots(
        column=column,
        codes=codes,
        children=domain.roles.children,
        other_slots=others_room,
        other_codes=rest if others_room else (),
    )
    return ModelLayout(
        domain.group_values[:-1],
        domain.person_values,
        domain.most,
        types,
        weighted=bool(domain.rules),
        leads=tuple(lead_columns(domain).items()),
    )


class EncodedQueries(NamedTuple):
    """n queries as int32 row numbers; the first axis of every array is the query.

    level: (n,).
    size: (n,), the code of the size asked for, or `ModelLayout.any_size`.
    group: (n, g), rows of the table of groups, padded with the number of its rows.
    person: (n, p), likewise of the tables of persons.
    relative: (n, r), likewise.
    """

    level: Array
    size: Array
    group: Array
    person: Array
    relative: Array

    def take(self, index: NDArray[np.int64] | slice) -> EncodedQueries:
        """A selection of the queries, of equal widths: selections share compiled programs."""
        return EncodedQueries(*(a[index] for a in self))


class MemberTargets(NamedTuple):
    """The targets of queries but those of groups; see `EncodedQueries`."""

    size: Array
    person: Array
    relative: Array


class QueryChunks(NamedTuple):
    """Tables of queries, each of a single kind, in the order of the kinds.

    ends: int32 (kinds,), the number of the chunk after the last of each kind.
    members: arrays (chunks, columns, ...).
    group: int32 (chunks, rows, g), row numbers of the table of groups.
    target: float32 (chunks, rows, columns).
    weight: likewise, 0 where there is no query.
    """

    ends: Array
    members: MemberTargets
    group: Array
    target: Array
    weight: Array


def encode_queries(layout: ModelLayout, queries: Queries) -> EncodedQueries:
    """Queries by the rows of the model's tables of probabilities that they multiply.

    The table of groups and the table of persons have a row for each value of each of their columns,
    column by column. A code below 0 in `queries` asks for no value.

    queries: of the layout's domain.
    """
    size = queries.group[:, -1].astype(np.int32)
    return EncodedQueries(
        level=queries.level.astype(np.int32),
        size=np.where(size < 0, layout.any_size, size).astype(np.int32),
        group=_rows(queries.group[:, :-1], layout.group_values),
        person=_rows(queries.person, layout.person_values),
        relative=_rows(queries.relative, layout.person_values),
    )


def _rows(codes: NDArray[np.integer], values: tuple[int, ...]) -> Int32Array:
    """(n, width) the rows of the codes asked for in a table with a row for each value.

    Lists are padded with the number of the table's rows.

    codes: (n, columns), below 0 where no value is asked for.
    values: the number of values of each column.
    """
    constrained = codes >= 0
    width = max(1, int(constrained.sum(axis=1).max(initial=0)))
    starts = np.cumsum([0, *values])
    rows = np.full((len(codes), width), starts[-1], np.int32)
    at, column = np.nonzero(constrained)
    rank = (np.cumsum(constrained, axis=1) - 1)[at, column]
    rows[at, rank] = starts[column] + codes[at, column]
    return rows


def pack_queries(
    layout: ModelLayout,
    queries: EncodedQueries,
    length: int,
    target: NDArray[np.float64] | None = None,
    weight: NDArray[np.float64] | None = None,
    room: int = 0,
) -> tuple[QueryChunks, NDArray[np.int64]]:
    """Queries as chunks, and int64 (n,) the position of every query in the flat order of chunks.

    Chunks have `length` columns, or a smaller power of two if there are fewer queries; the number
    of chunks is a power of two, and suffices for `room` queries of any kinds, unless that would
    take too much memory. Padding has no targets and weight 0. Chunks after the last kind are all
    padding, and are not computed. A query that occurs again has a column of its own.
    """
    most = max(len(queries.level), room)
    length = min(length, power_of_two(most))
    height = min(_MOST_GROUPS, length + length // 2)
    free = (queries.person == layout.person_rows).all(axis=1)
    kinds = np.where((queries.level == GROUP) & free, GROUPS, _KINDS[queries.level])

    members = np.column_stack([kinds, queries.person, queries.relative, queries.size])
    again = _occurrences(_numbers(np.column_stack([members, queries.group])))
    column = _numbers(np.column_stack([members, again]))  # in the order of the kinds
    row = _numbers(queries.group)
    kind_of_column = np.zeros(column.max(initial=-1) + 1, np.int64)
    kind_of_column[column] = kinds
    rank = column - np.searchsorted(kind_of_column, kinds)  # of a column within its kind
    block = _numbers(np.column_stack([kinds, rank // length]))
    # The rows of a block are cut into chunks as well, where there are too many.
    row_rank = _ranks_within(block, row)
    chunk = _numbers(np.column_stack([block, row_rank // height]))

    columns, rows = rank % length, row_rank % height
    needed = np.bincount(_kinds_of(chunk, kinds), minlength=len(_KINDS) + 1)
    bound = most // length + most // height + len(_KINDS) + 1  # partly filled, at worst
    chunks = power_of_two(bound)
    if not room or chunks * height * length > _MOST_CELLS:
        chunks = power_of_two(int(needed.sum()))
    position = (chunk * height + rows) * length + columns

    def spread(values: Array, empty: int, at: tuple[Array, Array], places: int) -> Array:
        full = np.full((chunks, places, *values.shape[1:]), empty, values.dtype)
        full[at] = values
        return full

    def table(values: NDArray[np.float64] | None) -> NDArray[np.float32]:
        full = np.zeros(chunks * height * length, np.float32)
        full[position] = 0 if values is None else values
        return full.reshape(chunks, height, length)

    unnamed, at = layout.person_rows, (chunk, columns)
    chunked = QueryChunks(
        np.cumsum(needed).astype(np.int32),
        MemberTargets(
            spread(queries.size, layout.any_size, at, length),
            spread(queries.person, unnamed, at, length),
            spread(queries.relative, unnamed, at, length),
        ),
        spread(queries.group, layout.group_rows, (chunk, rows), height),
        table(target),
        table(weight),
    )
    return chunked, position


def _numbers(rows: NDArray[np.integer]) -> NDArray[np.int64]:
    """(n,) by row its number among the different rows, in their order."""
    if not len(rows):
        return np.zeros(0, np.int64)
    order = np.lexsort(rows.T[::-1])
    new = (rows[order[1:]] != rows[order[:-1]]).any(axis=1)
    numbers = np.empty(len(rows), np.int64)
    numbers[order] = np.concatenate([[0], np.cumsum(new)])
    return numbers


def _occurrences(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """(n,) how often the same number occurs before each."""
    order = np.argsort(numbers, kind="stable")
    before = np.empty(len(numbers), np.int64)
    ordered = numbers[order]
    before[order] = np.arange(len(numbers)) - np.searchsorted(ordered, ordered)
    return before


def _ranks_within(block: NDArray[np.int64], row: NDArray[np.int64]) -> NDArray[np.int64]:
    """(n,) the number of each row among the different rows of its block."""
    pair = _numbers(np.column_stack([block, row]))
    first = np.full(block.max(initial=-1) + 1, len(pair))
    np.minimum.at(first, block, pair)
    return pair - first[block]


def _kinds_of(chunk: NDArray[np.int64], kinds: NDArray[np.int64]) -> NDArray[np.int64]:
    """By chunk, the kind of its queries."""
    by_chunk = np.zeros(chunk.max(initial=-1) + 1, np.int64)
    by_chunk[chunk] = kinds
    return by_chunk


def power_of_two(n: int) -> int:
    """The smallest power of two that is at least n and 1."""
    return 1 << max(0, n - 1).bit_length()
