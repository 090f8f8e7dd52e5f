"""What the number of people and rho choose: all pairs at once, picked ones, or single columns."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.people_costs import worst_pair_cost
from kit.small_groups import Never
from people_tables import CountedNoise, domain, paired

from stream_dp.batch.people.all_pairs import Choice
from stream_dp.batch.people.compression import Encoding
from stream_dp.batch.people.match_plan import MatchPlan
from stream_dp.batch.people.people_plan import people_plan
from stream_dp.batch.people.people_synthesizer import fit_match, fit_people, fit_table
from stream_dp.batch.people.people_table import People
from stream_dp.batch.people.tree_model import TreeModel
from stream_dp.batch.rounds.adaptive_fit import Annealed
from stream_dp.batch.rounds.phases import Everything, NoisyAnswers
from stream_dp.batch.synthesizer import FitContext, MemoryTranscript
from stream_dp.privacy.noise import SeededNoise, SystemNoise
from stream_dp.privacy.zcdp import selection_rho
from stream_dp.study import MatchRelease, PeopleRelease

SIZES = (8, 8, 8, 8)
RELATIONS = {
    "comes and goes": {},
    "replaced": {"moves": False, "replaced": True, "size": 900},
    "both": {"replaced": True},
}
# Of 900 people: all pairs, picked ones, single columns alone.
BUDGETS = {"all": Fraction(3, 4), "picked": Fraction(1, 120), "singles": Fraction(1, 9000)}


def release(rho, columns=4, **more):
    names = tuple(f"c{i}" for i in range(columns))
    return PeopleRelease(name="p", kind="mixture", attributes=names, rho=rho, every=1, **more)


def counted(plan, people):
    """The noisy number of people."""
    return NoisyAnswers.none().joined(
        plan.workload, [0], np.array([people]), {0: Fraction(4)}
    )  # fmt: skip


@given(
    st.fractions(Fraction(1, 10**6), 10, max_denominator=10**7),
    st.integers(-50, 10**6),
    st.sampled_from(sorted(RELATIONS)),
    st.booleans(),
)
@settings(max_examples=30, deadline=None)
def test_phases_cost_rho_whatever_they_are(rho, people, relation, labels):
    facts = dict(RELATIONS[relation])
    if "size" in facts:
        facts["size"] = max(1, people)
    columns = domain(2, 3, 4, 2, **facts)
    declared = release(rho).model_copy(update={"labels": ("c0",) if labels else None})
    plan = people_plan(columns, declared)
    number = plan.number(counted(plan, people) if columns.moves else NoisyAnswers.none())
    total = Fraction(0)
    for phase in plan.phases(number):
        total += phase.rho
        if isinstance(phase, Annealed):
            assert all(plan.workload.sets[i][0] == 0 for i in phase.candidates) or not labels
        else:
            assert phase.charged.spent - phase.before.spent == phase.rho
    if plan.steps(number).last is not None:  # what it measures follows from the pairs' answers
        total += Fraction(45, 100) * rho + (0 if columns.moves else Fraction(2, 100) * rho)
    assert total == rho


@pytest.mark.parametrize("facts", RELATIONS.values(), ids=RELATIONS)
@pytest.mark.parametrize("name", ["picked", "singles"])
def test_what_is_drawn_costs_rho(facts, name):
    """Noise 5 % off either way costs something else; every person's change as by brute force."""
    people = People(domain(*SIZES, **facts), paired(900).codes)
    source = CountedNoise(3)
    fit = fit_people(people, release(BUDGETS[name]), FitContext(source))
    assert isinstance(fit.model, TreeModel)
    drawn = [demand for demand in source.demands if demand]

    def spent(factor):
        measured, change = [], 2 if people.domain.replaced else 1
        for picked, demand in zip(fit.picked, drawn, strict=True):
            sets = [fit.workload.sets[i] for i in picked]
            measured += zip(sets, (variance * factor for variance, _ in demand), strict=True)
        assert len(source.scales) == sum(len(a) == 2 for a, _ in measured)
        selection = sum(selection_rho(change, scale * factor) for scale in source.scales)
        return worst_pair_cost(people.domain, measured, selection, every=997)

    assert bool(source.scales) == (name == "picked")
    assert spent(Fraction(105, 100)) < spent(1) == BUDGETS[name] < spent(Fraction(95, 100))


