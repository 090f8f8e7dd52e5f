"""Residuals of people: their integers, and their exact cost under each relation."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.people_costs import worst_pair_cost
from kit.small_groups import Never
from people_tables import CountedNoise, domain, paired

from stream_dp.batch.people import residual_counts
from stream_dp.batch.people.pair_filter import PairFilter
from stream_dp.batch.people.people_plan import all_pairs_plan
from stream_dp.batch.people.people_synthesizer import fit_people
from stream_dp.batch.people.people_table import People
from stream_dp.batch.people.residual_counts import all_residuals, centred, marginal_counts, residual
from stream_dp.batch.people.target_shares import Targets
from stream_dp.batch.rounds.phases import Everything, NoisyAnswers
from stream_dp.batch.synthesizer import FitContext, Known, MemoryTranscript
from stream_dp.errors import UserError
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study import PeopleRelease

SMALL = (2, 3, 2)


def everybody(sizes):
    return list(product(*(range(n) for n in sizes)))


def counts(residuals, rows, candidates):
    """What is measured of a table of these rows, candidate by candidate."""
    codes = np.array(rows, np.int64).reshape(-1, len(residuals.domain.sizes))
    counter = residuals.counter(People(residuals.domain, codes))
    return [counter([i]) for i in candidates]


def change(residuals, before, after, variances):
    """The cost of telling two tables apart: half the squared change over the noise, summed."""
    candidates = range(residuals.candidates)
    pairs = zip(
        counts(residuals, before, candidates), counts(residuals, after, candidates), strict=True
    )
    squares = (Fraction(int(np.square(a - b).sum())) for a, b in pairs)
    return sum((s / (2 * v) for s, v in zip(squares, variances, strict=True)), Fraction(0))


@pytest.mark.parametrize("relation", ["moves", "replaced", "both"])
@given(data=st.data())
@settings(max_examples=4, deadline=None)
def test_the_cost_is_the_largest_change_of_what_is_measured(relation, data):
    """By brute force: every row that may come, go or be replaced, in the integers measured."""
    moves, replaced = relation != "replaced", relation != "moves"
    own = domain(*SMALL, moves=moves, replaced=replaced, size=None if moves else 3)
    residuals = all_residuals(own, 3, 100)
    variance = st.fractions(Fraction(1, 9), 9, max_denominator=20)
    variances = data.draw(st.lists(variance, min_size=8, max_size=8))
    rest, people = [(0, 1, 1), (1, 2, 0)], everybody(SMALL)
    costs = []
    if moves:
        costs += [change(residuals, rest, [*rest, x], variances) for x in people]
        assert len(set(costs)) == 1  # everybody costs the same
    if replaced:
        first = [people[0]] if relation == "replaced" else people
        costs += [
            change(residuals, [*rest, x], [*rest, y], variances) for x in first for y in people
        ]
    assert max(costs) == PairFilter(residuals).charged(range(8), variances).spent


def test_with_many_columns_the_cost_is_no_less(monkeypatch):
    own = domain(2, 3, 4, moves=False, replaced=True, size=9)
    residuals = all_residuals(own, 3, 100)
    variances = [Fraction(i + 1, 3) for i in range(8)]
    exact = PairFilter(residuals).charged(range(8), variances).spent
    monkeypatch.setattr(residual_counts, "MOST_PATTERNS", 2)
    bound = PairFilter(residuals).charged(range(8), variances).spent
    assert exact <= bound <= Fraction(3, 2) * exact
    alone = [PairFilter(residuals).charged([i], [Fraction(1, 2)]).spent for i in range(8)]
    assert alone == list(residuals.squared)


def test_residuals_are_interactions_and_sum_to_their_marginal():
    people = paired(500)
    for columns in ((0,), (0, 1), (0, 1, 3)):
        values = residual(people, columns)
        assert all((values.sum(axis) == 0).all() for axis in range(values.ndim))
        counts = marginal_counts(people, columns)
        assert values / counts.size == pytest.approx(centred(counts.astype(float)), abs=1e-9)
    assert residual(people, ()) == people.N


@pytest.mark.parametrize(
    "facts",
    [{}, {"moves": False, "replaced": True, "size": 900}, {"replaced": True}],
    ids=["comes and goes", "replaced", "both"],
)
def test_what_is_drawn_costs_rho(facts):
    pytest.importorskip("jax")
    codes, rho = paired(900, 4).codes, Fraction(3, 7)
    people = People(domain(*[4] * 4, **facts), codes)
    release = PeopleRelease(name="p", kind="mixture", attributes=("a", "b"), rho=rho, every=1)
    source, transcript = CountedNoise(1), MemoryTranscript()
    fit = fit_people(people, release, FitContext(source, transcript))
    drawn = [demand for demand in source.demands if demand]
    assert len(drawn) == len(fit.picked) == 3 + people.domain.moves
    measured = []
    for picked, demand in zip(fit.picked, drawn, strict=True):
        sizes = np.diff(fit.workload.starts)[list(picked)]
        assert [n for _, n in demand] == sizes.tolist()
        measured += [
            (fit.workload.sets[i], variance)
            for i, (variance, _) in zip(picked, demand, strict=True)
        ]
    assert worst_pair_cost(people.domain, measured) == rho
    assert fit.notes["charge"] == "exact maximum"
    texts = fit.measurements.queries
    assert "c0=0, c2=3" in texts
    assert ("people" in texts) == people.domain.moves

    again = fit_people(people, release, FitContext(Never(), MemoryTranscript(transcript.recorded)))
    assert (again.sample(3).codes == fit.sample(3).codes).all()


def last_sets(people, residuals, rho):
    """The last phase's sets of columns, after the phases before it."""
    release = PeopleRelease(name="p", kind="mixture", attributes=("a", "b"), rho=rho, every=1)
    plan = all_pairs_plan(residuals, release)
    source, answers = SeededNoise(2), NoisyAnswers.none()
    for number in range(4):
        phase = plan.phase(number, answers)
        variances, sizes = phase.variances(residuals), np.diff(residuals.starts)
        noise = source.draw([(variances[i], int(sizes[i])) for i in phase.candidates]).noise
        values = residuals.counter(people)(phase.candidates) + np.concatenate(noise)
        answers = answers.joined(residuals, phase.candidates, values, variances)
    assert plan.phase(4, answers) is None
    return {residuals.sets[i] for i in phase.candidates}


