"""Analysts' answers: exact where there is no noise, unbiased with right errors where there is."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.employment import (
    EXACT,
    HORIZON,
    LABELS,
    PEOPLE,
    TRUTH,
    WORDS,
    employment_study,
    holds,
    public_log,
)
from kit.public_logs import Silent

from stream_dp.errors import UserError
from stream_dp.privacy.noise import SeededNoise

# Without noise every answer is the truth.


@st.composite
def window_queries(draw):
    width = draw(st.integers(1, 2))
    form = draw(st.sampled_from(["pattern", "at-least", "consecutive"]))
    if form == "pattern":
        words = [draw(st.sampled_from(["?", "part|full", *WORDS])) for _ in range(width)]
        return f"pattern {' '.join(words)}"
    need = draw(st.integers(1, width))
    value = draw(st.sampled_from(["part", "full", "part|full"]))
    return f"{form} {need} of last {width} work={value}"


@pytest.mark.parametrize("neighbours", EXACT)
@settings(max_examples=15)
@given(text=window_queries(), t=st.integers(2, HORIZON))
def test_windows_without_noise(neighbours, text, t):
    estimate = EXACT[neighbours].answer("pairs", text, LABELS[t - 1])
    assert estimate.value == pytest.approx(holds(text, t).mean())
    counted = EXACT[neighbours].answer("pairs", text, LABELS[t - 1], count=True)
    assert counted.value == pytest.approx(holds(text, t).sum(), abs=1e-6)
    assert (estimate.period, estimate.measure, counted.measure) == (LABELS[t - 1], "share", "count")


@pytest.mark.parametrize("name", ["full-time", "declared"])
@pytest.mark.parametrize("t", range(1, HORIZON + 1))
@pytest.mark.parametrize("b", range(1, HORIZON + 1))
def test_totals_without_noise(name, t, b):
    expected = int(((TRUTH[:, :t] == 2).sum(axis=1) >= b).sum())
    for neighbours, source in EXACT.items():
        if neighbours == "replace_one" and name == "declared":
            continue
        estimate = source.answer(name, f"total at-least {b}", LABELS[t - 1], count=True)
        assert estimate.value == pytest.approx(expected, abs=1e-6)
        # Without noise the panel is the truth itself.
        assert estimate.synthetic == pytest.approx(expected)
        if name == "full-time":
            share = source.answer(name, f"total at-least {b}", LABELS[t - 1])
            assert share.value == pytest.approx(expected / PEOPLE)
            assert share.synthetic == pytest.approx(expected / PEOPLE)
        assert (estimate.standard_error == 0) == (b > t)


def test_the_last_period_is_the_default():
    for source in EXACT.values():
        for name, query in (("pairs", "pattern full full"), ("full-time", "total at-least 2")):
            assert source.answer(name, query) == source.answer(name, query, LABELS[-1])


def test_a_share_of_a_declared_number_of_rows_is_refused():
    study = employment_study("add_remove")
    alone = study.model_copy(update={"releases": study.releases[2:]})
    with pytest.raises(UserError, match="private and not measured; ask for a count"):
        public_log(alone, Silent()).answer("declared", "total at-least 1")
    # Another release of the stream knows how many they are.
    share = EXACT["add_remove"].answer("declared", "total at-least 1", LABELS[0])
    assert share.people == "who have entered by 2021-Q1"
    assert share.value == pytest.approx((TRUTH[:, 0] == 2).mean())


def test_an_estimate_for_machines():
    fields = EXACT["replace_one"].answer("pairs", " pattern full ? ", "2021-Q3").as_dict()
    low, high = fields.pop("interval")
    error, value = fields["standard_error"], fields["value"]
    assert (low, high) == pytest.approx((value - 1.959964 * error, value + 1.959964 * error))
    assert fields["level"] == 0.95
    assert fields["query"] == "pattern full ?"
    assert fields["release"] == "pairs"


# With noise.


QUERIES = [
    ("pairs", "pattern full full"),
    ("pairs", "pattern ? part"),
    ("pairs", "at-least 1 of last 2 work=full"),
    ("pairs", 'pattern "not at all|part|full" ?'),
    ("full-time", "total at-least 1"),
    ("full-time", "total at-least 2"),
]
REPETITIONS = 80


def true_answer(name, text, t):
    if name == "pairs":
        return float(holds(text, t).sum())
    least = int(text.rsplit(" ", 1)[1])
    return float(((TRUTH[:, :t] == 2).sum(axis=1) >= least).sum())


@pytest.fixture(scope="module", params=["replace_one", "add_remove"])
def repeated(request):
    """Estimates of REPETITIONS runs, by release, query, period number and whether it is a count.

    Rows are (error, standard error, whether the interval covers the truth). Answers are asked for
    together; `answers/test_joint.py` shows that they are those that are given one by one. Beside
    them are each run's squared errors of all counts, whitened by their covariance: (runs, rank).
    """
    study, source = employment_study(request.param, rho="1/8"), SeededNoise(20)
    study = study.model_copy(update={"releases": study.releases[:2]})  # those that are asked
    asked = [(name, text, t) for (name, text), t in itertools.product(QUERIES, (2, HORIZON))]
    queries = [(name, text, LABELS[t - 1]) for name, text, t in asked]
    truths = [true_answer(*one) for one in asked]
    samples, squares = {}, []
    for _ in range(REPETITIONS):
        public = public_log(study, source)
        for count in (False, True):
            joint = public.answers(queries, count=count)
            if count:
                squares.append(whitened(joint.values - truths, joint.covariance) ** 2)
            for one, truth, estimate in zip(asked, truths, joint.answers, strict=True):
                low, high = estimate.interval
                right = truth if count else truth / PEOPLE
                row = estimate.value - right, estimate.standard_error, low <= right <= high
                samples.setdefault((*one, count), []).append(row)
    samples = {key: np.array(rows, float) for key, rows in samples.items()}
    return request.param, samples, np.array(squares)


def whitened(errors, covariance):
    """Errors along the axes of their covariance, each over its standard deviation."""
    variances, axes = np.linalg.eigh(covariance)
    certain = variances < 1e-9 * variances.max()
    return (errors @ axes)[~certain] / variances[~certain] ** 0.5


def test_estimates_are_unbiased(repeated):
    relation, samples, _ = repeated
    for key, rows in samples.items():
        errors = rows[:, 0]
        # A ratio is biased to second order: by its relative spread squared.
        slack = 0.0 if key[3] or relation == "replace_one" else 2 * errors.var()
        assert abs(errors.mean()) <= 4 * errors.std() / REPETITIONS**0.5 + slack + 1e-12, key


def test_standard_errors_are_right(repeated):
    for key, rows in repeated[1].items():
        errors, stated = rows[:, 0], rows[:, 1]
        if stated.max() < 1e-9:
            assert np.abs(errors).max() < 1e-9, key
            continue
        ratio = (errors**2).mean() / (stated**2).mean()
        assert abs(ratio - 1) <= 4.5 * (2 / REPETITIONS) ** 0.5, key


def test_errors_of_counts_have_the_stated_covariance(repeated):
    """A scale 15 % off, either way, is noticed."""
    squares = repeated[2]
    reach = 4.5 * (2 / squares.size) ** 0.5
    for scale, right in ((0.85, False), (1, True), (1.15, False)):
        assert bool(abs(scale**2 * squares.mean() - 1) <= reach) is right


def test_intervals_cover_the_truth_as_often_as_they_say(repeated):
    covered = []
    for key, rows in repeated[1].items():
        if rows[:, 1].max() < 1e-9:
            assert (np.abs(rows[:, 0]) < 1e-9).all(), key
        else:
            covered.append(rows[:, 2])
    together = np.mean(covered, axis=0)
    alone = [(rows, (0.95 * 0.05) ** 0.5) for rows in covered]
    for rows, deviation in (*alone, (together, together.std())):
        # Noise is an integer, so an interval covers a little more than its level.
        reach = 4 * deviation / REPETITIONS**0.5
        assert 0.95 - reach <= rows.mean() <= 0.95 + reach + 0.01


def test_the_share_of_everybody_is_certain_where_their_number_is_its_own_measurement(repeated):
    relation, samples, _ = repeated
    for t in (2, HORIZON):
        rows = samples["pairs", QUERIES[3][1], t, False]
        if relation == "add_remove":
            assert np.abs(rows[:, :2]).max() < 1e-9
        else:
            assert (rows[:, :2] == 0).all()


def test_errors_of_shares_follow_from_those_of_counts():
    study = employment_study("add_remove", rho="1/8")
    asked = public_log(study, SeededNoise(3))
    table = asked.release_at("full-time", LABELS[0]).measurements
    n, n_error = table["value"][-1].as_py(), table["standard_error"][-1].as_py()
    assert table["query"][-1].as_py() == "people"
    query = "total at-least 1"
    count = asked.answer("full-time", query, LABELS[0], count=True)
    share = asked.answer("full-time", query, LABELS[0])
    assert share.value == pytest.approx(count.value / n)
    expected = math.hypot(count.standard_error, share.value * n_error) / n
    assert share.standard_error == pytest.approx(expected)
    # Later entrants are not among the people of the first period. Windows count them.
    later = asked.answer("full-time", "total at-least 2", LABELS[3])
    assert later.people == "counted at 2021-Q4"
    everybody = f"pattern {'|'.join(WORDS)}"
    counts = [("full-time", "total at-least 2", None), ("pairs", everybody, None)]
    ratio = asked.answers(counts, count=True).ratio(0, 1)
    assert (later.value, later.standard_error) == pytest.approx((ratio.value, ratio.standard_error))


def test_a_share_without_anybody_is_refused():
    study = employment_study("add_remove", rho="1/1000")
    asked = public_log(study, SeededNoise(2), truth=TRUTH[:0])
    noisy = asked.release_at("full-time", LABELS[0]).measurements["value"][-1].as_py()
    source = asked if noisy <= 0 else public_log(study, SeededNoise(1), truth=TRUTH[:0])
    with pytest.raises(UserError, match="not clearly positive; ask for a count"):
        source.answer("full-time", "total at-least 1", LABELS[0])
