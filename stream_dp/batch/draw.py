"""Synthetic households from a hierarchical product distribution (Liu, Wu 2022, Algorithm 2).

Every group draws its mixture row, then its size or composition, its attributes and those of its
members. With roles a composition is one of those that `layout.py` lists: one head, at most one
spouse, children, others and their sum within the bounds. No sample can be invalid. The generator
is NumPy's: this is post-processing.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from .layout import Layout, power_of_two

Codes = NDArray[np.int16]


def draw(
    layout: Layout, logits: Mapping[str, NDArray[np.floating]], groups: int, seed: int
) -> tuple[Codes, Codes, NDArray[np.int64]]:
    """Group codes (groups, columns, the size last), people codes (N, columns), group_of (N,).

    logits: (length, K) for each of `layout.heads`. Members of a group stand together, groups in
    order; with roles the head first, then the spouse, the children, the others.
    """
    rng = np.random.default_rng(seed)
    rows = logits["group"].shape[1]
    row = rng.integers(rows, size=groups)
    one = np.zeros(groups, np.int64)

    composition = sum(logits[name][index] for name, index in layout.counts.items())
    filled = layout.filled[_choose(rng, np.asarray(composition)[None], one, row)]
    group_of, slot = np.nonzero(filled)
    group = np.empty((groups, len(layout.group_values) + 1), np.int16)
    start = 0
    for column, values in enumerate(layout.group_values):
        group[:, column] = _choose(rng, logits["group"][None, start : start + values], one, row)
        start += values
    group[:, -1] = filled.sum(axis=1) - 1

    people = np.empty((len(group_of), len(layout.person_values)), np.int16)
    start, of_slot = 0, logits["person"].reshape(layout.slots, -1, rows)
    for column in layout.free_columns:
        values = layout.person_values[column]
        part = of_slot[:, start : start + values]
        people[:, column] = _choose(rng, part, slot, row[group_of])
        start += values
    if layout.types is not None:
        role = np.array(layout.types.codes)[np.minimum(slot, 2)]
        if layout.types.others:
            other = np.flatnonzero(slot >= 2 + layout.types.children)
            part = logits["role"].reshape(layout.types.others, -1, rows)
            at = slot[other] - 2 - layout.types.children
            chosen = _choose(rng, part, at, row[group_of[other]])
            role[other] = np.array(layout.types.other_codes)[chosen]
        people[:, layout.types.column] = role
    return group, people, group_of


def _choose(
    rng: np.random.Generator,
    logits: NDArray[np.floating],
    slot: NDArray[np.int64],
    row: NDArray[np.int64],
) -> NDArray[np.int64]:
    """One value per entry of slot and row, by softmax of logits (slots, values, K)."""
    slots, values, rows = logits.shape
    weight = np.exp(logits - logits.max(axis=1, keepdims=True), dtype=np.float64)
    reach = np.cumsum(weight, axis=1)
    reach /= reach[:, -1:]
    # How many of a vector's sums are at most u, by halving; what fills it up never is.
    width = power_of_two(values)
    sums = np.full((slots, rows, width), 2.0)
    sums[:, :, :values] = reach.transpose(0, 2, 1)
    start, u = (slot * rows + row) * width - 1, rng.random(len(row))
    chosen, step = np.zeros(len(row), np.int64), width // 2
    while step:
        chosen += step * (sums.ravel()[start + chosen + step] <= u)
        step //= 2
    return chosen
