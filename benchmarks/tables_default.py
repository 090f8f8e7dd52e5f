"""The default for tables of people against every other kind: `python benchmarks/tables_default.py`.

Twelve simulated tables that chose no constant, by generators that differ in kind: hidden factors,
chains, trees, mixtures, rare values, and columns that are functions of others. They have 3,000 to
1,000,000 people, 8 to 30 columns, and eps .1 to 10 (delta = 1e-9, add_remove). The methods are
`table`, `table` with labels, `mixture`, `mixture` in 16 rounds, `match`, and `rap` with labels.
Prints for each the mean total variation of single columns, of all pairs and of 100 triples, macro
F1 of two labels (logistic regression on 3,000 synthetic rows, judged on other people), and CPU
seconds; at the end how far each method is behind the best. `--peers CLONE --peer-python PYTHON`
runs `mst`, and with `--aim` also `aim`, of private-pgm beside them (`peers.py`). Needs
scikit-learn.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from peers import Peers
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score

from stream_dp.batch.data.domain import Column
from stream_dp.batch.kinds import load_synthesizer
from stream_dp.batch.people.people_table import People, PeopleDomain
from stream_dp.batch.synthesizer import FitContext
from stream_dp.privacy.noise import SeededNoise
from stream_dp.privacy.zcdp import rho_within
from stream_dp.study.families import Kind

Codes = NDArray[np.int64]
Rng = np.random.Generator
DELTA = Fraction(1, 10**9)
TEST = 4_000  # people who are not in the table
MOST_CELLS, TRIPLES = 100_000, 100


def steps(rng: Rng, latent: NDArray[np.float64], values: int) -> Codes:
    """Cuts a latent amount where a drawn distribution of values lies."""
    shares = rng.dirichlet(np.full(values, 1.5))
    return np.searchsorted(np.quantile(latent, np.cumsum(shares)[:-1]), latent).astype(np.int64)


def drawn(rng: Rng, rows: NDArray[np.float64]) -> Codes:
    """A value for each row of chances."""
    return (rows.cumsum(1) < rng.random((len(rows), 1))).sum(1).clip(max=rows.shape[1] - 1)


def factor(rng: Rng, people: int, columns: int) -> list[Codes]:
    """Every column is a cut of a product of two of four hidden factors, or of a sum."""
    hidden, result = rng.normal(0, 1, (people, 4)), list[Codes]()
    for c in range(columns):
        amount = hidden @ rng.normal(0, 0.7, 4) + rng.normal(0, 0.8, people)
        if c % 3 == 2:
            amount = amount * np.exp(0.5 * hidden[:, int(rng.integers(4))])
        result.append(steps(rng, amount, int(rng.integers(2, 13))))
    return result


def chain(rng: Rng, people: int, columns: int) -> list[Codes]:
    """Each column follows the one before it, by drawn chances of moving."""
    result = [rng.integers(0, 4, people)]
    for _ in range(columns - 1):
        before, values = result[-1], int(rng.integers(2, 16))
        chances = rng.dirichlet(np.full(values, 0.35), int(before.max()) + 1)
        result.append(drawn(rng, chances[before]))
    return result


def tree(rng: Rng, people: int, columns: int) -> list[Codes]:
    """Each column follows one or two drawn columns before it."""
    result = [rng.integers(0, 3, people), rng.integers(0, 5, people)]
    for c in range(2, columns):
        parents = rng.choice(c, int(rng.integers(1, 3)), replace=False)
        code, number = np.zeros(people, np.int64), 1
        for parent in parents:
            size = int(result[parent].max()) + 1
            code, number = code * size + result[parent], number * size
        chances = rng.dirichlet(np.full(int(rng.integers(2, 11)), 0.5), number)
        result.append(drawn(rng, chances[code]))
    return result


def mixture(rng: Rng, people: int, columns: int) -> list[Codes]:
    """Independent columns within each of ten hidden classes."""
    hidden = drawn(rng, np.tile(rng.dirichlet(np.ones(10)), (people, 1)))
    sizes = rng.integers(2, 14, columns)
    return [drawn(rng, rng.dirichlet(np.full(int(k), 0.6), 10)[hidden]) for k in sizes]


def rare(rng: Rng, people: int, columns: int) -> list[Codes]:
    """Places and trades of hundreds of values, and a few plain columns."""
    result = list[Codes]()
    for values in (400, 150, 80):
        chances = np.tile(1 / np.arange(1, values + 1) ** 1.3, (people, 1))
        if result:  # each place has its own favourites
            shift = result[0] % 7
            chances = chances * (1 + 8 * ((np.arange(values) % 7) == shift[:, None]))
        result.append(drawn(rng, chances / chances.sum(1, keepdims=True)))
    while len(result) < columns:
        source = result[int(rng.integers(len(result)))]
        values = int(rng.integers(2, 9))
        chances = rng.dirichlet(np.full(values, 0.6), 9)
        result.append(drawn(rng, chances[source % 9]))
    return result


def functions(rng: Rng, people: int, columns: int) -> list[Codes]:
    """Half of the columns are functions of others, a few of them with mistakes."""
    half = (columns + 1) // 2
    result = factor(rng, people, half)
    for c in range(columns - half):
        first = result[int(rng.integers(half))]
        if c % 2:
            second = result[int(rng.integers(half))]
            code = first * (int(second.max()) + 1) + second
        else:
            code = first
        value = rng.integers(0, int(rng.integers(2, 7)), int(code.max()) + 1)[code]
        wrong = rng.random(people) < (0, 0, 0.03)[c % 3]
        result.append(np.where(wrong, rng.permutation(value), value))
    return result


class Simulated(NamedTuple):
    """A table that is judged."""

    generator: Callable[[Rng, int, int], list[Codes]]
    people: int
    columns: int
    epsilon: str


TABLES = {
    "factor": Simulated(factor, 8_000, 14, "1"),
    "factor, many": Simulated(factor, 40_000, 20, "3/10"),
    "chain": Simulated(chain, 12_000, 16, "1"),
    "chain, short": Simulated(chain, 5_000, 10, "3"),
    "tree": Simulated(tree, 6_000, 18, "1/2"),
    "tree, many": Simulated(tree, 100_000, 12, "1/10"),
    "mixture": Simulated(mixture, 3_000, 12, "1"),
    "mixture, many": Simulated(mixture, 1_000_000, 10, "3/10"),
    "rare": Simulated(rare, 20_000, 8, "5"),
    "rare, few": Simulated(rare, 4_000, 9, "1"),
    "functions": Simulated(functions, 10_000, 16, "10"),
    "functions, wide": Simulated(functions, 6_000, 30, "2"),
}
KINDS: dict[str, dict[str, object]] = {
    "table": {"kind": "table"},
    "table, labels": {"kind": "table", "labels": True},
    "mixture": {"kind": "mixture"},
    "rounds": {"kind": "mixture", "rounds": 16},
    "match": {"kind": "match"},
    "rap, labels": {"kind": "rap", "labels": True},
}


def variation(first: Codes, second: Codes, sizes: list[int], ways: int) -> float:
    """Mean total variation over sets of so many columns, of triples over drawn ones."""
    sets = [
        a
        for a in combinations(range(len(sizes)), ways)
        if np.prod([sizes[c] for c in a]) <= MOST_CELLS
    ]
    if ways == 3 and len(sets) > TRIPLES:
        sets = [sets[i] for i in np.random.default_rng(0).choice(len(sets), TRIPLES, False)]
    apart = []
    for columns in sets:
        shape = [sizes[c] for c in columns]
        shares = [
            np.bincount(
                np.ravel_multi_index(tuple(codes[:, c] for c in columns), shape),
                minlength=int(np.prod(shape)),
            )
            / len(codes)
            for codes in (first, second)
        ]
        apart.append(np.abs(shares[0] - shares[1]).sum() / 2)
    return float(np.mean(apart))


def macro_f1(test: Codes, train: Codes, sizes: list[int], labels: list[int]) -> float:
    """Mean macro F1 of labels of other people, learnt from synthetic rows."""
    train, scores = train[np.random.default_rng(0).permutation(len(train))[:3_000]], []
    for label in labels:
        others = [(c, n) for c, n in enumerate(sizes) if c != label]
        one_hot = [
            np.hstack([np.eye(n, dtype=np.float32)[codes[:, c]] for c, n in others])
            for codes in (train, test)
        ]
        if len(np.unique(train[:, label])) < 2:
            scores.append(0.0)
            continue
        model = LogisticRegression(max_iter=25).fit(one_hot[0], train[:, label])
        scores.append(f1_score(test[:, label], model.predict(one_hot[1]), average="macro"))
    return float(np.mean(scores))


def compare(
    name: str, options: argparse.Namespace, peers: Peers | None
) -> dict[str, NDArray[np.float64]]:
    """By method, the mean figures of a table."""
    own = TABLES[name]
    rng = np.random.default_rng([2027, *name.encode()])
    codes = np.stack(own.generator(rng, own.people + TEST, own.columns), axis=1).astype(np.int64)
    sizes = [int(n) + 1 for n in codes.max(0)]
    true, test = codes[TEST:], codes[:TEST]
    columns = tuple(Column(f"c{c}", tuple(range(n))) for c, n in enumerate(sizes))
    people = People(PeopleDomain(columns, moves=True, replaced=False), true)
    few = [c for c, n in enumerate(sizes) if n <= 8]
    labels, rho = few[-2:], rho_within(Fraction(own.epsilon), DELTA)
    figures: dict[str, list[list[float]]] = {}

    def judge(method: str, synthetic: Codes, seconds: float) -> None:
        synthetic = synthetic.astype(np.int64)
        row = [variation(true, synthetic, sizes, ways) for ways in (1, 2, 3)]
        row += [macro_f1(test, synthetic, sizes, labels), seconds]
        figures.setdefault(method, []).append(row)

    for seed in range(1, options.seeds + 1):
        for method in options.methods or KINDS:
            declared = {"name": "p", "attributes": [c.name for c in columns], "every": 1}
            declared |= {"rho": rho, **KINDS[method]}
            if declared.pop("labels", False):
                declared["labels"] = [columns[c].name for c in labels]
            kind = Kind(str(declared["kind"]))
            release = kind.declaration.model_validate(declared)
            began = time.process_time()
            fit = load_synthesizer(kind)(people, release, FitContext(SeededNoise(seed)))
            synthetic = fit.sample(seed).codes
            judge(method, synthetic, time.process_time() - began)
        for peer in ("mst", "aim")[: 1 + options.aim] if peers else ():
            codes_of_peer, seconds, _ = peers.table(people, peer, rho, seed)
            judge(peer, codes_of_peer, seconds)
    judge("itself", true, 0)
    print(f"{name}: {own.people:,} x {own.columns} ({max(sizes)}), eps {own.epsilon}", flush=True)
    means = {method: np.mean(rows, axis=0) for method, rows in figures.items()}
    for method, (single, pairs, triples, f1, seconds) in means.items():
        line = f"{single:.4f} {pairs:.4f} {triples:.4f}  F1 {f1:.3f}  {seconds:5.1f} s"
        print(f"  {method:<14} {line}", flush=True)
    return means


def behind(tables: list[dict[str, NDArray[np.float64]]]) -> None:
    """Prints how far each method is behind the best of all but peers, table by table."""
    judged = [method for method in KINDS if method in tables[0]]
    print("behind the best, mean and largest over tables: pairs, triples, F1")
    for method in judged:
        parts = []
        for figure in (1, 2):
            ratios = [t[method][figure] / min(t[m][figure] for m in judged) - 1 for t in tables]
            parts.append(f"{np.mean(ratios):6.1%} {max(ratios):6.1%}")
        losses = [max(t[m][3] for m in judged) - t[method][3] for t in tables]
        parts.append(f"{np.mean(losses):.3f} {max(losses):.3f}")
        print(f"  {method:<14} {' | '.join(parts)}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", metavar="TABLE", default=list(TABLES))
    parser.add_argument("--methods", nargs="*", metavar="METHOD", choices=list(KINDS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--aim", action="store_true", help="AIM as well; it takes hours")
    Peers.options(parser)
    options = parser.parse_args()
    behind([compare(name, options, Peers.of(options)) for name in options.tables])
