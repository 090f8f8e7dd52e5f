"""The declared charges are the exact worst case over pairs of histories, for every prefix.

Every pair of one person's histories is tried. Both populations, with some other people in them,
go through the mechanism's own `measure`; a difference d in an answer with noise variance v costs
d^2 / (2 v). Nothing is sampled and nothing is rounded.
"""

from fractions import Fraction
from itertools import accumulate, product

import numpy as np
import pytest
from kit import counter_contract
from kit.walks import counts_of

from stream_dp.continual.counters.tree import tree
from stream_dp.continual.cumulative.budgets import MOST_PREFIXES, equal_variance_weights, path_costs
from stream_dp.continual.cumulative.cumulative import Cumulative
from stream_dp.continual.window.window import FixedWindow

RELATIONS = ["add_remove", "replace_one", "replace_in_place"]
RHO = Fraction(1, 200)


def measured(mechanism, symbols):
    """Everything that meets noise for one population, period by period."""
    if isinstance(mechanism, Cumulative):
        return counter_contract.measured(mechanism, symbols)
    periods = range(1, mechanism.horizon + 1)
    return [mechanism.measure(t, counts_of(mechanism, symbols, t)) for t in periods]


def exact_costs(mechanism, relation, q):
    """The worst cost of periods 1..t over all pairs of neighbours, for t = 1..T."""
    horizon = mechanism.horizon
    others = np.random.default_rng(5).integers(0, q, (4, horizon))
    mine = [np.array([h]) for h in product(range(q), repeat=horizon)]
    people = [measured(mechanism, np.concatenate([others, h])) for h in mine]
    references = [measured(mechanism, others)] if relation == "add_remove" else people
    weights = [
        [1 / (2 * v) for v, size in mechanism.demand(t) for _ in range(size)]
        for t in range(1, horizon + 1)
    ]
    worst = [Fraction(0)] * horizon
    for here, there in product(people, references):
        total = Fraction(0)
        for t in range(horizon):
            change = here[t] - there[t]
            assert len(change) == len(weights[t])
            for i in np.flatnonzero(change):
                total += int(change[i]) ** 2 * weights[t][i]
            worst[t] = max(worst[t], total)
    return worst


def window(q, width, horizon, relation):
    return FixedWindow(
        values=tuple(range(q)),
        width=width,
        horizon=horizon,
        rho=RHO,
        neighbours=relation,
        strategy="histogram",
    )


def cumulative(horizon, relation, share=Fraction(0)):
    rows = None if share else 5
    return Cumulative(
        horizon=horizon,
        rho=RHO,
        neighbours=relation,
        rows=rows,
        size_share=share,
        counter="tree",
    )


WINDOWS = [(2, 1, 1), (2, 1, 3), (2, 2, 4), (2, 3, 5), (2, 4, 4), (3, 1, 2), (3, 2, 3), (4, 2, 2)]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("q", "width", "horizon"), WINDOWS)
def test_fixed_window_charges_are_exact(q, width, horizon, relation):
    """Bun24, Algorithm 1: squared sensitivity 1 a histogram, or 2 under replacement."""
    mechanism = window(q, width, horizon, relation)
    assert exact_costs(mechanism, relation, q) == list(accumulate(mechanism.charges))
    assert sum(mechanism.charges) == RHO


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("horizon", [1, 2, 3, 4, 5, 6])
def test_cumulative_charges_are_exact(horizon, relation):
    """Bun24, Algorithm 2, with a tree for each threshold."""
    mechanism = cumulative(horizon, relation)
    assert exact_costs(mechanism, relation, 2) == list(accumulate(mechanism.charges))
    assert sum(mechanism.charges) == RHO


@pytest.mark.parametrize("horizon", [1, 2, 3, 5])
@pytest.mark.parametrize("share", [Fraction(1, 10), Fraction(2, 3)])
def test_cumulative_charges_are_exact_where_the_number_of_people_is_measured(horizon, share):
    mechanism = cumulative(horizon, "add_remove", share)
    assert exact_costs(mechanism, "add_remove", 2) == list(accumulate(mechanism.charges))
    assert sum(mechanism.charges) == RHO
    assert 1 / (2 * mechanism.size_variance) == RHO * share


def test_a_forgotten_factor_is_seen():
    """Noise for add_remove does not cover replacement: the paper's sensitivity costs 2 rho."""
    paper = window(2, 2, 4, "add_remove")
    assert exact_costs(paper, "replace_one", 2)[-1] == 2 * RHO
    counters = cumulative(5, "add_remove")
    assert RHO < exact_costs(counters, "replace_one", 2)[-1] < 2 * RHO
    careful = window(2, 2, 4, "replace_one")
    assert exact_costs(careful, "add_remove", 2)[-1] == RHO / 2


def test_long_horizons_are_charged_at_once_and_never_less_than_exactly():
    horizon = MOST_PREFIXES + 1
    for relation in RELATIONS:
        mechanism = cumulative(horizon, relation)
        assert mechanism.charges == (RHO,) + (Fraction(0),) * (horizon - 1)
        weights = equal_variance_weights(mechanism.counters)
        (final,) = path_costs(mechanism.counters, weights, relation, prefixes=False)
        assert final / (2 * weights[0] * mechanism.variances[0]) == RHO
    size = cumulative(horizon, "add_remove", Fraction(1, 10))
    assert sum(size.charges) == RHO


def test_every_counter_has_the_same_worst_variance():
    for horizon in (1, 2, 7, 12, 60):
        mechanism = cumulative(horizon, "replace_one")
        worst = {v * tree(horizon - b).worst_gain for b, v in enumerate(mechanism.variances)}
        assert worst == {mechanism.worst_variance}
