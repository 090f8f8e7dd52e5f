"""What a small group can learn: the errors of `estimate`, as parts of groups of people."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest
from kit import strata
from kit.kinds_of_releases import published, study_of
from kit.studies import small_study, window

from stream_dp.answers.query import telling_queries
from stream_dp.client import PublicLog
from stream_dp.figures.marks import Box, Text
from stream_dp.planning.expected_errors import (
    GROUP_SIZES,
    USABLE,
    GroupError,
    group_lines,
    group_table,
)
from stream_dp.planning.plan import plan_study
from stream_dp.planning.study_summary import planned_group_errors, summary
from stream_dp.services.monitor.group_chart import group_figure, published_group_errors
from stream_dp.study.families import PANEL_FAMILIES, Family, Kind
from stream_dp.studyfile import parse_study

ROW = GroupError("r", "", "pattern 1", "person", half_width=30.0)


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_states_the_error_of_its_answers(kind: Kind) -> None:
    """Panels to the last digit. A table's values, which it may measure again, have at most it."""
    study = parse_study(study_of(kind))
    rows, log = planned_group_errors(study), PublicLog(published(kind))
    with warnings.catch_warnings(action="ignore"):
        public = published_group_errors(log)
    if kind.family is Family.SIZES:  # it counts places, not people
        assert rows == public == ()
        return
    (row,), (seen,) = rows, public
    is_panel = kind.family in PANEL_FAMILIES
    query = telling_queries(study, study.release("answers"))[0] if is_panel else "people: work=yes"
    if kind.family is Family.PEOPLE:
        query = "work=yes"
    with warnings.catch_warnings(action="ignore"):
        low, high = log.answer("answers", query, count=True, unbiased=True).interval or (0.0, 0.0)
    if is_panel:
        assert row.half_width == pytest.approx((high - low) / 2)
        assert seen == row
    else:
        assert 0 < (high - low) / 2 <= row.half_width * (1 + 1e-9)
        assert 0 < seen.half_width <= row.half_width * (1 + 1e-9)
    assert (row.release, row.most, row.sizes) == ("answers", 60, (10,))


def test_a_relative_error_is_a_part_of_the_group() -> None:
    assert ROW.least == 100
    assert [ROW.usable(n) for n in (99, 100)] == [False, True]
    assert [ROW.relative(n) for n in GROUP_SIZES] == [3.0, 0.3, 0.03, 0.003]
    assert ROW.words(10) == "a group of 10 persons: ± 300 %: not usable"
    assert ROW.words(1000) == "a group of 1,000 persons: ± 3 %: usable"
    few = replace(ROW, most=99)
    assert (few.sizes, few.least) == ((10,), None)
    assert "no size" in group_lines([few])[1]
    data = few.as_dict()
    assert data["usable_from"] is None
    assert [group["size"] for group in data["groups"]] == [10]
    assert all(row["usable"] == (row["relative_half_width"] <= USABLE) for row in data["groups"])


def test_every_stratum_stands_by_itself() -> None:
    """Strata of one declaration have one error; it is computed for each shape of a release."""
    study = strata.make()
    rows = {row.release: row for row in planned_group_errors(study)}
    assert [*rows] == [release.name for release in study.releases]
    for release in study.releases:
        words = " = ".join(map(str, next(iter((release.where or {}).items()), ())))
        assert rows[release.name].stratum == words
    by_shape: dict[tuple[object, ...], set[float]] = {}
    for release in study.releases:
        if release.where is not None and release.first is None and release.last is None:
            shape = (release.kind, release.attribute, release.history, release.rho)
            by_shape.setdefault(shape, set()).add(rows[release.name].half_width)
    assert by_shape
    assert all(len(widths) == 1 for widths in by_shape.values())


def test_the_plan_says_it_in_words_and_for_machines() -> None:
    study = small_study(rho=2, releases=[window("r", "poverty", width=1, rho=1)])
    short = summary(plan_study(study))
    (row,) = short.groups
    assert f"r: {row.least:,} {row.unit}s" in short.text()
    text = short.text(long=True)
    assert "what a small group can learn, by its number of" in text
    assert f"± {100 * USABLE:.0f} %" in text
    assert all(line in text for line in group_lines([row]))
    assert short.as_dict()["group_errors"] == group_table(study, [row])


def test_the_figure_fills_what_is_usable() -> None:
    study = small_study(rho=2, releases=[window("r", "poverty", width=1, rho=1)])
    rows = [replace(ROW, release=f"r{i}", half_width=3.0 * 10**i) for i in range(14)]
    figure = group_figure(group_table(study, rows))
    assert figure is not None
    for chart in figure.charts:
        boxes = [mark for mark in chart.marks if isinstance(mark, Box)]
        texts = [mark.text for mark in chart.marks if isinstance(mark, Text)]
        filled = [box.style == "usable" for box in boxes[: 2 * len(GROUP_SIZES)]]
        assert filled == [True, True, True, True, False, True, True, True]
        assert len(boxes) == 12 * len(GROUP_SIZES)
        assert all(box.x >= 0 and box.x + box.width <= chart.width + 0.2 for box in boxes)
        assert all(box.y + box.height <= chart.height for box in boxes)
        assert "± 300 %" in texts
    assert len(figure.numbers[0].rows) == len(rows)
    assert group_figure(group_table(study, [])) is None
