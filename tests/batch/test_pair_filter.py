"""The filter of a table of people: no pair's costs exceed rho, and the worst pair's reach it."""

from fractions import Fraction
from itertools import combinations, product
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.people_costs import changes, worst_pair_cost
from people_tables import domain

from stream_dp.batch.people import residual_counts
from stream_dp.batch.people.compression import Encoding
from stream_dp.batch.people.match_plan import MatchPlan
from stream_dp.batch.people.pair_filter import PairFilter, worst_agreement
from stream_dp.batch.people.people_plan import people_plan
from stream_dp.batch.people.residual_counts import AgreementPatterns, all_residuals, largest_terms
from stream_dp.batch.people.table_plan import TablePlan
from stream_dp.batch.planned_phases import PlannedPhase
from stream_dp.batch.rounds.adaptive_fit import Annealed
from stream_dp.batch.rounds.phases import total
from stream_dp.privacy.zcdp import selection_rho
from stream_dp.study import MatchRelease, PeopleRelease

RHO = Fraction(3, 7)
MANY = 10**7  # people: noise is small enough for triples
REPLACED = {"moves": False, "replaced": True}


def names(columns):
    return tuple(f"c{i}" for i in range(columns))


def mixture(sizes, people=MANY, **more):
    release = PeopleRelease(
        name="p", kind="mixture", attributes=names(len(sizes)), rho=RHO, every=1, **more
    )
    return people_plan(domain(*sizes, **REPLACED, size=people), release)


def farthest(sizes, measured):
    """The largest cost of replacing a person, who has the first value everywhere, by any other.

    All values of a column are alike, so the person stands for everybody.
    """
    others = np.array(list(product(*map(range, sizes))))
    costs = np.zeros(len(others))
    for columns, variance in measured:
        _, distances = changes(sizes, columns)
        cells = np.zeros(len(others), np.int64)
        for c in columns:
            cells = cells * sizes[c] + others[:, c]
        costs += distances[0, cells] / float(2 * variance)
    return costs.max()


def measured_by(phases, workload):
    return [(workload.sets[i], v) for phase in phases for i, v in phase.variances(workload).items()]


WIDE = [(2,) * 12, (2,) * 14, (2, 3, 2), (2, 3, 4, 5), (2,) * 7 + (3,) * 3, (4, 2, 2, 3, 2, 4)]


@pytest.mark.parametrize("last", ["triples", "repeated"])
@pytest.mark.parametrize("sizes", WIDE, ids=str)
def test_a_mixture_costs_rho_over_all_pairs_of_people(sizes, last):
    """Every replacement of a person of up to 14 columns, in all that is measured."""
    plan = mixture(sizes)
    everything = plan.steps(MANY).last
    phases = [*everything.phases, everything.last(getattr(everything, last))]
    worst = farthest(sizes, measured_by(phases, plan.workload))
    assert worst == pytest.approx(float(RHO), rel=1e-9)
    assert phases[-1].charged.spent == RHO
    for number in (1, 2):  # nor do the first phases exceed their parts
        spent = sum(phase.rho for phase in phases[:number])
        worst = farthest(sizes, measured_by(phases[:number], plan.workload))
        assert worst == pytest.approx(float(spent), rel=1e-9)


def test_the_plan_says_which_charges_are_upper_bounds():
    at_once, picked = mixture((2,) * 6), mixture((2,) * 6, rounds=2)
    everything = at_once.steps(MANY).last
    for phase in (*everything.phases, everything.last(everything.triples)):
        planned = PlannedPhase.of("pairs", phase, at_once.workload, [1.0])
        assert planned.charge == "exact maximum"
        assert "charged" not in planned.text
    *_, rounds = picked.phases(MANY)
    planned = PlannedPhase.of("pairs", rounds, picked.workload, [1.0])
    assert planned.text.endswith("; charged by an upper bound")


