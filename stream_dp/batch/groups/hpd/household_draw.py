"""Synthetic households from a hierarchical product distribution (Liu and Wu 2022, Algorithm 2).

For each group a mixture row is drawn, then the size or composition, and the attributes of the group
and of its members. With roles, `model_arrays.py` lists the compositions: one head, at most one
spouse, children and others, within their bounds. So every sample is valid. The random numbers are
NumPy's, because this is post-processing.

Each group has the model's distribution, but groups are not independent of one another. The uniform
numbers of a draw are a Kronecker sequence of the golden ratio with a random shift (Niederreiter
1992, chapter 3), along the groups of a mixture row, ordered by their earlier draws. Groups with
equal earlier draws are neighbours in that order, so that their next draws occur almost exactly in
the proportions of the model. A data set therefore answers nearer to its model than independent
draws would.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from .model_arrays import ModelLayout, power_of_two
from .row_supports import RowSupports

DrawnCodes = NDArray[np.int16]
_GOLDEN = (5**0.5 - 1) / 2


def draw_households(
    layout: ModelLayout,
    logits: Mapping[str, NDArray[np.floating]],
    groups: int,
    seed: int,
    supports: RowSupports | None = None,
) -> tuple[DrawnCodes, DrawnCodes, NDArray[np.int64]]:
    """Codes of groups (groups, columns), the size last; of people (N, columns); group_of (N,).

    People are in the order of their groups; with roles the head first, then the spouse, the
    children and the others. logits: (length, K) for each of `layout.heads`.
    supports: what rows may hold; nothing else is ever drawn.
    """
    weights = logits["row"][0] if layout.weighted else np.zeros(logits["group"].shape[1])
    draws = _Groups(np.random.default_rng(seed), groups, weights)
    everyone = np.arange(groups)

    composition = np.asarray(sum(logits[name][index] for name, index in layout.counts.items()))
    of_slot = logits["person"].reshape(layout.slots, -1, draws.rows)
    if supports is not None:
        composition = np.where(supports.composition, composition, -np.inf)
        of_slot = np.where(supports.person, of_slot, -np.inf)
    filled = layout.filled[draws.choose(composition, everyone)]
    group = np.empty((groups, len(layout.group_values) + 1), np.int16)
    start = 0
    for column, values in enumerate(layout.group_values):
        group[:, column] = draws.choose(logits["group"][start : start + values], everyone)
        start += values
    group[:, -1] = filled.sum(axis=1) - layout.least

    people = np.zeros((groups, layout.slots, len(layout.person_values)), np.int16)
    types = layout.types
    for slot in range(layout.slots):
        filling, start = np.flatnonzero(filled[:, slot]), 0
        other_slot = slot - 2 - types.children if types is not None else -1
        if types is not None and other_slot < 0:
            people[:, slot, types.column] = types.codes[min(slot, 2)]
        elif types is not None:
            slot_logits = logits["role"].reshape(types.other_slots, -1, draws.rows)[other_slot]
            codes = np.array(types.other_codes)
            people[filling, slot, types.column] = codes[draws.choose(slot_logits, filling)]
        for column in layout.free_columns:
            values = layout.person_values[column]
            slot_logits = of_slot[slot, start : start + values]
            people[filling, slot, column] = draws.choose(slot_logits, filling)
            start += values
    return group, people[filled], np.nonzero(filled)[0]


class _Groups:
    """Groups in the order of their earlier draws.

    row: (groups,), the mixture row of each group.
    order: (groups,), the groups, ordered.
    block: (groups,), in this order, equal for groups whose draws were all equal.
    """

    def __init__(
        self, rng: np.random.Generator, groups: int, weights: NDArray[np.floating]
    ) -> None:
        """weights: (K,) logits of the rows."""
        self.rng, self.rows = rng, len(weights)
        reach = np.cumsum(np.exp(weights - weights.max(), dtype=np.float64))
        even = (np.arange(groups) + rng.random()) / groups
        self.row = rng.permutation(np.searchsorted(reach / reach[-1], even, side="right"))
        self.row = np.minimum(self.row, self.rows - 1)
        self.order = np.argsort(self.row, kind="stable")  # a random order within a row
        self.block = self.row[self.order]

    def choose(
        self, logits: NDArray[np.floating], choosing: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """A value per group of `choosing`, by softmax of the row's logits (values, K).

        Group i in the order of earlier draws gets the number (shift + i * golden ratio) mod 1. Such
        numbers are even on every stretch, so that groups that agree so far get values in proportion
        to their probabilities.
        """
        drawing = np.zeros(len(self.order), bool)
        drawing[choosing] = True
        positions = np.flatnonzero(drawing[self.order])
        groups = self.order[positions]
        row = self.row[groups]
        shift = self.rng.random(self.rows)
        drawn = _choose(logits, row, (shift[row] + np.arange(len(groups)) * _GOLDEN) % 1)
        values_by_group = np.zeros(len(self.order), np.int64)
        values_by_group[groups] = drawn
        self._refine(positions, drawn, len(logits))
        return values_by_group[choosing]

    def _refine(self, positions: NDArray[np.int64], drawn: NDArray[np.int64], values: int) -> None:
        """Orders the groups of every block by their newest draw."""
        if len(self.block) < 2 or (np.diff(self.block) > 0).all():
            return
        key = self.block * (values + 1)
        key[positions] += drawn + 1
        refined = np.argsort(key, kind="stable")
        self.order, key = self.order[refined], key[refined]
        self.block = np.cumsum(np.diff(key, prepend=key[0]) > 0)


def _choose(
    logits: NDArray[np.floating], row: NDArray[np.int64], u: NDArray[np.float64]
) -> NDArray[np.int64]:
    """A value per entry of row and u, by inversion of the softmax of logits (values, K)."""
    values, rows = logits.shape
    weight = np.exp(logits - logits.max(axis=0), dtype=np.float64)
    reach = np.cumsum(weight, axis=0)
    reach /= reach[-1]
    # Binary search for the number of cumulative sums that are at most u; padding never is.
    width = power_of_two(values)
    sums = np.full((rows, width), 2.0)
    sums[:, :values] = reach.T
    start = row * width - 1
    chosen, step = np.zeros(len(row), np.int64), width // 2
    while step:
        chosen += step * (sums.ravel()[start + chosen + step] <= u)
        step //= 2
    return chosen
