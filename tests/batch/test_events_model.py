"""The mixture of people and their events: its answers are those of its samples."""

from fractions import Fraction

import numpy as np
import pytest

from stream_dp.batch import kinds
from stream_dp.batch.data.domain import Column, Domain, Hierarchy
from stream_dp.batch.groups.workload.exact_counts import exact_answers
from stream_dp.batch.groups.workload.queries import GROUP, PERSON, Queries, all_marginals
from stream_dp.batch.synthesizer import FitContext
from stream_dp.privacy.noise import SeededNoise
from stream_dp.services.evaluate.groups_trials import evaluate_data_sets
from stream_dp.study.group_releases import EventsRelease

pytest.importorskip("jax")
DIARY = Domain(
    (Column("age", ("young", "old")), Column("work", ("no", "yes"))),
    (Column("mode", ("walk", "car", "bus")), Column("purpose", ("work", "other"))),
    4,
    events=True,
)


def queries():
    return Queries.joined(
        m.queries() for k in (1, 2, 3) for m in all_marginals(DIARY, k, (GROUP, PERSON))
    )


def diary(people, seed=1):
    """Workers have more trips, and young people walk."""
    rng = np.random.default_rng(seed)
    age, work = rng.integers(0, 2, (2, people))
    sizes = rng.binomial(4, np.where(work == 1, 0.6, 0.2))
    of = np.repeat(np.arange(people), sizes)
    purpose = (rng.random(len(of)) > 0.7 * work[of]).astype(int)
    mode = np.where((age[of] == 0) & (rng.random(len(of)) < 0.7), 0, rng.integers(0, 3, len(of)))
    groups = np.stack([age, work, sizes], axis=1)
    return Hierarchy(DIARY, groups, np.stack([mode, purpose], axis=1), of)


def test_answers_are_those_of_a_large_sample():
    from stream_dp.batch.groups.hpd.product_mixture import HPD

    people, wanted = 60_000, queries()
    model = HPD(DIARY, people, 0, rows=5)
    params = {name: 8 * logits for name, logits in model.init(3).items()}
    sample = model.sample(params, people, 4)
    assert {*np.unique(sample.groups[:, -1])} == {0, 1, 2, 3, 4}
    expected, counted = model.answers(params, wanted), exact_answers(sample, wanted)
    assert np.abs(counted - expected).max() < 6 * np.sqrt(4 * expected.max())
    assert np.abs(counted - expected).mean() < 20


def release(rho):
    return EventsRelease(
        name="trips",
        kind="hpd-events",
        attributes=("age", "work"),
        events={"unit": "trip", "columns": ("mode", "purpose"), "most": 4},
        rho=rho,
        every=1,
        rows=30,
    )


def test_a_fit_learns_who_has_which_events_and_never_their_number():
    """The true number of events is seen by nobody: other events of as noisy answers fit alike."""
    truth, wanted = diary(5_000), queries()
    fit = kinds.load_synthesizer("hpd-events")(truth, release(10), FitContext(SeededNoise(1)))
    sample = fit.sample(2)
    assert sample.G == truth.G
    errors = np.abs(exact_answers(sample, wanted) - exact_answers(truth, wanted))
    assert errors.mean() / truth.G < 0.01
    assert sample.N != truth.N
    assert pytest.approx(truth.N, rel=0.05) == sample.N


def test_errors_stand_beside_baselines_of_events():
    rows = evaluate_data_sets(diary(1_000), [("rho 1", release(Fraction(1)))], 1)
    assert {row.queries for row in rows} == {"people", "events"}
    assert {row.method for row in rows} == {"hpd-events", "independent", "every query"}
