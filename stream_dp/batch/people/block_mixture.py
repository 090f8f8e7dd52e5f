"""Mixtures of products of blocks, fitted to shares of pairs and triples. Needs JAX.

Row k of K is a product over blocks of columns. Within a block its distribution is
softmax(logits shared by all rows, one table for each pair of the block's columns, plus the row's
own tilts of each column); a block of one column has tilts alone. Shares of pairs in different
blocks are then one Gram product of all rows' one-ways, and shares of triples one product of
matrices. The fit is Adam (Kingma and Ba 2015) on the weighted squared error; it sees noisy answers
only. Noise moves the number of rows, so the compiled program has room for a number of few sizes,
and rows of padding have weight 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import combinations
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..jax_extra import jax, jnp, on_all_devices, optax
from .residual_counts import Columns

Params = dict[str, NDArray[np.float32]]
Array = jax.Array | NDArray[np.float32] | np.float32
Arrays = dict[str, jax.Array]
_Table = TypeVar("_Table", jax.Array, NDArray[np.float32])
_Joined = tuple[jax.Array, jax.Array]
_Carry = tuple[_Joined, optax.OptState]
_SPREAD = 0.1  # standard deviation of the first tilts
_FORGET = 0.99  # Adam's second moment


@dataclass(frozen=True)
class Layout:
    """The shape of a mixture and of its goal; a key of compiled programs.

    sizes: the columns' values.
    blocks: of columns, each in increasing order.
    rows: K.
    triples: sets of three columns that it answers.
    """

    sizes: tuple[int, ...]
    blocks: tuple[Columns, ...]
    rows: int
    triples: tuple[Columns, ...]

    @cached_property
    def block_of(self) -> dict[int, int]:
        return {c: b for b, columns in enumerate(self.blocks) for c in columns}

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Where each column begins among the values of all columns."""
        return tuple(np.cumsum([0, *self.sizes]).tolist())

    def inside(self, columns: Columns) -> bool:
        """Whether all `columns` lie in the same block."""
        return len({self.block_of[c] for c in columns}) == 1

    @cached_property
    def inner_pairs(self) -> tuple[Columns, ...]:
        """The pairs within one block."""
        return tuple(p for block in self.blocks for p in combinations(block, 2))

    @cached_property
    def inner(self) -> tuple[Columns, ...]:
        """The pairs and triples within one block."""
        return (*self.inner_pairs, *(t for t in self.triples if self.inside(t)))

    @cached_property
    def split(self) -> dict[Columns, tuple[Columns, int]]:
        """By triple over several blocks, the pair and the single column to be multiplied."""
        result = {}
        for triple in self.triples:
            if self.inside(triple):
                continue
            options = [(tuple(c for c in triple if c != single), single) for single in triple]
            # Two columns of one block are no product; otherwise the largest stands alone.
            result[triple] = max(options, key=lambda o: (self.inside(o[0]), self.sizes[o[1]]))
        return result

    @cached_property
    def factors(self) -> list[tuple[int, Columns]]:
        """The pairs of `split`: a first column and its second columns with a shared product.

        A pair within a block stands alone. One product of many columns is compiled much sooner
        than many products.
        """
        pairs = dict.fromkeys(pair for pair, _ in self.split.values())
        result, seconds = list[tuple[int, Columns]](), dict[int, Columns]()
        for first, second in pairs:
            if self.inside((first, second)):
                result.append((first, (second,)))
            else:
                seconds[first] = (*seconds.get(first, ()), second)
        return [*result, *seconds.items()]

    @cached_property
    def pairs(self) -> dict[Columns, NDArray[np.int64]]:
        """The pairs of `split`, with the positions of their cells among all cells."""
        result, end = dict[Columns, NDArray[np.int64]](), 0
        for first, seconds in self.factors:
            width, start = sum(self.sizes[c] for c in seconds), end
            for second in seconds:
                rows = np.arange(self.sizes[first])[:, None] * width
                result[first, second] = (start + rows + np.arange(self.sizes[second])).reshape(-1)
                start += self.sizes[second]
            end += self.sizes[first] * width
        return result

    @property
    def pair_cells(self) -> int:
        return sum(map(len, self.pairs.values()))


