"""People with their trips, simulated: `python benchmarks/diaries.py [SEEDS [EPS...]]`.

20,000 people of 3 columns have up to 8 trips of 3 columns a day. Workers have more trips, the old
walk, trips to work are in the morning and end at home later. Printed are the largest and the mean
error of all queries about 3 columns, in percentage points: of people (who have a trip with these
values), and of trips. The methods are `hpd-events`; independent columns; noisy answers to every
query; and, without any noise, the true trips of other people with as many trips. CPU seconds are
those of a fit. delta is 1e-9. Privacy noise here is simulated.
"""

from __future__ import annotations

import sys
import time
from fractions import Fraction

import numpy as np
from result_file import record

from stream_dp.batch import kinds
from stream_dp.batch.data.domain import Column, Domain, Hierarchy
from stream_dp.batch.groups.workload.candidates import default_marginals
from stream_dp.batch.groups.workload.queries import Queries
from stream_dp.batch.synthesizer import FitContext
from stream_dp.privacy.noise import SeededNoise
from stream_dp.privacy.zcdp import rho_within
from stream_dp.services.evaluate.groups_trials import DataSetJudge, measure_every_query
from stream_dp.services.evaluate.table_report import ClassErrors, qualities
from stream_dp.study.group_releases import EventsRelease

PEOPLE, MOST = 20_000, 8
DOMAIN = Domain(
    (Column("age", (0, 1, 2)), Column("work", ("no", "yes")), Column("region", (0, 1, 2))),
    (
        Column("mode", ("walk", "bike", "car", "bus")),
        Column("purpose", ("work", "shop", "fun", "home")),
        Column("hour", (0, 1, 2, 3)),
    ),
    MOST,
    events=True,
)


def diaries(people: int, seed: int) -> Hierarchy:
    """So many people with their trips."""
    rng = np.random.default_rng(seed)
    age, region = rng.choice(3, people, p=[0.3, 0.5, 0.2]), rng.choice(3, people, p=[0.5, 0.3, 0.2])
    work = (rng.random(people) < np.array([0.5, 0.8, 0.05])[age]).astype(int)
    away = rng.random(people) < np.where(work == 1, 0.92, 0.75)
    sizes = np.where(away, 1 + rng.binomial(MOST - 1, 0.18 + 0.1 * work - 0.05 * (age == 2)), 0)
    of = np.repeat(np.arange(people), sizes)
    rank = np.arange(len(of)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    last = rank == sizes[of] - 1
    outward = np.where((work[of] == 1) & (rank == 0), 0, 1 + (rng.random(len(of)) < 0.4))
    purpose = np.where(last & (rank > 0), 3, outward)
    hour = np.clip(rank + (purpose == 3) + rng.integers(0, 2, len(of)), 0, 3)
    own = rng.integers(0, 4, people)  # most trips of a person have one mode
    own = np.where(rng.random(people) < 0.5, np.array([1, 2, 0])[age], own)
    own = np.where((region == 0) & (rng.random(people) < 0.3), 3, own)
    mode = np.where(rng.random(len(of)) < 0.75, own[of], rng.integers(0, 4, len(of)))
    groups = np.stack([age, work, region, sizes], axis=1)
    return Hierarchy(DOMAIN, groups, np.stack([mode, purpose, hour], axis=1), of)


def exchanged(truth: Hierarchy) -> Hierarchy:
    """The people with the trips of others who have as many."""
    rng, sizes = np.random.default_rng(0), truth.groups[:, -1].astype(int)
    donors = np.arange(truth.G)
    for size in np.unique(sizes):
        same = np.flatnonzero(sizes == size)
        donors[same] = same[rng.permutation(len(same))]
    rows = np.concatenate([np.arange(*truth.starts[[d, d + 1]]) for d in donors])
    return Hierarchy(DOMAIN, truth.groups, truth.people[rows], truth.group_of)


def release(epsilon: str) -> EventsRelease:
    return EventsRelease(
        name="trips",
        kind="hpd-events",
        attributes=tuple(column.name for column in DOMAIN.group),
        events={"unit": "trip", "columns": [c.name for c in DOMAIN.person], "most": MOST},
        rho=rho_within(Fraction(epsilon), Fraction(1, 10**9)),
        every=1,
    )


def line(name: str, several: list[ClassErrors], seconds: float = 0.0) -> None:
    cells = []
    for which in ("people", "events"):
        errors = [q for one in several for q in qualities(one, "", "", "") if q.queries == which]
        for measure in ("greatest", "mean"):
            cells.append(100 * np.mean([getattr(q, measure) for q in errors]))
    shown = "".join(f"{cell:>10.3f}" for cell in cells)
    print(f"{name:<36}{shown}{seconds:>8.1f} s", flush=True)
    record("events", name, *cells, seconds or None)


def main(arguments: list[str]) -> None:
    seeds, *epsilons = arguments or ["3"]
    truth, marginals = diaries(PEOPLE, 1), default_marginals(DOMAIN, 3)
    judge = DataSetJudge(truth, Queries.joined(m.queries() for m in marginals))
    print(f"{truth.G:,} people, {truth.N:,} trips; largest and mean error of people, of trips")
    line("exchanged trips", [judge.data_set(exchanged(truth))])
    line("another sample of people", [judge.data_set(diaries(PEOPLE, 2))])
    for epsilon in epsilons or ["0.25", "1"]:
        declared = release(epsilon)
        for kind in ("hpd-events", "independent"):
            errors, began = [], time.process_time()
            for seed in range(int(seeds)):
                one = declared.model_copy(update={"kind": kind})
                fit = kinds.load_synthesizer(kind)(truth, one, FitContext(SeededNoise(seed)))
                errors.append(judge.data_set(fit.sample(seed)))
            seconds = (time.process_time() - began) / int(seeds)
            shown = f"`{kind}`" if kind == "hpd-events" else "independent columns"
            line(f"eps {epsilon}, {shown}", errors, seconds)
        noisy = [
            judge.counts(measure_every_query(truth, marginals, declared.rho, SeededNoise(seed)))
            for seed in range(int(seeds))
        ]
        line(f"eps {epsilon}, every query", noisy)


if __name__ == "__main__":
    main(sys.argv[1:])
