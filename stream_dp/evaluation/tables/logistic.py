"""Logistic regression on columns of codes: what can be learnt from a table of people.

Multinomial, on indicators of values, with half the squared norm of all weights but the intercepts
as penalty, minimised by L-BFGS from 0 (Liu and Nocedal 1989). Deterministic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_matrix

Codes = NDArray[np.integer]
_STEPS = 60


def indicators(codes: Codes, sizes: Sequence[int]) -> csr_matrix:
    """Indicators of values, (rows, sum of sizes + 1); the last column is ones.

    codes: (rows, columns).
    sizes: the numbers of values of the columns.
    """
    rows, columns = codes.shape
    starts = np.cumsum([0, *sizes], dtype=np.int64)
    positions = np.concatenate(
        [codes.astype(np.int64) + starts[:-1], np.full((rows, 1), starts[-1])], axis=1
    )
    ends = np.arange(rows + 1) * (columns + 1)
    shape = (rows, int(starts[-1]) + 1)
    return csr_matrix((np.ones(positions.size), positions.reshape(-1), ends), shape)


@dataclass(frozen=True, eq=False)
class Classifier:
    """weights: (features, classes)."""

    weights: NDArray[np.float64]

    def probabilities(self, features: csr_matrix) -> NDArray[np.float64]:
        """(rows, classes)."""
        return _softmax(np.asarray(features @ self.weights))


def fitted_classifier(features: csr_matrix, labels: Codes, classes: int) -> Classifier:
    """Learns labels, codes of `classes` classes, from features; the last feature is constant."""
    shape = (features.shape[1], classes)
    targets = np.zeros((features.shape[0], classes))
    targets[np.arange(len(targets)), labels] = 1
    across = features.T.tocsr()

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        weights = flat.reshape(shape)
        scores = np.asarray(features @ weights)
        likely = _softmax(scores)
        of_labels = likely[np.arange(len(targets)), labels]
        penalised = weights.copy()
        penalised[-1] = 0
        value = -np.log(np.maximum(of_labels, 1e-300)).sum() + np.square(penalised).sum() / 2
        return float(value), (np.asarray(across @ (likely - targets)) + penalised).reshape(-1)

    end = minimize(loss, np.zeros(shape).reshape(-1), jac=True, method="L-BFGS-B",
                   options={"maxiter": _STEPS})  # fmt: skip
    return Classifier(end.x.reshape(shape))


def _softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: NDArray[np.float64] = powers / powers.sum(axis=1, keepdims=True)
    return shares


def macro_f1(true: Codes, predicted: Codes) -> float:
    """The mean over classes, true or predicted, of the harmonic mean of precision and recall."""
    scores = []
    for label in np.union1d(true, predicted):
        correct = int(((true == label) & (predicted == label)).sum())
        scores.append(2 * correct / (int((true == label).sum()) + int((predicted == label).sum())))
    return float(np.mean(scores))
