"""Answers together: covariances, ratios and bands are as wide as repeated noise is."""

from dataclasses import replace

import numpy as np
import pytest
from kit.public_logs import public
from kit.studies import attribute, small_study
from scipy.stats import norm

from stream_dp.answers.answering import PanelAnswers
from stream_dp.answers.estimator import StreamMeasurements
from stream_dp.answers.joint_answers import JointAnswers, Ratios, simultaneous_quantiles, with_error
from stream_dp.errors import UserError
from stream_dp.privacy.noise import SeededNoise
from stream_dp.release.answer import Answer

PEOPLE, COUNT = 300, 4
LABELS = [f"2021-0{t}" for t in range(1, COUNT + 1)]
RNG = np.random.default_rng(5)
SYMBOLS = {name: RNG.choice(2, (PEOPLE, COUNT), p=[0.6, 0.4]) for name in ("poor", "ill")}
DRAWS = 20_000
SCALE = 0.05  # how far off a scale must not stay unseen, either way


def joint_of(values, covariance):
    """Answers with these values and errors, about nothing."""
    answer = Answer("r", "q", "p", "count", "people", 0.0, None, None, "m")
    errors = np.sqrt(covariance.diagonal())
    pairs = zip(values, errors, strict=True)
    answers = (with_error(replace(answer, value=float(v)), float(e)) for v, e in pairs)
    return JointAnswers(tuple(answers), covariance)


def log_of(seed, relation="replace_one"):
    totals = {"kind": "cumulative", "event": [1]}
    if relation == "add_remove":
        totals["size_share"] = "1/5"
    releases = [
        {"name": "pairs", "kind": "window", "width": 2, "attribute": "poor"},
        {"name": "months", **totals, "attribute": "poor"},
        {"name": "ill", "kind": "window", "width": 1, "attribute": "ill"},
    ]
    study = small_study(
        name="joint",
        neighbours=relation,
        rho="3",
        periods={"first": LABELS[0], "every": "month", "count": COUNT},
        size=None if relation == "add_remove" else PEOPLE,
        attributes={name: attribute([0, 1], missing=0) for name in SYMBOLS},
        releases=[{**release, "rho": "1"} for release in releases],
    )
    return public(study, {k: v.astype(np.uint8) for k, v in SYMBOLS.items()}, SeededNoise(seed))


# Independent of each other as linear forms, so that their covariance has an inverse.
QUESTIONS = [
    *(("pairs", "pattern 1", label) for label in LABELS[1:]),
    *(("pairs", "pattern 1 1", label) for label in LABELS[1:]),
    *(("months", "total at-least 1", label) for label in LABELS[1:]),
    *(("ill", "pattern 1", label) for label in LABELS),
]


def true_counts():
    poor, ill = SYMBOLS["poor"], SYMBOLS["ill"]
    months = range(1, COUNT)
    return np.array(
        [
            *((poor[:, t] == 1).sum() for t in months),
            *((poor[:, t - 1 : t + 1] == 1).all(axis=1).sum() for t in months),
            *((poor[:, : t + 1] == 1).any(axis=1).sum() for t in months),
            *((ill[:, t] == 1).sum() for t in range(COUNT)),
        ]
    )


def tolerance(freedom):
    """Four standard deviations of a mean square of so many normal errors."""
    return 4 * (2 / freedom) ** 0.5


def mean_square(errors, covariance):
    """Squared errors, (draws, n), in the metric of a covariance, for each degree of freedom."""
    return (errors * np.linalg.solve(covariance, errors.T).T).sum() / errors.size


def test_the_covariances_are_those_of_repeated_releases():
    logs = [log_of(seed).answers(QUESTIONS, count=True) for seed in range(20)]
    errors = np.array([joint.values - true_counts() for joint in logs])
    assert abs(mean_square(errors, logs[0].covariance) - 1) <= tolerance(errors.size)


def moved(log, stream, by):
    """The joint answers where the measurements of a stream are moved by so much."""
    panels = log._answering("pairs")
    known, begin, releases = panels.stream(stream), 0, []
    for release in known.releases:
        messages = []
        for message in release.messages:
            end = begin + message.values.size
            messages.append(replace(message, values=message.values + by[begin:end]))
            begin = end
        releases.append(replace(release, messages=tuple(messages)))
    changed = PanelAnswers(log)
    changed.streams = {**panels.streams, stream: StreamMeasurements(tuple(releases), None)}
    log._families[PanelAnswers] = changed
    try:
        return log.answers(QUESTIONS, count=True).values
    finally:
        log._families[PanelAnswers] = panels


