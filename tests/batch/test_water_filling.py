"""The second measurement: the least predicted error, recorded as whole numbers, at rho."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import msgspec
import numpy as np
import pytest
from kit.people_costs import worst_pair_cost
from people_tables import CountedNoise, domain, paired

from stream_dp.batch.kinds import load_synthesizer
from stream_dp.batch.people import table_plan
from stream_dp.batch.people.junction_tree import grown_tree
from stream_dp.batch.people.pair_filter import PairFilter
from stream_dp.batch.people.people_table import People
from stream_dp.batch.people.residual_counts import Residuals
from stream_dp.batch.people.table_plan import WaterFilling
from stream_dp.batch.people.target_shares import Interaction, Targets
from stream_dp.batch.people.weighted_tree import Fitted
from stream_dp.batch.synthesizer import FitContext, MemoryTranscript
from stream_dp.errors import UserError
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study import MatchRelease

SIZES, PEOPLE, RHO = (2, 3, 5, 8), 4000, Fraction(1, 50)


def filling(labels=()):
    columns = domain(*SIZES)
    numbers = range(len(SIZES))
    sets = (*combinations(numbers, 2), *combinations(numbers, 3))
    residuals = Residuals(columns, sets)
    return WaterFilling(residuals, RHO, frozenset(labels), (), PairFilter(residuals))


def fitted(last, strong=((0, 1), (2, 3)), explained=(), noise=1e-6):
    """A fit to noisy pairs: `strong` pairs depend, and the tree explains some of these."""
    rng, interactions = np.random.default_rng(3), {}
    for c, n in enumerate(SIZES):
        interactions[c,] = Interaction(np.zeros(n), 1e-9)
    shares = {}
    for a in last.residuals.sets[:6]:
        shape = tuple(SIZES[c] for c in a)
        clean = rng.normal(0, 0.05 * (a in strong) / math.sqrt(math.prod(shape)), shape)
        clean -= clean.mean(0)
        clean -= clean.mean(1, keepdims=True)
        values = clean + rng.normal(0, math.sqrt(noise), shape)
        values -= values.mean(0)
        interactions[a] = Interaction(values - values.mean(1, keepdims=True), noise)
        shares[a] = 1 / math.prod(shape) + clean * (a in explained)
    own = Targets(last.residuals, PEOPLE, interactions)
    tree = grown_tree(own.sizes, (), ((0, 1),))
    return Fitted(own, tree, (), frozenset({(0, 1)}), shares, 0.0)


def predicted(last, own, added):
    """The sum of predicted errors, and the rho of what is added."""
    total, cost = 0.0, 0.0
    energies, weights = last.energies(own), last.weights(own.held)
    for a, weight in zip(last.residuals.sets, weights, strict=True):
        cells, free = last.residuals.domain.cells(a), own.targets.freedom(a)
        before = 1 / own.targets.interactions[a].variance if len(a) == 2 else 0
        precision = before + added.get(a, 0.0)
        total += weight * math.sqrt(cells * free * energies[a] / (energies[a] * precision + free))
        unit = last.residuals.squared_norm(a) / 2 / (cells * PEOPLE) ** 2
        cost += unit * added.get(a, 0.0)
    return total, cost


ALL = tuple(combinations(range(len(SIZES)), 2))


@pytest.mark.parametrize("labels", [(), (1,)])
@pytest.mark.parametrize("strong", [((0, 1), (2, 3)), ALL], ids=["two pairs", "all pairs"])
def test_no_other_way_to_spend_rho_has_a_smaller_predicted_error(labels, strong):
    last = filling(labels)
    own = fitted(last, strong)
    added = last.added(own)
    least, cost = predicted(last, own, added)
    assert cost == pytest.approx(float(RHO), rel=1e-9)
    rng = np.random.default_rng(1)
    for _ in range(200):
        other = {a: added.get(a, 0) * rng.lognormal(0, 0.3) for a in last.residuals.sets}
        other[last.residuals.sets[rng.integers(10)]] += rng.exponential(1e5)
        scale = float(RHO) / predicted(last, own, other)[1]
        assert predicted(last, own, {a: x * scale for a, x in other.items()})[0] >= least


def test_a_label_raises_the_precision_of_its_pairs():
    own = fitted(filling())
    plain, labelled = filling().added(own), filling([1]).added(own)
    assert labelled.get((0, 1), 0) > plain.get((0, 1), 0)
    assert labelled[2, 3] < plain[2, 3]


def test_a_pair_that_the_tree_explains_is_not_measured_again():
    last = filling()
    assert (2, 3) in last.added(fitted(last))
    assert (2, 3) not in last.added(fitted(last, explained=[(2, 3)]))


def test_triples_are_measured_where_all_of_their_pairs_depend():
    last = filling()
    assert not any(len(a) == 3 for a in last.added(fitted(last)))
    dense = last.added(fitted(last, strong=ALL, noise=1e-9))
    assert any(len(a) == 3 for a in dense)


def hidden(people, **relation):
    """Four columns that follow one hidden value in two rows of three."""
    rng = np.random.default_rng(5)
    value = rng.integers(3, size=people)
    columns = [
        np.where(rng.random(people) < 2 / 3, value, rng.integers(3, size=people)) for _ in range(4)
    ]
    return People(domain(3, 3, 3, 3, **relation), np.stack(columns, axis=1))


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_the_noise_of_a_fit_with_triples_costs_rho(relation):
    """What was drawn, by brute force over all pairs of neighbours: noise 5 % off would fail."""
    size, source = 20_000, CountedNoise(1)
    replaced = {"moves": False, "replaced": True, "size": size}
    people = hidden(size, **(replaced if relation == "replace_one" else {}))
    fit = load_synthesizer("table")(people, RELEASE, FitContext(source))
    sets = [
        part.workload.sets[i]
        for part in (fit.first, fit.second)
        for picked in part.picked
        for i in picked
    ]
    assert sum(len(a) == 3 for a in sets) == 4
    variances = [variance for demand in source.demands for variance, _ in demand]
    measured = list(zip(sets, variances, strict=True))
    assert worst_pair_cost(people.domain, measured, every=1) == RELEASE.rho
    assert worst_pair_cost(
        people.domain, [(a, v * Fraction("1.05")) for a, v in measured], every=1
    ) < RELEASE.rho * Fraction("0.96")


RELEASE = MatchRelease(
    name="p", kind="table", attributes=("c0", "c1", "c2", "c3"), rho=Fraction(1, 10), every=1
)


def rounds_of_a_fit():
    people, transcript = paired(2000, 4), MemoryTranscript()
    context = FitContext(SeededNoise(1), transcript)
    fit = load_synthesizer("table")(people, RELEASE, context)
    return people, transcript.rounds(), fit


class Never:
    def draw(self, demand):
        raise AssertionError("noise is drawn again")


def test_a_resumed_fit_has_the_stated_noise_whatever_floats_say(monkeypatch):
    """On another machine, where the last bits of the weights differ."""
    people, rounds, fit = rounds_of_a_fit()
    *_, stated = msgspec.msgpack.decode(rounds[-1])
    assert all(isinstance(precision, int) for precision in stated)
    monkeypatch.setattr(table_plan, "_LEAST", 0.9)
    again = load_synthesizer("table")(
        people, RELEASE, FitContext(Never(), MemoryTranscript(list(rounds)))
    )
    assert again.measurements.variances == fit.measurements.variances
    assert (again.sample(5).codes == fit.sample(5).codes).all()


@pytest.mark.parametrize("change", ["twice", "none", "unknown", "short"])
def test_a_round_that_states_no_weights_is_refused(change):
    people, rounds, _ = rounds_of_a_fit()
    chosen, values, stated = msgspec.msgpack.decode(rounds[-1])
    if change == "twice":
        chosen[1] = chosen[0]
    elif change == "none":
        stated[0] = 0
    elif change == "unknown":
        chosen[0] = 99
    else:
        stated = stated[1:]
    rounds[-1] = msgspec.msgpack.encode((chosen, values, stated))
    with pytest.raises(UserError, match="transcript is not of what its release declares"):
        load_synthesizer("table")(people, RELEASE, FitContext(Never(), MemoryTranscript(rounds)))


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_whatever_a_round_states_the_fit_costs_rho(relation):
    last = filling()
    if relation == "replace_one":
        columns = domain(*SIZES, moves=False, replaced=True, size=PEOPLE)
        residuals = replace(last.residuals, domain=columns)
        last = replace(last, residuals=residuals, before=PairFilter(residuals))
    for seed in range(20):
        rng = np.random.default_rng(seed)
        precisions = {i: int(rng.integers(1, 1 << 60)) for i in range(1 + seed % 6)}
        assert last.stated(precisions).charged.spent == RHO
