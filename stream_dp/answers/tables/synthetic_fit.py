"""The same model fitted to the synthetic people, as if they were people.

The naive fit is what an analyst gets from the rows alone. Its errors know of no noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..answer import QUANTILE, Interval
from .estimating_equations import MOST_STEPS, inverse_of
from .model_formula import ModelFormula, Term
from .table_facts import Floats, PublishedTables

_SMALLEST = 1e-9  # of a step of Newton's method, relative to the coefficients


@dataclass(frozen=True, eq=False)
class SyntheticFit:
    """The synthetic people's equations.

    people: with an answer to every column of the model
    estimate, covariance: of the naive fit; None if the rows determine none
    spread: (p, p) the sum over people of the squared residual times x x', at the given coefficients
    """

    people: float
    estimate: Floats | None
    covariance: Floats
    spread: Floats

    def coefficient(self, j: int) -> tuple[float, Interval] | None:
        """Coefficient j and its interval."""
        if self.estimate is None:
            return None
        value, error = float(self.estimate[j]), math.sqrt(self.covariance[j, j])
        return value, (value - QUANTILE * error, value + QUANTILE * error)


def synthetic_fit(
    model: ModelFormula, present: Term, published: PublishedTables, b: Floats, *, logistic: bool
) -> SyntheticFit:
    """Fits the synthetic people. b: the coefficients of `spread`."""
    rows = published.tables["people"]
    names = list(dict.fromkeys((*model.columns, *present.functions)))
    codes = np.stack([rows[name].to_numpy() for name in names], axis=1).astype(np.int64)
    codes, counts = np.unique(codes, axis=0, return_counts=True)
    of = dict(zip(names, codes.T, strict=True))
    weights = counts * _on_rows(present, of, len(codes))
    x = np.stack([_on_rows(term, of, len(codes)) for term in model.terms], axis=1)
    y = _on_rows(model.outcome, of, len(codes))
    mean = _logistic_mean if logistic else _linear_mean
    residuals = y - mean(x @ b)
    spread = (x * (weights * residuals**2)[:, None]).T @ x
    people = float(weights.sum())
    fitted = _newton(x, y, weights, mean, logistic=logistic)
    if fitted is None:
        return SyntheticFit(people, None, spread, spread)
    estimate, inverse = fitted
    left = y - mean(x @ estimate)
    scale = 1.0 if logistic else float(weights @ left**2) / max(people - x.shape[1], 1.0)
    return SyntheticFit(people, estimate, scale * inverse, spread)


def _on_rows(term: Term, codes: dict[str, np.ndarray], rows: int) -> Floats:
    values = np.ones(rows)
    for name, function in term.functions.items():
        values = values * function[codes[name]]
    return values


def _linear_mean(predictors: Floats) -> Floats:
    return predictors


def _logistic_mean(predictors: Floats) -> Floats:
    means: Floats = 1 / (1 + np.exp(-np.clip(predictors, -500, 500)))
    return means


def _newton(
    x: Floats, y: Floats, weights: Floats, mean: Callable[[Floats], Floats], *, logistic: bool
) -> tuple[Floats, Floats] | None:
    """The coefficients and the inverse of their information; None without a solution."""
    b = np.zeros(x.shape[1])
    for _ in range(MOST_STEPS):
        means = mean(x @ b)
        slopes = weights * means * (1 - means) if logistic else weights
        try:
            inverse = inverse_of((x * slopes[:, None]).T @ x)
        except np.linalg.LinAlgError:
            return None
        step = inverse @ (x.T @ (weights * (y - means)))
        b = b + step
        if np.abs(step).max() <= _SMALLEST * (1 + np.abs(b).max()):
            return b, inverse
    return None
