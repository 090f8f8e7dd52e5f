"""What adaptive measurements cost: exactly what is declared, and no change of a person more."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from grouped import RELATED, hierarchies
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import small_groups
from kit.people_costs import spent
from kit.small_groups import Still

from stream_dp.batch.data.domain import Hierarchy
from stream_dp.batch.groups.workload import groups_plan as plan_module
from stream_dp.batch.groups.workload.candidates import (
    default_marginals,
    marginal_workload,
    one_way_marginals,
    relation_base,
)
from stream_dp.batch.groups.workload.exact_counts import exact_answers
from stream_dp.batch.groups.workload.groups_plan import AdaptivePlan
from stream_dp.batch.rounds.adaptive_fit import AdaptiveMethod, fit_adaptively
from stream_dp.batch.rounds.phases import Everything
from stream_dp.batch.synthesizer import FitContext
from stream_dp.privacy.noise import SeededNoise, SystemNoise, noisy_top
from stream_dp.privacy.zcdp import epsilon, gaussian_rho, rho_within, selection_rho

MARGINALS = default_marginals(RELATED, 2)
RELATIONS = marginal_workload(MARGINALS, one_way_marginals(RELATED), relation_base(RELATED))
MARGINAL_TEXTS = [
    m.text for m in (*one_way_marginals(RELATED), *relation_base(RELATED), *MARGINALS)
]


@given(
    st.fractions(Fraction(1, 10**6), 100),
    st.integers(1, 30),
    st.integers(1, 5),
    st.fractions(Fraction(1, 100), Fraction(99, 100)),
    st.fractions(Fraction(1, 100), Fraction(99, 100)),
    st.sampled_from([RELATIONS, *(small_groups.workload(opening) for opening in (True, False))]),
)
@settings(max_examples=50)
def test_a_plan_spends_all_of_rho_and_no_more(rho, rounds, picks, selection, opening, work):
    plan = AdaptivePlan(rho, rounds, picks, selection=selection, opening=opening)
    phases, picked = plan.phases(work), list[list[int]]()
    for phase in phases:
        if isinstance(phase, Everything):
            picked.append(list(phase.candidates))
            continue
        for i in range(phase.rounds):
            picked.append(list(phase.candidates[i * phase.picks : (i + 1) * phase.picks]))
            assert len(picked[-1]) == phase.picks
    assert 1 - 1e-9 < spent(phases, work, picked) / rho <= 1 + 1e-12
    measured = [i for round_ in picked for i in round_]
    assert len(set(measured)) == len(measured)


def test_relatives_have_their_part_of_rho():
    """By hand: half of it, halved again; the rounds among the rest keep to it."""
    rho, work = Fraction(3), RELATIONS
    phases = AdaptivePlan(rho, 5, relations=Fraction(1, 3)).phases(work)
    parts = [phase.rho for phase in phases]
    assert parts == [Fraction(2, 5), Fraction(1, 2), Fraction(1, 2), Fraction(8, 5)]
    base = [MARGINAL_TEXTS[i] for i in phases[1].candidates]
    assert base == [
        "people: role, sex",
        "people: role, age",
        "heads with a spouse: sex; who has sex",
        "heads with a spouse: age; who has age",
        "people with a child: sex; who has sex",
        "people with a child: age; who has age",
    ]
    levels = [{int(level) for level in work.levels[list(p.candidates)]} for p in phases]
    assert levels == [{0, 1}, {1, 3, 5}, {2, 3, 4}, {0, 1}]
    # What is measured anyway is never picked: of 12 marginals of relatives, 4 follow from the base.
    assert len(phases[2].candidates) == 12 - 4


def test_what_is_measured_at_once_costs_what_it_says_for_any_change_of_one_person():
    """Brute force: the largest squared change over twice the variance, over all candidates."""
    truth, work = small_groups.hierarchy(groups=4), small_groups.workload()
    opening = AdaptivePlan(Fraction(1), 3).phases(work)[0]
    rows, variances = work.rows(opening.candidates), opening.variances(work)
    sizes = np.diff(work.starts)[list(opening.candidates)]
    each = np.repeat([float(variances[i]) for i in opening.candidates], sizes)
    base = exact_answers(truth, work.queries.take(rows))
    costs = [
        ((exact_answers(other, work.queries.take(rows)) - base) ** 2 / (2 * each)).sum()
        for other in neighbours(truth)
    ]
    assert math.isclose(max(costs), float(opening.rho))
    assert opening.rho == Fraction(1, 5)
    assert opening.exact


def test_what_nobody_moves_is_free_and_noisy():
    work = small_groups.workload()
    opening, rounds = AdaptivePlan(Fraction(1), 3).phases(work)
    variances = opening.variances(work)
    free = [i for i in opening.candidates if not work.squared[i]]
    texts = {work.texts(work.rows([i]))[0].split(":")[0] for i in free}
    assert texts == {"groups", "people"}  # also people by attributes of their groups
    assert {variances[i] for i in free} == {variances[work.opening - 1]}
    assert work.filter.charged(free, [variances[i] for i in free]).spent == 0
    # Two attributes of people share a fifth of rho: 2 / (2 v) = 1 / 10.
    assert {variances[i] for i in opening.candidates} == {Fraction(10)}
    assert all(work.squared[i] for i in rounds.candidates)


def test_what_is_free_is_not_without_end(monkeypatch):
    work = small_groups.workload()
    monkeypatch.setattr(plan_module, "MOST_FREE", 0)
    assert AdaptivePlan(Fraction(1), 3).phases(work)[0].candidates == (0, 1, 2, 3)


def test_what_is_drawn_is_what_is_charged():
    """By hand, from the noise that the source is asked for."""
    spent = Fraction(0)
    work = small_groups.workload()

    class Counting(SeededNoise):
        def draw(self, demand):
            nonlocal spent
            if not demand:
                return super().draw(demand)
            for (variance, size), squared in zip(demand, next(changes), strict=True):
                spent += gaussian_rho(squared, variance)
                assert size > 1
            return super().draw(demand)

        def top(self, scores, picks, variance):
            nonlocal spent
            spent += picks * Fraction(2**2) / (2 * variance)
            return super().top(scores, picks, variance)

    truth, plan = small_groups.hierarchy(), AdaptivePlan(Fraction(2, 9), 3, 2)
    # A person is in one cell of every marginal of people, and moves none of groups alone.
    opening = plan.phases(work)[0].candidates
    alone = (work.queries.person[work.starts[:-1]] < 0).all(axis=1)
    changes = iter([[0 if alone[i] else 2 for i in opening], *[[2, 2]] * 3])
    method = AdaptiveMethod.of("t", work, plan.phases(work), lambda seed: Still(truth, seed))
    fit_adaptively(truth, method, FitContext(Counting(1)))
    assert spent == plan.rho


def neighbours(hierarchy):
    """Every table in which one person has other attributes."""
    for person in range(hierarchy.N):
        for codes in product(*(range(n) for n in hierarchy.domain.person_values)):
            if codes == tuple(hierarchy.people[person]):
                continue
            people = hierarchy.people.copy()
            people[person] = codes
            try:
                yield Hierarchy(hierarchy.domain, hierarchy.groups, people, hierarchy.group_of)
            except ValueError:
                continue  # roles that cannot be


def chances(scores, variance):
    weight = np.exp((scores - scores.max()) / math.sqrt(variance))
    return weight / weight.sum()


def test_picks_of_neighbours_differ_by_what_is_charged():
    """Brute force: Renyi divergences of every order, for every change of one person."""
    truth = small_groups.hierarchy(groups=5)
    work = small_groups.workload(opening=False)
    rho = Fraction(1, 3)
    variance = work.sensitivity**2 / (2 * rho)
    assert selection_rho(work.sensitivity, variance) == rho
    model = np.random.default_rng(1).normal(2, 2, len(work.queries))
    deviations = [1.5] * work.candidates

    def picks(hierarchy):
        true = exact_answers(hierarchy, work.queries)
        return chances(work.scores(range(work.candidates), true, model, deviations), variance)

    p, worst = picks(truth), 0.0
    for other in neighbours(truth):
        q = picks(other)
        for a, b in ((p, q), (q, p)):
            for order in (1.01, 1.5, 2.0, 4.0, 16.0, 64.0):
                divergence = math.log((a**order * b ** (1 - order)).sum()) / (order - 1)
                worst = max(worst, divergence / order)
        ratio = np.log(p / q)
        assert ratio.max() - ratio.min() <= 2 * math.sqrt(2 * rho) + 1e-9
    assert 0 < worst <= rho


@given(st.data())
@settings(max_examples=15, deadline=None)
def test_no_score_moves_by_more_than_the_sensitivity_with_relations(data):
    truth = data.draw(hierarchies(RELATED, 2))
    work = RELATIONS
    first = int(work.starts[work.opening])
    queries = work.queries.take(slice(first, None))
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    model = rng.normal(1, 1, len(queries))

    def scores(hierarchy):
        picked = range(work.opening, work.candidates)
        return work.scores(picked, exact_answers(hierarchy, queries), model, [2.0] * len(picked))

    base, others = scores(truth), list(neighbours(truth))
    rng.shuffle(others)
    for other in others[:12]:
        assert np.abs(scores(other) - base).max() <= work.sensitivity


def test_picks_are_as_likely_as_they_say():
    scores, variance, draws = np.array([3, 0, 5, 4, -2]), Fraction(4), 6000
    first = chances(scores, variance)
    for pick in (noisy_top, SeededNoise(1).top):
        picked = np.array([pick(scores, 2, variance) for _ in range(draws)])
        assert (picked[:, 0] != picked[:, 1]).all()
        for i in range(5):
            spread = 8 * math.sqrt(first[i] / draws)
            assert abs((picked[:, 0] == i).mean() - first[i]) < spread
        # The second, given that the first was the likeliest.
        rest = picked[picked[:, 0] == 2][:, 1]
        others = np.delete(first, 2) / (1 - first[2])
        for i, chance in zip((0, 1, 3, 4), others, strict=True):
            assert abs((rest == i).mean() - chance) < 8 * math.sqrt(chance / len(rest))


def test_picks_that_cannot_be():
    for scores, picks, variance in (
        ([1, 2], 3, 1),
        ([1, 2], 0, 1),
        ([], 1, 1),
        ([1 << 52, 0], 1, 1),
        ([1, 2], 1, 0),
    ):
        with pytest.raises(ValueError):
            noisy_top(np.array(scores, np.int64), picks, Fraction(variance))
    assert SystemNoise().top(np.array([0, 10**9]), 1, Fraction(1)).tolist() == [1]


@pytest.mark.parametrize("eps", ["0.1", "1", "9"])
def test_rho_of_an_epsilon(eps):
    delta = Fraction(1, 10**9)
    rho = rho_within(Fraction(eps), delta)
    assert float(eps) - 2e-6 < float(epsilon(rho, delta)) <= float(eps)
