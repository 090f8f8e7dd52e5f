"""Histories with and without published windows: `python benchmarks/histories.py [--seeds 3]`.

26,071 students of the Open University, nine months: active, submitted an assessment, withdrawn. A
window release of width 3 and a table of everybody's nine months, each at rho = .005 under
`replace_one`. Prints the errors of all patterns of three months, month after month: of the window's
own best estimates, and of tables that are fitted with and without what the window has published.
"""

from __future__ import annotations

import argparse
from fractions import Fraction

import numpy as np
import pyarrow.csv
from data_sets import data_file
from numpy.typing import NDArray
from result_file import record

from stream_dp.batch.data.domain import Column
from stream_dp.batch.people.people_synthesizer import fit_people
from stream_dp.batch.people.people_table import People, PeopleDomain
from stream_dp.batch.synthesizer import FitContext, Known
from stream_dp.continual.window.residuals import period_interactions
from stream_dp.continual.window.window import FixedWindow
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study import PeopleRelease

Q, WIDTH, RHO = 3, 3, Fraction(1, 200)
Floats = NDArray[np.float64]


def patterns(codes: NDArray[np.integer], t: int) -> NDArray[np.int64]:
    """How many people have each pattern of the months up to t."""
    cells = np.zeros(len(codes), np.int64)
    for month in range(t - WIDTH, t):
        cells = cells * Q + codes[:, month]
    return np.bincount(cells, minlength=Q**WIDTH).astype(np.int64)


def published(
    codes: NDArray[np.integer], window: FixedWindow, seed: int
) -> tuple[list[Floats], list[Known]]:
    """The window's best estimates of all patterns, as shares, and its interactions."""
    source, measurement = SeededNoise(seed), window.measurement
    state, estimates, known = measurement.init(), [], []
    for t in range(WIDTH, window.horizon + 1):
        noise = np.concatenate(source.draw(window.demand(t)).noise)
        answers = measurement.measure(t, patterns(codes, t)) + noise
        state = measurement.updated(t, state, answers)
        estimates.append(measurement.histogram(t, state) / len(codes))
        for one in period_interactions(window.measurement, t, answers):
            known.append(Known(tuple(t - 1 - a for a in one.ago), one.values, one.variance))
    return estimates, known


def compare(seeds: int) -> None:
    table = pyarrow.csv.read_csv(data_file("oulad_submit_monthly.csv"))
    codes = np.stack([table[f"m{i}"].to_numpy() for i in range(1, 10)], axis=1)
    people, months = codes.shape
    window = FixedWindow(
        values=(0, 1, 2),
        width=WIDTH,
        horizon=months,
        rho=RHO,
        neighbours="replace_one",
        rows=people,
    ).best()
    columns = tuple(Column(f"m{i}", (0, 1, 2)) for i in range(1, months + 1))
    true = People(PeopleDomain(columns, moves=False, replaced=True, size=people), codes)
    release = PeopleRelease(
        name="h", kind="mixture", attributes=tuple(c.name for c in columns), rho=RHO, every=1
    )
    shares = [patterns(codes, t) / people for t in range(WIDTH, months + 1)]
    errors: dict[str, list[list[float]]] = {}
    for seed in range(1, seeds + 1):
        estimates, known = published(codes, window, seed)
        tables = {"the window's best estimates": estimates}
        fits = {"table fitted without them": (), "table fitted with them, at no cost": tuple(known)}
        for name, given in fits.items():
            context = FitContext(SeededNoise(seed + 100), known=given)
            sample = fit_people(true, release, context).sample(seed)
            tables[name] = [patterns(sample.codes, t) / sample.N for t in range(WIDTH, months + 1)]
        for name, answers in tables.items():
            apart = np.concatenate([a - s for a, s in zip(answers, shares, strict=True)])
            errors.setdefault(name, []).append(
                [float(np.sqrt(np.square(apart).mean())), float(np.abs(apart).max())]
            )
    print(f"{people:,} people, {months} months, patterns of {WIDTH}, {seeds} seeds")
    for name, values in errors.items():
        rmse, worst = 100 * np.mean(values, axis=0)
        record("histories", name, rmse, worst)
        print(f"  {name:<24} root mean square {rmse:.4f}, largest {worst:.3f} percentage points")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    compare(parser.parse_args().seeds)
