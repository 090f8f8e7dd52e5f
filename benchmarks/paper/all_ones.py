"""The simulated study of Bun24 in which everybody has the event in all periods, and its constants.

    python benchmarks/paper/all_ones.py [--repetitions R]

25,000 people, 12 periods, windows of 3, rho = .005, `add_remove` (figures 3 and 4 of the paper). A
row a width of the query: the share of people with the event in each of the last periods. Its
standard deviation over repetitions, in people, is averaged over periods: in theory, for the
paper's panel (padded histograms) and for the default. The last columns are the mean error of the
share in the paper's panel, before and after the padding is subtracted. A query wider than the
window is counted in the panel's rows.

Then the paper's constants as printed, beside the corrected ones, and the cost of printed noise.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))

from result_file import record

from stream_dp.continual.counters.tree import tree
from stream_dp.continual.cumulative.budgets import path_costs
from stream_dp.continual.window.window import FixedWindow
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study import Strategy

PEOPLE, HORIZON, WIDTH, RHO, BETA = 25_000, 12, 3, Fraction(1, 200), Fraction(1, 20)
WIDTHS = (1, 2, 3, 4)
Floats = NDArray[np.float64]


def window(strategy: Strategy) -> FixedWindow:
    return FixedWindow(
        values=(0, 1),
        width=WIDTH,
        horizon=HORIZON,
        rho=RHO,
        neighbours="add_remove",
        strategy=strategy,
    )


@dataclass(frozen=True)
class Repeated:
    """Panels of all-ones people: (repetitions, widths, periods) counts of ones in all of the last
    periods, and (repetitions,) rows."""

    ones: Floats
    rows: Floats


def repeated(form: FixedWindow, repetitions: int, source: SeededNoise) -> Repeated:
    counts = np.zeros(form.bins, np.int64)
    counts[-1] = PEOPLE
    ones = np.full((repetitions, len(WIDTHS), HORIZON), np.nan)
    rows = np.zeros(repetitions)
    for r in range(repetitions):
        state, runs = form.init(), None
        for t in range(1, HORIZON + 1):
            state, step = form.step(state, counts, source.draw(form.demand(t)))
            if step is None:
                continue
            if runs is None:
                runs = np.zeros(len(step.columns), np.int64)
            for column in np.asarray(step.columns).T:
                runs = np.where(column == 1, runs + 1, 0)
            lengths = np.bincount(runs, minlength=HORIZON + 1)[::-1].cumsum()[::-1]
            ones[r, :, t - 1] = [lengths[w] if w <= t else np.nan for w in WIDTHS]
            rows[r] = len(runs)
    return Repeated(ones, rows)


def padded_ones(form: FixedWindow) -> Floats:
    """How many padding rows have ones in all of the last periods, by width."""
    return np.array([form.padding * form.bins / 2**w for w in WIDTHS], float)


def panels(repetitions: int) -> Iterator[tuple[str, list[float | None]]]:
    """Rows of the first table."""
    paper, default = window(Strategy.HISTOGRAM), window(Strategy.RESIDUALS)
    own, others = (repeated(f, repetitions, SeededNoise(5)) for f in (paper, default))
    for i, w in enumerate(WIDTHS):
        theory = math.sqrt(2 ** (WIDTH - w) * float(paper.worst_variance)) if w <= WIDTH else None
        first = max(w, WIDTH) - 1
        deviations = [
            float(panel.ones[:, i, first:].std(axis=0, ddof=1).mean()) for panel in (own, others)
        ]
        share = own.ones[:, i, first:]
        exported = float((share / own.rows[:, None]).mean() - 1)
        subtracted = float((share - padded_ones(paper)[i]).mean() / PEOPLE - 1)
        yield f"{w} periods", [theory, *deviations, exported, subtracted]


def printed_levels(n: int) -> int:
    """The levels of a tree of n steps as the paper prints them."""
    return (n - 1).bit_length()


def printed_cost(relation: str) -> float:
    """What Algorithm 2 costs with printed noise, over the rho that the paper states for it."""
    levels = [printed_levels(HORIZON - b) for b in range(HORIZON)]
    counters = [tree(HORIZON - b) for b in range(HORIZON)]
    (cost,) = path_costs(counters, [level**2 for level in levels], relation, prefixes=False)
    return cost / sum(level**3 for level in levels)


def constants() -> Iterator[tuple[str, list[float]]]:
    """Rows of the second table: as printed, corrected."""
    releases, pads = HORIZON - WIDTH + 1, {}
    for name, variance in (("printed", releases / (2 * RHO)), ("corrected", releases / RHO)):
        pads[name] = math.sqrt(2 * variance * math.log(2**WIDTH * releases / BETA))
    yield "squared sensitivity of a histogram, `replace_one`", [1, 2]
    yield "variance of a pattern, `replace_one`", [releases / (2 * RHO), releases / RHO]
    yield "padding of a pattern, `replace_one`", [pads["printed"], pads["corrected"]]
    yield "cost of the printed window, `replace_one`, over rho", [1, 2]
    for n in (8, 12):
        yield f"levels of a tree of {n} steps", [printed_levels(n), n.bit_length()]
    shares = [(HORIZON - b).bit_length() ** 3 for b in range(HORIZON)]
    yield "share of rho of the last counter", [0, shares[-1] / sum(shares)]
    for relation in ("add_remove", "replace_one"):
        yield f"cost of the printed totals, `{relation}`, over rho", [1, printed_cost(relation)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=200)
    options = parser.parse_args()
    print("width: theory, the paper's panel, the default; share as published, debiased")
    for row, cells in panels(options.repetitions):
        record("papers-bun24-ones", row, *cells)
        print(f"{row:<12}", *("-" if c is None else f"{c:9.4g}" for c in cells), flush=True)
    print("constants: as printed, corrected")
    for row, (printed, corrected) in constants():
        record("papers-bun24-constants", row, float(printed), float(corrected))
        print(f"{row:<56}{float(printed):9.4g}{float(corrected):9.4g}", flush=True)


if __name__ == "__main__":
    main()
