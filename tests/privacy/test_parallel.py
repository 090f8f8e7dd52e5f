"""Strata in parallel: the composed cost against all pairs of people, one by one."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.studies import attribute, small_study

from stream_dp.continual.mechanisms import mechanism
from stream_dp.privacy.ledger import BudgetExceeded, Charge, Ledger, composed_cost, crossed_strata

VALUES = {"region": ("n", "s", "e"), "wave": ("1", "2")}
# What a person can be: one value of every fixed attribute, or none yet.
PEOPLE = list(itertools.product(*[(*values, None) for values in VALUES.values()]))
PLACES = [None, *[(a, v) for a, values in VALUES.items() for v in values]]

costs = st.fractions(0, 3, max_denominator=12)
releases = st.lists(st.tuples(st.sampled_from(PLACES), costs, costs), max_size=7)


def inside(person, place):
    return place is None or person[list(VALUES).index(place[0])] == place[1]


def ledger_of(releases, charged):
    strata = {str(i): place for i, (place, _, _) in enumerate(releases) if place is not None}
    return strata, {str(i): charged(r, a) for i, (_, r, a) in enumerate(releases)}


def tight(releases, charged):
    """Whether some people's loss reaches a bound: charged is the cost of each release."""
    return composed_cost(*ledger_of(releases, charged))


@settings(max_examples=40)
@given(releases)
def test_add_remove_costs_no_more_than_what_is_composed(releases):
    """r is not used: a person comes or goes, in one stratum of each attribute at most."""
    bound = tight(releases, lambda r, a: a)
    losses = [sum(a for place, _, a in releases if inside(p, place)) for p in PEOPLE]
    assert max(losses) == bound


@settings(max_examples=40)
@given(releases)
def test_replacement_costs_no_more_than_what_is_composed(releases):
    bound = tight(releases, lambda r, a: max(r, 2 * a))
    worst = Fraction(0)
    for old, new in itertools.product(PEOPLE, repeat=2):
        loss = Fraction(0)
        for place, r, a in releases:
            there = inside(old, place), inside(new, place)
            # The old one leaves a stratum, the new one enters another.
            loss += r if all(there) else a * any(there)
        worst = max(worst, loss)
    assert worst <= bound
    if all(r >= 2 * a for _, r, a in releases):
        assert worst == bound


@settings(max_examples=40)
@given(releases)
def test_lone_strata_need_no_second_coming(releases):
    """Of every attribute with one value released: each release is charged max(r, a)."""
    lone = [(place and (place[0], VALUES[place[0]][0]), r, a) for place, r, a in releases]
    strata, _ = ledger_of(lone, lambda r, a: r)
    assert {crossed_strata(strata, release) for release in strata} <= {1}
    bound, worst = tight(lone, max), Fraction(0)
    for old, new in itertools.product(PEOPLE, repeat=2):
        loss = Fraction(0)
        for place, r, a in lone:
            there = inside(old, place), inside(new, place)
            loss += r if all(there) else a * any(there)
        worst = max(worst, loss)
    assert worst <= bound
    if all(r >= a for _, r, a in lone):
        assert worst == bound


def test_strata_that_a_replaced_person_crosses_are_counted_by_attribute():
    strata = {"n": ("region", "n"), "s": ("region", "s"), "first": ("wave", "1")}
    strata["again"] = ("wave", "1")
    crossed = [crossed_strata(strata, name) for name in ("n", "s", "first", "again", "all")]
    assert crossed == [2, 2, 1, 1, 0]


@settings(max_examples=40)
@given(releases)
def test_less_than_twice_a_coming_is_not_enough(releases):
    """Without the factor two strata can cost more than the larger: the rule is needed."""
    strata = [(("region", v), Fraction(1), Fraction(1)) for v in "ns"]
    assert tight(strata, lambda r, a: r) == 1
    assert sum(a for _, _, a in strata) == 2
    assert tight([*releases, *strata], lambda r, a: max(r, 2 * a)) >= 2


