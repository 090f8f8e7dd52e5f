"""Hidden classes of people, fitted to noisy interactions: post-processing.

Columns are independent within a class (latent class analysis, Lazarsfeld 1950). So class k of K
has the share w_k and the distribution P_c[k] of column c, and a pair has the shares
sum_k w_k P_a[k] P_b[k]'. The fit is Adam (Kingma and Ba 2015) on chi squared of all measured
interactions, that is on the squares of what their marginals are apart, over the variance of noise.
The marginal of a set of columns is the sum of the measured interactions of its subsets, so that
the distance between two marginals whose subsets agree is that of their interactions.

Akaike's criterion, chi squared plus two for each parameter, compares the classes with another
model of the same measurements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from .people_draw import drawn_cells
from .residual_counts import Columns, centred
from .target_shares import Table, Targets

Floats = NDArray[np.float64]
CLASSES = 20
_STEPS, _RATE = 400, 0.1
_FIRST_MOMENT, _SECOND_MOMENT = 0.9, 0.99  # of Adam
_SPREAD = 0.3  # standard deviation of the first logits of values


def _softmax(logits: Floats) -> Floats:
    weights: Floats = np.exp(logits - logits.max(-1, keepdims=True))
    shares: Floats = weights / weights.sum(-1, keepdims=True)
    return shares


@dataclass(frozen=True, eq=False)
class HiddenClasses:
    """weights: (K,) shares of the classes; values: by column, (K, values) distributions."""

    weights: Floats
    values: tuple[Floats, ...]

    @staticmethod
    def fitted(targets: Targets, sets: Iterable[Columns]) -> HiddenClasses:
        """The classes of these noisy shares. sets: pairs and triples to which they are fitted."""
        rng, sizes = np.random.default_rng(0), targets.sizes
        ends = np.cumsum([CLASSES, *(CLASSES * n for n in sizes)])
        parameters = np.concatenate(
            [np.zeros(CLASSES)]
            + [
                (np.log(np.maximum(p, 1e-5)) + rng.normal(0, _SPREAD, (CLASSES, len(p)))).ravel()
                for p in targets.one_ways
            ]
        )
        goals = [*_goals(targets, sets)]
        first = second = np.zeros(len(parameters))
        for step in range(1, _STEPS + 1):
            logits, *of_values = np.split(parameters, ends[:-1])
            tables = [x.reshape(CLASSES, n) for x, n in zip(of_values, sizes, strict=True)]
            classes = HiddenClasses(_softmax(logits), tuple(_softmax(x) for x in tables))
            slope = classes._slope(targets, goals)
            first = _FIRST_MOMENT * first + (1 - _FIRST_MOMENT) * slope
            second = _SECOND_MOMENT * second + (1 - _SECOND_MOMENT) * np.square(slope)
            mean, square = first / (1 - _FIRST_MOMENT**step), second / (1 - _SECOND_MOMENT**step)
            rate = _RATE * min(1.0, 2 * (1 - step / _STEPS))
            parameters = parameters - rate * mean / (np.sqrt(square) + 1e-12)
        return classes

    @property
    def parameters(self) -> int:
        """The number of free parameters."""
        return len(self.weights) * (1 + sum(len(p[0]) - 1 for p in self.values)) - 1

    def shares(self, columns: Columns) -> Table:
        """The shares of a marginal of one to three columns."""
        first, *others = (self.values[c] for c in columns)
        joint = self.weights[:, None] * first
        for p in others[:-1]:
            joint = (joint[:, :, None] * p[:, None, :]).reshape(len(p), -1)
        flat = joint.T @ others[-1] if others else joint.sum(0)
        return flat.reshape([self.values[c].shape[1] for c in columns])

    def drawn(self, rng: np.random.Generator, rows: int) -> NDArray[np.unsignedinteger]:
        """(rows, columns) codes, in strata: each class has its share of the rows."""
        bounds = np.floor(np.cumsum([0, *self.weights]) * rows + rng.random()).astype(np.int64)
        bounds[0], bounds[-1] = 0, rows
        most = max(p.shape[1] for p in self.values)
        codes = np.empty((rows, len(self.values)), np.min_scalar_type(most))
        for c, p in enumerate(self.values):
            codes[:, c] = np.concatenate(drawn_cells(rng, p, np.diff(bounds)))
        return codes

    def _slope(self, targets: Targets, goals: list[_Goal]) -> Floats:
        """The gradient of half of chi squared by the logits.

        With weights w (K,) of classes, and shares P (K, cells) of their first columns and
        Q (K, values) of their last ones, a set has the shares M = (diag(w) P)' Q. With the distance
        D = precision (M - goal) the gradient by P is diag(w) Q D', by Q diag(w) P D, and by w the
        row sums of P * (Q D'). A softmax x with the gradient g has by its logits x (g - x'g).
        """
        weights, values = self.weights, self.values
        of_weights, of_values = np.zeros(len(weights)), [np.zeros_like(p) for p in values]
        for c, p in enumerate(values):
            apart = (weights @ p - targets.one_ways[c]) / targets.interactions[(c,)].variance
            of_weights += p @ apart
            of_values[c] += weights[:, None] * apart
        for goal in goals:
            joint, sizes = values[goal.first[0]], [values[c].shape[1] for c in goal.first]
            if len(goal.first) == 2:
                joint = (joint[:, :, None] * values[goal.first[1]][:, None, :]).reshape(
                    len(weights), -1
                )
            others = np.concatenate([values[c] for c in goal.last], axis=1)
            weighted = weights[:, None] * joint
            apart = (weighted.T @ others - goal.shares) * goal.precision
            back, of_others = others @ apart.T, joint @ apart  # Q D', P D
            of_weights += (back * joint).sum(1)
            back *= weights[:, None]
            if len(goal.first) == 2:
                a, b = goal.first
                back = back.reshape(len(weights), *sizes)
                of_values[a] += (back * values[b][:, None, :]).sum(2)
                of_values[b] += (back * values[a][:, :, None]).sum(1)
            else:
                of_values[goal.first[0]] += back
            ends = np.cumsum([values[c].shape[1] for c in goal.last])[:-1]
            for c, slope in zip(goal.last, np.split(of_others, ends, axis=1), strict=True):
                of_values[c] += weights[:, None] * slope
        slopes = [weights * (of_weights - weights @ of_weights)]
        for p, slope in zip(values, of_values, strict=True):
            slopes.append((p * (slope - (p * slope).sum(1, keepdims=True))).ravel())
        return np.concatenate(slopes)


def misfit(targets: Targets, columns: Columns, shares: Table) -> float:
    """Chi squared of a measured interaction about the shares of a model."""
    values, variance = targets.interactions[columns]
    return float(np.square(values - centred(shares)).sum()) / variance


@dataclass(frozen=True, eq=False)
class _Goal:
    """Sets of columns that have all but the last in common.

    first: the common columns. last: the last of each.
    shares, precision: (cells of the first, values of all the last).
    """

    first: Columns
    last: Columns
    shares: Floats
    precision: Floats


def _goals(targets: Targets, sets: Iterable[Columns]) -> Iterator[_Goal]:
    """The measured sets, those with the same first columns together: one product fits them all."""
    for first, alike in groupby(sorted(sets), key=lambda a: a[:-1]):
        together = [*alike]
        last = tuple(a[-1] for a in together)
        tables = [targets.marginal(a).reshape(-1, targets.sizes[a[-1]]) for a in together]
        precisions = np.repeat(
            [1 / targets.interactions[a].variance for a in together],
            [targets.sizes[c] for c in last],
        )
        yield _Goal(first, last, np.concatenate(tables, axis=1), precisions[None, :])
