"""Households month after month, if months were combined: `python benchmarks/household_months.py
[SEED...]`.

Twelve data sets of 8,000 simulated families at eps 1 in all (delta = 1e-9), `hpd-fixed` with eight
rounds. Each month 2 % of the families are replaced by families of higher incomes, and in month 7 a
tenth become childless tenants. Every measured marginal is followed by the filters of tables of
people (`month_filters.py`), whose constants were chosen on other data. In months 7 and 12 the
fitted model learns eight times more: from the month's own answers, or from the combined answers to
all marginals that any month so far has measured. In the other months a model that is no longer
fitted selects the marginals. Prints the largest and the mean error of queries about three
attributes, in percentage points, as `households.py` does.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TypeVar

import numpy as np
from families import CHILD, families
from households import batch, errors
from numpy.typing import NDArray

from stream_dp.answers.month_filters import Measured, MonthFilters
from stream_dp.batch.data.domain import Hierarchy
from stream_dp.batch.groups.hpd.hpd_synthesizer import MixtureModel, fit_mixture
from stream_dp.batch.groups.workload.groups_plan import fit_workload
from stream_dp.batch.rounds.phases import NoisyAnswers
from stream_dp.batch.synthesizer import FitContext
from stream_dp.privacy.noise import SeededNoise
from stream_dp.privacy.zcdp import rho_within

FAMILIES, POOL, MONTHS, SHOCK, UPDATES = 8_000, 40_000, 12, 7, 8
CHURN, SHOCKED = 0.02, 0.1
Floats = NDArray[np.float64]
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Unfitted:
    """A model that learns nothing. expected: its answers to all queries."""

    expected: Floats

    def answers(self, rows: NDArray[np.int64]) -> Floats:
        return self.expected[rows]

    def learn(self, measured: NoisyAnswers) -> tuple[Unfitted, float]:
        return self, float("nan")

    def sample(self, seed: int) -> Hierarchy:
        raise NotImplementedError


def months(seed: int) -> Iterator[Hierarchy]:
    """The families of every month."""
    pool, rng = families(POOL, 100 + seed), np.random.default_rng(seed)
    children = np.bincount(pool.group_of, pool.people[:, 0] == CHILD, pool.G)
    incomes = pool.groups[:, 1] + rng.normal(size=pool.G)
    rich = np.flatnonzero(incomes > np.quantile(incomes, 0.7))
    tenants = np.flatnonzero((pool.groups[:, 0] == 1) & (children == 0))
    chosen = rng.choice(pool.G, FAMILIES)
    for month in range(1, MONTHS + 1):
        moves = [(CHURN, rich)] * (month > 1) + [(SHOCKED, tenants)] * (month == SHOCK)
        for share, newcomers in moves:
            left = rng.choice(FAMILIES, int(share * FAMILIES), replace=False)
            chosen[left] = rng.choice(newcomers, left.size)
        sizes = np.diff(pool.starts)[chosen]
        group_of = np.repeat(np.arange(FAMILIES), sizes)
        firsts = np.repeat(pool.starts[chosen] - np.cumsum(sizes) + sizes, sizes)
        people = pool.people[firsts + np.arange(sizes.sum())]
        yield Hierarchy(pool.domain, pool.groups[chosen], people, group_of)


def interactions(answers: NoisyAnswers) -> dict[tuple[int], Measured]:
    """The answers by candidate, as multiples of the number of families."""
    ends = (0, *answers.ends)
    return {
        (candidate,): Measured(
            answers.values[begin:end] / FAMILIES, float(answers.noise[begin]) / FAMILIES**2
        )
        for candidate, begin, end in zip(answers.candidates, ends[:-1], ends[1:], strict=True)
    }


def combined(filters: MonthFilters[tuple[int]], starts: NDArray[np.int64]) -> NoisyAnswers:
    """The filters' levels and variances as answers."""
    candidates = sorted(candidate for (candidate,) in filters.filters)
    levels, variances = zip(*(filters.posterior((c,)) for c in candidates), strict=True)
    noise = np.concatenate(variances) * FAMILIES**2
    answers = NoisyAnswers(
        tuple(candidates),
        np.concatenate([np.arange(starts[c], starts[c + 1]) for c in candidates]),
        np.concatenate(levels) * FAMILIES,
        tuple(map(Fraction, noise.tolist())),
        tuple(np.cumsum([starts[c + 1] - starts[c] for c in candidates]).tolist()),
    )
    vars(answers)["noise"] = noise
    return answers


def updated(model: MixtureModel, answers: NoisyAnswers) -> MixtureModel:
    room = replace(model.room, measured=max(model.room.measured, len(answers.rows)))
    model = replace(model, room=room)
    for _ in range(UPDATES):
        model, _ = model.learn(answers)
    return model


def _same(value: T, *_: object) -> T:
    return value


def main(seed: int) -> None:
    filters = MonthFilters[tuple[int]](1)
    frozen: Unfitted | None = None
    for month, truth in enumerate(months(seed), 1):
        rho = rho_within(Fraction(1), Fraction(1, 10**9)) / MONTHS
        release = batch(truth, "hpd-fixed", "1", 8).model_copy(update={"rho": rho})
        context = FitContext(SeededNoise(1000 * seed + month))
        if frozen is None or month in (SHOCK, MONTHS):
            fit = fit_mixture(truth, release, context)
        else:
            start: Callable[[int], Unfitted] = partial(_same, frozen)
            fit = fit_workload(truth, release, context, partial(_same, start))
        starts = fit.workload.starts
        frozen = frozen or Unfitted(fit.model.answers(np.arange(starts[-1])))
        filters = filters.at(month).learnt(interactions(fit.answers))
        if month in (SHOCK, MONTHS):
            every = combined(filters, starts)
            models = {"alone": fit.answers, "combined": every}
            print(
                f"seed {seed}, month {month}: {len(fit.answers.candidates)} marginals measured,"
                f" {len(every.candidates)} so far"
            )
            for name, answers in models.items():
                assert isinstance(fit.model, MixtureModel)
                of_class = errors(truth, updated(fit.model, answers).sample(seed))
                shown = (f"{k} {a:.2f} / {b:.3f}" for k, (a, b) in of_class.items() if ":" not in k)
                print(f"{name:>10}  {', '.join(shown)}", flush=True)
    print(f"{time.process_time():.0f} CPU s")


if __name__ == "__main__":
    for argument in sys.argv[1:] or ("3", "4"):
        main(int(argument))
