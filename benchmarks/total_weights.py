"""The errors in theory of totals: the closed form, refined weights, and no horizon.

    python benchmarks/total_weights.py

A row of the first table is a number of periods and a relation: the root mean square error of all
sums over that of the best separate counters, with the closed form and as released; the largest
error of a sum as released over that with the closed form; the error as released over the lower
bound of all Gaussian mechanisms (`cumulative_design.py` has the proof, and `kit.totals_bounds` in
`tests` the measures); and the CPU seconds of charges and errors, in a new process.

A row of the second table compares the totals of a study without a horizon with those of a study of
so many periods: the root mean square error of all sums of these periods, and the largest variance
of a sum over its variance there.
"""

from __future__ import annotations

import math
import subprocess
import sys
import time
from fractions import Fraction

import numpy as np
from result_file import record

from stream_dp.continual.cumulative.coupled_strategy import (
    PRIVATE_SINGLE,
    PUBLIC_PAIR,
    coupled_gains,
)
from stream_dp.continual.cumulative.cumulative import Cumulative
from stream_dp.study.panel_releases import MOST_TOTALS

RHO = Fraction(1, 2)  # 1 / sqrt(2 rho) is 1
# In units of 1 / sqrt(2 rho), with the best factorization of each threshold's sums by itself.
SEPARATE = {
    "add_remove": {12: 4.9121, 24: 7.7812, 36: 10.1689, 60: 14.21, 120: 22.254},
    "replace_one": {12: 5.5127, 24: 8.9011, 36: 11.74, 60: 16.5629, 120: 26.2199},
}


def totals(periods: int, relation: str, *, is_open: bool = False) -> Cumulative:
    return Cumulative(horizon=periods, rho=RHO, neighbours=relation, rows=1000, open=is_open)


def closed_form(periods: int, relation: str) -> tuple[float, float]:
    """The root mean square error and the largest error of a sum."""
    public = relation != "add_remove"
    cost = (PUBLIC_PAIR if public else PRIVATE_SINGLE).without_entries[periods - 1]
    every = coupled_gains(public_size=public)[:periods]
    gains = np.concatenate([of[: periods - b] for b, of in enumerate(every)])
    return math.sqrt(gains.mean() * cost), math.sqrt(gains.max() * cost)


def plan_seconds(periods: int, relation: str) -> float:
    """CPU seconds of all that a plan states of the release, in a new process."""
    arguments = [sys.executable, __file__, str(periods), relation]
    done = subprocess.run(arguments, check=True, capture_output=True, text=True)
    return float(done.stdout)


def print_plan_seconds(periods: int, relation: str) -> None:
    begin = time.process_time()
    release = totals(periods, relation)
    assert release.charges
    assert min(release.rmse, release.error_bound) > 0
    print(time.process_time() - begin)


def compare_open(relation: str) -> None:
    """Prints the second table."""
    chosen = totals(MOST_TOTALS, relation, is_open=True)
    for periods in (12, 60, 120, MOST_TOTALS):
        bounded = totals(periods, relation)
        pairs = [
            (
                own.gains[: other.length] * float(own.variance),
                other.gains * float(other.variance),
            )
            for own, other in zip(
                chosen.placed_counters, bounded.placed_counters[:periods], strict=False
            )
        ]
        own, other = (np.concatenate(each) for each in zip(*pairs, strict=True))
        cells = math.sqrt(own.mean() / other.mean()), float((own / other).max())
        record("totals-open", f"{periods} periods, `{relation}`", *cells)
        print(f"{periods:>3} {relation:<12}" + "".join(f"{x:9.3f}" for x in cells), flush=True)


def main() -> None:
    if arguments := sys.argv[1:]:
        print_plan_seconds(int(arguments[0]), arguments[1])
        return
    for relation, by_periods in SEPARATE.items():
        for periods, separate in by_periods.items():
            release, (error, largest) = totals(periods, relation), closed_form(periods, relation)
            cells = (
                error / separate,
                release.rmse / separate,
                math.sqrt(release.worst_variance) / largest,
                release.lower_bound_ratio,
                plan_seconds(periods, relation),
            )
            record("totals-weights", f"{periods} periods, `{relation}`", *cells)
            shown = "".join("        -" if x is None else f"{x:9.3f}" for x in cells)
            print(f"{periods:>3} {relation:<12}{shown}", flush=True)
    for relation in SEPARATE:
        compare_open(relation)


if __name__ == "__main__":
    main()