def test_the_covariances_are_those_of_repeated_noise():
    """Answers are linear in the measurements: what each one does to all of them is seen alone."""
    log = log_of(1)
    joint = log.answers(QUESTIONS, count=True)
    panels = log._answering("pairs")
    effects, variances = [], []
    for stream in dict.fromkeys(release.stream for release in log.study.releases):
        stated = [m.variances for r in panels.stream(stream).releases for m in r.messages]
        variances.append(np.concatenate(stated))
        for unit in np.eye(variances[-1].size):
            effects.append((moved(log, stream, 100 * unit) - joint.values) / 100)
    weights, errors = np.array(effects), np.sqrt(np.concatenate(variances))
    exact = (weights.T * errors**2) @ weights
    assert joint.covariance == pytest.approx(exact, rel=1e-6, abs=1e-6)

    noise = np.random.default_rng(9).standard_normal((2000, errors.size)) * errors @ weights
    allowed = tolerance(noise.size)
    assert abs(mean_square(noise, joint.covariance) - 1) <= allowed
    for scale in (1 - SCALE, 1 + SCALE):
        assert abs(mean_square(scale * noise, joint.covariance) - 1) > allowed


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_one_answer_is_what_it_is_alone(relation):
    log = log_of(1, relation)
    for count in (True, False):
        asked = [q for q in QUESTIONS if q[0] != "ill" or relation == "replace_one" or count]
        joint = log.answers(asked, count=count)
        for question, value, error in zip(asked, joint.values, joint.standard_errors, strict=True):
            alone = log.answer(*question, count=count)
            assert (value, error) == pytest.approx((alone.value, alone.standard_error))
        for question, answer in zip(asked, joint.answers, strict=True):
            alone = log.answer(*question, count=count)
            assert answer.interval == pytest.approx(alone.interval)
            assert (answer.people, answer.through) == (alone.people, alone.through)


def test_answers_of_different_streams_are_independent():
    joint = log_of(1).answers(QUESTIONS, count=True)
    poor = np.array([name != "ill" for name, _, _ in QUESTIONS])
    assert (joint.covariance[np.ix_(poor, ~poor)] == 0).all()
    assert (joint.covariance[np.ix_(poor, poor)] != 0).any(axis=1).all()
    assert np.abs(np.triu(joint.covariance[np.ix_(poor, poor)], 1)).max() > 0.1
    one, other = np.flatnonzero(poor)[0], np.flatnonzero(~poor)[0]
    assert joint.difference(one, other).standard_error == pytest.approx(
        np.hypot(*joint.standard_errors[[one, other]])
    )


def test_a_question_without_a_period_is_of_the_last():
    log = log_of(1)
    (default,) = log.answers([("pairs", "poor=1", None)]).values
    assert default == log.answer("pairs", "poor=1", LABELS[-1]).value
    with pytest.raises(UserError, match="ask for one answer at least"):
        log.answers([])


def test_combined_answers_are_changes():
    joint = log_of(2).answers(QUESTIONS, count=True)
    weights = np.zeros((1, len(QUESTIONS)))
    weights[0, [2, 0]] = 1, -1
    change, alone = joint.combined(weights), joint.difference(2, 0)
    assert change.values == pytest.approx([alone.value])
    assert change.standard_errors == pytest.approx([alone.standard_error])
    assert change.answers[0].interval == pytest.approx(alone.interval)
    assert (alone.period, alone.minus.period) == (LABELS[3], LABELS[1])
    assert "-1 (pairs, pattern 1 at 2021-02)" in change.answers[0].query


# Ratios and bands, from drawn errors of a given covariance.


REACH = 4 * (0.95 * 0.05 / DRAWS) ** 0.5  # of a share of DRAWS that is 0.95 but for chance


