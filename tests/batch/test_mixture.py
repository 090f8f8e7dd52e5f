"""HPD-Fixed and HPD-Gen in the adaptive loop, small: they learn, and repeat themselves."""

from fractions import Fraction

import numpy as np
import pytest
from grouped import HEAD
from kit import small_groups
from kit.small_groups import Never, Silent

from stream_dp.batch import kinds
from stream_dp.batch.base import FitContext, MemoryTranscript
from stream_dp.batch.data.domain import Column, Domain, Hierarchy, Roles
from stream_dp.batch.hpd import synthesizer as mixture
from stream_dp.batch.hpd.fit import AdamSettings
from stream_dp.batch.hpd.mixture import HPD
from stream_dp.batch.loop import AdaptiveMethod, fit_adaptively
from stream_dp.batch.workload.candidates import (
    declared_workload,
    default_marginals,
    marginal_workload,
)
from stream_dp.batch.workload.counts import exact_answers
from stream_dp.batch.workload.plan import AdaptivePlan
from stream_dp.batch.workload.queries import SPOUSE
from stream_dp.errors import UserError
from stream_dp.privacy.noise import SeededNoise, SystemNoise
from stream_dp.study.groups import BatchRelease

TRUTH = small_groups.hierarchy(groups=2000)
SETTINGS = {
    "hpd-fixed": mixture.MixtureSettings(20, None, AdamSettings(30, 0.1)),
    "hpd-gen": mixture.MixtureSettings(20, (16,), AdamSettings(150, 0.01)),
}


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(mixture, "SETTINGS", SETTINGS)


def release(kind, **more):
    facts = {"rho": Fraction(1), "every": 1, "rounds": 4, "per_round": 2, "ways": 2, **more}
    return BatchRelease(name="r", kind=kind, attributes=("a", "b"), **facts)


@pytest.mark.parametrize("kind", SETTINGS)
def test_it_learns_and_repeats_itself(kind):
    transcript = MemoryTranscript()
    fit = kinds.load_synthesizer(kind)
    fitted = fit(TRUTH, release(kind), FitContext(SeededNoise(1), transcript))
    assert fitted.title == kinds.kind_title(kind)
    assert fitted.error < 20
    sample = fitted.sample(3)
    assert sample.G == TRUTH.G
    queries = fitted.workload.queries
    missed = np.abs(
        exact_answers(sample, queries) / sample.G - exact_answers(TRUTH, queries) / TRUTH.G
    )
    assert missed.max() < 0.1
    again = fit(TRUTH, release(kind), FitContext(Never(), transcript))
    assert (again.measurements.values == fitted.measurements.values).all()
    assert (again.sample(3).people == sample.people).all()
    assert (again.sample(3).groups == sample.groups).all()
    for name, value in fitted.model.params.items():
        assert (again.model.params[name] == value).all()


def test_rows_are_as_declared():
    fitted = mixture.fit_mixture(TRUTH, release("hpd-fixed", rows=7), FitContext(SeededNoise(1)))
    assert fitted.model.params["group"].shape[1] == 7
    assert fitted.workload.candidates == fitted.workload.opening + 2 * 6


def test_privacy_noise_is_not_of_numpy_or_jax(monkeypatch):
    """With their generators of noise gone, a fit on the system's entropy still works."""

    def none(*args, **kwargs):
        raise AssertionError("noise from a generator")

    monkeypatch.setattr(SeededNoise, "draw", none)
    monkeypatch.setattr(SeededNoise, "top", none)
    monkeypatch.setattr("stream_dp.batch.hpd.mixture.HPD.sample", none)
    monkeypatch.setattr(np.random, "default_rng", none)
    monkeypatch.setattr("jax.random.gumbel", none)
    fitted = mixture.fit_mixture(TRUTH, release("hpd-fixed"), FitContext(SystemNoise()))
    assert len(fitted.picked) == 5


def test_households_of_relatives_are_valid_and_relations_are_learnt():
    roles = Roles(column="role", head=HEAD, spouse="spouse", child="child", children=2)
    person = Column("role", (HEAD, "spouse", "child")), Column("age", (0, 1, 2))
    domain = Domain((Column("region", (0, 1)),), person, 4, roles)
    truth = HPD(domain, 1500, 3000, 5).sample(HPD(domain, 1500, 3000, 5).init(3), 1500, 1)
    work = marginal_workload(default_marginals(domain, 2))
    assert {int(x) for x in work.queries.level} == set(range(5))
    plan = AdaptivePlan(Fraction(2), 4, 3)
    start = mixture.random_start(truth, work, SETTINGS["hpd-fixed"])
    method = AdaptiveMethod.of("t", work, plan.phases(work), start)
    fitted = fit_adaptively(truth, method, FitContext(SeededNoise(2)))
    sample = fitted.sample(1)  # checked as every hierarchy is: one head, a spouse or none
    assert isinstance(sample, Hierarchy)
    true = exact_answers(truth, work.queries) / truth.N
    missed = np.abs(exact_answers(sample, work.queries) / sample.N - true)[
        work.queries.level >= SPOUSE
    ]
    assert missed.max() < 0.15


def test_the_decay_of_a_network_falls_with_noise():
    """A prior of weight 1 at most, in proportion to the variance."""
    gen = mixture.HPD_GEN
    decays = [gen.adapted(v).decay for v in (1e-6, 2e-6, 1)]
    assert decays[1] == pytest.approx(2 * decays[0])
    assert 0 < decays[0] < decays[1] < decays[2] == 1
    assert mixture.HPD_FIXED.adapted(1) == mixture.HPD_FIXED.adam


def test_what_is_too_much_to_ask_is_refused():
    person = tuple(Column(f"p{i}", tuple(range(400))) for i in range(4))
    domain = Domain((), person, 2)
    with pytest.raises(UserError, match="ways: "):
        declared_workload(domain, release("hpd-fixed", ways=4))
    assert declared_workload(domain, release("hpd-fixed", ways=1)).candidates


def test_a_silent_fit_is_the_same_twice():
    transcripts = [MemoryTranscript(), MemoryTranscript()]
    for transcript in transcripts:
        mixture.fit_mixture(TRUTH, release("hpd-fixed"), FitContext(Silent(), transcript))
    assert transcripts[0].recorded == transcripts[1].recorded
