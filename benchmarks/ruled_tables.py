"""What structural rules change in a table of people: `python benchmarks/ruled_tables.py`.

Simulated people with seven columns: years of start and end, sex, region, job, sector and income.
The rules are `start <= end`, that nobody has a job before year 8 and everybody later, and that the
sector follows from the job. No constant was chosen on this table. Each fit is of the kind `table`
under add_remove (delta = 1e-9), with rules and without, with two seeds. Prints the mean total
variation of single columns, pairs and triples, the share of impossible rows, and CPU seconds.

With `RECORD` it writes the rows of the documentation's table.
"""

from __future__ import annotations

import time
from fractions import Fraction
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from result_file import record

from stream_dp.batch.kinds import load_synthesizer
from stream_dp.batch.people.people_table import People, declared_people
from stream_dp.batch.synthesizer import FitContext
from stream_dp.privacy.noise import SeededNoise
from stream_dp.privacy.zcdp import rho_within
from stream_dp.study import Attribute
from stream_dp.study.families import Kind

Codes = NDArray[np.int64]
DELTA, SEEDS = Fraction(1, 10**9), (1, 2)
SIZES = {"start": 40, "end": 40, "sex": 2, "region": 6, "job": 13, "sector": 5, "income": 10}
SECTORS = np.array([0, 1, 1, 1, 2, 2, 3, 3, 3, 4, 4, 4, 4])
RULES = {
    "rules": ["start <= end", "start < 8 -> job = 0", "job = 0 -> start < 8"],
    "derived": {"sector": {"of": "job", "values": {str(i): int(s) for i, s in enumerate(SECTORS)}}},
}


class Quality(NamedTuple):
    """Mean total variations of one, two and three columns, impossible rows, CPU seconds."""

    singles: float
    pairs: float
    triples: float
    impossible: float
    seconds: float


def people(count: int, seed: int) -> Codes:
    """(count, 7) codes that keep the rules."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=count)
    start = np.clip((20 + 8 * hidden + 6 * rng.normal(size=count)).astype(int), 0, 39)
    end = np.minimum(start + rng.geometric(0.12, count) - 1, 39)
    sex = rng.integers(0, 2, count)
    region = rng.choice(6, count, p=rng.dirichlet(np.ones(6) * 2))
    level = np.clip((hidden + rng.normal(size=count)) * 3 + 6, 0, 11).astype(int)
    job = np.where(start < 8, 0, 1 + level)
    sector = SECTORS[job]
    income = (hidden + 0.5 * rng.normal(size=count) + 0.3 * sector) * 2 + 4
    return np.stack([start, end, sex, region, job, sector, np.clip(income, 0, 9).astype(int)], 1)


def distance(true: Codes, synthetic: Codes, ways: int) -> float:
    """The mean total variation over all sets of so many columns."""
    sizes, distances = [*SIZES.values()], list[float]()
    for columns in combinations(range(len(sizes)), ways):
        shape = [sizes[c] for c in columns]
        counts = [
            np.bincount(np.ravel_multi_index(rows[:, columns].T, shape), minlength=np.prod(shape))
            for rows in (true, synthetic)
        ]
        shares = [count / count.sum() for count in counts]
        distances.append(float(np.abs(shares[0] - shares[1]).sum()) / 2)
    return float(np.mean(distances))


def quality(count: int, eps: float, seed: int, rules: dict[str, object]) -> Quality:
    rho = rho_within(Fraction(str(eps)), DELTA)
    declared = {"name": "t", "kind": "table", "every": 1, "rho": rho, "attributes": [*SIZES]}
    release = Kind.TABLE.declaration.model_validate(declared | rules)
    attributes = {n: Attribute(values=tuple(range(k)), missing=0) for n, k in SIZES.items()}
    domain = declared_people(release, attributes, neighbours="add_remove", size=None)  # type: ignore[arg-type]
    true, began = people(count, seed), time.process_time()
    fit = load_synthesizer(Kind.TABLE)(People(domain, true), release, FitContext(SeededNoise(seed)))
    drawn = fit.sample(1).answers
    seconds = time.process_time() - began
    start, end, _, _, job, sector, _ = drawn.T
    impossible = (start > end) | ((start < 8) != (job == 0)) | (SECTORS[job] != sector)
    distances = [distance(true, drawn, ways) for ways in (1, 2, 3)]
    return Quality(*distances, float(impossible.mean()), seconds)


def main() -> None:
    print("people  eps  rules    singles  pairs   triples  impossible  CPU s")
    for count in (3_000, 20_000):
        for eps in (0.3, 1, 5):
            means = list[Quality]()
            for title, rules in (("without", {}), ("with", RULES)):
                runs = [quality(count, eps, seed, rules) for seed in SEEDS]
                mean = Quality(*np.mean(runs, axis=0).tolist())
                means.append(mean)
                numbers = f"{mean.singles:7.4f}  {mean.pairs:.4f}  {mean.triples:7.4f}"
                print(
                    f"{count:6} {eps:4} {title:8} {numbers}  {mean.impossible:10.3f}"
                    f"  {mean.seconds:5.1f}",
                    flush=True,
                )
            without, ruled = means
            record(
                "people-rules",
                f"{count:,} people, eps {eps}",
                *(without.impossible, ruled.impossible),
                *(without.pairs, ruled.pairs, without.triples, ruled.triples),
            )


if __name__ == "__main__":
    main()
