"""A parity of four columns: `python benchmarks/parities.py [--seeds 1]`.

50,000 simulated people of 12 columns. A latent class makes eight columns dependent. The label is
the parity of three even coins, with 5 % errors, so no three columns show it. The table is fitted
under add_remove at eps 1 (delta = 1e-9) by default (`mixture`), and as `match` whose composite
makes two of the coins one column.

accuracy: of the likeliest label for each value of the coins in the synthetic table, on 50,000 other
people. pairs: the mean total variation. Needs JAX.
"""

from __future__ import annotations

import argparse
import time
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from people import RHO

from stream_dp.batch.data.domain import Column
from stream_dp.batch.people.people_synthesizer import fit_match, fit_people
from stream_dp.batch.people.people_table import People, PeopleDomain
from stream_dp.batch.people.residual_counts import marginal_counts
from stream_dp.batch.synthesizer import FitContext
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study import MatchRelease, PeopleRelease

PEOPLE = 50_000
SIZES = (2, 2, 2, 2, 3, 5, 8, 4, 6, 2, 3, 10)
COINS, LABEL = (0, 1, 2), 3
NAMES = tuple(f"c{c}" for c in range(len(SIZES)))
DOMAIN = PeopleDomain(
    tuple(Column(name, tuple(range(n))) for name, n in zip(NAMES, SIZES, strict=True)),
    moves=True,
    replaced=False,
)


def simulated() -> tuple[People, People]:
    """The people to fit, and those to predict."""
    rng, n = np.random.default_rng(31), 2 * PEOPLE
    latent, columns = rng.integers(0, 4, n), list[NDArray[np.int64]]()
    for size in SIZES:
        law = rng.dirichlet(np.full(size, 1.5), 4)
        columns.append((law[latent].cumsum(1) < rng.random((n, 1))).sum(1).clip(max=size - 1))
    for coin in COINS:
        columns[coin] = rng.integers(0, 2, n)
    parity = sum(columns[coin] for coin in COINS) % 2
    columns[LABEL] = np.where(rng.random(n) < 0.05, 1 - parity, parity)
    codes = np.stack(columns, axis=1)
    return People(DOMAIN, codes[:PEOPLE]), People(DOMAIN, codes[PEOPLE:])


def accuracy(train: People, test: People) -> float:
    likeliest = marginal_counts(train, (*COINS, LABEL)).argmax(-1)
    guessed = likeliest[tuple(test.codes[:, coin] for coin in COINS)]
    return float((guessed == test.codes[:, LABEL]).mean())


def variation(true: People, other: People) -> float:
    pairs = combinations(range(len(SIZES)), 2)
    shares = ((marginal_counts(p, a) / p.N for p in (true, other)) for a in pairs)
    return float(np.mean([np.abs(first - second).sum() / 2 for first, second in shares]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1)
    seeds = range(1, parser.parse_args().seeds + 1)
    true, test = simulated()
    common = {"name": "people", "attributes": NAMES, "rho": RHO, "every": 1}
    default = PeopleRelease(kind="mixture", **common)
    composite = MatchRelease(kind="match", composites={"coins": NAMES[:2]}, **common)
    for name, fit in (
        ("`mixture`", lambda context: fit_people(true, default, context)),
        ("`match` with a composite", lambda context: fit_match(true, composite, context)),
    ):
        began = time.process_time()
        tables = [fit(FitContext(SeededNoise(seed))).sample(seed) for seed in seeds]
        spent = (time.process_time() - began) / len(seeds)
        found = float(np.mean([accuracy(table, test) for table in tables]))
        apart = float(np.mean([variation(true, table) for table in tables]))
        print(f"{name:>25}: accuracy {found:.3f}, pairs {apart:.4f}, {spent:.0f} CPU s", flush=True)
    print(f"{'real people':>25}: accuracy {accuracy(true, test):.3f}")