def test_noise_is_less_than_where_each_phase_is_charged_by_itself():
    plan = mixture((2,) * 12)
    everything = plan.steps(MANY).last
    phases = [*everything.phases, everything.last(everything.triples)]
    ratios = []
    for phase in phases:
        alone = PairFilter(plan.workload).charged(phase.candidates, phase.weights).spent / phase.rho
        first = phase.candidates[0]
        ratios.append(float(phase.variances(plan.workload)[first] / phase.weights[0] / alone))
    assert ratios == pytest.approx([1, 0.737, 0.610], abs=1e-3)


def again(second, seed):
    """A last phase of `table` that measures drawn pairs and triples, and how precisely."""
    last = second.steps(MANY).last
    if last is None:
        return []
    rng = np.random.default_rng(seed)
    pairs = rng.permutation(last.residuals.candidates)[: 1 + seed % 6]
    return [last.stated({int(i): int(rng.integers(1, 1 << 40)) for i in pairs})]


@pytest.mark.parametrize("merged", [(), (1,), (0, 2)])
@pytest.mark.parametrize("sizes", [(2,) * 14, (6, 5, 4, 3, 2)], ids=str)
@pytest.mark.parametrize("kind", [("match", MatchPlan), ("table", TablePlan)], ids=str)
def test_two_phases_cost_rho_over_all_pairs_of_people(kind, sizes, merged):
    """Also where values of columns are merged between the phases, whatever is measured again."""
    name, plan_of = kind
    if merged and max(sizes) == 2:
        pytest.skip("columns of two values are not merged")
    release = MatchRelease(
        name="p", kind=name, attributes=names(len(sizes)), rho=RHO, every=1, rounds=0
    )
    people = domain(*sizes, **REPLACED, size=MANY)
    plan = plan_of(Encoding.of(people, release), release)
    smaller = [n - 2 if c in merged else n for c, n in enumerate(sizes)]
    groups = [np.minimum(np.arange(n), m - 1) for n, m in zip(sizes, smaller, strict=True)]
    second = plan.second(domain(*smaller, **REPLACED, size=MANY), MANY)
    costs = []
    for part, more in ((plan.first, []), (second, again(second, len(sizes) + len(merged)))):
        by_cell = []
        for columns, variance in measured_by([*part.phases(MANY), *more], part.workload):
            by_cell.append((columns, variance, part.workload.domain.sizes))
        costs.append(by_cell)
    others = np.array(list(product(*map(range, sizes))))
    # Everybody whom merging may treat in another way: each column has its first or last value.
    firsts = [(0,) * len(sizes)] if not merged else product(*((0, n - 1) for n in sizes))
    if more:
        assert more[0].charged.spent == RHO
    worst = 0.0
    for first in firsts:
        total = np.zeros(len(others))
        for by_cell, is_merged in zip(costs, (False, True), strict=True):
            rows = np.array([first, *others])
            if is_merged:
                rows = np.stack([g[v] for g, v in zip(groups, rows.T, strict=True)], axis=1)
            for columns, variance, own in by_cell:
                _, distances = changes(own, columns)
                cells = np.zeros(len(rows), np.int64)
                for c in columns:
                    cells = cells * own[c] + rows[:, c]
                total += distances[cells[0], cells[1:]] / float(2 * variance)
        worst = max(worst, total.max())
    assert worst == pytest.approx(float(RHO), rel=1e-9)


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_rounds_of_picks_cost_rho_whatever_is_picked(data):
    """Along the sequence of picks that noise decides; the last round spends what is left."""
    sizes = data.draw(st.sampled_from([(2,) * 6, (2, 3, 4, 2), (5, 2, 2, 3)]))
    relation = data.draw(st.sampled_from([REPLACED, {"moves": True, "replaced": True}]))
    size = None if relation["moves"] else 900
    release = PeopleRelease(
        name="p", kind="mixture", attributes=names(len(sizes)), rho=RHO, every=1, rounds=4,
        per_round=2,
    )  # fmt: skip
    own = domain(*sizes, **relation, size=size)
    plan = people_plan(own, release)
    *first, phase = plan.phases(900)
    measured, selection = measured_by(first, plan.workload), Fraction(0)
    while phase is not None:
        assert isinstance(phase, Annealed)
        chosen = data.draw(
            st.lists(st.sampled_from(phase.candidates), min_size=1, max_size=2, unique=True)
        )
        noise = phase.measured(plan.workload, chosen)
        measured += [(plan.workload.sets[i], noise[i]) for i in chosen]
        selection += selection_rho(2, phase.scale(plan.workload), len(chosen))
        is_last, phase = phase.last, phase.after(plan.workload, chosen)
        spent = worst_pair_cost(own, measured, selection, every=1)
        assert spent <= RHO
        assert (phase is None) == is_last
        if phase is not None:
            assert phase.rho == RHO - spent
            phase = phase.annealed(float(data.draw(st.booleans())), 0.5)
    assert spent == RHO


