"""The errors in theory of totals: the closed form and refined weights.

    python benchmarks/total_weights.py

A row a number of periods and a relation: the root mean square error of all sums over that of the
best separate counters, with each kind of weights; the largest error of a sum with refined weights
over that with the closed form; the refined error over the lower bound of all mechanisms; and the
CPU seconds of charges and errors with refined weights, in a new process.
"""

from __future__ import annotations

import math
import subprocess
import sys
import time
from fractions import Fraction

from result_file import record

from stream_dp.continual.cumulative.cumulative import Cumulative

RHO = Fraction(1, 2)  # 1 / sqrt(2 rho) is 1
# In units of 1 / sqrt(2 rho), with the best factorization of each threshold's sums by itself.
SEPARATE = {
    "add_remove": {12: 4.9121, 24: 7.7812, 36: 10.1689, 60: 14.21},
    "replace_one": {12: 5.5127, 24: 8.9011, 36: 11.74, 60: 16.5629},
}


def totals(periods: int, relation: str, *, refined: bool) -> Cumulative:
    return Cumulative(horizon=periods, rho=RHO, neighbours=relation, rows=1000, refined=refined)


def plan_seconds(periods: int, relation: str) -> float:
    """CPU seconds of all that a plan states of the release, in a new process."""
    arguments = [sys.executable, __file__, str(periods), relation]
    done = subprocess.run(arguments, check=True, capture_output=True, text=True)
    return float(done.stdout)


def print_plan_seconds(periods: int, relation: str) -> None:
    begin = time.process_time()
    release = totals(periods, relation, refined=True)
    assert release.charges
    assert min(release.rmse, release.error_bound) > 0
    print(time.process_time() - begin)


def main() -> None:
    if arguments := sys.argv[1:]:
        print_plan_seconds(int(arguments[0]), arguments[1])
        return
    for relation, by_periods in SEPARATE.items():
        for periods, separate in by_periods.items():
            closed, refined = (totals(periods, relation, refined=flag) for flag in (False, True))
            worst = math.sqrt(refined.worst_variance / closed.worst_variance)
            cells = (
                closed.rmse / separate,
                refined.rmse / separate,
                worst,
                refined.lower_bound_ratio,
                plan_seconds(periods, relation),
            )
            record("totals-weights", f"{periods} periods, `{relation}`", *cells)
            shown = "".join("        -" if x is None else f"{x:9.3f}" for x in cells)
            print(f"{periods:>3} {relation:<12}{shown}", flush=True)


if __name__ == "__main__":
    main()
