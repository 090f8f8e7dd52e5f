"""A point of a curve is the answer that `estimate` gives for its period, to the last digit."""

from __future__ import annotations

import numpy as np
import pytest
from kit.kinds_of_releases import published as published_kind
from kit.public_logs import log_in_memory, published, with_weights
from kit.studies import attribute, cumulative, joint, small_study, window

from stream_dp.client import PublicLog
from stream_dp.errors import UserError
from stream_dp.log.message import Message
from stream_dp.privacy.noise import SeededNoise
from stream_dp.services.monitor.default_questions import Question
from stream_dp.services.monitor.release_figures import line_of
from stream_dp.study.families import PANEL_FAMILIES, Kind

PERIODS = 34  # more than are computed together


def answer_of(public: PublicLog, name: str, query: str, period: str, *, count: bool) -> str:
    """An answer, or why there is none."""
    try:
        return repr(public.answer(name, query, period, count=count))
    except UserError as error:
        return str(error)


def assert_points_are_answers(public: PublicLog, name: str, query: str, *, count: bool) -> None:
    """Checks the points of a curve against answers that are computed without the curve."""
    periods = public.periods_with(name)
    curve = [answer_of(public, name, query, period, count=count) for period in periods]
    if public.study.declared(name).family in PANEL_FAMILIES:
        points = line_of(public, name, Question(query, query, count=count), together=False).points
        assert points
        for point in points:
            assert repr(point.answer) == curve[periods.index(point.answer.period)]
    for period, answer in [*zip(periods, curve, strict=True)][:: max(1, len(periods) // 8)]:
        vars(public._answering(name)).get("_curves", {}).clear()  # as `estimate` begins
        assert answer_of(public, name, query, period, count=count) == answer


@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.value)
def test_a_point_is_the_answer_of_its_period_for_every_kind(kind: Kind) -> None:
    public = PublicLog(published_kind(kind))
    for query in public.queries("answers"):
        for count in (False, True):
            assert_points_are_answers(public, "answers", query, count=count)


PANELS = {
    "windows": (window("x", "work", width=3, rho="1/2"), "absent"),
    "totals": (cumulative("x", "work", [1], rho="1/2"), 0),
    "joint": (joint("x", "work", 2, [1], rho="1/2"), 0),
}


def long_panel(kind: str, periods: int) -> list[Message]:
    """The public messages of a long panel."""
    release, missing = PANELS[kind]
    study = small_study(
        periods={"first": "2021-01", "every": "month", "count": periods},
        size=100,
        attributes={"work": attribute([0, 1], missing=missing)},
        releases=[release],
    )
    symbols = np.random.default_rng(1).integers(0, 2 + (missing == "absent"), (100, periods))
    return published(study, {"work": symbols.astype(np.uint8)}, SeededNoise(2))


@pytest.mark.parametrize("count", [False, True])
@pytest.mark.parametrize("kind", PANELS)
def test_a_point_of_a_long_panel_is_the_answer_of_its_period(kind: str, count: bool) -> None:
    public = PublicLog(log_in_memory(long_panel(kind, PERIODS)), count_panels=True)
    assert_points_are_answers(public, "x", public.queries("x")[1], count=count)


def test_a_point_of_least_error_is_the_answer_of_its_period() -> None:
    messages = with_weights(long_panel("windows", 5))
    public = PublicLog(log_in_memory(messages), count_panels=True)
    assert public.answer("x", "pattern 1").unbiased is not None
    assert_points_are_answers(public, "x", "pattern 1", count=False)