fractions = st.fractions(Fraction(1, 40), 5, max_denominator=40)


@st.composite
def precisions(draw, sizes, *, symmetric):
    """Precisions of sets of columns, of which alike columns may be exchanged or not."""
    sets = [a for k in (1, 2, 3) for a in combinations(range(len(sizes)), k)]
    if symmetric:
        of_shapes = {tuple(sorted(sizes[c] for c in a)): draw(fractions) for a in sets}
        return {a: of_shapes[tuple(sorted(sizes[c] for c in a))] for a in sets}
    return {a: draw(fractions) for a in draw(st.lists(st.sampled_from(sets), unique=True))}


def cost(sizes, table, same):
    total = Fraction(0)
    for columns, precision in table.items():
        norm = alike = 1
        for c in columns:
            n = sizes[c]
            norm *= n * (n - 1)
            alike *= n * (n - 1) if c in same else -n
        total += (norm - alike) * precision
    return total


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_the_largest_ratio_is_that_of_all_patterns(data):
    sizes = data.draw(st.sampled_from([(2, 2, 2, 2), (2, 3, 2, 3), (5, 4, 3, 2), (3, 3, 3, 2)]))
    new, before = (
        data.draw(precisions(sizes, symmetric=data.draw(st.booleans()))) for _ in range(2)
    )
    patterns = AgreementPatterns(sizes, new, before)
    subsets = [{*a} for k in range(5) for a in combinations(range(4), k)]
    rest = max(cost(sizes, before, same) for same in subsets) + data.draw(fractions)
    ratios = (cost(sizes, new, same) / (rest - cost(sizes, before, same)) for same in subsets)
    assert patterns.few
    assert patterns.largest_ratio(rest) == max(ratios)
    assert max(cost(sizes, new, same) for same in subsets) <= largest_terms(sizes, new)


def test_columns_are_of_a_class_if_they_can_be_exchanged():
    half = Fraction(1, 2)
    pairs = dict.fromkeys(combinations(range(4), 2), half)
    assert AgreementPatterns((2,) * 4, pairs, {}).classes == ((0, 1, 2, 3),)
    assert AgreementPatterns((2, 3, 2, 3), pairs, {}).classes == ((0, 2), (1, 3))
    more = {**pairs, (0, 1): Fraction(1)}
    assert AgreementPatterns((2,) * 4, more, {}).classes == ((0, 1), (2, 3))
    assert AgreementPatterns((2,) * 4, pairs, {(2,): half}).classes == ((0, 1, 3), (2,))
    path = {(0, 1): half, (1, 2): half, (2, 3): half}
    assert AgreementPatterns((2,) * 4, path, {}).classes == ((0,), (1,), (2,), (3,))


