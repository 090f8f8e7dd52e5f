"""Tables with numbers: `python tests/benchmarks/people_numbers.py [--eps 1] [TABLE...]`.

nist: people of Massachusetts in the American Community Survey (7,244 x 20): the year before is the
public past, from which values and bins follow, and on which predictions are tested. latent: a
latent class behind six listed columns and four numbers (20,000 x 10), simulated; no default was set
on it. Each is fitted under add_remove at delta = 1e-6 with several numbers of bins, as `match`, as
`rap` with labels and without, beside independent columns, and judged in 20 bins of its own:

pairs, triples: mean total variation over all pairs and 100 triples of columns;
marginals: mean error of 1,000 shares, of two values and a threshold of a number, in points;
thresholds: the same of a label and a random linear threshold of all numbers;
F1: macro F1 of five labels, learnt by logistic regression from the table, tested on the past;
CPU seconds of a fit with its sample; memory of this process at its largest so far.

Another sample of the same people with replacement is the floor of any table; `real` is the table.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stream_dp.batch.base import FitContext
from stream_dp.batch.data.domain import Column
from stream_dp.batch.people.match.synthesizer import fit_match
from stream_dp.batch.people.numbers import spread
from stream_dp.batch.people.residuals import marginal_counts
from stream_dp.batch.people.synthesizer import fit_people
from stream_dp.batch.people.table import People, PeopleDomain
from stream_dp.evaluation.data_sets.baselines import independent_people
from stream_dp.evaluation.data_sets.table_judge import target_f1
from stream_dp.privacy.noise import SeededNoise
from stream_dp.privacy.zcdp import rho_within
from stream_dp.study import MatchRelease, Numbers, PeopleRelease, Scale

FLAT = Path(__file__).parents[3] / "shared" / "data" / "flat"
DELTA = Fraction(1, 10**6)
JUDGED = 20  # bins of a number
SCALES = {
    "AGEP": Scale(least=0, most=99),
    "PINCP": Scale(least=-9000, most=1_400_000, step=100),
    "POVPIP": Scale(least=0, most=501),
    "DENSITY": Scale(least=0, most=53_000),
}
LEFT_OUT = {"INDP", "PINCP_DECILE", "PWGTP", "WGTP"}
Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Table:
    """Answers of people, now and in a public past: codes of values, of numbers on their scales."""

    values: dict[str, tuple[str, ...] | Scale]
    labels: tuple[str, ...]
    now: Codes
    past: Codes

    def domain(self, bins: int) -> PeopleDomain:
        """The columns, numbers in about so many bins that hold as many people of the past each.

        A number that over 2 % of the past have is a bin of its own. The code after the last point
        is no answer.
        """
        columns, numbers = list[Column](), dict[int, Numbers]()
        for place, (name, values) in enumerate(self.values.items()):
            if isinstance(values, Scale):
                own = Numbers(values, edges(values, self.past[:, place], bins), absent=True)
                numbers[place], values = own, own.bin_labels
            columns.append(Column(name, values))
        return PeopleDomain(tuple(columns), moves=True, replaced=False, numbers=numbers)

    @cached_property
    def judged(self) -> PeopleDomain:
        return self.domain(JUDGED)


def edges(scale: Scale, codes: Codes, bins: int) -> tuple[int, ...]:
    points = codes[codes < len(scale.points)]
    cuts = {int(c) for c in np.quantile(points, np.arange(1, bins) / bins, method="lower")}
    counts = np.bincount(points, minlength=len(scale.points))
    for often in np.flatnonzero(counts > 0.02 * len(codes)).tolist():
        cuts |= {often, often + 1}
    return tuple(scale.points[c] for c in sorted(cuts) if 0 < c < len(scale.points))


def nist() -> Table:
    years = [
        list(csv.DictReader((FLAT / f"nist_ma{year}.csv").open())) for year in ("2018", "2019")
    ]
    names = [name for name in years[0][0] if name not in LEFT_OUT]
    values: dict[str, tuple[str, ...] | Scale] = {}
    for name in names:
        listed = {row[name] for row in years[1]}
        # The largest number last: it stands for all larger ones.
        values[name] = SCALES.get(name) or tuple(sorted(listed, key=lambda t: (len(t), t)))
    coded = []
    for year in years:
        columns = []
        for name in names:
            known = values[name]
            texts = [row[name] for row in year]
            if isinstance(known, Scale):
                columns.append([_number(known, text) for text in texts])
            else:
                place = {value: code for code, value in enumerate(known)}
                columns.append([place.get(text, len(known) - 1) for text in texts])
        coded.append(np.array(columns, np.int64).T)
    return Table(values, ("SEX", "MSP", "EDU", "OWN_RENT", "DREM"), coded[0], coded[1])


def _number(scale: Scale, text: str) -> int:
    """The nearest point of a scale; the code after the last one for no answer."""
    if text == "N":
        return len(scale.points)
    place = round((float(text) - scale.least) / scale.step)
    return min(max(place, 0), len(scale.points) - 1)


def latent() -> Table:
    rng = np.random.default_rng(17)
    sizes = (2, 3, 4, 5, 8, 12)
    listed = [rng.dirichlet(np.full(n, 0.5), 6) for n in sizes]
    means, mix = rng.normal(0, 1.5, (6, 4)), rng.normal(0, 0.6, (4, 4))
    scale = Scale(least=-600, most=600)
    both = []
    for weights in ([0.3, 0.25, 0.2, 0.1, 0.1, 0.05], [0.27, 0.25, 0.2, 0.12, 0.1, 0.06]):
        who = rng.choice(6, 20_000, p=weights)
        columns = [
            (p[who].cumsum(1) < rng.random((len(who), 1))).sum(1).clip(max=p.shape[1] - 1)
            for p in listed
        ]
        numbers = means[who] + rng.normal(0, 1, (len(who), 4)) @ mix
        numbers[:, 3] = np.where(columns[0] == 0, 0, np.exp(numbers[:, 3]))
        columns += [*np.clip(np.rint(100 * numbers), -600, 600).astype(int).T + 600]
        both.append(np.stack(columns, axis=1))
    values: dict[str, tuple[str, ...] | Scale] = {
        f"c{i}": tuple(map(str, range(n))) for i, n in enumerate(sizes)
    }
    values |= {f"n{i}": scale for i in range(4)}
    return Table(values, ("c0", "c1", "c2", "c3", "c4"), both[0], both[1])


TABLES: dict[str, Callable[[], Table]] = {"nist": nist, "latent": latent}


class Judge:
    """The errors of tables against the real one, on queries drawn once."""

    def __init__(self, table: Table) -> None:
        self.table, self.domain = table, table.judged
        rng = np.random.default_rng(0)
        self.real = self.seen(table.now)
        self.past = self.seen(table.past)
        every = range(len(self.domain.columns))
        self.pairs = list(itertools.combinations(every, 2))
        triples = [s for s in itertools.combinations(every, 3) if self.domain.cells(s) <= 100_000]
        self.triples = [triples[i] for i in rng.permutation(len(triples))[:100]]
        listed = [c for c in every if c not in self.domain.numbers]
        numbers = list(self.domain.numbers)
        self.marginals = []
        self.linear = []
        labels = [list(table.values).index(name) for name in table.labels]
        for _ in range(1000):
            row = table.now[rng.integers(len(table.now))]
            a, b = rng.choice(listed, 2, replace=False)
            number = rng.choice(numbers)
            threshold = table.now[rng.integers(len(table.now)), number]
            self.marginals.append((a, row[a], b, row[b], number, threshold))
            theta = rng.normal(0, 1, len(numbers)) / len(numbers) ** 0.5
            label = rng.choice(labels)
            self.linear.append((theta, rng.normal(), label, row[label]))
        scaled = self._scaled(table.past)
        self._centre = scaled.mean(0), scaled.std(0)

    def seen(self, answers: Codes) -> People:
        return People.of_answers(self.domain, answers)

    def _scaled(self, answers: Codes) -> NDArray[np.float64]:
        return answers[:, list(self.domain.numbers)].astype(float)

    def shares(self, answers: Codes) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        marginals = [
            ((answers[:, a] == x) & (answers[:, b] == y) & (answers[:, c] <= z)).mean()
            for a, x, b, y, c, z in self.marginals
        ]
        numbers = (self._scaled(answers) - self._centre[0]) / self._centre[1]
        linear = [
            ((numbers @ theta <= tau) & (answers[:, label] == value)).mean()
            for theta, tau, label, value in self.linear
        ]
        return np.array(marginals), np.array(linear)

    def figures(self, answers: Codes) -> list[float]:
        own = self.seen(answers)
        result = []
        for sets in (self.pairs, self.triples):
            apart = [
                np.abs(
                    marginal_counts(self.real, s) / self.real.N - marginal_counts(own, s) / own.N
                )
                for s in sets
            ]
            result.append(float(np.mean([a.sum() / 2 for a in apart])))
        for mine, real in zip(self.shares(answers), self.shares(self.table.now), strict=True):
            result.append(100 * float(np.abs(mine - real).mean()))
        sizes = self.domain.sizes
        names = list(self.table.values)
        scores = [
            target_f1(own.codes, self.past.codes, sizes, names.index(label))
            for label in self.table.labels
        ]
        return [*result, float(np.mean(scores))]


def matched(table: Table, bins: int, rho: Fraction, seed: int) -> Codes:
    """In two phases, with every pair."""
    people = People.of_answers(table.domain(bins), table.now)
    names = tuple(table.values)
    release = MatchRelease(name="people", kind="match", attributes=names, rho=rho, every=1)
    fit = fit_match(people, release, FitContext(SeededNoise(seed)))
    return fit.sample(seed).answers.astype(np.int64)


def fitted(table: Table, bins: int, labels: bool, rho: Fraction, seed: int) -> Codes:
    domain = table.domain(bins)
    release = PeopleRelease(
        name="people",
        kind="rap",
        attributes=tuple(table.values),
        labels=table.labels if labels else None,
        rho=rho,
        every=1,
    )
    fit = fit_people(People.of_answers(domain, table.now), release, FitContext(SeededNoise(seed)))
    return fit.sample(seed).answers.astype(np.int64)


def alone(table: Table, bins: int, rho: Fraction, seed: int) -> Codes:
    """Every column by itself, at the same rho."""
    domain = table.domain(bins)
    real = People.of_answers(domain, table.now)
    codes = independent_people(real, rho, SeededNoise(seed), seed).codes.astype(np.int64)
    rng = np.random.default_rng(seed)
    for column, numbers in domain.numbers.items():
        codes[:, column] = spread(rng, codes[:, column], numbers)
    return codes


def compare(name: str, epsilons: list[str], seeds: int, bins: list[int]) -> None:
    table = TABLES[name]()
    judge = Judge(table)
    print(f"{name}: {len(table.now):,} x {len(table.values)}")
    print(f"  {'eps':<4}{'method':<24}   pairs triples marginals thresholds     F1    CPU  memory")

    def line(eps: str, method: str, make: Callable[[int], Codes]) -> None:
        rows = []
        for seed in range(1, seeds + 1):
            began = time.process_time()
            answers = make(seed)
            spent = time.process_time() - began
            rows.append([*judge.figures(answers), spent])
        pairs, triples, marginals, thresholds, f1, spent = np.mean(rows, axis=0)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"  {eps:<4}{method:<24} {pairs:7.4f} {triples:7.4f} {marginals:9.3f}"
            f" {thresholds:10.3f} {f1:6.3f} {spent:5.1f}s {peak:4.1f}GiB",
            flush=True,
        )

    rng = np.random.default_rng(1)
    line("", "real", lambda seed: table.now)
    line("", "another sample", lambda seed: table.now[rng.choice(len(table.now), len(table.now))])
    for eps in epsilons:
        rho = rho_within(Fraction(eps), DELTA)
        line(eps, "independent", lambda seed, rho=rho: alone(table, 20, rho, seed))
        for count in bins:
            line(
                eps,
                f"match, {count} bins",
                lambda seed, c=count, rho=rho: matched(table, c, rho, seed),
            )
        for count, labels in itertools.product(bins, (False, True)):
            words = f"rap, {count} bins{', labels' * labels}"
            line(
                eps,
                words,
                lambda seed, c=count, on=labels, rho=rho: fitted(table, c, on, rho, seed),
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tables", nargs="*", metavar="TABLE", default=list(TABLES))
    parser.add_argument("--eps", nargs="+", default=["0.1", "1", "5"])
    parser.add_argument("--bins", nargs="+", type=int, default=[8, 16, 32])
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    unknown = set(options.tables) - set(TABLES)
    if unknown:
        sys.exit(f"no table {', '.join(sorted(unknown))}; there are {', '.join(TABLES)}")
    for table in options.tables:
        compare(table, options.eps, options.seeds, options.bins)