@pytest.mark.parametrize(
    ("name", "relation"),
    [
        *((name, "comes and goes") for name in BUDGETS),
        *(("picked", "replaced"), ("singles", "replaced")),
        pytest.param("all", "replaced", marks=pytest.mark.slow),
    ],
)
def test_a_fit_that_goes_on_draws_and_decides_nothing_again(name, relation):
    pytest.importorskip("jax")
    people = People(domain(*SIZES, **RELATIONS[relation]), paired(900).codes)
    context = FitContext(SystemNoise(), MemoryTranscript())
    first = fit_people(people, release(BUDGETS[name]), context)
    recorded = context.transcript.recorded
    assert ("rounds" in first.title) == isinstance(first.model, TreeModel) == (name != "all")
    begun = MemoryTranscript([*recorded])
    again = fit_people(people, release(BUDGETS[name]), FitContext(Never(), begun))
    assert begun.recorded == recorded
    assert again.title == first.title
    assert again.answers.variances == first.answers.variances
    assert (again.sample(5).codes == first.sample(5).codes).all()


def test_the_less_rho_there_is_the_more_goes_to_single_columns():
    columns, shares = domain(*SIZES, moves=False, replaced=True, size=900), []
    for rho in (Fraction(1, k) for k in (10, 30, 100, 300, 1000, 10_000)):
        steps = people_plan(columns, release(rho)).steps(540)
        singles, *rounds = steps.phases
        assert isinstance(singles, Everything)
        assert len(rounds) <= 1
        assert steps.last is None
        share = Choice(columns, rho).singles_share(540)
        assert singles.rho == (share if rounds else 1) * rho
        shares += [Choice(columns, rho).singles_share(900), singles.rho / rho]
    assert shares[::2] == sorted(shares[::2])
    assert shares[1::2] == sorted(shares[1::2])
    assert shares[0] >= Fraction(15, 100)
    assert shares[-1] == 1
    assert people_plan(columns, release(Fraction(10))).steps(900).last is not None


def test_many_columns_whose_pairs_are_all_too_large_are_measured_alone():
    plan = people_plan(domain(*[200] * 24), release(1, 24))
    (singles,) = plan.steps(900).phases
    assert len(singles.candidates) == 24
    assert plan.counting.rho + singles.rho == 1


def test_many_columns_are_measured_at_once_where_noise_is_small():
    """The rule is about people's number, so that `check`, the fit and the certificate share it."""
    columns = domain(*[4] * 24)
    plan, titles = people_plan(columns, release(1, 24)), set()
    assert plan.fewest > Choice(columns, Fraction(98, 100)).fewest_at_once([(0, 1)])
    for people in plan.supposed:
        steps = plan.steps(people)
        titles.add(steps.title)
        assert (steps.last is not None) == (steps.tree is None) == (people >= plan.fewest)
    assert titles == {*plan.titles}
    assert len(titles) == 2
    # Four times rho is as good as twice as many people.
    assert people_plan(columns, release(4, 24)).fewest == pytest.approx(plan.fewest / 2, abs=1)
    # What noisy answers choose in the end may be triples, as for fewer columns.
    assert plan.steps(plan.fewest).last.triples
    assert not people_plan(domain(*[4] * 51), release(1, 51)).steps(10**9).last.triples


def test_little_budget_invents_no_more_than_single_columns():
    """People without any dependence: the largest dependence of the table is that of a sample."""
    rng = np.random.default_rng(1)
    people = People(domain(*[6] * 8), rng.integers(0, 6, (3000, 8)))
    sample = fit_people(
        people, release(Fraction(1, 3000), 8), FitContext(SeededNoise(1))
    ).sample(1)  # fmt: skip
    singles = [np.bincount(c, minlength=6) / sample.N for c in sample.codes.T]
    apart = [
        np.abs(
            np.histogram2d(sample.codes[:, a], sample.codes[:, b], bins=6)[0] / sample.N
            - np.outer(singles[a], singles[b])
        ).sum()
        / 2
        for a in range(8)
        for b in range(a)
    ]
    assert np.mean(apart) < 0.06