def test_fifty_like_columns_have_few_patterns():
    """51 of them: the worst replacement of a pair's measurement differs in half of the columns."""
    pairs = dict.fromkeys(combinations(range(50), 2), Fraction(1))
    patterns = AgreementPatterns((2,) * 50, pairs, {})
    assert patterns.few
    assert patterns.largest_ratio(Fraction(1)) == 25 * 25 * 8
    assert largest_terms((2,) * 50, pairs) == 50 * 49 // 2 * 8


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_no_sequence_exceeds_the_limit(data):
    """Whatever is measured next with whatever part of rho; also where patterns are too many."""
    sizes, few = (2, 3, 2), data.draw(st.booleans())
    relation = data.draw(st.sampled_from([REPLACED, {"moves": True, "replaced": True}]))
    own = domain(*sizes, **relation, size=None if relation["moves"] else 9)
    residuals = all_residuals(own, 3, 100)
    most = residual_counts.MOST_PATTERNS if few else data.draw(st.sampled_from([1, 4, 6]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(residual_counts, "MOST_PATTERNS", most)
        state, measured, limit = PairFilter(residuals), [], Fraction(0)
        for _ in range(data.draw(st.integers(1, 5))):
            part = data.draw(fractions)
            sets = data.draw(st.lists(st.integers(1, 7), min_size=1, unique=True))
            weights = [data.draw(fractions) for _ in sets]
            limit, state = limit + part, state.allowing(part)
            scale = state.scale(sets, weights)
            variances = [scale * weight for weight in weights]
            state = state.charged(sets, variances)
            measured += [(residuals.sets[i], v) for i, v in zip(sets, variances, strict=True)]
            worst = worst_pair_cost(own, measured, every=1)
            assert worst <= state.spent <= limit == state.limit
            assert not few or (state.exact and worst == limit)
        beyond = state.charged([1, 2, 3], [Fraction(1, 100)] * 3)
        with pytest.raises(ValueError, match="nothing is left"):
            beyond.scale([1], [Fraction(1)])


def test_the_phases_of_a_wide_table_have_an_upper_bound():
    """Columns of 21 sizes have too many patterns; each measurement is charged its own worst."""
    sizes = tuple(range(2, 23))
    own = domain(*sizes, **REPLACED, size=9)
    residuals = all_residuals(own, 2, 10**6)
    pairs = [i for i, a in enumerate(residuals.sets) if len(a) == 2]
    after = PairFilter(residuals).allowing(RHO).charged(pairs, [Fraction(10**9)] * len(pairs))
    assert not after.exact
    assert after.spent == PairFilter(residuals).charged(pairs, [Fraction(10**9)] * len(pairs)).spent
    assert after.spent == sum(residuals.squared[i] for i in pairs) / Fraction(2 * 10**9)


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_the_costliest_pattern_is_found_column_by_column(data):
    """Beside every pattern, with drawn sets of up to three columns."""
    sizes = data.draw(st.lists(st.integers(2, 6), min_size=1, max_size=6))
    every = [a for k in (1, 2, 3) for a in combinations(range(len(sizes)), k)]
    sets = data.draw(st.lists(st.sampled_from(every), min_size=1, unique=True))
    precisions = {a: Fraction(data.draw(st.integers(1, 9)), len(a) ** 5) for a in sets}
    costs = []
    for agrees in product((False, True), repeat=len(sizes)):
        factors = [n * (n - 1) if same else -n for n, same in zip(sizes, agrees, strict=True)]
        changes = (
            prod(sizes[c] * (sizes[c] - 1) for c in a) - prod(factors[c] for c in a) for a in sets
        )
        costs.append(sum(p * x for p, x in zip(precisions.values(), changes, strict=True)))
    found = total(precisions, worst_agreement(sizes, precisions)) / 2
    assert max(costs) <= found <= max(costs) * (1 + Fraction(1, 10**9))


def test_picked_pairs_of_many_columns_cost_what_their_worst_pattern_does():
    """25 columns have too many patterns to compare, but picked pairs form a tree of few cells."""
    sizes = tuple(2 + i % 23 for i in range(25))
    own = domain(*sizes, **REPLACED, size=9)
    residuals = all_residuals(own, 2, 10**6)
    singles = [i for i, a in enumerate(residuals.sets) if len(a) == 1]
    pairs = [residuals.numbers[c, c + 1] for c in range(24)]
    state, own_terms = PairFilter(residuals).allowing(RHO / 2), Fraction(0)
    for picked in (singles, *([i] for i in pairs)):
        weights = [Fraction(residuals.squared[i]) for i in picked]
        scale = state.scale(picked, weights)
        state = state.charged(picked, [scale * w for w in weights])
        own_terms += len(picked) / (2 * scale)
        assert 1 - Fraction(1, 10**9) < state.spent / state.limit <= 1 + Fraction(1, 10**9)
        state = state.allowing(RHO / 48)
    assert not state.exact
    assert state.spent < Fraction(93, 100) * own_terms
