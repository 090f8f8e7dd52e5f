"""The second measurement of pairs: the least predicted error, recorded as whole numbers."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import msgspec
import numpy as np
import pytest
from people_tables import domain, paired

from stream_dp.batch.kinds import load_synthesizer
from stream_dp.batch.people import water_filling
from stream_dp.batch.people.pair_filter import PairFilter
from stream_dp.batch.people.residual_counts import Residuals
from stream_dp.batch.people.target_shares import Interaction, Targets
from stream_dp.batch.people.water_filling import LABELLED, WaterFilling
from stream_dp.batch.synthesizer import FitContext, MemoryTranscript
from stream_dp.errors import UserError
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study import MatchRelease

SIZES, PEOPLE, RHO = (2, 3, 5, 8), 4000, Fraction(1, 50)


def filling(labels=()):
    columns = domain(*SIZES)
    residuals = Residuals(columns, tuple(combinations(range(len(SIZES)), 2)))
    return WaterFilling(residuals, RHO, frozenset(labels), (), PairFilter(residuals))


def targets(last, noise=1e-6):
    """Noisy pairs: (0, 1) and (2, 3) depend, the others hardly."""
    rng, interactions = np.random.default_rng(3), {}
    for c, n in enumerate(SIZES):
        interactions[c,] = Interaction(np.zeros(n), 1e-9)
    for a in last.residuals.sets:
        shape = tuple(SIZES[c] for c in a)
        strength = 0.05 if a in ((0, 1), (2, 3)) else 0.0
        values = rng.normal(0, strength / math.sqrt(math.prod(shape)) + math.sqrt(noise), shape)
        values -= values.mean(0)
        interactions[a] = Interaction(values - values.mean(1, keepdims=True), noise)
    return Targets(last.residuals, PEOPLE, interactions)


def predicted(last, own, added):
    """The sum of predicted errors, and the rho of what is added."""
    total, cost = 0.0, 0.0
    for a in last.residuals.sets:
        cells, free = last.residuals.domain.cells(a), own.freedom(a)
        variance = own.interactions[a].variance
        energy = max(own.energies[a], variance / 1000)
        precision = 1 / variance + added.get(a, 0.0)
        weight = LABELLED if last.labels & {*a} else 1
        total += weight * math.sqrt(cells * free * energy / (energy * precision + free))
        unit = last.residuals.squared_norm(a) / 2 / (cells * PEOPLE) ** 2
        cost += unit * added.get(a, 0.0)
    return total, cost


@pytest.mark.parametrize("labels", [(), (1,)])
def test_no_other_way_to_spend_rho_has_a_smaller_predicted_error(labels):
    last = filling(labels)
    own = targets(last)
    added = last.added(own)
    least, cost = predicted(last, own, added)
    assert cost == pytest.approx(float(RHO), rel=1e-9)
    rng = np.random.default_rng(1)
    for _ in range(200):
        other = {a: added.get(a, 0) * rng.lognormal(0, 0.3) for a in last.residuals.sets}
        other[last.residuals.sets[rng.integers(6)]] += rng.exponential(1e5)
        scale = float(RHO) / predicted(last, own, other)[1]
        assert predicted(last, own, {a: x * scale for a, x in other.items()})[0] >= least


def test_a_label_raises_the_precision_of_its_pairs():
    own = targets(filling())
    plain, labelled = filling().added(own), filling([1]).added(own)
    assert labelled.get((0, 1), 0) > plain.get((0, 1), 0)
    assert labelled[2, 3] < plain[2, 3]


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
    monkeypatch.setattr(water_filling, "_LEAST", 0.9)
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
