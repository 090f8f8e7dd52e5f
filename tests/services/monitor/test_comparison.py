"""Comparisons: the numbers are the client's, and the verdict says what noise alone would give."""

from __future__ import annotations

import math

import numpy as np
import pytest
from kit.hostile import drafts, sealed, sound
from kit.monitors import ask
from kit.public_logs import Silent, TopicInMemory, log_in_memory, published, with_weights
from kit.public_logs import public as log_of_symbols
from kit.studies import attribute, small_study, window

from stream_dp.client import PublicLog
from stream_dp.errors import UserError
from stream_dp.figures.marks import Dot
from stream_dp.privacy.noise import SeededNoise
from stream_dp.release.answer import LEAST_ERROR, Answer, ReleaseQuery
from stream_dp.services.monitor.answers_for_people import (
    SURE,
    chance_words,
    noise_alone,
    reading,
    verdict,
)
from stream_dp.services.monitor.comparison import compared, comparison_chart, difference_chart
from stream_dp.services.monitor.default_questions import questions
from stream_dp.services.monitor.public_api import EstimateAnswer
from stream_dp.services.monitor.public_pages import public_pages
from stream_dp.services.monitor.public_state import read_state


@pytest.fixture(scope="module")
def public() -> PublicLog:
    return PublicLog(TopicInMemory(sealed(drafts(sound()))))


PAIRS = {
    "two periods": (("pairs", "pattern full", "2021-04"), ("pairs", "pattern full", "2021-02")),
    "two groups": (("pairs", "pattern full", None), ("pairs", "pattern no", None)),
    "two releases": (("pairs", "pattern full", None), ("both", "pattern full", None)),
}


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("count", [False, True])
def test_the_numbers_are_the_clients(public: PublicLog, pair: str, count: bool) -> None:
    first, second = (ReleaseQuery(*query) for query in PAIRS[pair])
    shown = compared(public, first, second, count=count)
    joint = public.answers([first, second], count=count)
    assert shown.difference == joint.difference(0, 1)
    assert shown.answers == joint.answers
    stated = shown.as_dict()
    variance = np.array([1, -1]) @ joint.covariance @ np.array([1, -1])
    assert stated["difference"]["standard_error"] == pytest.approx(math.sqrt(variance))
    assert len(shown.readings) == 2
    for chart in (comparison_chart(shown, 12, 340.0), difference_chart(shown, 12, 340.0)):
        dots = [mark for mark in chart.marks if isinstance(mark, Dot)]
        assert all(0 <= dot.x <= 340 and 0 <= dot.y <= chart.height for dot in dots)
        assert chart.description == shown.verdict


def test_titles_name_what_differs(public: PublicLog) -> None:
    periods = compared(
        public,
        ReleaseQuery("pairs", "pattern full", "2021-04"),
        ReleaseQuery("pairs", "pattern full", "2021-02"),
        count=None,
    )
    assert periods.titles == ("Apr 2021", "Feb 2021")
    assert periods.common == "Work: full in the month, pairs"
    releases = compared(
        public,
        ReleaseQuery("pairs", "pattern full"),
        ReleaseQuery("both", "pattern full"),
        count=None,
    )
    assert releases.titles == ("pairs", "both")


def test_an_answer_is_not_compared_with_itself(public: PublicLog) -> None:
    with pytest.raises(UserError, match="both answers are the same"):
        compared(
            public,
            ReleaseQuery("pairs", "pattern no"),
            ReleaseQuery("pairs", "pattern no"),
            count=None,
        )


def change(value: float, error: float | None, measure: str = "share") -> Answer:
    interval = None if error is None else (value - 1.96 * error, value + 1.96 * error)
    return Answer(
        release="r",
        query="q",
        period="2021-06",
        measure=measure,
        unit="households",
        value=value,
        standard_error=error,
        interval=interval,
        method="m",
        reason="" if error is not None else "nothing was measured",
        minus=ReleaseQuery("r", "q", "2021-01"),
    )


def test_verdicts() -> None:
    assert verdict(change(0.013, 0.0056), over_time=True) == (
        "It rose by 1.30 percentage points (95% interval 0.20 to 2.40 percentage points);"
        " noise alone would give a change this large in 2 of 100 releases."
    )
    assert verdict(change(-0.002, 0.004), over_time=True) == (
        "No change can be told from the noise: the estimate fell by 0.20 percentage points"
        " (95% interval −0.98 to 0.58 percentage points), and noise alone would give a change this"
        " large in 62 of 100 releases."
    )
    assert verdict(change(900.0, 10.0, "count"), over_time=False).startswith(
        "It is higher by 900 households (95% interval 880 to 920 households);"
        " noise alone would give a difference this large in fewer than 1 of 1,000 releases."
    )
    assert "not known: nothing was measured" in verdict(change(0.1, None), over_time=True)


