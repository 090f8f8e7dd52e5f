"""Other declarations of a query's release: each has the error of a study that declares it."""

import math
import tomllib
from decimal import Decimal
from functools import cache

import pytest
from kit.employment import HORIZON, PEOPLE, employment_study
from kit.studies import joint

from stream_dp.errors import UserError
from stream_dp.planning.alternatives import Goal, alternatives, study_over
from stream_dp.planning.expected_errors import expected_errors
from stream_dp.study import Study
from stream_dp.study.study_text import study_text
from stream_dp.studyfile import parse_study

QUERIES = {"pairs": "work=part", "full-time": "total at-least 2", "both": "pattern ? full"}


def study_of(name, neighbours="replace_one"):
    if name == "both":
        both = [joint("both", "work", width=2, event=["full"], rho="2")]
        return employment_study(neighbours, releases=both, rho=2)
    study = employment_study(neighbours)
    fields = {field: getattr(study, field) for field in Study.model_fields}
    return Study(**{**fields, "releases": (study.release(name),)})


def rows_of(study, name, **goal):
    goal = Goal([(name, QUERIES[name])], 0.1, 2.0, **goal)
    return alternatives(study, name, QUERIES[name], goal=goal, reach=True)


@cache
def public_rows(name):
    return rows_of(study_of(name), name)


def half_width(study, name, **people):
    return max(2 * row.share for row in expected_errors(study, name, QUERIES[name], **people))


@pytest.mark.parametrize("name", QUERIES)
def test_alternatives_are_possible_and_in_order(name):
    rows = public_rows(name)
    assert len(rows) > 4
    assert [row.error for row in rows] == sorted(row.error for row in rows)
    assert len({(row.words, row.periods, row.waves) for row in rows}) == len(rows)
    for row in rows:
        assert row.rho is not None
        # The rounding of noise to integers shows where there is little of it.
        assert row.error * math.sqrt(2 / row.rho) == pytest.approx(0.1, rel=0.05)


@pytest.mark.parametrize("name", ["pairs", "full-time", "both"])
def test_other_horizons_have_the_errors_of_such_studies(name):
    study = study_of(name)
    rows = {(r.periods, r.words): r.error for r in public_rows(name) if r.waves == 1}
    (words,) = {words for periods, words in rows if periods == 2 * HORIZON}
    for count in (HORIZON // 2, HORIZON, 2 * HORIZON):
        assert rows[count, words] == half_width(study_over(study, count), name)
    assert rows[HORIZON // 2, words] < rows[HORIZON, words] < rows[2 * HORIZON, words]


WAVES = """
[attributes.wave]
values = [1, 2]
missing = "absent"
fixed = true
"""


@pytest.mark.parametrize("neighbours", ["replace_one", "add_remove"])
def test_waves_have_the_errors_of_a_study_in_waves(neighbours):
    study = study_of("pairs", neighbours)
    people = None if study.size else PEOPLE
    (row,) = [row for row in rows_of(study, "pairs", people=people) if row.waves == 2]
    assert row.periods == HORIZON // 2
    each = math.ceil(PEOPLE / 2)
    waves = f'waves = {{ by = "wave", every = {HORIZON // 2}, length = {HORIZON // 2} }}\n'
    text = study_text(study).replace("[[releases]]", WAVES + "[[releases]]", 1)
    text = text.replace("width = 2\n", f"width = 2\nrows = {each}\n{waves}", 1)
    declared = parse_study(tomllib.loads(text, parse_float=Decimal))
    asked = QUERIES["pairs"]
    errors = expected_errors(declared, "pairs-1", asked, people=each)
    assert row.error == max(2 * error.share for error in errors)


def test_a_study_over_other_periods_is_checked_like_any_other():
    study = study_of("pairs")
    assert study_over(study, 7).periods.labels[-1] == "2022-Q3"
    for count, words in ((0, "from 1 to"), (10**6, "from 1 to"), (1, "is over the horizon of 1")):
        with pytest.raises(UserError, match=words):
            study_over(study, count)
