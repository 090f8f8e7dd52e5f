"""Many columns: `python benchmarks/people_rounds.py [--seeds 1] [TABLE...]`.

A number is that of the columns of simulated people (50,000) whose columns are a Bayesian network
drawn by a seed: 2 to 15 values, each column with up to two parents anywhere before it, one in ten
with none. Names are dense tables (`dense_tables.py`; all of them without variants by default) or
tables of `people.py`. They are fitted at rho = .014973 times `--times` under add_remove, each in a
process of its own: as `table`, and as `mixture` by the default, in 16 rounds of a quarter of the
columns, and with all pairs at once; `--rounds 16x6 10x10` are others, with so many picks in each.
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
from dense_tables import DENSE
from numpy.typing import NDArray
from people import RHO, TABLES, table

from stream_dp.batch.data.domain import Column
from stream_dp.batch.people.people_synthesizer import fit_people, fit_table
from stream_dp.batch.people.people_table import People, PeopleDomain
from stream_dp.batch.people.residual_counts import marginal_counts
from stream_dp.batch.people.tree_model import TreeModel
from stream_dp.batch.people.weighted_tree import WeightedTree
from stream_dp.batch.synthesizer import FitContext
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study import MatchRelease, PeopleRelease

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


def codes_of(name: str) -> NDArray[np.int64]:
    if name.isdecimal():
        return network(int(name))
    return DENSE[name]() if name in DENSE else table(name).codes


def one(name: str, picking: str, seed: int, times: int) -> None:
    """Fits a table once and prints what came of it, as JSON.

    picking: `table`, `default`, or rounds, and with an x between them how many picks each has.
    times: of rho.
    """
    rounds, _, picks = picking.partition("x")
    codes = codes_of(name)
    sizes = (codes.max(0) + 1).tolist()
    columns = tuple(Column(f"c{i}", tuple(range(n))) for i, n in enumerate(sizes))
    true = People(PeopleDomain(columns, moves=True, replaced=False), codes)
    names = tuple(c.name for c in columns)
    context, rho, began = FitContext(SeededNoise(seed)), RHO * times, time.process_time()
    if picking == "table":
        default = MatchRelease(name="p", kind="table", attributes=names, rho=rho, every=1)
        fit_of_table = fit_table(true, default, context)
        sample, fit = fit_of_table.sample(seed), fit_of_table.second
    else:
        release = PeopleRelease(
            name="p",
            kind="mixture",
            attributes=names,
            rho=rho,
            every=1,
            rounds=None if rounds == "default" else int(rounds),
            per_round=int(picks) if picks else None,
        )
        fit = fit_people(true, release, context)
        sample = fit.sample(seed)
    spent = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    tree = fit.model.tree if isinstance(fit.model, TreeModel) else None
    if isinstance(fit.model, WeightedTree) and fit.model.fitted:
        tree = fit.model.fitted.tree
    facts = [len(fit.picked), sum(map(len, fit.picked)), tree.cells if tree else 0]
    print(json.dumps([*variations(true, sample), spent, peak, *facts]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    own = [name for name in DENSE if not name.endswith("-b")]
    parser.add_argument("tables", nargs="*", metavar="TABLE", default=["24", "50", "100", *own])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--times", type=int, default=1, help="so many times rho")
    parser.add_argument(
        "--rounds", nargs="+", metavar="ROUNDS[xPICKS]", default=["table", "default", "16", "0"]
    )
    parser.add_argument("--one", nargs=3, metavar=("TABLE", "ROUNDS", "SEED"))
    options = parser.parse_args()
    unknown = {n for n in options.tables if not n.isdecimal()} - {*DENSE} - {*TABLES}
    if unknown:
        sys.exit(f"no table {', '.join(sorted(unknown))}; there are {', '.join([*DENSE, *TABLES])}")
    if options.one:
        name, asked, number = options.one
        one(name, asked, int(number), options.times)
        sys.exit()
    for name, asked in itertools.product(options.tables, options.rounds):
        rows = []
        for number in range(1, options.seeds + 1):
            words = [sys.executable, __file__, "--times", str(options.times)]
            words += ["--one", name, asked, str(number)]
            done = subprocess.run(words, check=True, capture_output=True, text=True)
            rows.append(json.loads(done.stdout))
        pairs, triples, worst, seconds, peak, *facts = np.mean(rows, axis=0)
        line = f"{pairs:.4f} / {triples:.4f} / {worst:.3f}, {seconds:.1f} s, {peak:.0f} MiB"
        kind = {"0": "at once", "table": "table"}.get(asked) or f"{asked}: {facts[0]:.0f} rounds"
        print(
            f"{name:>10} {kind:>20}: {line}, {facts[1]:.0f} sets, {facts[2]:,.0f} cells", flush=True
        )
