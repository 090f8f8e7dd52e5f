"""The weights of totals, for recompute_costs.py: write_total_weights.py STUDY.toml OUT

Writes OUT/NAME/weights.csv for every release with totals. A line has a threshold b, a period t, and
the whole numbers by which the measurement y_b(t) multiplies z_b(b..t) and z_{b-1}(b-1..t-1).
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import stream_dp
from stream_dp.continual.cumulative.coupled_budget import CoupledBudget
from stream_dp.continual.mechanisms import totals_part


def write(study: stream_dp.Study, folder: Path) -> None:
    """Writes the weights of every release with totals."""
    for release in study.releases:
        totals = totals_part(stream_dp.mechanism(study, release))
        if totals is None or not isinstance(totals.budget, CoupledBudget) or totals.present:
            continue
        with (folder / release.name / "weights.csv").open("w", encoding="utf-8") as file:
            lines = csv.writer(file)
            lines.writerow(["b", "t", "own", "below"])
            for t in range(1, totals.horizon + 1):
                for b in range(1, t + 1):
                    own, below = totals.budget.strategy.row(b, t)
                    lines.writerow([b, t, " ".join(map(str, own)), " ".join(map(str, below))])


if __name__ == "__main__":
    write(stream_dp.load_study(sys.argv[1]), Path(sys.argv[2]))
