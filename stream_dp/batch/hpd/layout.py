"""What a model of households looks like to arrays: values, slots, and queries as row numbers.

A table of probabilities has one row per value of every column, and a last row of ones; a query
names the rows whose product it wants, and a column that it leaves free is the row of ones. So
all queries have one shape, whatever they ask. Queries are packed in chunks of one kind each;
the number of chunks is a power of two, so that few shapes occur and few programs are compiled.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..data.domain import Domain
from ..workload.queries import GROUP, Queries

Int32Array = NDArray[np.int32]
Array = Any  # NumPy's outside compiled programs, JAX's inside them

NOTHING, OWN, WITH_SPOUSE, WITH_CHILD, WITH_PARENT = range(5)  # kinds of chunks
_KINDS = np.array([OWN, OWN, WITH_SPOUSE, WITH_CHILD, WITH_PARENT])  # by level


@dataclass(frozen=True)
class RoleSlots:
    """Who may stand in a household: one head, a spouse or none, children, and others.

    column: the person column that states the role; codes: of head, spouse and child; children,
    others: how many at most; other_codes: what others have in that column.
    """

    column: int
    codes: tuple[int, int, int]
    children: int
    others: int = 0
    other_codes: tuple[int, ...] = ()


@dataclass(frozen=True)
class ModelLayout:
    """Sizes that a compiled program depends on; hashable.

    group_values, person_values: how many values each column has (the group's size left out);
    most: members a group has at most. types None: members are alike and fill slots 1..most in
    order. Otherwise the slots are head, spouse, children and others, each kind filled in order.
    """

    group_values: tuple[int, ...]
    person_values: tuple[int, ...]
    most: int
    types: RoleSlots | None = None

    @property
    def slots(self) -> int:
        return self.most if self.types is None else 2 + self.types.children + self.types.others

    @property
    def free_columns(self) -> tuple[int, ...]:
        """Person columns with parameters in every slot: all but the role's."""
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
        """Logits that a mixture row has, by name: softmax vectors side by side."""
        free = sum(self.person_values[c] for c in self.free_columns)
        lengths = {"group": self.group_rows, "person": self.slots * free}
        if self.types is None:
            return lengths | {"size": self.most}
        lengths |= {"spouse": 2, "child": self.types.children + 1}
        if self.types.others:
            lengths |= {"other": self.types.others + 1}
            lengths |= {"role": self.types.others * len(self.types.other_codes)}
        return lengths

    @cached_property
    def counts(self) -> dict[str, NDArray[np.int64]]:
        """Every composition that a group may have, as an index into each head it takes part in.

        Its logit is the sum of theirs; it has 1 to `most` members. So the numbers of spouses,
        children and others are independent, but for the bound on their sum.
        """
        if self.types is None:
            return {"size": np.arange(self.most)}
        names = [name for name in ("spouse", "child", "other") if name in self.heads]
        each = np.indices([self.heads[name] for name in names]).reshape(len(names), -1)
        return dict(zip(names, each[:, each.sum(axis=0) < self.most], strict=True))

    @cached_property
    def filled(self) -> NDArray[np.bool_]:
        """(compositions, slots): which slots a composition fills."""
        counts, blocks = self.counts, []
        if self.types is None:
            blocks = [counts["size"][:, None] >= np.arange(self.most)]
        else:
            blocks = [np.ones((len(counts["spouse"]), 1), bool)]
            for name, number in counts.items():
                blocks.append(number[:, None] > np.arange(self.heads[name] - 1))
        return np.concatenate(blocks, axis=1)

    def role_table(self) -> NDArray[np.float32]:
        """(slots but others', values of the role column): 1 where a slot has the role, else 0."""
        assert self.types is not None
        own = 2 + self.types.children
        table = np.zeros((own, self.person_values[self.types.column]), np.float32)
        table[np.arange(own), [self.types.codes[min(s, 2)] for s in range(own)]] = 1
        return table


def model_layout(domain: Domain, others: int | None = None) -> ModelLayout:
    """The layout of a domain; others: how many people without one of the three roles at most.

    Without `others` as many as a group can hold; none where the column has no further value.
    """
    if domain.roles is None:
        return ModelLayout(domain.group_values[:-1], domain.person_values, domain.most)
    column, codes = domain.role_column, domain.role_codes
    rest = tuple(c for c in range(domain.person_values[column]) if c not in codes)
    most = domain.most - 1 if rest else 0
    slots = most if others is None else min(others, most)
    types = RoleSlots(column, codes, domain.roles.children, slots, rest if slots else ())
    return ModelLayout(domain.group_values[:-1], domain.person_values, domain.most, types)


class EncodedQueries(NamedTuple):
    """n queries as row numbers; every array's first axis is the query.

    level int32 (n,); size (n,): the wanted size's code, or `most` for any; group (n, g), person
    (n, p), relative (n, r): rows of the tables, padded with the row of ones.
    """

    level: Array
    size: Array
    group: Array
    person: Array
    relative: Array

    def take(self, index: NDArray[np.int64] | slice) -> EncodedQueries:
        """Some of the queries, at the same widths: they share compiled programs."""
        return EncodedQueries(*(a[index] for a in self))


class QueryChunks(NamedTuple):
    """Queries in chunks of equal length and of one kind each.

    kind int32 (chunks,); queries: Encoded arrays (chunks, length, ...); target, weight float32
    (chunks, length), weight 0 in padding.
    """

    kind: Array
    queries: EncodedQueries
    target: Array
    weight: Array


def encode_queries(layout: ModelLayout, queries: Queries) -> EncodedQueries:
    """Queries that fit the layout's domain, as row numbers."""
    size = queries.group[:, -1].astype(np.int32)
    return EncodedQueries(
        queries.level.astype(np.int32),
        np.where(size < 0, layout.most, size).astype(np.int32),
        _rows(queries.group[:, :-1], layout.group_values),
        _rows(queries.person, layout.person_values),
        _rows(queries.relative, layout.person_values),
    )


def _rows(codes: NDArray[np.integer], values: tuple[int, ...]) -> Int32Array:
    """(n, width) row numbers of the wanted codes, padded with the row of ones at the end."""
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
) -> tuple[QueryChunks, NDArray[np.int64]]:
    """Queries sorted by kind and cut into chunks of at most `length` queries.

    Chunks are as long as `length` unless fewer queries are given (then a power of two); their
    number is a power of two. Padding asks for everything and has weight 0; a chunk of padding
    only has the kind NOTHING and costs nothing. The second value is int64 (n,): where each query
    went, in the flat order of chunks.
    """
    n = len(queries.level)
    length = min(length, power_of_two(n))
    kinds = _KINDS[queries.level]
    order = np.argsort(kinds, kind="stable")
    counts = np.bincount(kinds, minlength=5)
    needed = -(-counts // length)
    chunks = power_of_two(int(needed.sum()))
    first = np.concatenate([[0], np.cumsum(needed)]) * length  # of each kind, in flat order
    rank = np.arange(n) - np.concatenate([[0], np.cumsum(counts)])[kinds[order]]
    place = np.empty(n, np.int64)
    place[order] = first[kinds[order]] + rank

    kind = np.zeros(chunks, np.int32)
    kind[: needed.sum()] = np.repeat(np.arange(5), needed)
    ones = layout.person_rows
    blank = EncodedQueries(GROUP, layout.most, layout.group_rows, ones, ones)

    def spread(values: Array, empty: int) -> Array:
        flat = np.full((chunks * length, *values.shape[1:]), empty, values.dtype)
        flat[place] = values
        return flat.reshape(chunks, length, *values.shape[1:])

    no = np.zeros(n, np.float32)
    chunked = QueryChunks(
        kind,
        EncodedQueries(*(spread(a, e) for a, e in zip(queries, blank, strict=True))),
        spread(no if target is None else target.astype(np.float32), 0),
        spread(no if weight is None else weight.astype(np.float32), 0),
    )
    return chunked, place


def power_of_two(n: int) -> int:
    """The smallest power of two that is at least n and 1."""
    return 1 << max(0, n - 1).bit_length()
