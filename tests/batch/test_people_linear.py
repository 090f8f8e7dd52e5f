"""The kind `rap` with linear thresholds: what it measures of sums enters its people."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from kit.small_groups import Never
from kit.studies import attribute, small_study

from stream_dp.batch.kinds import load_synthesizer
from stream_dp.batch.people.pair_filter import PairFilter
from stream_dp.batch.people.people_table import People, study_people
from stream_dp.batch.synthesizer import FitContext, MemoryTranscript
from stream_dp.errors import UserError
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study.table_releases import LOCATED_TITLE

PEOPLE = 4000


def declared(linear):
    number = {"number": {"least": 0, "most": 999}, "bins": [500], "missing": 0}
    study = small_study(
        size=PEOPLE,
        neighbours="replace_one",
        rho=3,
        attributes={"a": number, "b": number, "y": attribute(["n", "y"], missing="n")},
        releases=[
            {
                **{"name": "p", "kind": "rap", "attributes": ["a", "b", "y"], "rho": 1},
                **{"every": 1, "labels": ["y"], "linear": linear},
            }
        ],
    )
    return study, study.batches[0]


SUMS = [{"weights": {"a": 1, "b": -1}, "thresholds": [-400, -200, -50, 50, 200, 400]}]


def truth(study, release):
    """b is near a, in the same bin or not: two bins cannot say how near."""
    rng = np.random.default_rng(7)
    a = rng.integers(1000, size=PEOPLE)
    b = np.clip(a + rng.normal(0, 30, PEOPLE).astype(int), 0, 999)
    return People.of_answers(study_people(study, release), np.stack([a, b, a % 2], axis=1))


def near(people):
    answers = people.answers
    return float((np.abs(answers[:, 0] - answers[:, 1]) <= 50).mean())


@pytest.fixture(scope="module")
def fitted():
    """A fit with sums: its people, its release, its transcript and what it gave."""
    pytest.importorskip("jax")
    study, release = declared(SUMS)
    people, transcript = truth(study, release), MemoryTranscript()
    fit = load_synthesizer("rap")(people, release, FitContext(SeededNoise(1), transcript))
    return people, release, transcript, fit


def test_people_meet_what_was_measured_of_sums(fitted):
    people, release, transcript, fit = fitted
    sample = fit.sample(3)
    assert (sample.N, sample.domain) == (PEOPLE, people.domain)
    assert near(people) > 0.85
    assert near(sample) == pytest.approx(near(people), abs=0.1)
    assert np.array_equal(sample.answers, fit.sample(3).answers)
    texts = fit.measurements.queries
    assert "1*a-1*b=-49..50, y=n" not in texts  # the columns of a set are in the release's order
    assert "y=n, 1*a-1*b=-49..50" in texts
    again = load_synthesizer("rap")(people, release, FitContext(Never(), transcript))
    assert np.array_equal(again.sample(3).answers, sample.answers)
    plain = release.model_copy(update={"linear": None})
    without = load_synthesizer("rap")(people, plain, FitContext(SeededNoise(1))).sample(3)
    assert near(without) < 0.3
    # Rounds of the same declaration without sums are another plan.
    with pytest.raises(UserError, match="not of what its release declares"):
        load_synthesizer("rap")(people, plain, FitContext(Never(), transcript))


def test_a_charge_follows_from_the_variances(fitted):
    """Noise 5 % off either way is another cost."""
    *_, fit = fitted
    candidates, variances = fit.answers.candidates, []
    for end in fit.answers.ends:
        variances.append(fit.answers.variances[end - 1])
    singles = [i for i, c in enumerate(candidates) if len(fit.workload.sets[c]) == 1]
    own = [candidates[i] for i in singles]
    exact = [variances[i] for i in singles]
    assert PairFilter(fit.workload).charged(own, exact).spent == Fraction(23, 100)
    for factor in (Fraction(95, 100), Fraction(105, 100)):
        other = [factor * v for v in exact]
        assert PairFilter(fit.workload).charged(own, other).spent != Fraction(23, 100)
    assert replace(fit).title == fit.title


@pytest.mark.slow
def test_rows_with_locations_meet_sums():
    pytest.importorskip("jax")
    study, release = declared(SUMS)
    located = release.model_copy(update={"rows": "locations"})
    assert located.titles == (LOCATED_TITLE,)
    people, transcript = truth(study, release), MemoryTranscript()
    fit = load_synthesizer("rap")(people, located, FitContext(SeededNoise(1), transcript))
    assert fit.title == LOCATED_TITLE
    sample = fit.sample(3)
    assert (sample.N, sample.domain) == (PEOPLE, people.domain)
    assert near(sample) > 0.65  # a location's noise blurs sums; below 0.3 without them
    mean, deviation = people.answers[:, 0].mean(), people.answers[:, 0].std()
    assert sample.answers[:, 0].mean() == pytest.approx(mean, abs=0.05 * deviation)
    assert sample.answers[:, 2].mean() == pytest.approx(people.answers[:, 2].mean(), abs=0.02)
    again = load_synthesizer("rap")(people, located, FitContext(Never(), transcript))
    assert np.array_equal(again.sample(3).answers, sample.answers)


def test_rows_with_locations_have_answers_that_are_no_numbers():
    """A third of the people have a special code; a tenth are absent, and have one value of y."""
    pytest.importorskip("jax")
    number = {"number": {"least": 0, "most": 99}, "bins": [25, 50, 75], "special": [-9]}
    study = small_study(
        size=None,
        neighbours="add_remove",
        rho=3,
        attributes={
            "a": {**number, "missing": "absent"},
            "y": attribute(["n", "y"], missing="n"),
        },
        releases=[
            {
                **{"name": "p", "kind": "rap", "attributes": ["a", "y"], "rho": 1, "every": 1},
                "rows": "locations",
            }
        ],
    )
    rng = np.random.default_rng(5)
    kind = rng.choice(3, PEOPLE, p=[0.57, 0.33, 0.1])
    answers = np.where(kind == 0, rng.integers(100, size=PEOPLE), 99 + kind)
    people = People.of_answers(
        study_people(study, study.batches[0]), np.stack([answers, kind == 2], axis=1)
    )
    fit = load_synthesizer("rap")(people, study.batches[0], FitContext(SeededNoise(1)))
    drawn = fit.sample(2).answers
    for code in (100, 101):
        assert (drawn[:, 0] == code).mean() == pytest.approx((answers == code).mean(), abs=0.02)
    assert drawn[drawn[:, 0] == 101, 1].mean() > 0.9
    below = (drawn[:, 0] < 50).mean()
    assert below == pytest.approx((answers < 50).mean(), abs=0.02)