def test_the_last_phase_is_where_the_signal_is():
    """Triples where their noise leaves something of them; else the pairs that showed a signal."""
    people = paired(4000, 6)
    residuals = all_residuals(people.domain, 3, 20_000)
    triples = {columns for columns in residuals.sets if len(columns) == 3}
    assert last_sets(people, residuals, Fraction(10)) == triples
    pairs = {(0, 1), (2, 3)}
    assert last_sets(people, residuals, Fraction(1, 5000)) == pairs


def test_columns_that_cannot_be_fitted():
    for sizes, words in (((3,), "at least two"), ((3, 1), "one value alone")):
        with pytest.raises(UserError, match=words):
            domain(*sizes)
    with pytest.raises(UserError, match="two largest columns"):
        domain(2000, 3, 2000)
    with pytest.raises(ValueError, match="private where rows come or go"):
        domain(2, 2, moves=True, size=4)
    with pytest.raises(ValueError, match="not the public one"):
        People(domain(2, 2, moves=False, replaced=True, size=4), np.zeros((3, 2), int))


def test_what_others_published_counts_by_its_precision():
    """Beside a measurement of variance v in an entry, an interaction of variance w in a cell."""
    own = domain(2, 3)
    residuals = all_residuals(own, 2, 100)
    weights = Fraction(1), Fraction(2)
    phase = Everything(Fraction(1), (0, 3), weights, PairFilter(residuals))
    variances, cells = phase.variances(residuals), 6
    values = np.concatenate([[50], np.arange(6) * 6])
    answers = NoisyAnswers.none().joined(residuals, (0, 3), values, variances)
    entry = float(variances[3]) / cells**2  # of a cell of the interaction
    known = Known((0, 1), np.full((2, 3), 9.0) * np.array([[1, 0, -1], [-1, 0, 1]]), entry / 3)
    (alone,) = Targets.of(residuals, answers).interactions.values()
    (both,) = Targets.of(residuals, answers, [known]).interactions.values()
    assert both.variance == pytest.approx(alone.variance / 4)
    assert both.values == pytest.approx(alone.values / 4 + known.values * 3 / 4 / 50)