@pytest.mark.parametrize("together", [-8.0, 0.0, 8.0])
def test_the_interval_of_a_ratio_covers_as_often_as_it_says(together):
    """Below the line stands an answer seven standard errors above 0."""
    true, stated = np.array([30.0, 20.0]), np.array([[25.0, together], [together, 9.0]])
    errors = np.random.default_rng(3).standard_normal((DRAWS, 2)) @ np.linalg.cholesky(stated).T

    def share(scale):
        above, below = (true + scale * errors).T
        variances = (np.full(DRAWS, variance) for variance in stated.diagonal())
        above_variance, below_variance = variances
        shared = np.full(DRAWS, together)
        ratios = Ratios(above, above_variance, below, below_variance, shared)
        _, _, low, high = ratios.intervals()
        return ((low <= 1.5) & (high >= 1.5)).mean()

    assert abs(share(1.0) - 0.95) <= REACH
    assert share(1 + SCALE) < 0.95 - REACH
    assert share(1 - SCALE) > 0.95 + REACH


def test_a_ratio_by_hand():
    joint = joint_of(np.array([30.0, 20.0]), np.array([[4.0, 1.0], [1.0, 2.0]]))
    ratio = joint.ratio(0, 1)
    low, high = ratio.interval
    assert (ratio.value, ratio.measure) == (1.5, "ratio")
    assert ratio.standard_error == pytest.approx((4 - 2 * 1.5 + 1.5**2 * 2) ** 0.5 / 20)
    z = norm.ppf(0.975)
    for end in (low, high):  # Fieller: there the difference is z of its standard errors
        assert abs(30 - end * 20) == pytest.approx(z * (4 - 2 * end + end**2 * 2) ** 0.5)
    same = joint_of(np.array([30.0, 30.0]), np.full((2, 2), 4.0)).ratio(0, 1)
    assert (same.value, same.standard_error) == pytest.approx((1, 0))
    assert same.interval == pytest.approx((1, 1))
    with pytest.raises(UserError, match="not clearly above 0"):
        joint_of(np.array([30.0, 2.0]), np.eye(2) * 4).ratio(0, 1)


def correlated(n, rho):
    return np.full((n, n), rho) + (1 - rho) * np.eye(n)


COVARIANCES = {
    "nearly one": correlated(12, 0.98),
    "some": correlated(12, 0.5),
    "none": np.diag(np.arange(1.0, 13.0)),
    "walk": np.minimum.outer(np.arange(1.0, 31), np.arange(1.0, 31)),
    "certain ones": np.diag([0.0, 1.0, 4.0, 0.0]),
}


@pytest.mark.parametrize("name", COVARIANCES)
def test_a_band_covers_all_answers_at_once_as_often_as_it_says(name):
    stated = COVARIANCES[name]
    values, vectors = np.linalg.eigh(stated)
    root = vectors * np.sqrt(np.maximum(values, 0))
    errors = np.random.default_rng(11).standard_normal((DRAWS, len(stated))) @ root.T
    low, high = joint_of(np.zeros(len(stated)), stated).band()

    def share(scale):
        off = scale * errors
        return ((low - 1e-9 <= off) & (off <= high + 1e-9)).all(axis=1).mean()

    # The quantile is chosen rather too large than too small, by this much at most.
    slack = 8 * (0.95 * 0.05 / 50_000) ** 0.5
    assert 0.95 - REACH <= share(1.0) <= 0.95 + REACH + slack
    assert share(1 + SCALE) < 0.95 - REACH
    assert share(1 - SCALE) > share(1.0)


def test_bands_lie_between_one_interval_and_sidaks_bound():
    for n in (1, 2, 40):
        sidak = norm.ppf((1 + 0.95 ** (1 / n)) / 2)
        for rho in (0.0, 0.7, 1.0):
            quantile = simultaneous_quantiles(correlated(n, rho), [0.95])[0]
            assert norm.ppf(0.975) - 1e-9 <= quantile <= sidak + 1e-12
            assert quantile == simultaneous_quantiles(correlated(n, rho), [0.95])[0]
    # Errors that are one and the same need no more than one interval, but for the draws' chance.
    assert simultaneous_quantiles(correlated(40, 1.0), [0.95])[0] < 2.02
    assert simultaneous_quantiles(np.zeros((3, 3)), [0.95])[0] == 0.0
    with pytest.raises(UserError, match="between 0 and 1"):
        simultaneous_quantiles(np.eye(2), [1.0])[0]
