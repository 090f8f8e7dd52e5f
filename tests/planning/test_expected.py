"""Planned errors are those that `estimate` states later, and budgets are the least that do."""

from fractions import Fraction

import pytest
from kit.employment import EXACT, HORIZON, LABELS, employment_study, public_log
from kit.public_logs import Silent
from kit.studies import attribute, joint, small_study, window

from stream_dp.errors import UserError
from stream_dp.planning import plan_result
from stream_dp.planning.alternatives import Goal, needed_budget
from stream_dp.planning.expected_errors import expected_errors, response_words
from stream_dp.planning.plan import plan_study
from stream_dp.planning.study_summary import summary

QUERIES = {
    "pairs": ["pattern full full", "work=part", "at-least 1 of last 2 work=full"],
    "full-time": ["total at-least 1", "total at-least 3"],
    "both": ["pattern ? full", "consecutive 2 of last 2 work=part", "total at-least 2"],
}
BOTH = [joint("both", "work", width=2, event=["full"], rho="2")]
ASKED = [
    *[("replace_one", name) for name in ("pairs", "full-time")],
    *[("add_remove", name) for name in ("pairs", "full-time")],
    ("replace_one", "both"),
]


def study_of(neighbours, name):
    if name != "both":
        return employment_study(neighbours)
    return employment_study(neighbours, releases=BOTH, rho=2)


@pytest.mark.parametrize(("neighbours", "name"), ASKED)
def test_the_errors_are_those_of_estimates_to_twelve_digits(neighbours, name):
    study = study_of(neighbours, name)
    logs = [public_log(study, Silent(), periods=t) for t in range(1, HORIZON + 1)]
    for query in QUERIES[name]:
        rows = expected_errors(study, name, query)
        assert rows
        for row in rows:
            number = LABELS.index(row.period)
            start = max(number, 0 if name == "full-time" else 1)
            for log, planned in ((logs[start], row.count), (logs[-1], row.final_count)):
                stated = log.answer(name, query, row.period, count=True)
                assert planned == pytest.approx(stated.standard_error, rel=1e-12)
                assert planned > 0
            if neighbours == "replace_one":
                share = logs[start].answer(name, query, row.period)
                assert row.share == pytest.approx(share.standard_error, rel=1e-12)


@pytest.mark.parametrize("name", ["pairs", "full-time"])
def test_shares_of_a_private_number_have_at_most_the_planned_error(name):
    log, study = EXACT["add_remove"], employment_study("add_remove")
    worst = 0.0
    for query in QUERIES[name]:
        for row in expected_errors(study, name, query, people=300):
            stated = log.answer(name, query, row.period)
            worst = max(worst, stated.standard_error / row.final_share)
            assert stated.standard_error <= row.final_share * (1 + 1e-9)
    assert worst > 0.5


def test_an_error_of_a_share_needs_a_number_of_people():
    study = employment_study("add_remove")
    assert all(row.share is None for row in expected_errors(study, "pairs", "work=full"))
    goal = Goal([("pairs", "work=full")], 0.1, 2.0)
    with pytest.raises(UserError, match="assumed one; name the people"):
        needed_budget(study, goal)


@pytest.mark.parametrize(
    ("neighbours", "name"),
    [("replace_one", "pairs"), ("add_remove", "full-time"), ("replace_one", "both")],
)
def test_the_needed_budget_is_enough_and_hardly_less_is_not(neighbours, name):
    study = study_of(neighbours, name)
    asked = [(name, query) for query in QUERIES[name]]
    goal = Goal(asked, 20.0, 1.96, count=True)
    needed = needed_budget(study, goal)
    assert needed.error == goal.worst(needed.study) <= goal.error
    assert needed.study.rho == sum(r.rho for r in needed.study.releases)
    smaller = [
        r.model_copy(update={"rho": r.rho * Fraction(97, 100)}) for r in needed.study.releases
    ]
    fields = {field: getattr(study, field) for field in type(study).model_fields}
    less = type(study)(**{**fields, "releases": tuple(smaller), "rho": needed.study.rho})
    assert goal.worst(less) > goal.error


def test_errors_fall_with_the_root_of_rho():
    for name in ("pairs", "full-time"):
        small, large = (
            expected_errors(employment_study(rho=rho), name, QUERIES[name][0])
            for rho in ("1/1000", "4/1000")
        )
        for one, other in zip(small, large, strict=True):
            assert one.count == pytest.approx(2 * other.count, rel=1e-9)


def test_a_query_that_cannot_be_answered_is_refused():
    study = employment_study()
    for name, query, words in (
        ("pairs", "pattern full full full", "looks at 3 periods and the release at 2"),
        ("full-time", "pattern full", "ask a cumulative release"),
        ("nothing", "work=full", "no such release"),
    ):
        with pytest.raises(UserError, match=words):
            expected_errors(study, name, query)


@pytest.mark.parametrize(("missing", "said"), [("absent", True), (0, False)])
def test_shares_before_any_data_say_of_whom_they_are(missing, said):
    study = small_study(
        size=500,
        attributes={"poor": attribute([0, 1], missing=missing)},
        releases=[window("pairs", "poor", width=2, rho="1/100")],
    )
    line = "these shares are of all persons; a share of those who answered"
    errors = expected_errors(study, "pairs", "poor=1")
    assert any(line in words for words in response_words(study, errors)) == said
    assert (line in " ".join(summary(plan_study(study)).text().split())) == said
    assert (line in plan_result.planned(study, plan_result.PlanRequest()).text()) == said
