"""Households month after month: `python benchmarks/household_months.py [SEED...]`.

Twelve data sets of 8,000 simulated families at eps 1 in all (delta = 1e-9), `hpd-fixed` with eight
rounds, 20 components and queries about two attributes. Each month 2 % of the families are replaced
by families of higher incomes, and in month 7 a tenth become childless tenants. In months 6, 7 and
12 the data set is fitted with the data sets before it, and alone, at the same cost and with the
same seed of the noise. In the other months the combined answers themselves select the marginals,
without a mixture. Prints the largest and the mean error of the queries, in percentage points, as
`households.py` does, and the worst marginal of these queries: the root mean square error of the
data set over that of the data set alone, over all seeds together. Marginals of groups and roles
alone, which no report changes, do not count for it.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np
from families import CHILD, families
from households import batch, errors
from result_file import record

from stream_dp.answers.month_filters import MonthFilters
from stream_dp.batch import kinds
from stream_dp.batch.data.domain import Hierarchy
from stream_dp.batch.groups.workload.candidates import Workload, default_marginals
from stream_dp.batch.groups.workload.combined_months import EarlierMonths, Place, earlier_months
from stream_dp.batch.groups.workload.exact_counts import exact_answers
from stream_dp.batch.groups.workload.groups_plan import fit_workload
from stream_dp.batch.groups.workload.queries import GROUP, Marginal
from stream_dp.batch.groups.workload.sensitivity import squared_sensitivity
from stream_dp.batch.rounds.phases import NoisyAnswers
from stream_dp.batch.synthesizer import EarlierTable, FitContext, MemoryTranscript
from stream_dp.privacy.noise import SeededNoise
from stream_dp.privacy.zcdp import rho_within
from stream_dp.services.evaluate.table_report import CLASSES

FAMILIES, POOL, MONTHS, SHOCK = 8_000, 40_000, 12, 7
ROWS, WAYS = 20, 2
CHURN, SHOCKED = 0.02, 0.1
JUDGED = (SHOCK - 1, SHOCK, MONTHS)
ALONE, COMBINED = "alone", "combined"


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


def squares(truth: Hierarchy, synthetic: Hierarchy) -> np.ndarray:
    """The mean square error of shares of every judged marginal."""

    def shares(data: Hierarchy, marginal: Marginal) -> np.ndarray:
        total = data.G if marginal.level == GROUP else data.N
        return exact_answers(data, marginal.queries()) / total

    judged = [m for m in default_marginals(truth.domain, WAYS) if squared_sensitivity(m)]
    return np.array([np.square(shares(synthetic, m) - shares(truth, m)).mean() for m in judged])


@dataclass(frozen=True, eq=False)
class Followed:
    """A model that answers what the filters say, and evenly what they do not follow."""

    earlier: EarlierMonths
    expected: np.ndarray

    def answers(self, rows: np.ndarray) -> np.ndarray:
        return self.expected[rows]

    def learn(self, measured: NoisyAnswers) -> tuple[Followed, float]:
        answers, expected = self.earlier.combined(measured), self.expected.copy()
        expected[answers.rows] = answers.values
        return replace(self, expected=expected), float("nan")

    def sample(self, seed: int) -> Hierarchy:
        raise NotImplementedError


def judged(seed: int, wanted: Collection[int]) -> Iterator[tuple[int, str, Hierarchy, Hierarchy]]:
    """Month, method, true and synthetic families of the judged months."""
    tables = list[EarlierTable]()
    for month, truth in enumerate(months(seed), 1):
        rho = rho_within(Fraction(1), Fraction(1, 10**9)) / MONTHS
        keys = {"rho": rho, "rows": ROWS, "ways": WAYS}
        declared = batch(truth, "hpd-fixed", "1", 8).model_copy(update=keys)
        noise, transcript = 1000 * seed + month, MemoryTranscript()
        context = FitContext(SeededNoise(noise), transcript, number=month, earlier=(*tables,))
        if month in wanted:
            synthesizer = kinds.load_synthesizer(declared.kind)
            yield month, COMBINED, truth, synthesizer(truth, declared, context).sample(seed)
            alone = declared.model_copy(update={"fuse": False})
            fit = synthesizer(truth, alone, FitContext(SeededNoise(noise)))
            yield month, ALONE, truth, fit.sample(seed)
        else:
            fit_workload(truth, declared, context, partial(followed, truth, context))
        tables.append(EarlierTable(month, declared, tuple(transcript.recorded)))


def followed(
    truth: Hierarchy, context: FitContext, workload: Workload, phases: object
) -> Callable[[int], Followed]:
    """The model of a month between judged ones."""
    totals = np.where(workload.levels == GROUP, float(truth.G), float(truth.N))
    earlier = earlier_months(workload, truth, context)
    first = earlier or EarlierMonths(workload, totals, MonthFilters[Place](context.number))
    sizes = np.diff(workload.starts)
    model = Followed(first, np.repeat(totals / sizes, sizes))
    return lambda seed: model


def main(seeds: list[int]) -> None:
    means: dict[tuple[int, str], list[list[float]]] = {}
    by_marginal: dict[tuple[int, str], list[np.ndarray]] = {}
    for seed in seeds:
        began = time.process_time()
        for month, method, truth, synthetic in judged(seed, JUDGED):
            of_class = errors(truth, synthetic, WAYS)
            shown = ", ".join("{} {:.2f} / {:.3f}".format(k, *of_class[k]) for k in CLASSES[:3])
            print(f"seed {seed}, month {month:>2}, {method:>8}: {shown}", flush=True)
            means.setdefault((month, method), []).append([of_class[k][1] for k in CLASSES[:3]])
            by_marginal.setdefault((month, method), []).append(squares(truth, synthetic))
        print(f"seed {seed}: {time.process_time() - began:.0f} CPU s", flush=True)
    for month in JUDGED:
        combined, alone = (np.sum(by_marginal[month, m], axis=0) for m in (COMBINED, ALONE))
        worst = math.sqrt((combined / alone).max())
        cells = np.mean(means[month, ALONE], axis=0), np.mean(means[month, COMBINED], axis=0)
        pairs = [float(cell) for pair in zip(*cells, strict=True) for cell in pair]
        print(f"month {month}: alone, combined", *(f"{c:.3f}" for c in pairs), f"worst {worst:.2f}")
        record("household-months", str(month), *pairs)


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or [3, 4, 5, 6])
