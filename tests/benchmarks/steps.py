"""Time of one step of each mechanism by the number of people, against its random choice of rows.

    python tests/benchmarks/steps.py

The baseline of a step is one random permutation of the panel's rows in the same run: no step
that gives uniformly random rows their symbols can do with much less.
"""

from __future__ import annotations

import time
from fractions import Fraction
from typing import Any

import numpy as np

from stream_dp.continual import AnyMechanism, Cumulative, FixedWindow
from stream_dp.privacy.noise import Seeded

HORIZON, RHO = 12, Fraction(1, 200)


def counts(made: AnyMechanism, people: int, t: int) -> Any:
    if isinstance(made, FixedWindow):
        return np.full(made.bins, people // made.bins)
    rises = np.zeros(HORIZON + 1, np.int64)
    rises[:t], rises[-1] = people // 20, people
    return rises


def main() -> None:
    print(f"{'mechanism':<12}{'people':>10}{'step, ms':>10}{'permutation, ms':>17}{'ratio':>7}")
    for people in (10_000, 100_000, 1_000_000):
        made: list[AnyMechanism] = [
            FixedWindow((0, 1), 3, HORIZON, RHO, "replace_one"),
            Cumulative(HORIZON, RHO, "replace_one", people),
        ]
        for one in made:
            source, state = Seeded(1), one.init()
            steps, shuffles = [], []
            for t in range(1, HORIZON + 1):
                draw, true = source.draw(one.demand(t)), counts(one, people, t)
                start = time.perf_counter()
                state, _ = one.step(state, true, draw)  # type: ignore[arg-type]
                steps.append(time.perf_counter() - start)
                start = time.perf_counter()
                np.random.default_rng(t).permutation(people)
                shuffles.append(time.perf_counter() - start)
            step, shuffle = 1000 * np.median(steps[3:]), 1000 * np.median(shuffles)
            name = type(one).__name__
            print(f"{name:<12}{people:>10}{step:>10.2f}{shuffle:>17.2f}{step / shuffle:>7.1f}")


if __name__ == "__main__":
    main()
