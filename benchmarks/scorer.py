"""The tables and the scorer that figures of tables of people are compared by, from ../shared/score.

Both need pandas, and the scorer scikit-learn.
"""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

FOLDER = Path(__file__).parents[2] / "shared" / "score"
NAMES = ("survey", "small", "strong")
Codes = NDArray[np.int64]


class ScoredTable(NamedTuple):
    """Codes to fit, other rows to predict, and how many values each column has."""

    codes: Codes
    test: Codes
    sizes: dict[str, int]

    def variations(self, synthetic: Codes) -> tuple[float, float, float]:
        """Mean total variation of pairs and of 100 triples, and the largest of a pair."""
        means = _module("score").variations(*map(self._frame, (self.codes, synthetic)), self.sizes)
        return means["tv2"], means["tv3"], means["max2"]

    def f1(self, synthetic: Codes) -> dict[str, float]:
        """By column as the target, macro F1 on the other rows."""
        test, train = map(self._frame, (self.test, synthetic))
        judge = _module("score").f1
        return {name: float(judge(test, train, self.sizes, [name])) for name in self.sizes}

    def _frame(self, codes: Codes) -> pd.DataFrame:
        return pd.DataFrame(codes, columns=list(self.sizes))


def scored_table(name: str) -> ScoredTable:
    """One of NAMES, as `tables.py` writes it."""
    tables = _module("tables")
    if name == "strong":
        frame, sizes = tables.strong()
        train, test = frame.iloc[:30_000], frame.iloc[30_000:]
    else:
        frame, sizes = tables.survey()
        train, test = frame, frame
        if name == "small":
            train = frame.sample(3000, random_state=1)
            test = frame.drop(train.index)
    return ScoredTable(train.to_numpy(np.int64), test.to_numpy(np.int64), sizes)


def _module(name: str) -> ModuleType:
    known = f"shared_{name}"
    if known not in sys.modules:
        spec = spec_from_file_location(known, FOLDER / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[known] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules[known])
    return sys.modules[known]
