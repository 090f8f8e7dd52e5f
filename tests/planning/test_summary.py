"""What `check` says first: errors are those that `estimate` states, and all of it is true."""

import pytest
from kit.employment import LABELS, employment_study, public_log
from kit.public_logs import Silent
from kit.studies import small_study, window

from stream_dp.planning.plan import plan_study
from stream_dp.planning.study_summary import summary, typical_queries
from stream_dp.release.published_panels import ADVICE

RELATIONS = ["replace_one", "add_remove"]


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_the_typical_errors_are_those_of_estimates(neighbours):
    study = employment_study(neighbours)
    log, rows = public_log(study, Silent()), summary(plan_study(study)).as_dict()["typical_answers"]
    third = "pairs" if neighbours == "replace_one" else "declared"
    assert [row["release"] for row in rows] == ["pairs", "full-time", third]
    for row in rows:
        stated = log.answer(row["release"], row["query"], row["period"], count=True)
        low, high = stated.interval
        assert row["period"] == LABELS[-1]
        assert row["count_half_width"] == pytest.approx((high - low) / 2)
        if neighbours == "replace_one":
            low, high = log.answer(row["release"], row["query"], row["period"]).interval
            assert row["share_half_width"] == pytest.approx((high - low) / 2)
        else:
            assert row["share_half_width"] is None


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_people_read_words_first_and_fractions_on_request(neighbours):
    plan = plan_study(employment_study(neighbours))
    short = summary(plan)
    brief, text = short.text(), short.text(long=True)
    for words in ("who is protected: one ", "published exactly: ", "best guess is right at most"):
        assert words in text
        assert words in " ".join(brief.split())
    for shown, after in ((brief, "what it costs"), (text, "what a small group")):
        precise = shown.split("how precise, as 95%")[1].split(after)[0]
        assert ("%" in precise.partition("interval")[2]) == (neighbours == "replace_one")
    assert brief.count("\n") < 25
    assert text.endswith(plan.text())
    assert str(plan.releases[1].charges[-1]) in text
    assert str(plan.releases[1].charges[-1]) not in brief
    for planned in plan.releases:
        bias = str(planned.facts["panel_bias"]).removesuffix(f"; {ADVICE}")
        assert f"  {planned.release.name}: {bias}" in text
    assert f"  {ADVICE}" in text


def test_many_releases_are_counted_in_short():
    releases = [window(f"r{i}", "poverty", width=1 + i % 2, rho=1) for i in range(5)]
    brief = summary(plan_study(small_study(rho=100, releases=releases))).text()
    assert brief.count("\n") < 25
    assert brief.count("and 3 more\n") == 2


def test_a_weak_promise_is_said_once():
    study = small_study(rho=100, releases=[window("r", "poverty", width=1, rho=1)])
    short = summary(plan_study(study))
    assert [short.text(long=long).count("warning: ") for long in (False, True)] == [1, 1]


def test_typical_answers_are_of_several_releases():
    releases = [window(f"r{i}", "poverty", width=1 + i % 2, rho=1) for i in range(5)]
    asked = typical_queries(small_study(rho=5, releases=releases))
    assert [name for name, _ in asked] == ["r0", "r1", "r2"]
    assert asked[1][1] == "at-least 1 of last 2 poverty=1"
