"""The charges of every form of window release are the exact worst case, at every period.

All histories of one person are measured by the mechanism itself; a difference d in an answer of
noise variance v costs d^2 / (2 v). Whole numbers only: variances are counted in units of b, over
their least common multiple.
"""

import math
from dataclasses import fields
from fractions import Fraction
from itertools import accumulate, product

import numpy as np
import pytest
from kit.walks import counts_of, window_counts

from stream_dp.continual.window.window import FixedWindow
from stream_dp.continual.window.window_design import WindowDesign, prefix_costs

RHO = Fraction(1, 200)
RELATIONS = ["add_remove", "replace_one"]


def form(q, width, horizon, relation, strategy="residuals", absent=None, **fields):
    closed = absent is None and relation == "add_remove"
    rows = None if closed or "blank" in fields else 9
    symbols = tuple(range(q))
    return FixedWindow(
        values=symbols,
        width=width,
        horizon=horizon,
        rho=RHO,
        neighbours=relation,
        strategy=strategy,
        rows=rows,
        absent=absent,
        **fields,
    )


def exact_costs(mechanism, relation):
    """The worst cost of periods 1..t over all pairs of neighbours, for t = 1..T."""
    q, horizon, b = mechanism.q, mechanism.horizon, mechanism.scale
    units = [
        [b / v for v, size in mechanism.demand(t) for _ in range(size)]
        for t in range(1, horizon + 1)
    ]
    common = math.lcm(*(u.denominator for step in units for u in step))
    people = [np.array([h]) for h in product(range(q), repeat=horizon)]
    # Rows of who is present are whole numbers of 20 binary digits: their squares need more.
    kind = object if mechanism.measurement.counts_size > mechanism.bins else np.int64
    costs = np.zeros((len(people), len(people) if relation != "add_remove" else 1), kind)
    worst = []
    for t, step in enumerate(units, 1):
        counts = [counts_of(mechanism, h, t) for h in people]
        answers = np.array([mechanism.measure(t, c) for c in counts]).astype(kind)
        assert answers.shape == (len(people), len(step))
        others = answers if relation != "add_remove" else np.zeros_like(answers[:1])
        for i, unit in enumerate(step):
            costs += (answers[:, i, None] - others[:, i]) ** 2 * int(unit * common)
        worst.append(Fraction(int(costs.max()), common) / (2 * b))
    return worst


GRID = [
    (q, width, horizon)
    for q, longest in ((2, 6), (3, 4), (4, 3))
    for width in (1, 2, 3)
    for horizon in sorted({width, width + 1, longest})
]  # of the longest, every period is compared


@pytest.mark.parametrize("strategy", ["histogram", "residuals"])
@pytest.mark.parametrize("relation", RELATIONS)
def test_charges_are_exact_for_every_strategy_and_period(relation, strategy):
    for q, width, horizon in GRID:
        mechanism = form(q, width, horizon, relation, strategy=strategy)
        assert exact_costs(mechanism, relation) == list(accumulate(mechanism.charges))
        assert sum(mechanism.charges) == RHO


@pytest.mark.parametrize("relation", RELATIONS)
def test_charges_of_histograms_are_exact_in_an_open_population(relation):
    for q, width, horizon in GRID:
        mechanism = form(q, width, horizon, relation, strategy="histogram", absent=q - 1)
        assert exact_costs(mechanism, relation) == list(accumulate(mechanism.charges))
        assert sum(mechanism.charges) == RHO


@pytest.mark.parametrize("late", [False, True])
def test_charges_of_residuals_are_exact_where_people_come_and_go_or_enter_late(late):
    for q, width, horizon in GRID:
        for symbol in {0, q - 1}:
            left_out = {"blank": symbol} if late else {"absent": symbol}
            mechanism = form(q, width, horizon, "add_remove", **left_out)
            assert exact_costs(mechanism, "add_remove") == list(accumulate(mechanism.charges))
            assert sum(mechanism.charges) == RHO


@pytest.mark.parametrize("crossed", [0, 1, 2])
def test_residuals_of_strata_are_never_charged_less_than_they_cost(crossed):
    """Two are crossed: a person leaves one stratum and enters another, whose costs add up."""
    for q, width, horizon in ((2, 1, 3), (2, 2, 4), (2, 3, 5), (3, 2, 3)):
        mechanism = form(q, width, horizon, "replace_one", absent=q - 1, crossed=crossed)
        alone, own = (exact_costs(mechanism, relation) for relation in RELATIONS)
        worst = [max(crossed * a, b) for a, b in zip(alone, own, strict=True)]
        charged = list(accumulate(mechanism.charges))
        assert all(cost <= bound for cost, bound in zip(worst, charged, strict=True))
        if (
            crossed == 2 or width > 1 or q > 2
        ):  # otherwise two histories are never apart in two counts
            assert worst[-1] >= RHO * (1 - Fraction(1, 1000))


