"""The tables by which tables of people are compared, and how far a synthetic one is from them.

survey: 59,762 people of a travel survey joined with their households, 12 columns. small: 3,000 of
them. strong: six independent pairs of columns of 30 skewed values, of which the second is a
permutation of the first with 2 % errors. F1 needs scikit-learn.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd
from data_sets import data_file
from numpy.typing import NDArray

NAMES = ("survey", "small", "strong")
MOST_CELLS, TRIPLES = 100_000, 100
LEARNT = 4000  # rows at most
COLUMNS = (
    *("SUBREG_GRP", "SUBREGCluster", "HHSize", "HHIncome", "HHDwelling", "HHChildren"),
    *("PAge", "PGender", "PEmp", "POcc", "PComm", "per_num"),
)
Codes = NDArray[np.int64]


class ScoredTable(NamedTuple):
    """Codes to fit, other rows to predict, and how many values each column has."""

    codes: Codes
    test: Codes
    sizes: dict[str, int]

    def variations(self, synthetic: Codes) -> tuple[float, float, float]:
        """Mean total variation of pairs and of 100 triples, and the largest of a pair.

        Sets of more than 100,000 cells are left out. The triples are the same for everyone.
        """
        pairs, triples = self._sets(2), self._sets(3)
        if len(triples) > TRIPLES:
            chosen = np.random.RandomState(0).choice(len(triples), TRIPLES, replace=False)
            triples = [triples[i] for i in chosen]
        errors = [[self._variation(synthetic, one) for one in sets] for sets in (pairs, triples)]
        return float(np.mean(errors[0])), float(np.mean(errors[1])), float(np.max(errors[0]))

    def f1(self, synthetic: Codes) -> dict[str, float]:
        """By column as the target, macro F1 on the other rows of a logistic regression."""
        frames = [pd.DataFrame(rows, columns=list(self.sizes)) for rows in (self.test, synthetic)]
        test, train = (f.sample(min(LEARNT, len(f)), random_state=0) for f in frames)
        return {name: self._target_f1(train, test, name) for name in self.sizes}

    def _sets(self, ways: int) -> list[tuple[int, ...]]:
        counts = list(self.sizes.values())
        sets = combinations(range(len(counts)), ways)
        return [one for one in sets if np.prod([counts[i] for i in one]) <= MOST_CELLS]

    def _variation(self, synthetic: Codes, columns: tuple[int, ...]) -> float:
        shape = [list(self.sizes.values())[column] for column in columns]
        shares = []
        for rows in (self.codes, synthetic):
            cells = np.ravel_multi_index(tuple(rows[:, c] for c in columns), shape)
            shares.append(np.bincount(cells, minlength=int(np.prod(shape))) / len(rows))
        return float(np.abs(shares[0] - shares[1]).sum() / 2)

    def _target_f1(self, train: pd.DataFrame, test: pd.DataFrame, target: str) -> float:
        from sklearn.linear_model import LogisticRegression
        from sklearn.metrics import f1_score

        if train[target].nunique() < 2:
            return 0.0
        model = LogisticRegression(max_iter=25).fit(self._one_hot(train, target), train[target])
        predicted = model.predict(self._one_hot(test, target))
        return float(f1_score(test[target], predicted, average="macro"))

    def _one_hot(self, rows: pd.DataFrame, target: str) -> NDArray[np.float32]:
        """An indicator of every value of the columns other than the target."""
        others = [(name, count) for name, count in self.sizes.items() if name != target]
        return np.hstack([np.eye(n, dtype=np.float32)[rows[name].to_numpy()] for name, n in others])


def scored_table(name: str) -> ScoredTable:
    """One of NAMES."""
    if name == "strong":
        frame = strong()
        train, test, sizes = frame.iloc[:30_000], frame.iloc[30_000:], dict.fromkeys(frame, 30)
    else:
        frame = survey()
        sizes = {column: int(frame[column].max()) + 1 for column in frame}
        train, test = frame, frame
        if name == "small":
            train = frame.sample(3000, random_state=1)
            test = frame.drop(train.index)
    return ScoredTable(train.to_numpy(np.int64), test.to_numpy(np.int64), sizes)


def survey() -> pd.DataFrame:
    """Codes of the sorted texts of every column; persons from the sixth on count as the sixth."""
    homes, people = (
        pd.read_csv(data_file(f"survey_{name}.csv"), keep_default_na=False, dtype=str)
        for name in ("households", "persons")
    )
    homes = homes[["hhID", "HHSize", "HHIncome", "HHDwelling", "HHChildren"]]
    rows = people.merge(homes, on="hhID")
    rows["per_num"] = rows["per_num"].astype(int).clip(upper=6).astype(str)
    return pd.DataFrame({c: np.unique(rows[c], return_inverse=True)[1] for c in COLUMNS})


def strong() -> pd.DataFrame:
    """60,000 rows of codes."""
    rng, count, columns = np.random.default_rng(5), 60_000, {}
    weights = 1 / np.arange(1, 31) ** 0.7
    for pair in range(6):
        first = rng.choice(30, count, p=weights / weights.sum())
        second = rng.permutation(30)[first]
        wrong = rng.random(count) < 0.02
        second[wrong] = rng.integers(0, 30, wrong.sum())
        columns |= {f"a{pair}": first, f"b{pair}": second}
    return pd.DataFrame(columns)
