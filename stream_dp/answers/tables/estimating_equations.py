"""Estimating equations of regression models, linear in the noisy measurements of a table.

For coefficients b, let x be a person's row of the design, y the outcome and m the mean of the
model: x'b, or 1 / (1 + exp(-x'b)) of a logistic model. The equations of the model are
    g(b) = sum over people of x (y - m(x'b)) = 0.
Of a linear model they need the sums of products of two terms. Of a logistic model they need the
sums of x y, and those of functions of all covariates at once. For fixed b, each is a sum over cells
of marginals, so its estimate is unbiased and linear in the measurements. g(b) - E g(b) therefore
has exactly the covariance V(b) = W(b) D W(b)' for the weights W(b) and the variances D of the
measurements, and is normal as far as their noise is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from math import prod

import numpy as np
import scipy

from .joint_sums import EmptyCells, JointTable, NotMeasured
from .model_formula import Term
from .table_facts import Floats, PublishedTables

MOST_DESIGN_CELLS = 1_000  # of the covariates of a logistic model
MOST_STEPS = 50  # of Newton's method
_DEPENDENT = 1e-10  # 1 less R^2 of a term that other terms determine
_SMALLEST = 1e-10  # of a step, relative to the coefficients


Line = Callable[[float], tuple[float, float]]


class NoSolution(Exception):
    """Raised if noisy equations have no solution."""


class EstimatingEquations(ABC):
    """The equations of a model.

    coefficients: their number, p
    """

    coefficients: int

    @abstractmethod
    def scores(self, b: Floats) -> Floats:
        """g(b), (p,)"""

    @abstractmethod
    def covariance(self, b: Floats) -> Floats:
        """V(b), (p, p)"""

    @abstractmethod
    def slopes(self, b: Floats) -> Floats:
        """The derivative of -g(b), (p, p): symmetric."""

    @abstractmethod
    def solution(self) -> Floats:
        """The coefficients b with g(b) = 0. Raises NoSolution."""

    @abstractmethod
    def along(self, b: Floats, d: Floats) -> Line:
        """The function of t that gives d'g(b + t d) and its variance."""


class LinearEquations(EstimatingEquations):
    """The equations of least squares. Raises NotMeasured.

    outcome, terms: of the model
    present: 1 for people who count; without functions, everybody
    empty: the cells that rules leave empty
    """

    def __init__(
        self,
        outcome: Term,
        terms: Sequence[Term],
        present: Term,
        published: PublishedTables,
        empty: EmptyCells | None = None,
    ) -> None:
        self.coefficients = len(terms)
        both = (*terms, outcome)
        pairs = [(i, j) for i in range(len(both)) for j in range(i + 1)]
        products = [both[i].times(both[j]).times(present) for i, j in pairs]
        sums = ProductSums(products, published, empty)
        self._sums, noise = sums.values, sums.in_noise
        self._noise = np.asarray((noise @ noise.T).todense())
        self._numbers = np.zeros((len(both), len(both)), np.int64)
        for number, (i, j) in enumerate(pairs):
            self._numbers[i, j] = self._numbers[j, i] = number

    @property
    def _products(self) -> Floats:
        products: Floats = self._sums[self._numbers]
        return products

    def scores(self, b: Floats) -> Floats:
        scores: Floats = self._products[:-1] @ np.append(-b, 1.0)
        return scores

    def slopes(self, b: Floats) -> Floats:
        return self._products[:-1, :-1]

    def covariance(self, b: Floats) -> Floats:
        weights = self._weights(b, np.eye(self.coefficients))
        covariance: Floats = weights @ self._noise @ weights.T
        return covariance

    def along(self, b: Floats, d: Floats) -> Line:
        """See `EstimatingEquations.along`: the weights of the sums are at_b + t slope."""
        at_b, at_b_and_d = self._weights(b, d[None, :])[0], self._weights(b + d, d[None, :])[0]
        slope = at_b_and_d - at_b
        value, change = float(at_b @ self._sums), float(slope @ self._sums)
        noise = self._noise @ np.stack([at_b, slope], axis=1)
        constant, linear, square = at_b @ noise[:, 0], slope @ noise[:, 0], slope @ noise[:, 1]

        def line(t: float) -> tuple[float, float]:
            return value + t * change, float(constant + 2 * t * linear + t * t * square)

        return line

    def _weights(self, b: Floats, directions: Floats) -> Floats:
        """The weights of the sums of products in directions @ g(b), (directions, sums)."""
        factors = np.append(-b, 1.0)
        weights = np.zeros((len(directions), self._sums.size))
        for row, direction in enumerate(directions):
            np.add.at(weights[row], self._numbers[:-1], np.outer(direction, factors))
        return weights

    def solution(self) -> Floats:
        try:
            solution: Floats = inverse_of(self.slopes(np.zeros(0))) @ self._products[:-1, -1]
        except np.linalg.LinAlgError:
            raise NoSolution from None
        return solution