@settings(max_examples=40)
@given(releases, st.lists(st.tuples(st.integers(0, 6), costs), max_size=12), costs)
def test_the_ledger_spends_what_is_composed_and_never_more_than_the_total(releases, asked, total):
    strata, _ = ledger_of(releases, lambda r, a: r)
    ledger, costs = Ledger(total, strata), {}
    for period, (number, rho) in enumerate(asked, 1):
        charge = Charge(str(number), period, rho)
        wanted = {**costs, charge.release: costs.get(charge.release, 0) + rho}
        if composed_cost(strata, wanted) <= total:
            ledger, costs = ledger.charge(charge), wanted
        else:
            with pytest.raises(BudgetExceeded):
                ledger.charge(charge)
        assert ledger.costs == costs
        assert ledger.spent == composed_cost(strata, costs) <= total
        assert ledger.left == total - ledger.spent


def test_a_charge_of_the_smaller_stratum_is_free_until_it_is_the_larger():
    ledger = Ledger(Fraction(1), {"n": ("region", "n"), "s": ("region", "s")})
    ledger = ledger.charge(Charge("n", 1, Fraction(1)))
    assert ledger.left == 0
    ledger = ledger.charge(Charge("s", 1, Fraction(1)))
    assert ledger.left == 0
    with pytest.raises(BudgetExceeded, match="s at period 2"):
        ledger.charge(Charge("s", 2, Fraction(1, 10**9)))


KINDS = (
    {"kind": "window", "width": 2, "strategy": "histogram"},
    {"kind": "window", "width": 3, "strategy": "residuals"},
    {"kind": "cumulative", "event": [1], "counter": "tree"},
    {"kind": "joint", "event": [1], "width": 2, "strategy": "histogram", "counter": "tree"},
)


def mechanism_of(neighbours, rho, kind):
    """The mechanism of a release of one stratum of two over six periods."""
    release = {"attribute": "poor", "rows": 30, "rho": rho, **kind}
    study = small_study(
        name="layers",
        neighbours=neighbours,
        delta="1/1000",
        periods={"first": 1, "every": "step", "count": 6},
        size=None if neighbours == "add_remove" else 40,
        attributes={
            "poor": attribute([0, 1], missing="absent"),
            "region": attribute(["n", "s"], missing="absent", fixed=True),
        },
        releases=[{"name": v, "where": {"region": v}, **release} for v in "ns"],
    )
    return mechanism(study, study.releases[0])


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: "-".join(map(str, k.values())))
@pytest.mark.parametrize("relation", ["replace_one", "replace_in_place"])
def test_releases_of_strata_have_the_noise_that_the_rule_asks_for(relation, kind):
    """Half their rho pays for a person's coming or going."""
    of_pairs, alone = mechanism_of(relation, "1/10", kind), mechanism_of("add_remove", "1/20", kind)
    assert sum(of_pairs.charges) == Fraction(1, 10)
    for t in range(1, 7):
        noise, least = of_pairs.demand(t), alone.demand(t)
        assert [size for _, size in noise] == [size for _, size in least]
        assert all(x >= y for (x, _), (y, _) in zip(noise, least, strict=True))


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_entries_and_totals_cost_what_is_charged(relation):
    """All histories of a stratum in which entries are measured too: exact sums of all rows."""
    kind = {"kind": "cumulative", "event": [1], "counter": "tree", "size_share": "1/5"}
    form = mechanism_of(relation, "1/10", kind)
    parts = []  # by counter and period, what an entry adds to its rows, in deviations
    for placed in form.placed_counters:
        scaled = placed.counter.encode / math.sqrt(2 * placed.variance)
        parts.append({placed.start + i: column for i, column in enumerate(scaled.T)})
    people = []
    for start in range(1, 7):
        for history in itertools.product([0, 1], repeat=7 - start):
            times = [start + i for i, event in enumerate(history) if event]
            people.append([*times, *[None] * (6 - len(times)), start])
    none = [None] * 7

    def cost(old, new):
        total = 0.0
        for columns, a, b in zip(parts, old, new, strict=True):
            total += float(np.sum((columns.get(a, 0.0) - columns.get(b, 0.0)) ** 2))
        return total

    alone = max(cost(one, none) for one in people)
    if relation == "add_remove":
        assert alone == pytest.approx(0.1)
    else:
        pairs = max(cost(one, other) for one, other in itertools.combinations(people, 2))
        assert max(pairs, 2 * alone) == pytest.approx(0.1)
