"""The pattern of agreement that costs most, where there are too many patterns to compare all.

The cost of a pattern is a sum of terms of a few columns each (`residual_counts.py`). Columns are
eliminated one after the other: the largest sum over whether a column agrees is a table of the
columns that share a term with it (bucket elimination, Dechter 1999). Tables stay small where pairs
are selected, since a tree of few cells holds them.

Rounding. Let every column of n values agree with probability 1 / n, independently. Then the mean of
c_i is 0, and the mean cost is the sum of p_A prod n_i (n_i - 1). So the largest cost is no less
than this sum, to which each rounding of floats is relative: up to 100,000 of them stay below the
2^-34 by which the result is rounded up.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import prod

import numpy as np
from numpy.typing import NDArray

from .residual_counts import Columns, Precisions

MOST_TABLE = 20  # columns of a table
_ROUNDING = 1 + Fraction(1, 1 << 34)


def worst_agreement(sizes: Sequence[int], precisions: Precisions) -> dict[Columns, Fraction] | None:
    """By set of columns, its squared change for the costliest pattern, rounded up.

    Half the sum of precision times change is what measurements cost, at most. None if a table would
    have more than MOST_TABLE columns.
    """
    factors = [(a, _term(sizes, a, float(p))) for a, p in precisions.items()]
    neighbours = {c: {d for a in precisions if c in a for d in a} for a in precisions for c in a}
    eliminated = list[tuple[int, Columns, NDArray[np.bool_]]]()
    while neighbours:
        column = min(neighbours, key=lambda c: (len(neighbours[c]), c))
        joined = neighbours.pop(column)
        if len(joined) > MOST_TABLE:
            return None
        axes = (column, *sorted(joined - {column}))
        table = np.zeros((2,) * len(axes))
        for a, values in factors:
            if column in a:
                table += _spread(values, a, axes)
        factors = [(a, values) for a, values in factors if column not in a]
        factors.append((axes[1:], table.max(axis=0)))
        eliminated.append((column, axes[1:], table[1] > table[0]))
        for c in axes[1:]:
            neighbours[c] = (neighbours[c] | joined) - {column}
    agrees = dict[int, bool]()
    for column, others, better in reversed(eliminated):
        agrees[column] = bool(better[tuple(int(agrees[c]) for c in others)])
    return {a: 2 * _ROUNDING * _change(sizes, a, [agrees[c] for c in a]) for a in precisions}


def _change(sizes: Sequence[int], columns: Columns, agreeing: Sequence[bool]) -> int:
    """Half the squared change of the residual of a replaced row that agrees in some columns."""
    norms = [sizes[c] * (sizes[c] - 1) for c in columns]
    inner = (n if same else -sizes[c] for c, n, same in zip(columns, norms, agreeing, strict=True))
    return prod(norms) - prod(inner)


def _term(sizes: Sequence[int], columns: Columns, precision: float) -> NDArray[np.float64]:
    """The term of a set of columns, an axis a column: 0 differs, 1 agrees."""
    term = np.ones((2,) * len(columns))
    for axis, c in enumerate(columns):
        shape = [1] * len(columns)
        shape[axis] = 2
        term = term * np.array([-sizes[c], sizes[c] * (sizes[c] - 1)], float).reshape(shape)
    result: NDArray[np.float64] = precision * (term.reshape(-1)[-1] - term)
    return result


def _spread(values: NDArray[np.float64], columns: Columns, axes: Columns) -> NDArray[np.float64]:
    """Expands a table of few columns to `axes`, for sums."""
    order = sorted(range(len(columns)), key=lambda i: axes.index(columns[i]))
    shape = [2 if c in columns else 1 for c in axes]
    return values.transpose(order).reshape(shape)
