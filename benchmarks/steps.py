"""Time and memory of one step of each mechanism by the number of people, k = 3, T = 60.

    python benchmarks/steps.py

The baseline of a step is one random permutation of the panel's rows in the same run: no step
that gives uniformly random rows their symbols can do with much less. Memory is the largest that
NumPy and Python allocated during the run of a mechanism, for each row of the panel.
"""

from __future__ import annotations

import time
import tracemalloc
from fractions import Fraction
from typing import Any

import numpy as np
from result_file import record

from stream_dp.continual.cumulative.cumulative import Cumulative
from stream_dp.continual.joint.joint import Joint
from stream_dp.continual.mechanisms import AnyMechanism
from stream_dp.continual.window.window import FixedWindow
from stream_dp.privacy.noise import SeededNoise

WIDTH, HORIZON, RHO = 3, 60, Fraction(1, 200)


def truths(people: int) -> tuple[list[Any], list[Any]]:
    """Histograms of the last three symbols and rises of totals, of people who seldom change."""
    rng = np.random.default_rng(1)
    now, code = rng.random(people) < 0.12, np.zeros(people, np.int64)
    totals = np.zeros(people, np.int64)
    histograms, rises = [], []
    for t in range(1, HORIZON + 1):
        fresh = rng.random(people)
        now = np.where(now, fresh < 0.95, fresh < 0.007)
        code = (code * 2 + now) % 8
        totals += now
        histograms.append(np.bincount(code, minlength=8))
        risen = np.bincount(totals[now], minlength=HORIZON + 1)[1:]
        rises.append(np.append(risen, people if t == 1 else 0))
    return histograms, rises


def run(mechanism: AnyMechanism, histograms: list[Any], rises: list[Any]) -> list[float]:
    """Seconds of every step."""
    source, state, steps = SeededNoise(1), mechanism.init(), []
    for t in range(1, HORIZON + 1):
        parts = {FixedWindow: [histograms[t - 1]], Cumulative: [rises[t - 1]]}
        true = np.concatenate(parts.get(type(mechanism), [histograms[t - 1], rises[t - 1]]))
        draw = source.draw(mechanism.demand(t))
        start = time.perf_counter()
        state, _ = mechanism.step(state, true, draw)  # type: ignore[arg-type]
        steps.append(time.perf_counter() - start)
    return steps


def main() -> None:
    head = f"{'mechanism':<12}{'people':>9}{'step, ms':>10}{'permutation, ms':>17}{'ratio':>7}"
    print(f"{head}{'bytes a row':>13}")
    for people in (10_000, 100_000, 1_000_000):
        truth = truths(people)
        window = FixedWindow(
            values=(0, 1),
            width=WIDTH,
            horizon=HORIZON,
            rho=RHO,
            neighbours="replace_one",
            rows=people,
        ).best()
        totals = Cumulative(horizon=HORIZON, rho=RHO, neighbours="replace_one", rows=people)
        for mechanism in (window, totals, Joint(window, totals, (1,))):
            run(mechanism, *truth)  # what is computed once for all steps
            step = 1000 * float(np.median(run(mechanism, *truth)[WIDTH:]))
            start = time.perf_counter()
            for t in range(5):
                np.random.default_rng(t).permutation(people)
            shuffle = 1000 * (time.perf_counter() - start) / 5
            tracemalloc.start()
            run(mechanism, *truth)
            size = tracemalloc.get_traced_memory()[1] / people
            tracemalloc.stop()
            name = type(mechanism).__name__
            row = f"`{name}`, {people:,} people"
            record("steps", row, step, shuffle, step / shuffle, size)
            line = f"{name:<12}{people:>9}{step:>10.2f}{shuffle:>17.2f}{step / shuffle:>7.1f}"
            print(f"{line}{size:>13.0f}", flush=True)


if __name__ == "__main__":
    main()