class Goal(NamedTuple):
    """The shares to be fitted, and their weights.

    ones, ones_weight: (S,) by value of each column.
    outer, outer_weight: (S, S) of pairs of values in different blocks; a pair counts once.
    product, product_weight: (pair cells, S) of triples over blocks.
    inner, inner_weight: of each of `Layout.inner`, by its name.
    """

    ones: Array
    ones_weight: Array
    outer: Array
    outer_weight: Array
    product: Array
    product_weight: Array
    inner: Mapping[str, Array]
    inner_weight: Mapping[str, Array]


def name_of(columns: Columns) -> str:
    return "-".join(map(str, columns))


def starting_params(layout: Layout, one_ways: tuple[NDArray[np.float64], ...], seed: int) -> Params:
    """Rows near the noisy one-ways, tilted a little at random; without shared dependence.

    one_ways: by column, (values,) shares.
    """
    rng = np.random.default_rng(seed)
    params: Params = {}
    for c, shares in enumerate(one_ways):
        logits = np.log(np.maximum(shares, 1e-5))
        tilts = rng.normal(0, _SPREAD, (layout.rows, len(shares)))
        params[f"tilt {c}"] = (logits + tilts).astype(np.float32)
    for block in layout.blocks:
        for a, b in combinations(block, 2):
            params[name_of((a, b))] = np.zeros((layout.sizes[a], layout.sizes[b]), np.float32)
    return params


def _block_logits(layout: Layout, block: Columns, params: Mapping[str, Any]) -> Any:
    """A block's logits: (K, values of its columns...), as arrays of JAX or of NumPy."""
    width, logits = len(block), 0.0
    for axis, c in enumerate(block):
        table_shape = [layout.rows] + [1] * width
        table_shape[axis + 1] = layout.sizes[c]
        logits = logits + params[f"tilt {c}"].reshape(table_shape)
    for (i, a), (j, b) in combinations(enumerate(block), 2):
        table_shape = [1] * (width + 1)
        table_shape[i + 1], table_shape[j + 1] = layout.sizes[a], layout.sizes[b]
        logits = logits + params[name_of((a, b))].reshape(table_shape)
    return logits


def row_blocks(layout: Layout, params: Params) -> list[NDArray[np.float32]]:
    """By block, each row's distribution: (K, values of its columns...).

    NumPy is faster here: JAX would compile every operation for every shape of a block.
    """
    result = []
    for block in layout.blocks:
        logits = _block_logits(layout, block, params)
        axes = tuple(range(1, logits.ndim))
        weights = np.exp(logits - logits.max(axis=axes, keepdims=True))
        result.append(weights / weights.sum(axis=axes, keepdims=True))
    return result


def _traced_blocks(layout: Layout, params: Arrays) -> list[jax.Array]:
    """See `row_blocks`."""
    result = []
    for block in layout.blocks:
        logits = _block_logits(layout, block, params)
        flat = jax.nn.softmax(logits.reshape(layout.rows, -1), axis=1)
        result.append(flat.reshape(logits.shape))
    return result


def _reduced(layout: Layout, blocks: Sequence[_Table], columns: Columns) -> _Table:
    """(K, values...) of columns of one block."""
    number = layout.block_of[columns[0]]
    summed = [i + 1 for i, c in enumerate(layout.blocks[number]) if c not in columns]
    reduced: _Table = blocks[number].sum(axis=tuple(summed))
    return reduced


def pair_shares(
    layout: Layout, params: Params, pairs: Iterable[Columns]
) -> dict[Columns, NDArray[np.float64]]:
    """The shares of pairs of columns."""
    blocks = row_blocks(layout, params)
    singles = [
        np.asarray(_reduced(layout, blocks, (c,)), np.float64) for c in range(len(layout.sizes))
    ]
    result = dict[Columns, NDArray[np.float64]]()
    for a, b in pairs:
        if layout.inside((a, b)):
            result[a, b] = np.asarray(_reduced(layout, blocks, (a, b)), np.float64).mean(0)
        else:
            result[a, b] = singles[a].T @ singles[b] / layout.rows
    return result


