"""Under replacement the residuals' weights are near the best, which a convex programme finds.

Patterns' errors and the cost do not change when the symbols of a period are permuted, and each
component is irreducible: one weight for each is enough. With w_A the cost of two histories that
differ at the periods D is linear, c(D) = sum_A w_A g(A, D), and the mean error of a pattern is
sum_A e_A / w_A. For any measure mu of all D let G_A = sum_D mu(D) g(A, D); by Cauchy and Schwarz
    max_D c(D) sum_A e_A / w_A >= (sum_A sqrt(e_A G_A))^2 / mu(all)
for every w, and w_A = sqrt(e_A / G_A) reaches it at the best mu.
"""

from fractions import Fraction
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
import pytest
from scipy.optimize import minimize

from stream_dp.continual.window.residual_costs import ResidualCosts

GAP = 2e-5  # between the weights' value and the dual bound, in proportion


class Programme(NamedTuple):
    """errors: e of the components; changes: g, (components, sets of periods); own: our weights."""

    errors: np.ndarray
    changes: np.ndarray
    own: np.ndarray

    def value(self, weights):
        """The mean error of a pattern at cost 1."""
        return (self.errors / weights).sum() * (weights @ self.changes).max()

    def bound(self, measure):
        """What no weights are below."""
        return np.sqrt(self.errors * (self.changes @ measure)).sum() ** 2 / measure.sum()

    def best(self):
        """The best measure of the sets of periods, and the weights that follow from it."""

        def loss(measure):
            reached = self.changes @ measure
            slope = 1 - self.changes.T @ np.sqrt(self.errors / reached)
            return measure.sum() - 2 * np.sqrt(self.errors * reached).sum(), slope

        sets = self.changes.shape[1]
        measure = np.full(sets, self.value(self.own) / sets)
        options = {"maxiter": 2000, "ftol": 1e-13, "maxcor": 30}
        # A line search may stop short, by the last bits of a sum: it goes on from there, anew.
        for _ in range(10):
            measure = minimize(
                loss, measure, jac=True, bounds=[(0, None)] * sets, options=options
            ).x
            weights = np.sqrt(self.errors / (self.changes @ measure))
            if self.value(weights) <= (1 + GAP) * self.bound(measure):
                break
        return measure, weights


def programme(costs):
    q, k, horizon = costs.q, costs.width, costs.horizon
    components = [
        (least, *rest)
        for least in range(1, horizon + 1)
        for size in range(k)
        for rest in combinations(range(least + 1, min(least + k - 1, horizon) + 1), size)
    ]
    ends = [(a[0], a[-1], len(a)) for a in components]
    alike = 1 - 1 / q
    errors = [costs.windows(a, z) * q ** (-2 * (k - n)) * alike**n for a, z, n in ends]
    differ = np.array(list(product([False, True], repeat=horizon)))[1:]
    factors = np.where(differ, 0, 1) - 1 / q
    changes = [2 * (alike ** len(a) - factors[:, np.array(a) - 1].prod(axis=1)) for a in components]
    own = np.array([float(costs.weight(*each)) for each in ends])
    return Programme(np.array(errors) / costs.releases, np.array(changes), own)


@pytest.mark.parametrize(
    ("q", "width", "horizon", "best", "over"),
    [
        (2, 3, 12, 0.7287, 1.0061),
        (2, 4, 12, 0.7333, 1.0101),
        (2, 2, 11, 0.7236, 1.0013),
        (3, 3, 9, 0.8385, 1.0042),
        (3, 4, 10, 0.8382, 1.0070),
        (8, 3, 11, 0.9409, 1.0019),
    ],
)
def test_weights_in_proportion_to_windows_are_near_the_best(q, width, horizon, best, over):
    """best: the root mean square error over that of histograms; over: ours over the best."""
    costs = ResidualCosts(q=q, width=width, horizon=horizon, exponent=Fraction(1), total=False)
    problem = programme(costs)
    assert (problem.own @ problem.changes).max() == pytest.approx(
        float(costs.prefix("replace_one")[-1])
    )
    measure, weights = problem.best()
    reached, bound = problem.value(weights), problem.bound(measure)
    assert bound <= reached <= (1 + GAP) * bound
    histograms = 2 * costs.releases
    assert np.sqrt(bound / histograms) == pytest.approx(best, abs=1e-4)
    ours = np.sqrt(problem.value(problem.own) / bound)
    assert ours == pytest.approx(over, abs=1e-4)
    assert ours < 1.0102