@pytest.mark.parametrize("relation", ["comes and goes", "replaced"])
def test_match_picks_pairs_of_what_stands_out(relation):
    """It costs rho, and is never drawn again."""
    pytest.importorskip("jax")
    people = People(domain(*SIZES, **RELATIONS[relation]), paired(900).codes)
    names = tuple(f"c{i}" for i in range(4))
    own = MatchRelease(name="p", kind="match", attributes=names, rho=Fraction(1, 300), every=1)
    transcript = MemoryTranscript()
    fit = fit_match(people, own, FitContext(SystemNoise(), transcript))
    assert isinstance(fit.second.model, TreeModel)
    assert "rounds" in fit.title
    begun = MemoryTranscript([*transcript.recorded])
    again = fit_match(people, own, FitContext(Never(), begun))
    assert begun.recorded == transcript.recorded
    assert (again.sample(5).codes == fit.sample(5).codes).all()
    plan = MatchPlan(fit.encoding, own)
    number = fit.compression.columns[0].noisy.people
    first = plan.first.phases(number)
    (picked,) = plan.picked(fit.compression.domain, number).phases(number)
    assert sum((phase.rho for phase in first), Fraction(0)) + picked.rho == own.rho
    assert first[-1].rho > own.rho / 2
    declared = own.model_copy(update={"one_ways": Fraction(1, 5)})
    declared.model_fields_set.add("one_ways")
    phases = MatchPlan(fit.encoding, declared).first.phases(number)
    assert sum((phase.rho for phase in phases), Fraction(0)) == own.rho / 5


@pytest.mark.parametrize("relation", ["comes and goes", "replaced"])
def test_table_weighs_pairs_with_a_label_where_it_picks(relation):
    """Labels count four times, and so does a person's change: noise 5 % off costs another rho."""
    people = People(domain(*SIZES, **RELATIONS[relation]), paired(900).codes)
    names, source = tuple(f"c{i}" for i in range(4)), CountedNoise(3)
    declared = {"attributes": names, "exempt": names, "labels": ("c1",), "every": 1}
    own = MatchRelease(name="p", kind="table", rho=BUDGETS["picked"], **declared)
    fit = fit_table(people, own, FitContext(source))
    assert fit.second.workload.labels == {1}
    picked = [
        [part.workload.sets[i] for i in chosen]
        for part in (fit.first, fit.second)
        for chosen in part.picked
    ]
    drawn = [demand for demand in source.demands if demand]

    def spent(factor):
        measured, change = [], 4 * (2 if people.domain.replaced else 1)
        for sets, demand in zip(picked, drawn, strict=True):
            measured += zip(sets, (variance * factor for variance, _ in demand), strict=True)
        selection = sum(selection_rho(change, scale * factor) for scale in source.scales)
        return worst_pair_cost(people.domain, measured, selection, every=997)

    assert source.scales
    assert spent(Fraction(105, 100)) < spent(1) == own.rho < spent(Fraction(95, 100))


@pytest.mark.parametrize("size", [2, 8, 40])
@pytest.mark.parametrize("people", [-3, 0, 1, 2, 900])
def test_both_phases_of_match_cost_rho_whatever_the_noise(size, people):
    """Pairs of 40 values are too large to pick, but what is left of them when values are merged."""
    columns, own = (
        domain(*[size] * 4),
        MatchRelease(name="p", kind="match", attributes=tuple("abcd"), rho=Fraction(1, 2), every=1),
    )
    plan = MatchPlan(Encoding.of(columns, own), own)
    answers, first = counted(plan.first, people), plan.first
    phases = [first.phase(number, answers) for number in range(3)]
    assert phases.pop() is None
    for merged in (columns, domain(2, 2, 2, 2)):
        (second,) = plan.second(merged, people).phases(max(1, people))
        assert sum((phase.rho for phase in phases), second.rho) == own.rho
