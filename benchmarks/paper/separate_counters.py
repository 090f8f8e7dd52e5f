"""The errors in theory of totals by stream counters, over those of the coupled default.

    python benchmarks/paper/separate_counters.py

A row a counter, relation and number of periods: the root mean square error of all sums and the
largest error of a sum, both over those of the default; and the shares of rho that a study has spent
after a quarter of its periods, with the counter and by default.
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from result_file import record

from stream_dp.continual.cumulative.cumulative import Cumulative
from stream_dp.study import CounterKind

RHO = Fraction(1, 2)


def totals(counter: CounterKind | None, periods: int, relation: str) -> Cumulative:
    return Cumulative(horizon=periods, rho=RHO, neighbours=relation, rows=1000, counter=counter)


def early(release: Cumulative) -> float:
    return float(sum(release.charges[: release.horizon // 4]) / RHO)


def main() -> None:
    for relation in ("add_remove", "replace_one"):
        for periods in (12, 60):
            default = totals(None, periods, relation)
            for counter in CounterKind:
                release = totals(counter, periods, relation)
                largest = math.sqrt(release.worst_variance / default.worst_variance)
                cells = release.rmse / default.rmse, largest, early(release), early(default)
                record("papers-counters", f"`{counter}`, {periods} periods, `{relation}`", *cells)
                shown = "".join(f"{x:9.3f}" for x in cells)
                print(f"{counter:<12} {periods:>3} {relation:<12}{shown}", flush=True)


if __name__ == "__main__":
    main()
