"""HPD-Fixed in the adaptive loop, small: it learns, and repeats itself."""

from fractions import Fraction

import numpy as np
import pytest
from grouped import HEAD
from kit import small_groups
from kit.small_groups import Never, Silent

from stream_dp.batch import kinds
from stream_dp.batch.data.domain import Column, Domain, Hierarchy, Roles
from stream_dp.batch.groups.hpd import hpd_synthesizer as mixture
from stream_dp.batch.groups.hpd.adam import AdamSettings, FitSummary
from stream_dp.batch.groups.hpd.product_mixture import HPD
from stream_dp.batch.groups.workload.candidates import (
    declared_workload,
    default_marginals,
    marginal_workload,
)
from stream_dp.batch.groups.workload.exact_counts import exact_answers
from stream_dp.batch.groups.workload.groups_plan import AdaptivePlan
from stream_dp.batch.groups.workload.queries import SPOUSE
from stream_dp.batch.rounds.adaptive_fit import AdaptiveMethod, fit_adaptively
from stream_dp.batch.synthesizer import FitContext, MemoryTranscript
from stream_dp.errors import UserError
from stream_dp.privacy.noise import SeededNoise, SystemNoise
from stream_dp.study import Kind
from stream_dp.study.group_releases import BatchRelease

TRUTH = small_groups.hierarchy(groups=2000)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(mixture, "ROWS", 20)
    monkeypatch.setattr(mixture, "UPDATES", AdamSettings(30, 0.1))


def release(**more):
    facts = {"rho": Fraction(1), "every": 1, "rounds": 4, "per_round": 2, "ways": 2, **more}
    return BatchRelease(name="r", kind="hpd-fixed", attributes=("a", "b"), **facts)


def test_it_learns_and_repeats_itself():
    transcript = MemoryTranscript()
    fit = kinds.load_synthesizer("hpd-fixed")
    fitted = fit(TRUTH, release(), FitContext(SeededNoise(1), transcript))
    assert fitted.title == Kind.HPD_FIXED.data_set.mechanism
    assert fitted.error < 20
    sample = fitted.sample(3)
    assert sample.G == TRUTH.G
    queries = fitted.workload.queries
    missed = np.abs(
        exact_answers(sample, queries) / sample.G - exact_answers(TRUTH, queries) / TRUTH.G
    )
    assert missed.max() < 0.1
    again = fit(TRUTH, release(), FitContext(Never(), transcript))
    assert (again.measurements.values == fitted.measurements.values).all()
    assert (again.sample(3).people == sample.people).all()
    assert (again.sample(3).groups == sample.groups).all()
    for name, value in fitted.model.params.items():
        assert (again.model.params[name] == value).all()


def test_rows_are_as_declared(monkeypatch):
    monkeypatch.setattr(HPD, "fit", lambda self, params, *_: (params, FitSummary(1, 1, 0, True)))
    monkeypatch.setattr(HPD, "answers", lambda self, params, asked, *_: np.ones(len(asked.level)))
    fitted = mixture.fit_mixture(TRUTH, release(rows=7), FitContext(SeededNoise(1)))
    assert fitted.model.params["group"].shape[1] == 7
    assert fitted.workload.candidates == fitted.workload.opening + 2 * 6


def test_privacy_noise_is_not_of_numpy_or_jax(monkeypatch):
    """With their generators of noise gone, a fit on the system's entropy still works."""

    def none(*args, **kwargs):
        raise AssertionError("noise from a generator")

    monkeypatch.setattr(SeededNoise, "draw", none)
    monkeypatch.setattr(SeededNoise, "top", none)
    monkeypatch.setattr("stream_dp.batch.groups.hpd.product_mixture.HPD.sample", none)
    monkeypatch.setattr(np.random, "default_rng", none)
    monkeypatch.setattr("jax.random.gumbel", none)
    fitted = mixture.fit_mixture(TRUTH, release(), FitContext(SystemNoise()))
    assert len(fitted.picked) == 5


ROLES = Roles(column="role", head=HEAD, spouse="spouse", child="child", children=2)
PERSON = Column("role", (HEAD, "spouse", "child")), Column("age", (0, 1, 2))


def test_households_of_relatives_are_valid_and_relations_are_learnt():
    kin = HPD(Domain((Column("region", (0, 1)),), PERSON, 4, ROLES), 1500, 3000, 5)
    truth = kin.sample(kin.init(3), 1500, 1)
    work = marginal_workload(default_marginals(truth.domain, 2))
    assert {int(x) for x in work.queries.level} == set(range(5))
    plan = AdaptivePlan(Fraction(2), 4, 3)
    phases = plan.phases(work)
    start = mixture.random_start(truth, work, phases, rows=20)
    method = AdaptiveMethod.of("t", work, phases, start)
    fitted = fit_adaptively(truth, method, FitContext(SeededNoise(2)))
    sample = fitted.sample(1)  # checked as every hierarchy is: one head, a spouse or none
    assert isinstance(sample, Hierarchy)
    true = exact_answers(truth, work.queries) / truth.N
    missed = np.abs(exact_answers(sample, work.queries) / sample.N - true)[
        work.queries.level >= SPOUSE
    ]
    assert missed.max() < 0.15


def test_the_first_logits_have_their_variance():
    logits = HPD(TRUTH.domain, 10, 20, 4000).init(1)
    assert np.concatenate([*logits.values()]).var() == pytest.approx(1 / 16, rel=0.05)


def test_what_is_too_much_to_ask_is_refused():
    person = tuple(Column(f"p{i}", tuple(range(400))) for i in range(4))
    domain = Domain((), person, 2)
    with pytest.raises(UserError, match="ways: "):
        declared_workload(domain, release(ways=4))
    assert declared_workload(domain, release(ways=1)).candidates


def test_a_silent_fit_is_the_same_twice():
    transcripts = [MemoryTranscript(), MemoryTranscript()]
    for transcript in transcripts:
        mixture.fit_mixture(TRUTH, release(), FitContext(Silent(), transcript))
    assert transcripts[0].recorded == transcripts[1].recorded
