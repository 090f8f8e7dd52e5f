"""Tables month after month: `python benchmarks/months.py [--seeds 1] [SCENARIO...]`.

Twelve tables of a travel survey (59,762 x 12) at rho = .014973 in all under add_remove, fitted as
`mixture`: each month alone at a twelfth of rho, and fused, the first month at a fifth. SCENARIOS:
churn-P: P per cent of the rows are replaced each month, by rows of the survey that are older,
richer and in work more often; even: 2 % are, by any rows; season: beside churn of 2 % a tenth of
the rows move to the rarest values of three columns and back within a year; shock: they do in month
7, and stay. oulad and union: two real panels, as tables of the last three
months' answers.

Prints without a model, from measured and fused interactions: the error over all sets and the
largest of a set (root mean squares over cells and seeds) over those of separate months, in the last
month or, where there is one, that of the shock; the error of changes over one month and over six to
the last one, in shares of 1e-4; and the coverage of intervals in the last month, of 1.96 standard
errors over all cells and of 2.5 in the tenth of cells that moved most within six months. Then, for
the months of `--months`, the mean total variation of synthetic people over pairs and over 100
triples, and the CPU seconds of all fits; `--only` leaves the models out. Needs pandas.

With `RECORD`, the scenarios of churn and shock write their rows of the documentation's tables.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pandas as pd
from data_sets import data_file
from numpy.typing import NDArray
from result_file import record
from scorer import ScoredTable, scored_table

from stream_dp.answers.month_filters import Measured, MonthFilters
from stream_dp.batch.data.domain import Column
from stream_dp.batch.people.people_plan import people_plan
from stream_dp.batch.people.people_synthesizer import Unlearnt, fit_people, fit_plan
from stream_dp.batch.people.people_table import People, PeopleDomain
from stream_dp.batch.people.residual_counts import Columns, centred, marginal_counts
from stream_dp.batch.people.target_shares import Targets
from stream_dp.batch.synthesizer import EarlierTable, FitContext, MemoryTranscript
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study import PeopleRelease

RHO, SHOCK = Fraction("0.014973"), 7  # the month, from 1
SCENARIOS = ("churn-0.5", "churn-2", "churn-10", "even", "season", "shock", "oulad", "union")
ROWS = {  # of the table of changes
    "churn-0.5": ".5 % a month",
    "churn-2": "2 %",
    "churn-10": "10 %",
    "shock": f"2 %, and 10 % at once in month {SHOCK}",
}
PANELS = {"oulad": "oulad_submit_monthly", "union": "nlswork_union"}
Floats = NDArray[np.float64]
Tables = list[NDArray[np.int64]]


def panel(name: str) -> tuple[Tables, dict[str, int]]:
    """A table for each month from the third on: everybody's answers in the last three months."""
    frame = pd.read_csv(data_file(f"{PANELS[name]}.csv")).iloc[:, 1:]
    codes = frame.fillna(frame.max().max() + 1).to_numpy(np.int64)
    tables = [codes[:, t - 2 : t + 1] for t in range(2, codes.shape[1])]
    return tables, dict.fromkeys(("ago2", "ago1", "now"), int(codes.max()) + 1)


