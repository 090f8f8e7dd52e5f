"""Tables of people against their truth: `python tests/benchmarks/people.py [--seeds 3] [TABLE...]`.

survey: people of a travel survey joined with their households (59,762 x 12). small: 3,000 of them.
strong: six independent pairs of 30 values, the second a permutation with 2 % errors (30,000 x 12).
chain: a latent class, a chain of ten columns and three of noise (20,000 x 14); no default was set
on it. rare: towns, streets and trades, hundreds of values of which most are rare (30,000 x 6); no
default was set on it either. Each is fitted as `mixture` and as `match` at rho = .014973 under
add_remove (the chain also with the marginals that matter listed), beside independent columns at the
same rho and a fresh sample of independent draws from the truth, which is the floor of any table.
Prints the mean total variation over all pairs and over 100 triples, the largest over pairs, macro
F1 (every column in turn learnt from the others on 4,000 synthetic rows by logistic regression,
predicted on 4,000 true ones; of `small` on people who are not in it), and CPU seconds.

`--peers CLONE --peer-python PYTHON` runs `mst`, and with `--aim` also `aim`, of private-pgm beside
them (`people_peer.py`). AIM compiles its model anew for every clique, in 16 rounds a column.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import jax
import numpy as np
import pyarrow.csv
from numpy.typing import NDArray

from stream_dp.batch.base import FitContext
from stream_dp.batch.data.domain import Column
from stream_dp.batch.independent import systematic_draw
from stream_dp.batch.people.match.synthesizer import fit_match
from stream_dp.batch.people.residuals import marginal_counts
from stream_dp.batch.people.synthesizer import fit_people
from stream_dp.batch.people.table import People, PeopleDomain
from stream_dp.evaluation.data_sets.table_judge import target_f1
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study import MatchRelease, PeopleRelease

RHO = Fraction("0.014973")
HOUSEHOLDS = Path(__file__).parents[3] / "shared" / "data" / "households"
OF_PEOPLE = ("PAge", "PGender", "PEmp", "POcc", "PComm", "SUBREG_GRP", "SUBREGCluster", "per_num")
OF_HOMES = ("HHSize", "HHIncome", "HHDwelling", "HHChildren")
Codes = NDArray[np.int64]


def survey() -> Codes:
    people = _text(HOUSEHOLDS / "survey_persons.csv", ["hhID", *OF_PEOPLE])
    homes = _text(HOUSEHOLDS / "survey_households.csv", ["hhID", *OF_HOMES])
    people["per_num"] = np.minimum(people["per_num"].astype(int), 6).astype(str)
    order = np.argsort(homes["hhID"])
    home = order[np.searchsorted(homes["hhID"], people["hhID"], sorter=order)]
    columns = [people[name] for name in OF_PEOPLE] + [homes[name][home] for name in OF_HOMES]
    return np.stack([np.unique(c, return_inverse=True)[1] for c in columns], axis=1)


def _text(path: Path, names: list[str]) -> dict[str, NDArray[np.str_]]:
    table = pyarrow.csv.read_csv(
        path,
        convert_options=pyarrow.csv.ConvertOptions(
            include_columns=names, column_types=dict.fromkeys(names, "string")
        ),
    )
    return {name: np.array(table[name].to_pylist(), str) for name in names}


def small() -> Codes:
    return survey()[_of_small()]


def _of_small() -> Codes:
    return np.random.default_rng(1).choice(59_762, 3000, replace=False)


def strong() -> Codes:
    rng, n = np.random.default_rng(5), 30_000
    weights = 1 / np.arange(1, 31) ** 0.7
    columns = []
    for _ in range(6):
        first = rng.choice(30, n, p=weights / weights.sum())
        second = np.where(rng.random(n) < 0.02, rng.integers(0, 30, n), rng.permutation(30)[first])
        columns += [first, second]
    return np.stack(columns, axis=1)


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


TABLES: dict[str, Callable[[], Codes]] = {
    "survey": survey,
    "small": small,
    "strong": strong,
    "chain": chain,
    "rare": rare,
}

# Marginals that are known to matter: of the chain, each step with its latent class.
LISTED = {"chain": tuple(("c0", f"c{i}", f"c{i + 1}") for i in range(1, 10))}


def variations(true: People, other: People) -> list[float]:
    """Mean total variation over pairs and over 100 triples, and the largest over pairs."""
    sizes, columns = true.domain.sizes, range(len(true.domain.sizes))
    means = []
    for ways in (2, 3):
        sets = [s for s in itertools.combinations(columns, ways) if true.domain.cells(s) <= 100_000]
        if ways == 3 and len(sets) > 100:
            chosen = np.random.default_rng(0).choice(len(sets), 100, replace=False)
            sets = [sets[i] for i in chosen]
        apart = [
            np.abs(marginal_counts(true, s) / true.N - marginal_counts(other, s) / other.N).sum()
            for s in sets
        ]
        means += [np.mean(apart) / 2, *([np.max(apart) / 2] if ways == 2 else [])]
    assert len(sizes) > 2
    return [float(means[0]), float(means[2]), float(means[1])]


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


def scores(true: People, other: People, test: Codes) -> list[float]:
    """What is printed of a table, but for its seconds; test: the rows that are predicted."""
    sizes, rng = true.domain.sizes, np.random.default_rng(0)
    rows, asked = (t[rng.permutation(len(t))[:4000]] for t in (other.codes, test))
    f1 = [target_f1(rows, asked, sizes, target) for target in range(len(sizes))]
    return [*variations(true, other), float(np.mean(f1))]


def peer(true: People, clone: Path, python: str, name: str, seed: int) -> tuple[People, float]:
    """A peer's table at the same rho, and its CPU seconds."""
    with tempfile.TemporaryDirectory() as folder:
        table, out = Path(folder, "table.csv"), Path(folder, "out.csv")
        names = ",".join(c.name for c in true.domain.columns)
        np.savetxt(table, true.codes, fmt="%d", delimiter=",", header=names, comments="")
        script = Path(__file__).with_name("people_peer.py")
        words = [python, script, clone, name, float(RHO), seed, table, out]
        done = subprocess.run([*map(str, words)], check=True, capture_output=True, text=True)
        codes = np.loadtxt(out, delimiter=",", skiprows=1, dtype=np.int64)
        return People(true.domain, codes), float(done.stdout)


