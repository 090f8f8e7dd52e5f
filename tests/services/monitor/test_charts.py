"""Charts: where marks stand, and what stands beside them."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import pairwise
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dp.client import LEVEL, Answer
from stream_dp.figures.marks import (
    Box,
    Chart,
    Dot,
    Path,
    Text,
    number_axis,
    number_text,
    period_ticks,
)
from stream_dp.release.answer import ReleaseQuery
from stream_dp.services.monitor import charts
from stream_dp.services.monitor.answers_for_people import LEVELS, for_people, pointwise
from stream_dp.services.monitor.charts import Line, Look, Point
from stream_dp.services.monitor.render import render

FINITE = st.floats(-1e12, 1e12, allow_nan=False)


def answer(value: float, reach: float, panel: float) -> Answer:
    return Answer(
        release="r",
        query="q",
        period="p",
        measure="count",
        people="declared",
        value=value,
        standard_error=reach / 1.96,
        interval=(value - reach, value + reach),
        level=LEVEL,
        synthetic=panel,
        unit="people",
        padding=0.0,
        method="m",
        sources=("r",),
        through="p",
    )


def line(values: list[tuple[float, float, float]]) -> Line:
    answers = [answer(*value) for value in values]
    points = (Point(i, f"p{i}", a, fan=pointwise(a)) for i, a in enumerate(answers))
    return Line("title", tuple(points))


@given(FINITE, FINITE)
def test_an_axis_has_all_numbers_between_round_ticks(low: float, high: float) -> None:
    low, high = sorted((low, high))
    axis = number_axis(low, high)
    room = 1e-6 * (axis.high - axis.low)
    assert axis.low <= low + room
    assert axis.high >= high - room
    assert list(axis.ticks) == sorted(set(axis.ticks))
    assert 2 <= len(axis.ticks) <= 15
    assert all(number_text(tick, axis.ticks) for tick in axis.ticks)


FORMS = ["{}", "2021-{:03}", "w {}", "2021-01-{:02}T00Z"]


@given(st.integers(1, 400), st.floats(120, 1000), st.sampled_from(FORMS))
def test_names_of_periods_never_overlap(count: int, width: float, form: str) -> None:
    """The last one may end with its period, so that it stays inside of the chart."""
    labels = [form.format(i) for i in range(count)]
    ticks, period = period_ticks(labels, width), width / count
    assert ticks
    for (a, first), (b, second) in pairwise(ticks):
        ends_early = b == count - 1 and period < 40
        moved = max(0.0, 6.4 * len(second) - period) / 2 if ends_early else 0.0
        assert (b - a) * period - moved >= 6.4 * (len(first) + len(second)) / 2


def marks(chart: Chart, kind: type) -> list[Path | Dot | Box | Text]:
    return [mark for mark in chart.marks if isinstance(mark, kind)]


@pytest.mark.parametrize("count", [1, 4, 12, 60, 400])
@pytest.mark.parametrize("size", [(360.0, 236.0), (780.0, 410.0)])
def test_every_answer_is_inside_the_chart_at_its_height(
    count: int, size: tuple[float, float]
) -> None:
    values = [(100 + 10 * math.sin(i), 3.0 + i % 2, 100.0 + i % 7) for i in range(count)]
    look = Look("people", ends=True)
    chart = charts.curves([line(values)], [f"p{i}" for i in range(count)], look, size)
    dots = [mark for mark in chart.marks if isinstance(mark, Dot)]
    assert len(dots) == count
    assert all(0 < dot.x < size[0] and 0 < dot.y < size[1] for dot in dots)
    heights = [(value, dot.y) for (value, _, _), dot in zip(values, dots, strict=True)]
    assert all(y <= z + 0.11 for (a, y) in heights for (b, z) in heights if a >= b)
    for (value, reach, _), dot in zip(values, dots, strict=True):
        assert f"{value:,.0f}, 95% interval {value - reach:,.0f}" in dot.title
    assert chart == charts.curves([line(values)], [f"p{i}" for i in range(count)], look, size)


@pytest.mark.parametrize("count", [1, 12, 60])
def test_a_fan_has_nested_intervals_around_the_line(count: int) -> None:
    values = [(100.0, 10.0, 100.0)] * count
    look = Look("people", limits=(80.0, 120.0))
    chart = charts.curves([line(values)], [str(i) for i in range(count)], look, (360.0, 236.0))
    (estimate,) = {mark.y for mark in chart.marks if isinstance(mark, Dot)}
    kind = "bar" if count == 1 else "band"
    widths = []
    for level in LEVELS:
        (fan,) = [m.d for m in marks(chart, Path) if m.style == f"{kind}-{100 * level:.0f}"]
        ys = [float(y) for y in re.findall(r"[ V](\d+\.?\d*)", fan)]
        assert min(ys) < estimate < max(ys)
        assert min(ys) + max(ys) == pytest.approx(2 * estimate, abs=0.3)
        widths.append(max(ys) - min(ys))
    for level, width in zip(LEVELS, widths, strict=True):
        quantile = NormalDist().inv_cdf((1 + level) / 2)
        assert width / widths[-1] == pytest.approx(quantile / 1.96, abs=0.01)
    assert [m.style for m in marks(chart, Path)].count("estimate-line") == (count > 1)


@pytest.mark.parametrize("size", [(340.0, 236.0), (560.0, 180.0)])
def test_names_at_the_ends_of_lines_do_not_overlap(size: tuple[float, float]) -> None:
    lines = [replace(line([(v, 1.0, v)]), title=f"at least {v:.0f} months") for v in (100.0, 101.0)]
    chart = charts.curves(lines, ["p"], Look("people", ends=True), size)
    heights = sorted(m.y for m in chart.marks if isinstance(m, Text) and m.style == "value")
    assert len(heights) >= 4
    assert all(b - a >= 12.9 for a, b in pairwise(heights))


def test_what_cannot_be_is_cut_off_for_people_alone() -> None:
    low = answer(-0.0071, 0.0065, 0.0)
    share = replace(low, measure="share")
    shown = Line("t", (Point(0, "p", share, fan=pointwise(share)),)).for_people(100).points[0]
    assert (shown.answer.value, shown.answer.interval) == (0.0, (0.0, pytest.approx(0.0065)))
    assert shown.fan[:2] == ((0.0, 0.0), (0.0, 0.0))
    assert shown.fan[2] == (0.0, pytest.approx(0.0065))
    wider = replace(share, interval=(-0.0271, 0.0129))
    assert for_people(wider).interval == (0.0, 0.0129)
    assert share.value == -0.0071
    change = replace(share, minus=ReleaseQuery("r", "q"))
    assert for_people(change, 100).value == -0.0071
    count = replace(low, value=99.0, interval=(95.0, 103.0))
    assert for_people(count, 100).interval == (95.0, 100.0)
    assert for_people(count, None).interval == (95.0, 103.0)
    assert for_people(replace(count, measure="skewness", value=-2.0)).value == -2.0


def test_every_chart_is_escaped_and_has_words() -> None:
    hostile = Line('<script>"&', (Point(0, "<b>", answer(1.0, 1.0, 1.0)),))
    chart = charts.curves([hostile], ["<b>"], Look("<i>", ends=True), (340.0, 200.0))
    text = render("offline.html", style="")
    assert "<script" not in text
    text = chart.__html__()
    assert "<script" not in text
    assert "<b>" not in text
    assert 'role="img" aria-label="&lt;script&gt;' in text


@pytest.mark.parametrize("count", [1, 12, 60])
def test_a_budget_of_any_length_stays_below_its_line(count: int) -> None:
    labels = [str(i) for i in range(1, count + 1)]
    spent = {"a": [0.5 / count] * count, "b": [0.5 / count] * count}
    chart = charts.budget(
        spent, ["1.0"] * count, labels=labels, total=1.0, total_text="all", size=(780, 300)
    )
    lines = [m.d for m in chart.marks if isinstance(m, Path) and m.style == "truth"]
    limit = min(float(d.split()[1].split("H")[0]) for d in lines)
    boxes = [m for m in chart.marks if isinstance(m, Box) and m.height != 10]
    assert min(box.y for box in boxes) == pytest.approx(limit, abs=0.2)
    shown = [m for m in chart.marks if isinstance(m, Text) and m.text == "eps 1.0"]
    assert max(m.x for m in shown) > (700 if count > 1 else 400)  # the last bar has its epsilon
