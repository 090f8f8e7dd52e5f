"""Lower bounds of the errors of totals, and the table of `cumulative_design.py`.

`python -m kit.totals_bounds` recomputes the bounds from the measures in `totals_measures.json` and
prints the table; it takes 10 CPU minutes. The proof is in `cumulative_design.py`. A measure is a
mixture of birth processes: of a person with b events before period t, the chance of an event at t
is

    .02 + .96 / (1 + exp(-theta . features(b, t))).

A measure on pairs is a mixture of two such processes, independent of each other. The constants were
found by gradient ascent of the bound at 12, 24, 36 and 60 periods. Whatever they are, the bound
holds.

Floats. D z has entries of 0 and 1, and of -1 for pairs. So entries of D M D' are at most 1, and its
norm at most n, the number of cells. An entry is a sum of positive terms of at most 1, or of four
such sums for pairs. A chance of no event is at least .02, so a step of `_moments` has a relative
error below 64 2^-53, and T <= 120 steps one below 2^-39.9, with the sums. The algorithm for
eigenvalues adds at most n 2^-53 times the norm. So an eigenvalue is off by less than n 2^-39, or
4 n 2^-39 for pairs, and `bound` lowers every eigenvalue by as much. Whatever the eigenvalues are,
that lowers the bound by at most 0.02.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
MEASURES = Path(__file__).with_name("totals_measures.json")
PERIODS = {False: (*range(1, 37), 48, 60, 72, 84, 120), True: (*range(1, 37), 48, 60, 120)}
_ERROR = 2.0**-39


def bound(periods: int, measure: list[dict[str, list[float] | float]], *, pairs: bool) -> float:
    """The bound of the root mean square error over all sums, in units of 1 / sqrt(2 rho).

    measure: a weight and the constants of one process, or of two (`other`)
    """
    cells = periods * (periods + 1) // 2
    moments, total = np.zeros((cells, cells)), sum(float(part["weight"]) for part in measure)  # type: ignore[arg-type]
    for part in measure:
        mean, square = _moments(periods, np.array(part["one"]))
        if pairs:
            other, other_square = _moments(periods, np.array(part["other"]))
            square += other_square
            square -= np.outer(mean, other)
            square -= np.outer(other, mean)
        square *= float(part["weight"]) / total  # type: ignore[arg-type]
        moments += square
    ends = np.cumsum(range(periods, 0, -1))
    for axis in (0, 1):  # D M D', D the running sums of each threshold
        for block in np.split(moments, ends[:-1], axis=axis):
            np.cumsum(block, axis=axis, out=block)
    values = np.linalg.eigvalsh(moments) - cells * _ERROR * (4 if pairs else 1)
    return max(1.0, float(np.sqrt(np.maximum(values, 0)).sum()) / math.sqrt(cells))


def _moments(periods: int, theta: Floats) -> tuple[Floats, Floats]:
    """E[z] and E[z z'] over cells (b, t), thresholds one after the other.

    occupied: by cell that happened, the chances of 0, 1, .. events so far.
    """
    b, t = (np.array(x) for x in zip(*_cells(periods), strict=True))
    chances = 0.02 + 0.96 / (1 + np.exp(-np.tensordot(theta, _features(periods), 1)))
    counts = np.zeros(periods + 1)
    counts[0] = 1
    occupied = np.zeros((len(b), periods + 1))
    means, later = np.zeros(len(b)), np.zeros((len(b), len(b)))
    for period in range(1, periods + 1):
        now = np.flatnonzero(t == period)
        rises = counts[:periods] * chances[:, period - 1]
        means[now] = rises[b[now] - 1]
        counts[:periods] -= rises
        counts[1:] += rises
        happens = occupied[:, :periods] * chances[:, period - 1]
        later[:, now] = happens[:, b[now] - 1]
        occupied[:, :periods] -= happens
        occupied[:, 1:] += happens
        occupied[now, b[now]] = 1
    later *= means[:, None]
    later += later.T.copy()
    later[np.diag_indices(len(b))] += means
    return means, later


def _cells(periods: int) -> list[tuple[int, int]]:
    return [(b, t) for b in range(1, periods + 1) for t in range(b, periods + 1)]


def _features(periods: int) -> Floats:
    """(features, events before, period)"""
    t, b = np.arange(1, periods + 1)[None, :], np.arange(periods)[:, None]
    u = t / (periods + 1) * np.ones((periods, 1))
    often = np.clip(np.where(t > 1, b / np.maximum(t - 1, 1), 0.5), 0, 1)
    log, one, part = np.log(2 * u), np.ones_like(u), b / periods * np.ones_like(u)
    columns = [one, log, u, u * u, often, often * log, often * u, often**2, part, part**2]
    return np.stack([*columns, often**2 * u, often**3])


def main() -> None:
    measures = json.loads(MEASURES.read_text())
    for pairs in (False, True):
        by_periods = {int(n): m for n, m in measures["pairs" if pairs else "single"].items()}
        for periods in PERIODS[pairs]:
            near = [n for n in by_periods if periods <= 2 * n <= 4 * periods]
            tried = near or [min(by_periods) if periods < 12 else max(by_periods)]
            found = max(bound(periods, by_periods[n], pairs=pairs) for n in tried)
            print(pairs, periods, math.floor(found * 1e4) / 1e4, flush=True)


if __name__ == "__main__":
    main()