@pytest.mark.parametrize("absent", [0, 1])
@pytest.mark.parametrize("strategy", ["histogram", "residuals"])
def test_which_code_is_the_absent_one_does_not_matter(strategy, absent):
    mechanism = form(3, 2, 4, "add_remove", strategy=strategy, absent=absent)
    assert exact_costs(mechanism, "add_remove") == list(accumulate(mechanism.charges))
    assert mechanism.charges == form(3, 2, 4, "add_remove", strategy=strategy, absent=2).charges


@pytest.mark.slow
@pytest.mark.parametrize("absent", [None, 1])
@pytest.mark.parametrize("strategy", ["histogram", "residuals"])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("q", "width", "horizon"), [(2, 3, 10), (2, 5, 10), (3, 3, 6), (3, 4, 6)])
def test_charges_are_exact_over_longer_horizons(q, width, horizon, relation, strategy, absent):
    if absent is not None and strategy == "residuals" and relation != "add_remove":
        return  # an upper bound: see above
    mechanism = form(q, width, horizon, relation, strategy=strategy, absent=absent)
    assert exact_costs(mechanism, relation) == list(accumulate(mechanism.charges))


@pytest.mark.parametrize("q", [2, 3, 5, 9])
@pytest.mark.parametrize("width", [1, 2, 3, 6])
def test_closed_populations_have_the_formula(q, width):
    assert prefix_costs(q, width, 20, "replace_one") == tuple(range(2, 41, 2))
    for relation, each in zip(RELATIONS, (1, 2), strict=True):
        residuals = form(q, width, width + 19, relation)
        assert residuals.costs[-1] == 20 * each or relation == "add_remove"


def test_an_open_population_costs_no_more_than_a_closed_one():
    assert prefix_costs(3, 3, 10, "add_remove", open_=True)[-1] == 10
    assert prefix_costs(3, 3, 10, "replace_one", open_=True)[-1] == 20
    assert prefix_costs(2, 1, 10, "replace_one", open_=True)[-1] == 10


class Wrong(FixedWindow):
    """Noise without the factor j (j + 1)."""

    def demand(self, t):
        ours = super().demand(t)
        least = min((v for v, _ in ours), default=0)
        return [(least, size) for _, size in ours]


class Greedy(WindowDesign):
    """Absences measured like anything else."""

    @property
    def absent_pattern(self):
        return None


@pytest.mark.parametrize("relation", RELATIONS)
def test_wrong_factors_are_seen(relation):
    right = form(3, 2, 4, relation)
    wrong = Wrong(**{each.name: getattr(right, each.name) for each in fields(right)})
    assert exact_costs(wrong, relation)[-1] > RHO
    paper = form(2, 2, 5, "add_remove")
    replaced = exact_costs(paper, "replace_one")[-1]
    assert RHO < replaced < 4 * RHO
    assert exact_costs(form(2, 2, 5, "replace_one"), "add_remove")[-1] < RHO


def test_measuring_the_absences_costs_twice_as_much():
    """A person who is added leaves one bin and enters another: 2 under add_remove."""
    greedy = Greedy(
        values=("a", "absent"),
        width=2,
        horizon=5,
        rho=RHO,
        neighbours="add_remove",
        strategy="histogram",
        rows=9,
        absent=1,
        blank=None,
        crossed=0,
    )
    people = [np.array([h]) for h in product(range(2), repeat=5)]
    nobody = np.ones((1, 5), np.int64)
    changes = [
        sum(
            (
                (
                    greedy.measure(t, window_counts(h, t, 2, 2))
                    - greedy.measure(t, window_counts(nobody, t, 2, 2))
                )
                ** 2
            ).sum()
            for t in range(1, 6)
        )
        for h in people
    ]
    assert max(changes) == 2 * greedy.releases


@pytest.mark.parametrize("strategy", ["histogram", "residuals"])
@pytest.mark.parametrize("absent", [None, 1])
def test_long_studies_and_wide_windows_are_planned_quickly(strategy, absent):
    open_residuals = absent is not None and strategy == "residuals"
    for width, horizon in ((3, 1200), (5 if open_residuals else 12, 40)):
        mechanism = form(2, width, horizon, "replace_one", strategy=strategy, absent=absent)
        assert sum(mechanism.charges) == RHO
        assert mechanism.worst_variance >= mechanism.mean_variance * (1 - 1e-12)
