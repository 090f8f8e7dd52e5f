"""The picture of a draft: errors at three budgets, as they are planned for the study."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest
from kit.studies import attribute, cumulative, small_study, window

from stream_dp.planning.expected_errors import expected_errors
from stream_dp.services.desk.draft_picture import fan, queries, telling_query
from stream_dp.study import Study

WORK = {"work": attribute(["yes", "no"], "no"), "sex": attribute(["f", "m"], "f")}
PANELS = [window("pairs", "work", 2, "1/100"), cumulative("often", "work", ["yes"], "1/100")]
TABLE = [
    {"name": "people", "kind": "table", "attributes": ["work", "sex"], "every": 3, "rho": "1/100"}
]


def study(releases: list[dict[str, object]] = PANELS, **more: object) -> Study:
    return small_study(attributes=WORK, releases=releases, rho="2/100", size=500, **more)


def test_the_middle_of_the_fan_is_what_is_planned() -> None:
    for query in queries(declared := study()):
        name, _, text = query.partition(": ")
        rows = expected_errors(declared, name, text)
        drawn = fan(declared, query, 500)
        assert drawn.labels == tuple(row.period for row in rows)
        cheap, middle, dear = drawn.budgets
        assert middle.rho == declared.rho == 4 * cheap.rho == dear.rho / 4
        halves = [1.959964 * (row.share or 0.0) for row in rows]
        assert middle.halves == pytest.approx(halves, rel=1e-6)
        assert cheap.halves == pytest.approx([2 * half for half in halves], rel=1e-6)


def test_four_times_the_budget_is_planned_to_have_half_the_error() -> None:
    query = telling_query(study())
    dear = [{**release, "rho": "4/100"} for release in PANELS]
    planned = fan(small_study(attributes=WORK, releases=dear, rho="8/100", size=500), query, 500)
    assert fan(study(), query, 500).budgets[2].halves == pytest.approx(
        planned.budgets[1].halves, rel=0.02
    )


def test_a_band_around_a_lone_period_is_a_box() -> None:
    chart = str(fan(study(TABLE), telling_query(study(TABLE)), 500).chart(420).__html__())
    for outline in re.findall(r'class="band-\d+" d="M([^"]*)Z"', chart):
        corners = [tuple(map(float, corner.split())) for corner in outline.split("L")]
        (a, b, c, d) = corners
        assert a[1] == b[1] < c[1] == d[1]
        assert a[0] == d[0] < b[0] == c[0]


def test_the_words_are_a_guess_in_cases() -> None:
    drawn = fan(study(), telling_query(study()), 500)
    words = (
        "eps 0.9: the best guess about one person is right at most 55 times in 100, and a"
        " tossed coin 50 times"
    )
    assert drawn.words == words
    assert drawn.budgets[1].rho == Fraction(1, 50)
