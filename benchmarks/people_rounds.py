"""Many columns: `python benchmarks/people_rounds.py [--seeds 1] [COLUMNS...]`.

Simulated people (50,000) whose columns are a Bayesian network drawn by a seed: 2 to 15 values, each
column with up to two parents anywhere before it, one in ten with none. They are fitted as `mixture`
at rho = .014973 under add_remove, in 16 rounds of a quarter of the columns and with all pairs at
once, each in a process of its own; `--rounds 16x6 10x10` are others, with so many picks in each.
With `--tables` the tables of `people.py` instead, in rounds.
Prints the mean total variation over all pairs and over 100 triples, the largest over pairs, CPU
seconds with compilation, the peak of memory in MiB, rounds, measured sets and cells of the tree.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import subprocess
import sys
import time

import numpy as np
from numpy.typing import NDArray
from people import RHO, TABLES, table

from stream_dp.batch.data.domain import Column
from stream_dp.batch.people.measure.residual_counts import marginal_counts
from stream_dp.batch.people.model.tree_model import TreeModel
from stream_dp.batch.people.people_synthesizer import fit_people
from stream_dp.batch.people.people_table import People, PeopleDomain
from stream_dp.batch.synthesizer import FitContext
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study import PeopleRelease

PEOPLE = 50_000


def network(columns: int, seed: int = 3) -> NDArray[np.int64]:
    rng = np.random.default_rng(seed)
    sizes, result = rng.integers(2, 16, columns), list[NDArray[np.int64]]()
    for c in range(columns):
        k = int(sizes[c])
        if c == 0 or rng.random() < 0.1:
            result.append(rng.choice(k, PEOPLE, p=rng.dirichlet(np.full(k, 1.0))))
            continue
        parents = rng.choice(c, min(c, int(rng.integers(1, 3))), replace=False)
        state, states = np.zeros(PEOPLE, np.int64), 1
        for p in parents:
            state, states = state * sizes[p] + result[p], states * int(sizes[p])
        base = rng.dirichlet(np.full(k, 1.0))
        law = rng.dirichlet(base * k / 2 + 0.02, states)
        drawn = (law[state].cumsum(1) < rng.random((PEOPLE, 1))).sum(1)
        result.append(drawn.clip(max=k - 1))
    return np.stack(result, axis=1)


def variations(true: People, other: People) -> list[float]:
    """Mean total variation over pairs and over 100 triples, and the largest over pairs."""
    columns, means = range(len(true.domain.sizes)), list[float]()
    for ways in (2, 3):
        sets = [a for a in itertools.combinations(columns, ways) if true.domain.cells(a) <= 100_000]
        if ways == 3 and len(sets) > 100:
            chosen = np.random.default_rng(0).choice(len(sets), 100, replace=False)
            sets = [sets[i] for i in chosen]
        apart = [
            float(
                np.abs(
                    marginal_counts(true, a) / true.N - marginal_counts(other, a) / other.N
                ).sum()
            )
            for a in sets
        ]
        means += [float(np.mean(apart)) / 2, max(apart) / 2]
    return means[:1] + means[2:3] + means[1:2]


def one(name: str, picking: str, seed: int) -> None:
    """Fits a table once and prints what came of it, as JSON.

    picking: rounds, and with an x between them how many picks each has.
    """
    rounds, _, picks = picking.partition("x")
    codes = network(int(name)) if name.isdecimal() else table(name).codes
    sizes = (codes.max(0) + 1).tolist()
    columns = tuple(Column(f"c{i}", tuple(range(n))) for i, n in enumerate(sizes))
    true = People(PeopleDomain(columns, moves=True, replaced=False), codes)
    names = tuple(c.name for c in columns)
    release = PeopleRelease(
        name="p",
        kind="mixture",
        attributes=names,
        rho=RHO,
        every=1,
        rounds=int(rounds),
        per_round=int(picks) if picks else None,
    )
    began = time.process_time()
    fit = fit_people(true, release, FitContext(SeededNoise(seed)))
    sample = fit.sample(seed)
    spent = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    tree = fit.model.tree if isinstance(fit.model, TreeModel) else None
    facts = [len(fit.picked), sum(map(len, fit.picked)), tree.cells if tree else 0]
    print(json.dumps([*variations(true, sample), spent, peak, *facts]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", metavar="COLUMNS", default=["24", "50", "100"])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--tables", dest="known", action="store_true", help="those of people.py")
    parser.add_argument("--rounds", nargs="+", metavar="ROUNDS[xPICKS]", default=["16", "0"])
    parser.add_argument("--one", nargs=3, metavar=("TABLE", "ROUNDS", "SEED"))
    options = parser.parse_args()
    if options.one:
        name, asked, number = options.one
        one(name, asked, int(number))
        sys.exit()
    for name in TABLES if options.known else options.tables:
        for asked in options.rounds:
            rows = []
            for number in range(1, options.seeds + 1):
                words = [sys.executable, __file__, "--one", name, asked, str(number)]
                done = subprocess.run(words, check=True, capture_output=True, text=True)
                rows.append(json.loads(done.stdout))
            pairs, triples, worst, seconds, peak, *facts = np.mean(rows, axis=0)
            line = f"{pairs:.4f} / {triples:.4f} / {worst:.3f}, {seconds:.1f} s, {peak:.0f} MiB"
            kind = f"{asked}: {facts[0]:.0f} rounds" if asked != "0" else "at once"
            print(
                f"{name:>8} {kind:>16}: {line}, {facts[1]:.0f} sets, {facts[2]:,.0f} cells",
                flush=True,
            )