def _loss(layout: Layout, params: Arrays, goal: Goal, row_weight: jax.Array) -> jax.Array:
    """The sum of weight * (model's share - share)^2 over the four tables of the goal.

    With `ones` (K, S) the rows' single columns, side by side, and `joint` (K, pair cells) their
    pairs, the model's one-ways are the mean of `ones` over rows, its pairs ones' ones / K, and its
    triples joint' ones / K.

    row_weight: (rows, 1), 1 / K or 0 of each row.
    """
    blocks = _traced_blocks(layout, params)
    columns = range(len(layout.sizes))
    singles = [_reduced(layout, blocks, (c,)) for c in columns]
    ones = jnp.concatenate(singles, axis=1)
    weighted = row_weight * ones
    loss = (goal.ones_weight * jnp.square(weighted.sum(0) - goal.ones)).sum()
    gram = ones.T @ weighted
    loss += (goal.outer_weight * jnp.square(gram - goal.outer)).sum()
    flat = [(row_weight * block.reshape(layout.rows, -1)).sum(0) for block in blocks]
    means = [mean.reshape(1, *block.shape[1:]) for mean, block in zip(flat, blocks, strict=True)]
    for inner in layout.inner:
        error = _reduced(layout, means, inner)[0] - goal.inner[name_of(inner)]
        loss += (goal.inner_weight[name_of(inner)] * jnp.square(error)).sum()
    if layout.factors:
        cells = []
        for first, seconds in layout.factors:
            if layout.inside((first, *seconds)):
                joint = _reduced(layout, blocks, (first, *seconds))
            else:
                others = jnp.concatenate([singles[second] for second in seconds], axis=1)
                joint = singles[first][:, :, None] * others[:, None, :]
            cells.append(joint.reshape(layout.rows, -1))
        shares = jnp.concatenate(cells, axis=1).T @ weighted
        loss += (goal.product_weight * jnp.square(shares - goal.product)).sum()
    return loss


def _joined(layout: Layout, params: Arrays) -> _Joined:
    """Tilts of all columns side by side, and all tables of pairs in one vector.

    Two arrays are updated and compiled sooner than one for each column and pair.
    """
    tilts = [params[f"tilt {c}"] for c in range(len(layout.sizes))]
    tables = [params[name_of(pair)].reshape(-1) for pair in layout.inner_pairs]
    return jnp.concatenate(tilts, axis=1), jnp.concatenate([jnp.zeros(0, jnp.float32), *tables])


def _divided(layout: Layout, joined: _Joined) -> Arrays:
    """The inverse of `_joined`."""
    tilts, tables = joined
    columns = jnp.split(tilts, layout.offsets[1:-1], axis=1)
    result = {f"tilt {c}": column for c, column in enumerate(columns)}
    shapes = [(layout.sizes[a], layout.sizes[b]) for a, b in layout.inner_pairs]
    ends = np.cumsum([a * b for a, b in shapes])[:-1].tolist()
    for pair, shape, table in zip(
        layout.inner_pairs, shapes, jnp.split(tables, ends), strict=False
    ):
        result[name_of(pair)] = table.reshape(shape)
    return result


def fitted(layout: Layout, params: Params, goal: Goal, steps: int, rate: float) -> Params:
    """The parameters after `steps` updates, whose size falls to 0 at the end."""
    room = rows_of_program(layout.rows)
    padding = (0, room - layout.rows), (0, 0)
    padded = {n: np.pad(p, padding) if n.startswith("tilt") else p for n, p in params.items()}
    weight = (np.arange(room) < layout.rows).astype(np.float32)[:, None] / np.float32(layout.rows)
    program = replace(layout, rows=room)
    end = _updated(program, padded, goal, weight, np.int32(steps), np.float32(rate))
    return {n: np.asarray(p)[: len(params[n])] for n, p in end.items()}


def rows_of_program(rows: int) -> int:
    """The rows that a program for so many rows has room for: 25 times a power of two."""
    room = 25
    while room < rows:
        room *= 2
    return room


@partial(jax.jit, static_argnums=0)
def _updated(
    layout: Layout,
    params: Arrays,
    goal: Goal,
    row_weight: jax.Array,
    steps: jax.Array,
    rate: jax.Array,
) -> Arrays:
    """See `fitted`."""
    transform = optax.scale_by_adam(b2=_FORGET, eps=1e-12)

    def loss(joined: _Joined) -> jax.Array:
        params = _divided(layout, joined)
        tilts = {name: array for name, array in params.items() if name.startswith("tilt")}
        return _loss(layout, params | on_all_devices(tilts, axis=0), goal, row_weight)

    def update(step: jax.Array, carry: _Carry) -> _Carry:
        values, moments = carry
        along, moments = transform.update(jax.grad(loss)(values), moments)
        step_size = rate * jnp.minimum(1.0, 2.0 * (1 - step / steps))
        return jax.tree.map(lambda p, d: p - step_size * d, values, along), moments

    start = _joined(layout, params)
    end, _ = jax.lax.fori_loop(0, steps, update, (start, transform.init(start)))
    return _divided(layout, end)
