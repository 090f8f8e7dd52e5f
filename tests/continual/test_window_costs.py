"""The charges of every form of window release are the exact worst case, at every period.

All histories of one person are measured by the mechanism itself; a difference d in an answer of
noise variance v costs d^2 / (2 v). Whole numbers only: variances are counted in units of b, over
their least common multiple.
"""

import math
from fractions import Fraction
from itertools import accumulate, product

import numpy as np
import pytest
from kit.walks import window_counts

from stream_dp.continual import FixedWindow
from stream_dp.continual.window_costs import prefix_costs
from stream_dp.continual.window_design import WindowDesign

RHO = Fraction(1, 200)
RELATIONS = ["add_remove", "replace_one"]


def form(q, width, horizon, relation, strategy="contrasts", absent=None):
    rows = None if absent is None else 9
    symbols = tuple(range(q))
    return FixedWindow(
        symbols, width, horizon, RHO, relation, strategy=strategy, rows=rows, absent=absent
    )


def exact_costs(mechanism, relation):
    """The worst cost of periods 1..t over all pairs of neighbours, for t = 1..T."""
    q, horizon, b = mechanism.q, mechanism.horizon, mechanism.design.later_variance
    units = [
        [b / v for v, size in mechanism.demand(t) for _ in range(size)]
        for t in range(1, horizon + 1)
    ]
    common = math.lcm(*(u.denominator for step in units for u in step))
    people = [np.array([h]) for h in product(range(q), repeat=horizon)]
    costs = np.zeros((len(people), len(people) if relation != "add_remove" else 1), np.int64)
    worst = []
    for t, step in enumerate(units, 1):
        counts = [window_counts(h, t, mechanism.width, q) for h in people]
        answers = np.array([mechanism.measure(t, c) for c in counts])
        assert answers.shape == (len(people), len(step))
        others = answers if relation != "add_remove" else np.zeros_like(answers[:1])
        for i, unit in enumerate(step):
            costs += (answers[:, i, None] - others[:, i]) ** 2 * int(unit * common)
        worst.append(Fraction(int(costs.max()), common) / (2 * b))
    return worst


GRID = [
    (q, width, horizon)
    for q, longest in ((2, 7), (3, 5), (4, 3))
    for width in (1, 2, 3)
    for horizon in range(width, longest + 1)
]


@pytest.mark.parametrize("open_", [False, True])
@pytest.mark.parametrize("strategy", ["histogram", "contrasts"])
@pytest.mark.parametrize("relation", RELATIONS)
def test_charges_are_exact_for_every_form_and_period(relation, strategy, open_):
    for q, width, horizon in GRID:
        mechanism = form(q, width, horizon, relation, strategy, q - 1 if open_ else None)
        assert exact_costs(mechanism, relation) == list(accumulate(mechanism.charges))
        assert sum(mechanism.charges) == RHO


@pytest.mark.parametrize("absent", [0, 1])
@pytest.mark.parametrize("relation", RELATIONS)
def test_which_code_is_the_absent_one_does_not_matter(relation, absent):
    mechanism = form(3, 2, 4, relation, absent=absent)
    assert exact_costs(mechanism, relation) == list(accumulate(mechanism.charges))
    assert mechanism.charges == form(3, 2, 4, relation, absent=2).charges


@pytest.mark.slow
@pytest.mark.parametrize("absent", [None, 1])
@pytest.mark.parametrize("strategy", ["histogram", "contrasts"])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("q", "width", "horizon"), [(2, 3, 10), (2, 5, 10), (3, 3, 6), (3, 4, 6)])
def test_charges_are_exact_over_longer_horizons(q, width, horizon, relation, strategy, absent):
    mechanism = form(q, width, horizon, relation, strategy, absent)
    assert exact_costs(mechanism, relation) == list(accumulate(mechanism.charges))


@pytest.mark.parametrize("q", [2, 3, 5, 9])
@pytest.mark.parametrize("width", [1, 2, 3, 6])
def test_closed_populations_have_the_formula(q, width):
    """2 for the first step, then 2 (i + ceil(i / k) / (q - 1)) for i contrast steps."""
    first, releases = Fraction(7, 3), 20
    costs = prefix_costs(q, width, releases, "replace_one", first=first, contrasts=True)
    later = [2 * i + Fraction(2 * math.ceil(Fraction(i, width)), q - 1) for i in range(releases)]
    assert list(costs) == [2 * first + cost for cost in later]
    assert prefix_costs(q, width, releases, "replace_one") == tuple(range(2, 2 * releases + 1, 2))


def test_the_paper_s_study_by_contrasts():
    added, replaced = (form(2, 3, 12, relation) for relation in RELATIONS)
    assert (added.design.variance, added.design.later_variance) == (460, 1150)
    assert 1 / (2 * added.design.variance) + 9 / (2 * added.design.later_variance) == RHO
    assert replaced.design.variance == 1016
    assert float(replaced.design.later_variance) == pytest.approx(2988.2, abs=0.05)
    assert 1 / replaced.design.variance + 12 / replaced.design.later_variance == RHO


def test_an_open_population_costs_no_more_than_a_closed_one():
    assert prefix_costs(3, 3, 10, "add_remove", open_=True)[-1] == 10
    assert prefix_costs(3, 3, 10, "replace_one", open_=True)[-1] == 20
    assert prefix_costs(2, 1, 10, "replace_one", open_=True)[-1] == 10
    for q, width in ((2, 1), (2, 3), (3, 1), (3, 2), (4, 3)):
        closed, opened = (
            prefix_costs(q, width, 10, "replace_one", contrasts=True, open_=o)
            for o in (False, True)
        )
        assert all(o <= c for o, c in zip(opened, closed, strict=True))


class Wrong(FixedWindow):
    """Contrast noise without the factor j (j + 1)."""

    def demand(self, t):
        ours = super().demand(t)
        return [(ours[0][0], size) for _, size in ours] if t > self.width else ours


class Greedy(WindowDesign):
    """Absences measured like anything else."""

    @property
    def measured(self):
        return np.arange(self.bins)


@pytest.mark.parametrize("relation", RELATIONS)
def test_wrong_factors_are_seen(relation):
    right = form(3, 2, 4, relation)
    fields = (right.values, 2, 4, RHO, relation, right.failure, "contrasts")
    assert exact_costs(Wrong(*fields), relation)[-1] > RHO
    paper = form(2, 2, 5, "add_remove")
    replaced = exact_costs(paper, "replace_one")[-1]
    assert 2 * RHO < replaced < 4 * RHO
    assert exact_costs(form(2, 2, 5, "replace_one"), "add_remove")[-1] < RHO


def test_measuring_the_absences_costs_twice_as_much():
    """Someone who comes leaves one bin and enters another: 2 under add_remove."""
    greedy = Greedy(
        values=("a", "absent"),
        width=2,
        horizon=5,
        rho=RHO,
        neighbours="add_remove",
        strategy="histogram",
        absent=1,
        moves=False,
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


@pytest.mark.parametrize("strategy", ["histogram", "contrasts"])
@pytest.mark.parametrize("absent", [None, 1])
def test_long_studies_and_wide_windows_are_planned_quickly(strategy, absent):
    for width, horizon in ((3, 1200), (12, 40)):
        mechanism = form(2, width, horizon, "replace_one", strategy, absent)
        assert sum(mechanism.charges) == RHO
        assert mechanism.worst_variance >= mechanism.mean_variance * (1 - 1e-12)
