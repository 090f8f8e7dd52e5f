"""Tables with numbers: `python benchmarks/people_numbers.py [--eps 1] [TABLE...]`.

nist: people of Massachusetts in the American Community Survey (7,244 x 20): the year before is the
public past, from which values and bins follow, and on which predictions are tested. latent: a
latent class behind six listed columns and four numbers (20,000 x 10), simulated; no default was set
on it. Each is fitted under add_remove at delta = 1e-6 and judged in 20 bins of its own:

independent: every column by itself. match: in two phases. rap: with labels and without (`mixture`
of the bins is `rap` without), and with seeded sums of the numbers, measured within each label.
locations: `rap` with `rows = "locations"`, fitted to the same noisy answers as the sums. With
`--peers CLONE --peer-python PYTHON` also mst and aim of private-pgm (`peers.py`), on the bins; one
seed of aim, whose limits `--aim-megabytes` and `--peer-minutes` set.

pairs, triples: mean total variation over all pairs and 100 triples of columns;
marginals: mean error of 1,000 shares, of two values and a threshold of a number, in points;
thresholds: the same of a label and a random linear threshold of all numbers, other sums than those
that are measured;
F1: macro F1 of five labels, learnt by logistic regression from the table, tested on the past;
CPU seconds of a fit with its compilation and sample; MiB of its process at most.

Another sample of the same people with replacement is the floor of any table; `real` is the table.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
from data_sets import data_file
from numpy.typing import NDArray
from peers import Peers

from stream_dp.batch.data.domain import Column
from stream_dp.batch.people.people_draw import drawn_numbers
from stream_dp.batch.people.people_synthesizer import fit_match, fit_people
from stream_dp.batch.people.people_table import People, PeopleDomain
from stream_dp.batch.people.residual_counts import marginal_counts
from stream_dp.batch.synthesizer import FitContext
from stream_dp.privacy.noise import SeededNoise
from stream_dp.privacy.zcdp import rho_within
from stream_dp.services.evaluate.groups_trials import independent_people
from stream_dp.services.evaluate.table_judge import target_f1
from stream_dp.study import MatchRelease, Numbers, PeopleRelease, Scale
from stream_dp.study.thresholds import Linear

DELTA = Fraction(1, 10**6)
JUDGED = 20  # bins of a number
PEERS = ("mst", "aim")
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
        list(csv.DictReader(data_file(f"nist_ma{year}.csv").open())) for year in ("2018", "2019")
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


def matched(people: People, rho: Fraction, seed: int) -> Codes:
    """In two phases, with every pair."""
    names = tuple(column.name for column in people.domain.columns)
    release = MatchRelease(name="people", kind="match", attributes=names, rho=rho, every=1)
    fit = fit_match(people, release, FitContext(SeededNoise(seed)))
    return fit.sample(seed).answers.astype(np.int64)


def declared(
    people: People, rho: Fraction, labels: tuple[str, ...] | None, sums: int
) -> PeopleRelease:
    return PeopleRelease(
        name="people",
        kind="rap",
        attributes=tuple(column.name for column in people.domain.columns),
        labels=labels,
        linear=(Linear(random=sums, seed=5),) if sums else None,
        rho=rho,
        every=1,
    )


def fitted(people: People, release: PeopleRelease, seed: int) -> Codes:
    fit = fit_people(people, release, FitContext(SeededNoise(seed)))
    return fit.sample(seed).answers.astype(np.int64)


def alone(people: People, rho: Fraction, seed: int) -> Codes:
    """Every column by itself, at the same rho."""
    codes = independent_people(people, rho, SeededNoise(seed), seed).codes
    return within_bins(people.domain, codes, seed)


def within_bins(domain: PeopleDomain, codes: NDArray[np.integer], seed: int) -> Codes:
    """Answers of codes, numbers uniform within their bins."""
    answers, rng = codes.astype(np.int64), np.random.default_rng(seed)
    for column, numbers in domain.numbers.items():
        answers[:, column] = drawn_numbers(rng, answers[:, column], numbers)
    return answers


class Method(NamedTuple):
    """A row of the comparison."""

    name: str
    bins: int
    labels: bool = False
    sums: int = 0

    @property
    def words(self) -> str:
        added = [f"{self.bins} bins"]
        added += ["labels"] * self.labels + [f"{self.sums} sums"] * bool(self.sums)
        return ", ".join([self.name, *added])

    def answers(
        self, table: Table, rho: Fraction, seed: int, peers: Peers | None
    ) -> tuple[Codes, float, float]:
        """Of its table, with CPU seconds and MiB of the process that fits."""
        domain = table.domain(self.bins)
        people = People.of_answers(domain, table.now)
        if self.name in PEERS:
            assert peers is not None
            codes, spent, peak = peers.table(people, self.name, rho, seed)
            return within_bins(domain, codes, seed), spent, peak
        release = declared(people, rho, table.labels if self.labels else None, self.sums)
        began = time.process_time()
        if self.name == "independent":
            answers = alone(people, rho, seed)
        elif self.name == "match":
            answers = matched(people, rho, seed)
        elif self.name == "locations":
            answers = fitted(people, release.model_copy(update={"rows": "locations"}), seed)
        else:
            answers = fitted(people, release, seed)
        spent = time.process_time() - began
        high = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
        assert high
        return answers, spent, int(high[1]) / 1024


def methods(bins: list[int], sums: int, peers: Peers | None) -> list[Method]:
    finest = max(bins)
    rows = [Method("independent", 20)]
    rows += [Method("match", count) for count in bins]
    rows += [Method("rap", count, on) for count in bins for on in (False, True)]
    rows += [Method("rap", finest, True, sums)]
    rows.append(Method("locations", finest, True, sums))
    return rows + [Method(name, finest) for name in PEERS if peers]


def compare(name: str, options: argparse.Namespace) -> None:
    table, peers = TABLES[name](), Peers.of(options)
    judge = Judge(table)
    print(f"{name}: {len(table.now):,} x {len(table.values)}; {options.seeds} seeds")
    print(f"  {'eps':<4}{'method':<28}   pairs triples marginals thresholds     F1     CPU     MiB")

    def line(eps: str, words: str, rows: list[list[float]]) -> None:
        pairs, triples, marginals, thresholds, f1, *cost = np.mean(rows, axis=0)
        spent = f"{cost[0]:7.1f} {cost[1]:7.0f}" if cost else ""
        print(
            f"  {eps:<4}{words:<28} {pairs:7.4f} {triples:7.4f} {marginals:9.3f}"
            f" {thresholds:10.3f} {f1:6.3f} {spent}".rstrip(),
            flush=True,
        )

    if options.methods is None:
        rng = np.random.default_rng(1)
        again = [rng.choice(len(table.now), len(table.now)) for _ in range(options.seeds)]
        line("", "real", [judge.figures(table.now)])
        line("", "another sample", [judge.figures(table.now[rows]) for rows in again])
    for eps, method in itertools.product(options.eps, methods(options.bins, options.sums, peers)):
        if method.name not in (options.methods or (method.name,)):
            continue
        rho, rows = rho_within(Fraction(eps), DELTA), []
        for seed in range(1, (1 if method.name == "aim" else options.seeds) + 1):
            # A process for each fit: it compiles all, and its memory is its own.
            with get_context("spawn").Pool(1) as pool:
                try:
                    own = pool.apply(method.answers, (table, rho, seed, peers))
                except TimeoutError:
                    break
            rows.append([*judge.figures(own[0]), *own[1:]])
        if rows:
            line(eps, method.words, rows)
        else:
            print(
                f"  {eps:<4}{method.words:<28} no table after {options.peer_minutes:g} CPU minutes"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tables", nargs="*", metavar="TABLE", default=list(TABLES))
    parser.add_argument("--eps", nargs="+", default=["0.1", "1", "5"])
    parser.add_argument("--bins", nargs="+", type=int, default=[16])
    parser.add_argument("--sums", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--methods", nargs="+", metavar="NAME", help="these alone, such as aim")
    Peers.options(parser)
    options = parser.parse_args()
    unknown = set(options.tables) - set(TABLES)
    if unknown:
        sys.exit(f"no table {', '.join(sorted(unknown))}; there are {', '.join(TABLES)}")
    for table in options.tables:
        compare(table, options)