def test_the_chance_of_noise_alone_is_that_of_simulated_noise() -> None:
    draws = np.abs(np.random.default_rng(1).normal(0, 0.01, 400_000))
    for value in (0.001, 0.01, 0.0196):
        chance = noise_alone(change(value, 0.01))
        assert chance == pytest.approx((draws >= value).mean(), abs=0.004)
    assert noise_alone(change(0.0, 0.0)) == 1.0
    assert noise_alone(change(0.1, 0.0)) == 0.0
    assert chance_words(0.05) == "in 5 of 100 releases"


def test_a_reading_has_the_estimate_and_the_interval() -> None:
    answer = change(0.1408, 0.005)
    assert reading("Poor in the month", answer) == (
        "Poor in the month, Jun 2021: an estimated 14.08% of households; the 95% interval of"
        " the privacy noise is 13.10% to 15.06%."
    )
    assert "No error of it is known" in reading("Poor", change(0.1, None))


def test_attrition_is_told_as_a_change_of_the_response_and_not_of_the_share() -> None:
    people, absent = 400, 2
    symbols = np.repeat((np.arange(people) < 100).astype(np.uint8)[:, None], 4, axis=1)
    symbols[::4, 2:] = absent  # a quarter of both states leaves
    study = small_study(
        size=people,
        rho="1/2",
        periods={"first": "2021-01", "every": "month", "count": 4},
        attributes={"work": attribute([0, 1], missing="absent")},
        releases=[window("work", "work", width=2, rho="1/2")],
    )
    log = log_of_symbols(study, {"work": symbols}, Silent())
    ends = [ReleaseQuery("work", "work=1", period) for period in ("2021-04", "2021-02")]
    shown = compared(log, *ends, count=False)
    assert shown.difference.value == pytest.approx(0)
    assert shown.verdict.startswith("No change can be told from the noise")
    assert shown.verdict.endswith("Beside it the response fell by 25.00 percentage points.")
    assert "25.00% of respondents" in shown.readings[0]
    everybody = [query._replace(query="work=1 among everybody") for query in ends]
    for queries, count, said in (
        (everybody, False, "The share of all persons fell by 6.25 percentage points."),
        (ends, True, "The number fell by 25 persons."),
    ):
        fell = compared(log, *queries, count=count)
        assert fell.verdict.startswith("Among respondents the change does not hold")
        assert said in fell.verdict
        assert fell.verdict.endswith("Beside it the response fell by 25.00 percentage points.")


@pytest.mark.parametrize(("size", "drawn"), [(400, True), (None, False)])
def test_the_response_has_a_question_where_the_number_of_people_is_public(
    size: int | None, drawn: bool
) -> None:
    study = small_study(
        size=size,
        neighbours="add_remove" if size is None else "replace_one",
        attributes={"work": attribute([0, 1], missing="absent")},
        releases=[window("work", "work", width=2, rho="1/2", **({} if size else {"rows": 400}))],
    )
    asked = [question.query for question in questions(study, study.release("work"))]
    assert ("respondents" in asked) == drawn


def test_answers_of_least_error_are_shown_with_the_unbiased_in_the_details() -> None:
    people = 400
    study = small_study(
        size=people,
        rho="1/50",
        periods={"first": "2021-01", "every": "month", "count": 4},
        attributes={"work": attribute([0, 1], missing="absent")},
        releases=[window("work", "work", width=2, rho="1/50")],
    )
    symbols = np.random.default_rng(2).choice(3, (people, 4), p=[0.6, 0.3, 0.1]).astype(np.uint8)
    log = log_in_memory(with_weights(published(study, {"work": symbols}, SeededNoise(3))))
    state = read_state(log)
    ends = [ReleaseQuery("work", "work=1", period) for period in ("2021-04", "2021-01")]
    shown = compared(state.public, *ends, count=False)
    assert [answer.method for answer in shown.answers] == [LEAST_ERROR] * 2
    first, second = (answer.value for answer in shown.answers)
    assert shown.difference.value == pytest.approx(first - second)
    low, high = shown.difference.ends
    assert ((noise_alone(shown.difference) or 0) < SURE) == (not low <= 0 <= high)
    pages = public_pages(state, lambda: log)
    asked = ask(pages, "/release/work?q=work%3D1")
    assert "The unbiased answer" in asked.text
    assert "a single question that was fixed in advance" in asked.text
    assert "of all persons instead" in asked.text
    assert "The response: Answered in the month" in asked.text
    typed = EstimateAnswer.model_validate_json(
        ask(pages, "/api/v1/estimate?release=work&query=work%3D1").body
    )
    assert typed.unbiased is not None
    assert typed.unbiased.value != typed.value
