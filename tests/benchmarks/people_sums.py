"""Linear thresholds: `python tests/benchmarks/people_sums.py [--eps 1] [--sums 8] [TABLE...]`.

The tables, columns and errors of `people_numbers.py`, 16 bins a number, with labels: `rap` without
sums, `rap` that measures so many seeded sums within each label, and rows of locations fitted to the
same noisy answers (`locations.py`). Thresholds are of other sums than those that are measured.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from locations import located_answers
from people_numbers import DELTA, TABLES, Codes, Judge, Table

from stream_dp.batch.base import FitContext
from stream_dp.batch.people.linear import fit_rap
from stream_dp.batch.people.table import People
from stream_dp.privacy.noise import SeededNoise
from stream_dp.privacy.zcdp import rho_within
from stream_dp.study import PeopleRelease
from stream_dp.study.linear import Linear

BINS = 16
SIGMAS = ((8.0, 8.0), (32.0, 32.0), (2.0, 32.0))  # a bin, at the first and at the last step


def declared(table: Table, rho: Fraction, sums: int) -> PeopleRelease:
    return PeopleRelease(
        name="people",
        kind="rap",
        attributes=tuple(table.values),
        labels=table.labels,
        linear=(Linear(random=sums, seed=5),) if sums else None,
        rho=rho,
        every=1,
    )


def fitted(people: People, release: PeopleRelease, seed: int) -> Codes:
    fit = fit_rap(people, release, FitContext(SeededNoise(seed)))
    return fit.sample(seed).answers.astype(np.int64)


def compare(name: str, eps: str, seeds: int, sums: int) -> None:
    table = TABLES[name]()
    judge, rho = Judge(table), rho_within(Fraction(eps), DELTA)
    people = People.of_answers(table.domain(BINS), table.now)
    plain, linear = declared(table, rho, 0), declared(table, rho, sums)
    methods: dict[str, Callable[[int], Codes]] = {
        "rap": lambda seed: fitted(people, plain, seed),
        f"rap, {sums} sums": lambda seed: fitted(people, linear, seed),
    }
    for sigma in SIGMAS:
        words = f"locations, sigma {sigma[0]:g} to {sigma[1]:g}"
        methods[words] = lambda seed, s=sigma: located_answers(people, linear, seed, s)
    print(f"{name}: {people.N:,} x {len(table.values)}, eps {eps}, {seeds} seeds")
    print(f"  {'method':<28}   pairs triples marginals thresholds     F1    CPU")
    for method, make in methods.items():
        rows = []
        for seed in range(1, seeds + 1):
            began = time.process_time()
            answers = make(seed)
            rows.append([time.process_time() - began, *judge.figures(answers)])
        spent, pairs, triples, marginals, thresholds, f1 = np.mean(rows, axis=0)
        print(
            f"  {method:<28} {pairs:7.4f} {triples:7.4f} {marginals:9.3f} {thresholds:10.3f}"
            f" {f1:6.3f} {spent:5.1f}s",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tables", nargs="*", metavar="TABLE", default=list(TABLES))
    parser.add_argument("--eps", nargs="+", default=["1", "5"])
    parser.add_argument("--sums", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    for table in options.tables:
        for eps in options.eps:
            compare(table, eps, options.seeds, options.sums)
