"""The cost of all measurements of groups and events together, beside brute force."""

import random
from fractions import Fraction

import numpy as np
import pytest
from kit.people_costs import charged
from kit.worst_people import worst_household_cost, worst_person_cost

from stream_dp.batch.data.domain import Column, Domain, Roles
from stream_dp.batch.groups.workload.candidates import (
    ChangeFilter,
    default_marginals,
    marginal_workload,
    one_way_marginals,
    relation_base,
)
from stream_dp.batch.groups.workload.groups_plan import AdaptivePlan
from stream_dp.batch.groups.workload.sensitivity import squared_sensitivity
from stream_dp.batch.groups.workload.worst_changes import worst_changes
from stream_dp.batch.rounds.phases import Everything, total


def columns(letter, sizes):
    return tuple(Column(f"{letter}{i}", tuple(range(n))) for i, n in enumerate(sizes))


def households(children, values, most, others=()):
    role = Column("role", ("h", "s", "c", *others))
    roles = Roles(column="role", head="h", spouse="s", child="c", children=children)
    return Domain((), (role, *columns("a", values)), most, roles)


def events(people, values, most):
    return Domain(columns("p", people), columns("e", values), most, events=True)


# The domain, and the least part of the charge that a drawn study's worst change may cost.
DOMAINS = {
    "one child": (households(1, (3,), 3), 0.95),
    "two children, leads": (households(2, (4,), 4), 0.95),
    "more children than values": (households(3, (3,), 5), 0.94),
    "three children": (households(3, (4,), 4), 0.95),
    "no room for a spouse and all children": (households(2, (3,), 3, "o"), 0.93),
    "several columns": (households(1, (3, 2), 3), 0.95),
    "couples": (households(1, (3,), 2), 0.95),
    "people who live alone": (households(1, (3,), 1), 0.95),
    "two values": (households(2, (2,), 4), 0.85),
    "a column of one value": (households(1, (1, 2), 3), 0.95),
    "events": (events((2,), (2,), 2), 0.95),
    "two columns of events": (events((2,), (2, 2), 3), 0.95),
    "many kinds of events": (events((1,), (2, 3), 3), 0.93),
    "few kinds of events": (events((2, 2), (2,), 3), 0.95),
    "events of nobody": (events((), (3,), 2), 0.95),
    "one event": (events((2,), (3,), 1), 0.95),
    "events of one value": (events((1,), (1,), 2), 0.95),
}


def workload_of(domain):
    return marginal_workload(
        default_marginals(domain, 2), one_way_marginals(domain), relation_base(domain)
    )


def worst_cost(marginals, precisions):
    """By brute force."""
    brute = worst_person_cost if marginals[0].domain.events else worst_household_cost
    return brute(marginals, precisions)


@pytest.mark.parametrize("which", DOMAINS)
def test_no_change_costs_more_and_some_change_nearly_as_much(which):
    """At equal costs, and with drawn measurements of drawn precisions."""
    domain, share = DOMAINS[which]
    marginals = workload_of(domain).marginals
    squared, draw = [squared_sensitivity(m) for m in marginals], random.Random(which)
    moved = [i for i, s in enumerate(squared) if s]
    for times in range(5):
        chosen = draw.sample(moved, max(1, len(moved) // (1 + times % 3)))
        precisions = {i: Fraction(draw.choice((1, 2, 5)), squared[i]) for i in chosen}
        if times == 0:
            precisions = {i: Fraction(1, squared[i]) for i in moved}
        bound = float(total(precisions, worst_changes(marginals)(precisions)) / 2)
        assert share <= worst_cost(marginals, precisions) / bound <= 1 + 1e-9
        alone = sum(p * squared[i] for i, p in precisions.items()) / 2
        assert bound <= float(alone) * (1 + 1e-9)


@pytest.mark.parametrize("which", ["two children, leads", "several columns", "events"])
def test_a_whole_fit_costs_the_worst_change_no_more_than_rho(which):
    """All phases, with drawn picks. Selections are charged the same for everybody."""
    domain, share = DOMAINS[which]
    work, rho = workload_of(domain), Fraction(1, 3)
    draw = random.Random(which)
    phases, picked = AdaptivePlan(rho, 4).phases(work), []
    selections = Fraction(0)
    for phase in phases:
        chosen = list(phase.candidates)
        if isinstance(phase, Everything):
            picked.append(chosen)
            continue
        selections += phase.selection * phase.rho
        draw.shuffle(chosen)
        every = [chosen[i * phase.picks : (i + 1) * phase.picks] for i in range(phase.rounds)]
        picked += every
    after = charged(phases, work, picked)
    assert float(after.spent) == pytest.approx(float(rho), rel=1e-9)
    assert after.of_all == selections
    worst = worst_cost(work.marginals, after.precisions) + float(selections)
    assert share * float(rho) <= worst <= float(rho) * (1 + 1e-9)


def test_agreement_in_many_columns_is_bounded():
    """More columns than are compared: the bound is no less than for any drawn household."""
    domain = households(2, (3,) * 14, 4)
    marginals = [m for m in workload_of(domain).marginals if m.level >= 2]
    draw = random.Random(1)
    precisions = {i: Fraction(draw.choice((1, 2, 5))) for i in range(0, len(marginals), 3)}
    changes = worst_changes(marginals)(precisions)
    squared = {i: squared_sensitivity(marginals[i]) for i in precisions}
    assert total(precisions, changes) <= total(precisions, squared)
    assert 0.5 * total(precisions, squared) <= total(precisions, changes)


def test_a_factor_is_the_largest_that_the_limit_allows():
    """Two cases, of which the second costs more once the first has paid."""

    def worst(precisions):
        cases = {0: 4, 1: 1}, {0: 1, 1: 3}
        return max(cases, key=lambda changes: total(precisions, changes))

    first = ChangeFilter(worst, False).allowing(Fraction(2)).charged([0], [Fraction(1)])
    assert first.spent == 2
    assert first.allowing(Fraction(1)).scale([1], [Fraction(1)]) == Fraction(3, 5)
    with pytest.raises(ValueError, match="nothing is left"):
        first.scale([1], [Fraction(1)])


def test_variances_stay_short():
    """Twenty rounds, whose factors depend on all rounds before."""
    work = workload_of(households(2, (4, 3), 4))
    after, draw = work.filter, np.random.default_rng(1)
    further = [i for i in range(work.candidates) if work.squared[i]]
    for i in draw.permutation(further)[:20].tolist():
        limit = after.allowing(Fraction(1, 7))
        variance = limit.scale([i], [Fraction(work.squared[i], 3)]) * Fraction(work.squared[i], 3)
        after = limit.charged([i], [variance])
        assert variance.numerator.bit_length() < 300
    assert float(after.spent / after.limit) == pytest.approx(1, abs=1e-9)