def compare(name: str, seeds: int, options: argparse.Namespace) -> None:
    codes = TABLES[name]()
    peers = [] if options.peers is None else ["mst", "aim"][: 1 + options.aim]
    test = codes
    if name == "small":
        test = np.delete(survey(), _of_small(), axis=0)
    sizes = codes.max(0) + 1
    columns = tuple(Column(f"c{i}", tuple(range(n))) for i, n in enumerate(sizes.tolist()))
    true = People(PeopleDomain(columns, moves=True, replaced=False), codes)
    names = tuple(c.name for c in columns)
    mixture = PeopleRelease(name=name, kind="mixture", attributes=names, rho=RHO, every=1)
    match = MatchRelease(name=name, kind="match", attributes=names, rho=RHO, every=1)
    kinds: dict[str, PeopleRelease] = {"mixture": mixture, "match": match}
    if name in LISTED:
        kinds["match, listed"] = match.model_copy(update={"marginals": LISTED[name]})
    rows: dict[str, list[list[float]]] = {
        kind: [] for kind in (*kinds, "independent", "another sample")
    }
    for seed in range(1, seeds + 1):
        for kind, release in kinds.items():
            jax.clear_caches()
            began = time.process_time()
            context = FitContext(SeededNoise(seed))
            if isinstance(release, MatchRelease):
                sample = fit_match(true, release, context).sample(seed)
            else:
                sample = fit_people(true, release, context).sample(seed)
            spent = time.process_time() - began
            rows[kind].append([*scores(true, sample, test), spent])
        rows["independent"].append([*scores(true, independent(true, seed), test), 0])
        again = np.random.default_rng(seed).choice(true.N, true.N)
        floor = People(true.domain, true.codes[again])
        rows["another sample"].append([*scores(true, floor, test), 0])
        for other in peers:
            table, seconds = peer(true, options.peers, options.peer_python, other, seed)
            rows.setdefault(other, []).append([*scores(true, table, test), seconds])
    print(f"{name}: {true.N:,} x {len(columns)}")
    for method, values in rows.items():
        pairs, triples, worst, f1, seconds = np.mean(values, axis=0)
        line = f"{pairs:.4f} {triples:.4f} {worst:.3f}  F1 {f1:.3f} {seconds:5.1f} s"
        print(f"  {method:<15} {line}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", metavar="TABLE", default=list(TABLES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--peers", type=Path, metavar="CLONE", help="of private-pgm")
    parser.add_argument("--peer-python", metavar="PYTHON", default=sys.executable)
    parser.add_argument("--aim", action="store_true", help="AIM as well; it takes hours")
    options = parser.parse_args()
    unknown = set(options.tables) - set(TABLES)
    if unknown:
        sys.exit(f"no table {', '.join(sorted(unknown))}; there are {', '.join(TABLES)}")
    for table in options.tables:
        compare(table, options.seeds, options)
