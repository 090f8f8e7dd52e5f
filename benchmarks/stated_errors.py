"""The stated errors of panels over the errors that an evaluation measures, on several panels.

    python benchmarks/stated_errors.py [--repetitions R] [NAME ...]

Each study has a window, a cumulative and a joint release of 12 periods. Stated errors come from
simulated people of a public prior; the panels here are others. A row a panel: the median, the least
and the largest ratio over the queries, and the CPU seconds of the statement.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from kit.markov_panels import markov_panel
from kit.studies import attribute, cumulative, joint, small_study, window
from result_file import record

from stream_dp.panel import Symbols
from stream_dp.planning.panel_errors import panel_errors
from stream_dp.planning.plan import plan_study
from stream_dp.services.evaluate import simulated_panels
from stream_dp.services.evaluate.panel_report import root_mean_square
from stream_dp.services.evaluate.repeated_panels import evaluate_panels
from stream_dp.study import Study

PERIODS, BOUND = 12, 30_000
RELEASES = [
    window("w", "x", 3, "1/200"),
    cumulative("c", "x", [1], "1/200"),
    joint("j", "x", 3, [1], "1/100"),
]
SIZED = [{**r, **({"size_share": "1/10"} if r["kind"] == "cumulative" else {})} for r in RELEASES]


def study(symbols: int, releases: list[dict[str, object]], **population: object) -> Study:
    missing = "absent" if releases[0].get("rows") else 0
    return small_study(
        rho="1/20",
        periods={"first": 1, "every": "step", "count": PERIODS},
        attributes={"x": attribute(range(symbols), missing=missing)},
        releases=releases,
        **population,
    )


def with_rare_state() -> Symbols:
    """10,000 people in five states, 1 % of them in the last, who stay in 9 of 10 periods."""
    rng, shares = np.random.default_rng(1), [0.55, 0.25, 0.12, 0.07, 0.01]
    columns = [rng.choice(5, 10_000, p=shares)]
    for _ in range(PERIODS - 1):
        drawn = rng.choice(5, 10_000, p=shares)
        columns.append(np.where(rng.random(10_000) < 0.9, columns[-1], drawn))
    return np.stack(columns, axis=1).astype(np.uint8)


def with_absences(panel: Symbols) -> Symbols:
    """The panel in which a twentieth of the answers of two symbols is missing."""
    absent = np.random.default_rng(0).random(panel.shape) < 0.05
    return np.where(absent, 2, panel).astype(np.uint8)


def cases() -> dict[str, tuple[Study, Symbols]]:
    private = {"neighbours": "add_remove", "size": None}
    poverty = simulated_panels.poverty(1)
    capped = [{**release, "rows": BOUND} for release in RELEASES]
    equal = markov_panel(3, n=5000, periods=PERIODS, symbols=5, stay=0.9)
    return {
        "poverty, `replace_one`": (study(2, RELEASES, size=len(poverty)), poverty),
        "poverty, a closed cohort": (study(2, SIZED, closed=True, **private), poverty),
        "poverty, people may enter late": (study(2, SIZED, **private), poverty),
        "poverty, people come and go": (study(2, capped, **private), with_absences(poverty)),
        "five states, 1 % in the last": (study(5, RELEASES, size=10_000), with_rare_state()),
        "five states, equal shares": (study(5, RELEASES, size=5000), equal),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--repetitions", type=int, default=30)
    options = parser.parse_args()
    for name, (declared, truth) in cases().items():
        if options.names and name not in options.names:
            continue
        start = time.process_time()
        stated = panel_errors(plan_study(declared))
        seconds = time.process_time() - start
        measured = evaluate_panels(
            declared, {"x": truth}, options.repetitions, seed=5, jobs=1, progress=False
        )
        ratios = [
            error.error / root_mean_square(line.rmse)
            for release in measured.releases
            for line in release.lines
            if line.answer == "panel"
            for error in stated[release.release.split(" ")[0]]
            if error.query == line.query
        ]
        median = statistics.median(ratios)
        record("stated-errors", name, median, min(ratios), max(ratios), seconds)
        figures = f"{median:.2f} | {min(ratios):.2f} | {max(ratios):.2f} | {seconds:.1f}"
        print(f"| {name} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
