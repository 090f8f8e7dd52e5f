"""Panels as they are exported, against the paper's: what `benchmarks/paper/panels.py` aims at.

The noise is seeded, and the limits are demanded as they are, but for those in `MISSED`. The
standard errors that the lines have are below 0.01 of a ratio of patterns; of the other quantities,
about 0.02 of a ratio. The worst pattern is the largest of many, and moves by a tenth.
"""

import importlib.util
import sys
from pathlib import Path

import pytest
from panel_cases import data_file

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "paper" / "panels.py"
SPEC = importlib.util.spec_from_file_location("benchmark_panels", SCRIPT)
BENCHMARK = importlib.util.module_from_spec(SPEC)
sys.modules[SPEC.name] = BENCHMARK
SPEC.loader.exec_module(BENCHMARK)

# Aims that panels miss (`docs/results/limits.md`), with what they stay below. In the panel of
# submissions clipped noise drains a state that nobody leaves.
MISSED = {
    "poverty-late": {"joint: worst pattern": 1.4},
    "submissions": {"worst pattern": 1.6, "joint: worst pattern": 1.7},
    "five-states": {"joint: worst pattern": 1.25},
    "five-neighbours": {"joint: worst pattern": 1.35},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BENCHMARK.CASES)
def test_panels_are_as_much_better_than_the_paper_s_as_aimed_at(name):
    if name == "submissions":
        try:
            data_file("oulad_submit_monthly.csv")
        except (SystemExit, OSError):
            pytest.skip("the panel of students is not here")
    lines = list(BENCHMARK.lines(BENCHMARK.CASES[name], 200))
    assert {line.quantity for line in lines} >= set(BENCHMARK.CASES[name].limits)
    known = MISSED.get(name, {})
    missed = [
        str(line)
        for line in lines
        if not line.met and line.ratio > known.get(line.quantity, line.limit)
    ]
    assert not missed, "\n".join(missed)


def test_the_worst_cell_is_not_the_largest_by_chance():
    errors = BENCHMARK.np.random.default_rng(1).normal(size=(200, 500))
    assert BENCHMARK.worst(errors) == pytest.approx(1, rel=0.15)
    errors[:, 7] *= 2
    assert BENCHMARK.worst(errors) == pytest.approx(2, rel=0.15)