class LogisticEquations(EstimatingEquations):
    """The equations of maximum likelihood of a logistic model. Raises NotMeasured.

    covariates: the columns that the terms or `present` name, in the table's order
    empty: the cells that rules leave empty
    """

    def __init__(
        self,
        outcome: Term,
        terms: Sequence[Term],
        present: Term,
        covariates: Sequence[str],
        published: PublishedTables,
        empty: EmptyCells | None = None,
    ) -> None:
        self.coefficients = len(terms)
        joint = JointTable(tuple(covariates), published)
        if (cells := prod(joint.shape)) > MOST_DESIGN_CELLS:
            raise NotMeasured(joint.columns, cells)
        everybody = joint.sums(np.eye(cells).reshape(cells, *joint.shape))
        everybody = everybody if empty is None else empty.given(everybody)
        products = [term.times(outcome).times(present) for term in terms]
        events = ProductSums(products, published, empty)
        noise = scipy.sparse.vstack([everybody.in_noise(published), events.in_noise], format="csc")
        measured = np.flatnonzero(np.diff(noise.indptr))
        dense = np.asarray(noise[:, measured].todense())
        self._people_noise, self._event_noise = dense[:cells], dense[cells:]
        counted = _on_cells(present, joint).reshape(-1)
        self._people = everybody.values(published) * counted
        self._people_noise *= counted[:, None]
        self._events = events.values
        self._design = np.stack([_on_cells(term, joint).reshape(-1) for term in terms])

    def _shares(self, b: Floats) -> Floats:
        """The mean of the model on the cells."""
        shares: Floats = 1 / (1 + np.exp(-np.clip(b @ self._design, -500, 500)))
        return shares

    def scores(self, b: Floats) -> Floats:
        scores: Floats = self._events - self._design @ (self._shares(b) * self._people)
        return scores

    def covariance(self, b: Floats) -> Floats:
        noise = self._event_noise - (self._design * self._shares(b)) @ self._people_noise
        covariance: Floats = noise @ noise.T
        return covariance

    def along(self, b: Floats, d: Floats) -> Line:
        """See `EstimatingEquations.along`: d'g is d'x summed over events less expected events."""
        product, events = d @ self._design, d @ self._event_noise

        def line(t: float) -> tuple[float, float]:
            expected = product * self._shares(b + t * d)
            noise = events - expected @ self._people_noise
            return float(d @ self._events - expected @ self._people), float(noise @ noise)

        return line

    def slopes(self, b: Floats) -> Floats:
        shares = self._shares(b)
        slopes: Floats = (self._design * (shares * (1 - shares) * self._people)) @ self._design.T
        return slopes

    def solution(self) -> Floats:
        """Newton's method; a step is halved until the likelihood does not fall."""
        b = np.zeros(self.coefficients)
        for _ in range(MOST_STEPS):
            try:
                step = inverse_of(self.slopes(b)) @ self.scores(b)
            except np.linalg.LinAlgError:
                raise NoSolution from None
            shorter = 1.0
            while shorter > 1e-3 and self._likelihood(b + shorter * step) < self._likelihood(b):
                shorter /= 2
            b = b + shorter * step
            if np.abs(step).max() <= _SMALLEST * (1 + np.abs(b).max()):
                return b
        raise NoSolution

    def _likelihood(self, b: Floats) -> float:
        """The noisy logarithm of the likelihood: its derivative is g(b)."""
        return float(b @ self._events - np.logaddexp(0, b @ self._design) @ self._people)


class ProductSums:
    """The sums over people of products of functions of single columns. Raises NotMeasured.

    empty: the cells that rules leave empty
    values: (products,)
    in_noise: (products, measurements) the weights in units of the noise
    """

    def __init__(
        self, products: Sequence[Term], published: PublishedTables, empty: EmptyCells | None
    ) -> None:
        order = {name: place for place, name in enumerate(published.names["people"])}
        by_columns: dict[tuple[str, ...], list[int]] = {}
        for number, term in enumerate(products):
            columns = tuple(sorted(term.functions, key=order.__getitem__))
            by_columns.setdefault(columns, []).append(number)
        values, noise, numbers = [], [], list[int]()
        for columns, of_columns in by_columns.items():
            joint = JointTable(columns, published)
            functions = [_on_cells(products[number], joint) for number in of_columns]
            sums = joint.sums(np.stack(functions))
            sums = sums if empty is None else empty.given(sums)
            values.append(sums.values(published))
            noise.append(sums.in_noise(published))
            numbers += of_columns
        in_order = np.argsort(numbers)
        self.values: Floats = np.concatenate(values)[in_order]
        self.in_noise = scipy.sparse.csr_array(
            scipy.sparse.csr_array(scipy.sparse.vstack(noise, format="csr"))[in_order]
        )


def _on_cells(term: Term, joint: JointTable) -> Floats:
    """The function of a term on the cells of columns, with an axis for each."""
    values = np.ones(joint.shape)
    for name, function in term.functions.items():
        axis = joint.columns.index(name)
        values *= function.reshape([-1 if i == axis else 1 for i in range(values.ndim)])
    return values


def inverse_of(matrix: Floats) -> Floats:
    """The inverse of a positive definite matrix. Raises LinAlgError for a nearly singular one.

    A square on the diagonal of the Cholesky factor is 1 less R^2 of a term on the terms before it.
    """
    scale = np.sqrt(np.maximum(np.diag(matrix), 0))
    if not (scale > 0).all():
        raise np.linalg.LinAlgError
    scaled = matrix / np.outer(scale, scale)
    if np.diag(np.linalg.cholesky(scaled)).min() ** 2 < _DEPENDENT:
        raise np.linalg.LinAlgError
    inverse: Floats = np.linalg.inv(scaled) / np.outer(scale, scale)
    return inverse
