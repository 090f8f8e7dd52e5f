"""Charts: where marks stand, and what stands beside them."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dp.client import LEVEL, Answer
from stream_dp.services.pages import charts
from stream_dp.services.pages.axes import number_axis, number_text, period_ticks
from stream_dp.services.pages.charts import Line, Look, Point
from stream_dp.services.pages.marks import Box, Chart, Dot, Path, Text
from stream_dp.services.pages.render import render

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
    points = (Point(i, f"p{i}", answer(*value)) for i, value in enumerate(values))
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


@given(st.integers(1, 400), st.floats(120, 1000), st.sampled_from(["{}", "2021-{:03}", "w {}"]))
def test_names_of_periods_never_overlap(count: int, width: float, form: str) -> None:
    labels = [form.format(i) for i in range(count)]
    ticks = period_ticks(labels, width)
    assert ticks
    for (a, first), (b, second) in pairwise(ticks):
        assert (b - a) * width / count >= 5.5 * (len(first) + len(second)) / 2


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


def test_every_chart_is_escaped_and_has_words() -> None:
    hostile = Line('<script>"&', (Point(0, "<b>", answer(1.0, 1.0, 1.0)),))
    chart = charts.curves([hostile], ["<b>"], Look("<i>", ends=True), (340.0, 200.0))
    text = render("offline.html", style="")
    assert "<script" not in text
    text = render("chart.html", chart=chart)
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
