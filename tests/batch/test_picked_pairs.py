"""Pairs picked in rounds: what one person changes, what rounds cost, and what they learn."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import combinations, product

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.people_costs import worst_pair_cost
from kit.small_groups import Never
from people_tables import CountedNoise, domain, paired

from stream_dp.batch.people.junction_tree import JunctionTree, grown_tree, open_pairs
from stream_dp.batch.people.pair_filter import PairFilter
from stream_dp.batch.people.people_plan import people_plan
from stream_dp.batch.people.people_synthesizer import fit_people
from stream_dp.batch.people.people_table import People
from stream_dp.batch.people.picked_pairs import picking_phase, ranked_pairs
from stream_dp.batch.people.residual_counts import marginal_counts
from stream_dp.batch.rounds.adaptive_fit import Annealed
from stream_dp.batch.rounds.phases import Everything
from stream_dp.batch.synthesizer import FitContext, Known, MemoryTranscript
from stream_dp.errors import UserError
from stream_dp.privacy.noise import SeededNoise, SystemNoise
from stream_dp.privacy.zcdp import selection_rho
from stream_dp.study import PeopleRelease
from stream_dp.study.families import Kind

RELATIONS = {
    "comes and goes": {},
    "replaced": {"moves": False, "replaced": True, "size": 900},
    "both": {"replaced": True},
}


def release(people, rho=Fraction(3, 7), rounds=3, per_round=2):
    names = tuple(c.name for c in people.domain.columns)
    return PeopleRelease(
        name="p", kind="mixture", attributes=names, rho=rho, every=1,
        rounds=rounds, per_round=per_round,
    )  # fmt: skip


def scores_of(pairs, people, model):
    candidates = [i for i, a in enumerate(pairs.sets) if len(a) == 2]
    true = pairs.score_counter(people)(candidates)
    return pairs.scores(candidates, true, model, [2.5] * len(candidates))


@pytest.mark.parametrize(("moves", "replaced"), [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize(("labels", "guessing"), [((), False), ((1,), False), ((), True)])
def test_no_score_changes_by_more_than_is_charged(moves, replaced, labels, guessing):
    """Every neighbour of every table of two people, and models that answer anything."""
    own = domain(2, 3, 2, moves=moves, replaced=replaced, size=None if moves else 2)
    free = domain(2, 3, 2)
    pairs = replace(ranked_pairs(own, frozenset(labels)), guessing=guessing)
    every = list(product(range(2), range(3), range(2)))
    rng, largest = np.random.default_rng(1), 0
    room = sum(free.cells(a) for a in pairs.sets if len(a) == 2)
    models = [np.zeros(room), np.full(room, 0.5), *(rng.uniform(-2, 4, room) for _ in range(6))]

    @cache
    def scores(*table):
        people = People(free, np.array(table))
        return np.array([scores_of(pairs, people, model) for model in models])

    for first, second in combinations(every, 2):
        others = [[first]] if moves else []
        others += [sorted([first, another]) for another in every] if replaced else []
        for other in others:
            change = np.abs(scores(first, second) - scores(*other))
            largest = max(largest, int(change.max()))
    assert largest == pairs.sensitivity == (2 if replaced else 1) * (4 if labels else 1)


@pytest.mark.parametrize("facts", RELATIONS.values(), ids=RELATIONS)
@pytest.mark.parametrize(
    ("seed", "labels"),
    [(1, None), pytest.param(2, None, marks=pytest.mark.slow), (3, ("c1",))],
)
def test_what_is_drawn_and_picked_costs_rho(facts, seed, labels):
    """Rebuilt from the demands for noise; noise 5 % off either way costs something else."""
    codes, rho = paired(900, 4).codes, Fraction(3, 7)
    people = People(domain(*[4] * 4, **facts), codes)
    source, transcript = CountedNoise(seed), MemoryTranscript()
    own = release(people).model_copy(update={"kind": Kind.RAP, "labels": labels})
    fit = fit_people(people, own, FitContext(source, transcript))
    drawn = [demand for demand in source.demands if demand]
    assert len(drawn) == len(fit.picked) >= 3
    change = (2 if people.domain.replaced else 1) * (4 if labels else 1)

    def spent(factor):
        measured = []
        for picked, demand in zip(fit.picked, drawn, strict=True):
            sets = [fit.workload.sets[i] for i in picked]
            assert [n for _, n in demand] == [4 ** len(a) for a in sets]
            measured += zip(sets, (variance * factor for variance, _ in demand), strict=True)
        assert len(source.scales) == sum(len(a) == 2 for a, _ in measured)
        selection = sum(selection_rho(change, scale * factor) for scale in source.scales)
        return worst_pair_cost(people.domain, measured, selection)

    assert spent(1) == rho
    assert fit.notes["charge"] == "upper bound"  # of the selections
    assert spent(Fraction(95, 100)) > rho > spent(Fraction(105, 100))


def test_a_pair_s_residual_changes_by_what_is_charged():
    """All replacements and all rows of 3 x 4: the largest squared change is that of the cost."""
    for facts in RELATIONS.values():
        own = domain(3, 4, **facts)
        pairs = ranked_pairs(own)
        number = pairs.numbers[0, 1]
        every, free = list(product(range(3), range(4))), domain(3, 4)
        vectors = {
            row: pairs.counter(None if row is None else People(free, np.array([row])))([number])
            for row in every
        }
        changes = [np.square(v).sum() for v in vectors.values()] if own.moves else []
        if own.replaced:
            changes += [np.square(vectors[a] - vectors[b]).sum() for a in every for b in every]
        assert max(changes) == pairs.squared[number]
        assert PairFilter(pairs).charged([number], [Fraction(5)]).spent == Fraction(
            int(max(changes)), 10
        )


@given(
    st.fractions(Fraction(1, 1000), 10),
    st.integers(1, 12),
    st.integers(1, 5),
    st.lists(st.tuples(st.booleans(), st.integers(1, 5)), min_size=60, max_size=60),
)
@settings(max_examples=60, deadline=None)
def test_rounds_end_and_spend_no_more_than_there_is(rho, rounds, picks, course):
    """Whatever they teach and however few are picked; all of it where each round picks in full."""
    pairs = ranked_pairs(domain(2, 3, 4, 2))
    phase = picking_phase(pairs, rho, rounds, picks)
    spent, full, last = Fraction(0), True, None
    for learnt, some in course:
        chosen = phase.candidates[: min(some, picks)]
        full &= len(chosen) == picks
        spent += phase.charged(pairs, chosen).spent - phase.before.spent
        each = phase.each
        assert last is None or each >= last
        phase, last = phase.after(pairs, chosen), each
        if phase is None:
            break
        phase = phase.annealed(1.0 if learnt else 0.0, 0.5)
    assert spent <= rho
    assert phase is None or not full or len(course) < rounds
    if phase is None and full:
        assert spent == rho


def test_noise_falls_to_half_where_a_round_taught_nothing():
    pairs = ranked_pairs(domain(2, 3, 4, 2))
    phase = picking_phase(pairs, Fraction(1), 40, 1)
    taught, not_ = phase.annealed(1.0, 0.9), phase.annealed(0.9, 0.9)
    assert taught is phase
    for i, variance in phase.variances(pairs).items():
        assert not_.variances(pairs)[i] == variance / 4
    assert not_.scale(pairs) == phase.scale(pairs) / 4
    with pytest.raises(ValueError, match="noise"):
        phase.at(-1)
    with pytest.raises(ValueError, match="noise"):
        phase.at(1000)
    with pytest.raises(ValueError, match="positive"):
        replace(phase, rho=Fraction(0))
    with pytest.raises(ValueError, match="pick"):
        Annealed(Fraction(1), (), Fraction(1), 1, lambda measured: [], phase.before)


def test_dependent_pairs_are_picked_and_independent_ones_are_no_more_dependent_than_noise():
    people = paired(4000, 5, pairs=3)
    fit = fit_people(people, release(people, Fraction(1, 10), 8, 2), FitContext(SeededNoise(1)))
    picked = [fit.workload.sets[i] for round_ in fit.picked for i in round_]
    assert {(0, 1), (2, 3), (4, 5)} <= {*picked}
    assert fit.error < 2
    sample = fit.sample(3)
    for pair in combinations(range(6), 2):
        shares = [marginal_counts(p, pair) / p.N for p in (people, sample)]
        assert np.abs(shares[0] - shares[1]).sum() / 2 < 0.08


def test_a_column_that_is_a_function_of_another_is_picked_though_its_cells_are_many():
    """Of many columns. Noise of its marginal exceeds its error, and other pairs have more to gain.

    Only guesses see it.
    """
    rng = np.random.default_rng(3)
    first, trait = rng.integers(0, 30, 3000), rng.normal(0, 1, 3000)
    few = [trait + rng.normal(0, 1, 3000) > 0 for _ in range(22)]
    codes = np.column_stack([first, rng.permutation(30)[first] % 9, *few]).astype(np.int64)
    people = People(domain(30, 9, *[2] * 22), codes)
    own = release(people, Fraction(1, 100)).model_copy(update={"rounds": None, "per_round": None})
    fit = fit_people(people, own, FitContext(SeededNoise(1)))
    assert (0, 1) in [fit.workload.sets[i] for round_ in fit.picked for i in round_]
    assert any({0, 1} <= {*clique} for clique in fit.model.tree.cliques)
    assert 0 <= fit.notes["duality_gap"] <= 1e-3
    # Before anything but single columns is known, to the true shares.
    pair = fit.workload.numbers[0, 1]
    true = fit.workload.score_counter(people)([pair])
    independent = np.outer(*(np.bincount(codes[:, c]) / 3000 for c in (0, 1))).reshape(-1)
    noise = [6000.0 / fit.workload.noise(pair, 1.0)]  # as much as the largest error
    score = fit.workload.scores([pair], true, 3000 * independent, noise)
    blind = replace(fit.workload, guessing=False)
    assert blind.scores([pair], true, 3000 * independent, noise) <= 0 < 1500 < score


class Killed(Exception):
    pass


@dataclass
class Dying(MemoryTranscript):
    """Ends the fit before a round is recorded, or after it."""

    left: int = 0
    after: bool = False

    def record(self, number, data):
        if self.after:
            data = super().record(number, data)
        self.left -= 1
        if self.left < 0:
            raise Killed
        return data if self.after else super().record(number, data)


@pytest.mark.parametrize("after", [False, True])
def test_a_fit_that_is_killed_in_any_round_decides_nothing_twice(after):
    people = paired(300, 3)
    context = FitContext(SystemNoise(), MemoryTranscript())
    first = fit_people(people, release(people, Fraction(1, 5), 3, 2), context)
    recorded = context.transcript.recorded
    again = fit_people(
        people,
        release(people, Fraction(1, 5), 3, 2),
        FitContext(Never(), MemoryTranscript([*recorded])),
    )
    assert again.picked == first.picked
    assert again.answers.variances == first.answers.variances
    assert (again.sample(5).codes == first.sample(5).codes).all()
    dying, before = Dying(after=after), list[bytes]()
    for _ in range(40):
        dying.left = 1
        try:
            end = fit_people(
                people, release(people, Fraction(1, 5), 3, 2), FitContext(SystemNoise(), dying)
            )
            break
        except Killed:
            assert dying.recorded[: len(before)] == before
            assert len(dying.recorded) > len(before)
            before = [*dying.recorded]
    assert dying.recorded[: len(before)] == before
    spent = Fraction(0)
    phases = phases_of(people, end, dying.recorded)
    for phase, picked in zip(phases, end.picked, strict=True):
        after = phase.charged
        if isinstance(phase, Annealed):
            after = phase.charged(end.workload, picked)
        spent += after.spent - phase.before.spent
    assert spent == Fraction(1, 5)


def phases_of(people, fit, recorded):
    """The phase of every round, from the levels that were recorded."""
    *first, phase = people_plan(people.domain, release(people, Fraction(1, 5), 3, 2)).phases(300)
    result = list(first)
    for number, picked in enumerate(fit.picked[len(first) :], len(first) + 1):
        phase = phase.at(msgspec.msgpack.decode(recorded[number])[2])
        result.append(phase)
        phase = phase.after(fit.workload, picked)
    assert phase is None
    assert all(isinstance(p, Everything) for p in first)
    return result


def test_rounds_of_something_else_are_refused():
    people = paired(900, 4)
    own = release(people, Fraction(1, 5), 4, 2)
    context = FitContext(SystemNoise(), MemoryTranscript())
    fit_people(people, own, context)
    recorded = context.transcript.recorded
    chosen, values, level = msgspec.msgpack.decode(recorded[3])
    for other in (
        ([*chosen, chosen[0]], values, level),
        ([], b"", level),
        (chosen, values, 1000),
        (chosen, values, -1),
        (chosen, values),
        ([1], values, level),
        (chosen, values[:-8], level),
        ([10**6], values, level),
    ):
        begun = [*recorded[:3], msgspec.msgpack.encode(other)]
        with pytest.raises(UserError, match="not of what its release declares"):
            fit_people(people, own, FitContext(Never(), MemoryTranscript(begun)))


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_a_tree_has_room_for_every_pair_that_may_be_picked(data):
    sizes = tuple(data.draw(st.lists(st.integers(2, 5), min_size=3, max_size=9)))
    most, picked = data.draw(st.integers(60, 400)), ()
    for _ in range(12):
        open_ = sorted(open_pairs(sizes, (), picked, most))
        tree = grown_tree(sizes, (), picked)
        assert tree.cells <= most or not picked
        assert set(picked) <= {*open_}
        if not open_:
            return
        pair = data.draw(st.sampled_from(open_))
        after = tree.extended(*pair)
        assert after.cells <= tree.cells + tree.growth(pair[0])[pair[1]]
        if pair not in picked:
            picked = (*picked, pair)


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_marginals_and_pairs_are_those_of_all_cells(data):
    sizes = tuple(data.draw(st.lists(st.integers(2, 3), min_size=5, max_size=5)))
    pairs = data.draw(st.lists(st.sampled_from([*combinations(range(5), 2)]), max_size=5))
    tree = JunctionTree.of(sizes, pairs)
    for pair in pairs[:2]:
        tree = tree.extended(*pair)
    rng = np.random.default_rng(1)
    potentials = [rng.normal(0, 2, [sizes[c] for c in clique]) for clique in tree.cliques]
    joint = np.zeros(sizes)
    for clique, potential in zip(tree.cliques, potentials, strict=True):
        joint = joint + potential.reshape([sizes[c] if c in clique else 1 for c in range(5)])
    highest = joint.max()
    total = np.exp(joint - highest).sum()
    shares = np.exp(joint - highest) / total
    marginals, normaliser = tree.marginals([p.copy() for p in potentials])
    assert normaliser == pytest.approx(highest + math.log(total))
    for clique, marginal in zip(tree.cliques, marginals, strict=True):
        others = tuple(c for c in range(5) if c not in clique)
        assert marginal == pytest.approx(shares.sum(axis=others))
    for first, own in tree.pairs(marginals):
        for second, table in own.items():
            if first < second:
                others = tuple(c for c in range(5) if c not in (first, second))
                assert table == pytest.approx(shares.sum(axis=others), abs=1e-12)


def test_what_others_published_is_in_the_tree_from_the_beginning():
    """A triple of columns that is known well is followed, though no round measures triples."""
    rng = np.random.default_rng(4)
    two = rng.integers(0, 2, (900, 2))
    codes = np.column_stack([two, two.sum(1) % 2, rng.integers(0, 2, 900)])
    people = People(domain(2, 2, 2, 2, moves=False, replaced=True, size=900), codes)
    counts = marginal_counts(people, (0, 1, 2)).astype(float)
    for axis in range(3):
        counts -= counts.mean(axis, keepdims=True)
    known = (Known((0, 1, 2), counts, 1.0),)
    fit = fit_people(people, release(people), FitContext(SeededNoise(1), known=known))
    shares = marginal_counts(fit.sample(1), (0, 1, 2)) / 900
    odd = [shares[cell] for cell in np.ndindex(2, 2, 2) if sum(cell) % 2]
    assert sum(odd) < 0.1


def test_columns_too_large_to_pick_are_refused_in_a_line():
    columns = domain(400, 300)
    declared = PeopleRelease(
        name="p", kind="mixture", attributes=("c0", "c1"), rho=1, every=1, rounds=2
    )
    with pytest.raises(UserError, match="declare `rounds = 0`"):
        people_plan(columns, declared)
