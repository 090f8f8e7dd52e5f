"""Tables of people against their truth: `python benchmarks/people.py [--seeds 3] [TABLE...]`.

survey: people of a travel survey joined with their households (59,762 x 12). small: 3,000 of them.
strong: six independent pairs of 30 values, the second a permutation with 2 % errors (30,000 x 12).
These three, the rows that are predicted (of `small` people who are not in it, of `strong` 30,000
more) and all figures are those of scorer.py. chain: a latent class, a chain of ten columns
and three of noise (20,000 x 14); no default was set on it. rare: towns, streets and trades,
hundreds of values of which most are rare (30,000 x 6); no default was set on it either. Each is
fitted as `table`, `mixture`, `match` and `mixture` in rounds (`--methods` names some of them) at
rho = .014973 under add_remove (the chain also with the marginals that matter listed), beside
independent columns at the same rho and a fresh sample of independent draws from the truth, which is
the floor of any table. Prints the mean total variation over all pairs and over 100 triples, the
largest over pairs, macro F1 (every column in turn learnt from the others on 4,000 synthetic rows by
logistic regression, predicted on 4,000 true ones; also of the TARGETS alone), and CPU seconds; with
`--by-target` F1 of every column. Needs pandas and scikit-learn.

`--peers CLONE --peer-python PYTHON` runs `mst`, and with `--aim` also `aim`, of private-pgm beside
them (`peers.py`), best with a CLONE at commit 514dea3, whose inference is in NumPy: later ones
compile AIM's model anew for every clique, in 16 rounds a column.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from fractions import Fraction

import jax
import numpy as np
from numpy.typing import NDArray
from peers import Peers
from scorer import NAMES, ScoredTable, scored_table

from stream_dp.batch.data.domain import Column
from stream_dp.batch.groups.independent import systematic_draw
from stream_dp.batch.kinds import load_synthesizer
from stream_dp.batch.people.people_table import People, PeopleDomain
from stream_dp.batch.people.residual_counts import marginal_counts
from stream_dp.batch.synthesizer import FitContext
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study import MatchRelease, PeopleRelease

RHO = Fraction("0.014973")
Codes = NDArray[np.int64]


def chain() -> Codes:
    rng, n = np.random.default_rng(11), 20_000
    sizes = (3, 5, 8, 2, 12, 4, 20, 6, 3, 9)
    latent = rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
    columns = [latent]
    for size in sizes:
        before = columns[-1]
        moves = rng.dirichlet(np.full(size, 0.4), (4, before.max() + 1))[latent, before]
        columns.append((moves.cumsum(1) < rng.random((n, 1))).sum(1).clip(max=size - 1))
    columns += [rng.integers(0, k, n) for k in (2, 7, 15)]
    return np.stack(columns, axis=1)


def rare() -> Codes:
    rng, n = np.random.default_rng(23), 30_000
    weights = 1 / np.arange(1, 601) ** 1.6
    town = rng.choice(600, n, p=weights / weights.sum())
    region = rng.integers(0, 8, 600)[town]
    street = np.where(rng.random(n) < 0.8, (town * 7 + rng.integers(0, 3, n)) % 400, 399)
    trades = rng.dirichlet(1 / np.arange(1, 301) ** 1.2, 8)
    trade = (trades[region].cumsum(1) < rng.random((n, 1))).sum(1).clip(max=299)
    sex = (rng.random(n) < (0.3 + 0.4 * (trade % 2))).astype(int)
    age = np.clip(rng.poisson(4 + 3 * (trade % 3)), 0, 14)
    return np.stack([town, region, street, trade, sex, age], axis=1)


OWN: dict[str, Callable[[], Codes]] = {"chain": chain, "rare": rare}
TABLES = (*NAMES, *OWN)

# Columns that somebody would predict: income, sex, employment.
TARGETS = dict.fromkeys(("survey", "small"), ("HHIncome", "PGender", "PEmp"))

# Marginals that are known to matter: of the chain, each step with its latent class.
LISTED = {"chain": tuple(("c0", f"c{i}", f"c{i + 1}") for i in range(1, 10))}


def table(name: str) -> ScoredTable:
    if name in NAMES:
        return scored_table(name)
    codes = OWN[name]()
    sizes = {f"c{c}": int(n) for c, n in enumerate(codes.max(0) + 1)}
    return ScoredTable(codes, codes, sizes)


def independent(true: People, seed: int) -> People:
    """Every column by itself, at the same rho."""
    rng, noise = np.random.default_rng(seed), SeededNoise(seed)
    sizes = true.domain.sizes
    variance = len(sizes) / (2 * RHO)
    columns = [
        systematic_draw(
            rng, marginal_counts(true, (c,)) + noise.draw([(variance, n)]).noise[0], true.N
        )
        for c, n in enumerate(sizes)
    ]
    return People(true.domain, np.stack(columns, axis=1))


def compare(name: str, options: argparse.Namespace) -> None:
    judge, peers = table(name), Peers.of(options)
    columns = tuple(Column(c, tuple(range(n))) for c, n in judge.sizes.items())
    true = People(PeopleDomain(columns, moves=True, replaced=False), judge.codes)
    names = tuple(judge.sizes)
    mixture = PeopleRelease(name=name, kind="mixture", attributes=names, rho=RHO, every=1)
    match = MatchRelease(name=name, kind="match", attributes=names, rho=RHO, every=1)
    rounds = mixture.model_copy(update={"rounds": 16})
    default = MatchRelease(name=name, kind="table", attributes=names, rho=RHO, every=1)
    kinds: dict[str, PeopleRelease] = {"table": default, "mixture": mixture, "match": match}
    kinds["in rounds"] = rounds
    if name in LISTED:
        kinds["match, listed"] = match.model_copy(update={"marginals": LISTED[name]})
    kinds = {kind: release for kind, release in kinds.items() if kind in (options.methods or kinds)}
    rows: dict[str, list[list[float]]] = {
        kind: [] for kind in (*kinds, "independent", "another sample", "itself")
    }
    targets: dict[str, list[list[float]]] = {kind: [] for kind in rows}

    def score(method: str, codes: NDArray[np.integer], seconds: float) -> None:
        codes = codes.astype(np.int64)
        f1 = judge.f1(codes)
        own = np.mean([f1[target] for target in TARGETS.get(name, names)])
        figures = [*judge.variations(codes), np.mean([*f1.values()]), own, seconds]
        rows.setdefault(method, []).append([float(figure) for figure in figures])
        targets.setdefault(method, []).append([*f1.values()])

    for seed in range(1, options.seeds + 1):
        for kind, release in kinds.items():
            jax.clear_caches()
            began = time.process_time()
            context = FitContext(SeededNoise(seed))
            sample = load_synthesizer(release.kind)(true, release, context).sample(seed)
            score(kind, sample.codes, time.process_time() - began)
        score("independent", independent(true, seed).codes, 0)
        again = np.random.default_rng(seed).choice(true.N, true.N)
        score("another sample", true.codes[again], 0)
        for other in ("mst", "aim")[: 1 + options.aim] if peers else ():
            codes, seconds, _ = peers.table(true, other, RHO, seed)
            score(other, codes, seconds)
    score("itself", true.codes, 0)
    print(f"{name}: {true.N:,} x {len(columns)}")
    for method, values in rows.items():
        pairs, triples, worst, f1, own, seconds = np.mean(values, axis=0)
        line = f"{pairs:.4f} {triples:.4f} {worst:.3f}  F1 {f1:.3f} ({own:.3f}) {seconds:5.1f} s"
        print(f"  {method:<15} {line}", flush=True)
    for column, target in enumerate(names if options.by_target else ()):
        each = (f"{kind} {np.mean(of, axis=0)[column]:.3f}" for kind, of in targets.items())
        print(f"  F1 of {target:<15} {', '.join(each)}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", metavar="TABLE", default=TABLES)
    parser.add_argument("--methods", nargs="*", metavar="METHOD", help="all of them by default")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--aim", action="store_true", help="AIM as well; it takes hours")
    parser.add_argument("--by-target", action="store_true", help="F1 of every column as well")
    Peers.options(parser)
    options = parser.parse_args()
    unknown = set(options.tables) - set(TABLES)
    if unknown:
        sys.exit(f"no table {', '.join(sorted(unknown))}; there are {', '.join(TABLES)}")
    for own in options.tables:
        compare(own, options)
