"""Work grows along each axis as it is recorded: the benchmark of axes, in its short form."""

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "axes.py"
sys.path.append(str(SCRIPT.parent))  # as when one is run
SPEC = importlib.util.spec_from_file_location("axes", SCRIPT)
assert SPEC is not None
assert SPEC.loader is not None
axes = sys.modules["axes"] = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(axes)
_MORE = 0.3  # by which an exponent may be above the recorded one
_TRIES = 3  # CPU time on a busy machine has outliers


@pytest.mark.slow
@pytest.mark.parametrize("axis", axes.AXES)
def test_no_exponent_rises(axis):
    found = []
    for _ in range(_TRIES):
        found.append(axes.grown(axis, times=2)[2])
        if found[-1] < axes.EXPONENTS[axis] + _MORE:
            return
    pytest.fail(f"{axis}: grows with exponents {found}, recorded {axes.EXPONENTS[axis]}")


def test_an_exponent_is_the_slope_of_the_fit(monkeypatch):
    class Clock:
        now = 0.0

        def process_time(self):
            return self.now

    clock = Clock()

    def squares(folder, size):
        def work():
            clock.now += size**2

        return work

    monkeypatch.setattr(axes, "time", clock)
    monkeypatch.setitem(axes.AXES, "squares", ((1, 2, 4), squares))
    assert axes.grown("squares", times=2)[2] == pytest.approx(2)