def months(scenario: str, seed: int) -> tuple[Tables, dict[str, int]]:
    """The true tables of a scenario, and the numbers of values by column."""
    if scenario in PANELS:
        return panel(scenario)
    survey, rng = scored_table("survey"), np.random.default_rng(seed)
    codes, names = survey.codes, [*survey.sizes]
    kind, _, percent = scenario.partition("-")
    moved = [names.index(name) for name in ("PEmp", "POcc", "PComm")]
    rarest = [int(np.bincount(codes[:, c]).argmin()) for c in moved]
    pool = None
    if kind != "even":
        tilting = codes[:, [names.index(name) for name in ("HHIncome", "PEmp", "PAge")]]
        pool = np.exp(0.7 * ((tilting - tilting.mean(0)) / tilting.std(0)).sum(1))
        pool /= pool.sum()
    group = rng.permutation(len(codes))[: len(codes) // 10]
    tables, now = [codes], codes
    for t in range(1, 12):
        now = now.copy()
        churn = round(float(percent or 2) / 100 * len(codes))
        who = rng.choice(len(codes), churn, replace=False)
        now[who] = codes[rng.choice(len(codes), churn, p=pool)]
        if kind == "shock" and t + 1 == SHOCK:
            now[np.ix_(group, moved)] = rarest
        seen = now
        if kind == "season":
            seen, most = now.copy(), round(len(group) * (1 - math.cos(math.pi * t / 6)) / 2)
            seen[np.ix_(group[:most], moved)] = rarest
        tables.append(seen)
    return tables, survey.sizes


@dataclass(frozen=True)
class Design:
    """A way to spend rho on a schedule. costs: by month."""

    fuse: bool
    costs: tuple[Fraction, ...]

    @staticmethod
    def of(columns: Sequence[str], tables: int, *, fuse: bool) -> Design:
        release = _release(columns, RHO / tables, None if fuse else False)
        return Design(fuse, release.costs(tables))


def _release(columns: Sequence[str], rho: Fraction, fuse: bool | None = None) -> PeopleRelease:
    return PeopleRelease(
        name="p", kind="mixture", attributes=tuple(columns), rho=rho, every=1, fuse=fuse
    )


def fits(
    tables: Tables, sizes: dict[str, int], design: Design, fitted: Sequence[int], seed: int
) -> Iterator[tuple[int, Targets, NDArray[np.int64] | None]]:
    """By month, what it measured; of the months `fitted`, synthetic people as well."""
    columns = tuple(Column(name, tuple(range(n))) for name, n in sizes.items())
    domain, earlier = PeopleDomain(columns, moves=True, replaced=False), list[EarlierTable]()
    for number, codes in enumerate(tables, 1):
        people, release = People(domain, codes), _release([*sizes], design.costs[number - 1])
        transcript, plan = MemoryTranscript(), people_plan(domain, release)
        before = tuple(earlier) if design.fuse else ()
        context = FitContext(
            SeededNoise(100 * seed + number), transcript, number=number, earlier=before
        )
        if number in fitted:
            fit = fit_people(people, release, context)
            sample = fit.sample(seed).codes
        else:
            fit, sample = fit_plan(people, plan, context, lambda seed: Unlearnt()), None
        earlier.append(EarlierTable(number, release, tuple(transcript.recorded)))
        yield number, Targets.of(plan.workload, fit.answers), sample


def true_interactions(codes: NDArray[np.int64], targets: Targets) -> dict[Columns, Floats]:
    people = People(targets.residuals.domain, codes)
    return {a: centred(marginal_counts(people, a) / people.N).ravel() for a in targets.interactions}


class Series:
    """The interactions of a scenario without a model: true, measured and fused, month by month."""

    def __init__(self, tables: Tables, sizes: dict[str, int], seed: int) -> None:
        self.true, self.fused = list[dict[Columns, Floats]](), list[dict[Columns, Floats]]()
        self.own, self.spent = list[dict[Columns, Floats]](), 0.0
        filters, count = MonthFilters[Columns](1), len(tables)
        alone = Design.of([*sizes], count, fuse=False)
        for number, targets, _ in fits(tables, sizes, alone, (), seed + 50):
            self.true.append(true_interactions(tables[number - 1], targets))
            self.own.append({a: v.values.ravel() for a, v in targets.interactions.items()})
        together = Design.of([*sizes], count, fuse=True)
        for number, targets, _ in fits(tables, sizes, together, (), seed):
            began = time.process_time()
            filters = filters.at(number).learnt(_measured(targets))
            posterior = {a: filters.posterior(a) for a in filters.filters}
            self.spent += time.process_time() - began
            self.fused.append({a: mean for a, (mean, _) in posterior.items()})
            if number in (count - 6, count - 1):
                filters = filters.remembering([*filters.filters])
        self.filters, self.posterior = filters, posterior
        squares = [
            {a: _squares(own[a] - true[a]) for a in true}
            for own, true in zip(self.own, self.true, strict=True)
        ]
        self.noise = {a: float(np.mean([month[a] for month in squares])) for a in squares[0]}

    def ratios(self, number: int) -> dict[Columns, tuple[float, float]]:
        """By set, the squared error of a month fused, and the mean one of separate months."""
        true, fused = self.true[number - 1], self.fused[number - 1]
        return {a: (_squares(fused[a] - true[a]), self.noise[a]) for a in true}

    def changes(self) -> list[float]:
        """Root mean squares of the change over one month and six: separate, fused, true."""
        result = []
        for months, state in ((1, 3), (6, 2)):
            true = {a: self.true[-1][a] - self.true[-1 - months][a] for a in self.true[-1]}
            own = {a: self.own[-1][a] - self.own[-1 - months][a] - true[a] for a in true}
            states = np.eye(4)[0] - np.eye(4)[state]
            joint = {a: self.filters.posterior(a, states)[0] - true[a] for a in true}
            result += [_rms(own), _rms(joint), _rms(true)]
        return result

    def coverage(self) -> tuple[float, float]:
        """Of 1.96 standard errors over all cells, and of 2.5 in the tenth that moved most."""
        errors, moved = [], []
        for a, (mean, variance) in self.posterior.items():
            error = np.sqrt(variance * self.filters.filters[a].centring)
            errors.append(np.abs(mean - self.true[-1][a]) / error)
            moved.append(np.abs(self.true[-1][a] - self.true[-7][a]) / error)
        error, far = np.concatenate(errors), np.concatenate(moved)
        tenth = far >= np.quantile(far, 0.9)
        return float((error < 1.96).mean()), float((error[tenth] < 2.5).mean())


def _measured(targets: Targets) -> dict[Columns, Measured]:
    return dict(targets.interactions)


def _squares(values: Floats) -> float:
    return float(np.square(values).mean())


def _rms(values: dict[Columns, Floats]) -> float:
    return float(np.sqrt(np.square(np.concatenate([*values.values()])).mean())) * 1e4


def compare(scenario: str, options: argparse.Namespace) -> None:
    series, worst = list[Series](), dict[Columns, list[tuple[float, float]]]()
    for seed in range(1, options.seeds + 1):
        tables, sizes = months(scenario, seed)
        series.append(one := Series(tables, sizes, seed))
        number = SHOCK if scenario == "shock" else len(tables)
        for a, errors in one.ratios(number).items():
            worst.setdefault(a, []).append(errors)
    sums = {a: np.sum(errors, axis=0) for a, errors in worst.items()}
    largest = max(math.sqrt(fused / own) for fused, own in sums.values())
    overall = math.sqrt(sum(f for f, _ in sums.values()) / sum(o for _, o in sums.values()))
    changes = np.mean([one.changes() for one in series], axis=0)
    covered = np.mean([one.coverage() for one in series], axis=0)
    print(f"{scenario}: sets' errors {overall:.2f} of separate, the worst {largest:.2f};", end=" ")
    print("changes separate, joint, true over 1 month", *changes[:3].round(1), end=" ")
    print("and 6", *changes[3:].round(1), end="; ")
    spent = np.mean([one.spent for one in series])
    print("coverage", *covered.round(3), f"; {spent:.1f} CPU s", flush=True)
    if scenario in ROWS:
        cells = overall, *changes[:2], changes[4], *covered
        record("months-changes", ROWS[scenario], *map(float, cells))
    if options.only:
        return
    variations = dict[tuple[int, bool], tuple[float, float]]()
    for fuse in (False, True):
        began, rows = time.process_time(), dict[int, list[tuple[float, float, float]]]()
        for seed in range(1, options.seeds + 1):
            tables, sizes = months(scenario, seed)
            design = Design.of([*sizes], len(tables), fuse=fuse)
            asked = [min(number, len(tables)) for number in options.months]
            for number, _, sample in fits(tables, sizes, design, asked, seed):
                if sample is not None:
                    judge = ScoredTable(tables[number - 1], tables[number - 1], sizes)
                    rows.setdefault(number, []).append(judge.variations(sample))
        spent = (time.process_time() - began) / options.seeds
        print(f"  {'fused' if fuse else 'separate':<9}", end="")
        for number, scores in rows.items():
            pairs, triples, _ = np.mean(scores, axis=0)
            print(f" month {number}: {pairs:.4f}/{triples:.4f}", end="")
            variations[number, fuse] = float(pairs), float(triples)
        print(f"; {spent:.0f} CPU s", flush=True)
    if scenario == "churn-2":
        for number in sorted({number for number, _ in variations}):
            alone, fused = variations[number, False], variations[number, True]
            both = (*zip(alone, fused, strict=True),)
            record("months", str(number), *both[0], *both[1], fused[0] / alone[0])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", default=SCENARIOS)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--months", type=int, nargs="+", default=[1, 6, 12])
    parser.add_argument("--only", action="store_true", help="without models")
    options = parser.parse_args()
    for scenario in options.scenarios:
        compare(scenario, options)
