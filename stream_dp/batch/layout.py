"""What a model of households looks like to arrays: values, slots, and queries as row numbers.

A table of probabilities has one row per value of every column, and a last row of ones; a query
names the rows whose product it wants, and a column that it leaves free is the row of ones. So
all queries have one shape, whatever they ask. Queries are packed in chunks of one kind each;
the number of chunks is a power of two, so that few shapes occur and few programs are compiled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Array = Any  # NumPy's outside compiled programs, JAX's inside them

GROUP, PERSON, SPOUSE, HAS_CHILD, HAS_PARENT = range(5)
NOTHING, OWN, WITH_SPOUSE, WITH_CHILD, WITH_PARENT = range(5)  # kinds of chunks
_KINDS = np.array([OWN, OWN, WITH_SPOUSE, WITH_CHILD, WITH_PARENT])  # by level


@dataclass(frozen=True)
class Layout:
    """Sizes that a compiled program depends on; hashable.

    group_values, person_values: how many values each column has (the group's size left out);
    most: members a group has at most; children: None where members are alike and have slots
    1..most, else slots are head, spouse, child 1..children, and a group's size follows from them;
    role: (person column, its codes for head, spouse and child) where a column states the role.
    """

    group_values: tuple[int, ...]
    person_values: tuple[int, ...]
    most: int
    children: int | None = None
    role: tuple[int, tuple[int, int, int]] | None = None

    @property
    def slots(self) -> int:
        return self.most if self.children is None else 2 + self.children

    @property
    def free_columns(self) -> tuple[int, ...]:
        """Person columns that have parameters: all but the role's."""
        role = None if self.role is None else self.role[0]
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
        if self.children is None:
            return {"group": self.group_rows, "size": self.most, "person": self.slots * free}
        return {
            "group": self.group_rows,
            "spouse": 2,
            "child": self.children + 1,
            "person": self.slots * free,
        }

    def role_table(self) -> NDArray[np.float32]:
        """(slots, values of the role column): 1 where a slot has the role, else 0."""
        if self.role is None:
            raise ValueError("no column states the role")
        column, codes = self.role
        table = np.zeros((self.slots, self.person_values[column]), np.float32)
        table[np.arange(self.slots), [codes[min(s, 2)] for s in range(self.slots)]] = 1
        return table


class Encoded(NamedTuple):
    """n queries as row numbers; every array's first axis is the query.

    level int32 (n,); size (n,): the wanted size's code, or `most` for any; group (n, g), person
    (n, p), relative (n, r): rows of the tables, padded with the row of ones.
    """

    level: Array
    size: Array
    group: Array
    person: Array
    relative: Array

    def take(self, index: NDArray[np.int64] | slice) -> Encoded:
        """Some of the queries, at the same widths: they share compiled programs."""
        return Encoded(*(a[index] for a in self))


class Chunks(NamedTuple):
    """Queries in chunks of equal length and of one kind each.

    kind int32 (chunks,); queries: Encoded arrays (chunks, length, ...); target, weight float32
    (chunks, length), weight 0 in padding.
    """

    kind: Array
    queries: Encoded
    target: Array
    weight: Array


def encode(
    layout: Layout,
    level: NDArray[np.integer],
    group: NDArray[np.integer],
    person: NDArray[np.integer],
    relative: NDArray[np.integer],
) -> Encoded:
    """Queries as given by `queries.Queries` (-1 where a column is free) as row numbers.

    Raises ValueError for a code outside its column, a level outside 0..4, or a relation asked of
    a layout without roles.
    """
    level = np.asarray(level)
    if level.size and not 0 <= level.min() <= level.max() <= HAS_PARENT:
        raise ValueError("a level of a query is none of the five")
    if layout.children is None and (level >= SPOUSE).any():
        raise ValueError("queries of relations need a domain with roles")
    if group.shape[1] != len(layout.group_values) + 1:
        raise ValueError("queries and domain differ in their group columns")
    wanted = group[:, -1].astype(np.int32)
    if ((wanted < -1) | (wanted >= layout.most)).any():
        raise ValueError("a wanted size lies outside 1..most")
    return Encoded(
        level.astype(np.int32),
        np.where(wanted < 0, layout.most, wanted).astype(np.int32),
        _rows(group[:, :-1], layout.group_values),
        _rows(person, layout.person_values),
        _rows(relative, layout.person_values),
    )


def _rows(codes: NDArray[np.integer], values: tuple[int, ...]) -> Ints:
    """(n, width) row numbers of the wanted codes, padded with the row of ones at the end."""
    if codes.shape[1] != len(values):
        raise ValueError("queries and domain differ in their columns")
    if ((codes < -1) | (codes >= np.array(values, np.int64))).any():
        raise ValueError("a wanted code lies outside its column")
    wanted = codes >= 0
    width = max(1, int(wanted.sum(axis=1).max(initial=0)))
    starts = np.cumsum([0, *values])
    rows = np.full((len(codes), width), starts[-1], np.int32)
    at, column = np.nonzero(wanted)
    rank = (np.cumsum(wanted, axis=1) - 1)[at, column]
    rows[at, rank] = starts[column] + codes[at, column]
    return rows


def pack(
    layout: Layout,
    queries: Encoded,
    length: int,
    target: NDArray[np.float64] | None = None,
    weight: NDArray[np.float64] | None = None,
) -> tuple[Chunks, NDArray[np.int64]]:
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
    blank = Encoded(GROUP, layout.most, layout.group_rows, ones, ones)

    def spread(values: Array, empty: int) -> Array:
        flat = np.full((chunks * length, *values.shape[1:]), empty, values.dtype)
        flat[place] = values
        return flat.reshape(chunks, length, *values.shape[1:])

    no = np.zeros(n, np.float32)
    chunked = Chunks(
        kind,
        Encoded(*(spread(a, e) for a, e in zip(queries, blank, strict=True))),
        spread(no if target is None else target.astype(np.float32), 0),
        spread(no if weight is None else weight.astype(np.float32), 0),
    )
    return chunked, place


def power_of_two(n: int) -> int:
    """The smallest power of two that is at least n and 1."""
    return 1 << max(0, n - 1).bit_length()
