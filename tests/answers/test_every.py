"""The table of all answers: each is the one that a question alone gets."""

import numpy as np
import pytest
from kit.public_logs import public
from kit.studies import attribute, small_study

from stream_dp.errors import UserError
from stream_dp.privacy.noise import SeededNoise

PEOPLE, COUNT = 300, 4
ABSENT = 2
SYMBOLS = np.random.default_rng(5).choice(3, (PEOPLE, COUNT), p=[0.5, 0.3, 0.2]).astype(np.uint8)
HERE = np.minimum(SYMBOLS, 1)
WINDOW = {"kind": "window", "width": 2}
TOTALS = {"kind": "cumulative", "event": [1]}
CAP, SIZED = {"rows": 500}, {"size_share": "1/5"}
CASES = {
    "n public": ([WINDOW, TOTALS], "replace_one", 0, HERE),
    "joint": ([{"kind": "joint", "width": 2, "event": [1]}], "replace_one", 0, HERE),
    "n private": ([WINDOW, {**TOTALS, **SIZED}], "add_remove", 0, HERE),
    "people come and go": (
        [{**WINDOW, **CAP}, {**TOTALS, **CAP}],
        "add_remove",
        "absent",
        SYMBOLS,
    ),
}


def published(name, seed=4):
    releases, relation, missing, symbols = CASES[name]
    study = small_study(
        name="all",
        neighbours=relation,
        rho="2",
        periods={"first": "2021-01", "every": "month", "count": COUNT},
        size=None if relation == "add_remove" else PEOPLE,
        attributes={"poor": attribute([0, 1], missing=missing)},
        releases=[{"name": r["kind"], "attribute": "poor", "rho": "1", **r} for r in releases],
    )
    return public(study, {"poor": symbols}, SeededNoise(seed))


@pytest.mark.parametrize("name", CASES)
def test_every_row_is_what_the_question_alone_is_answered(name):
    log = published(name)
    table = log.answer_table()
    rows = table.to_pylist()
    assert {row["release"] for row in rows} == {r.name for r in log.study.releases}
    assert {row["head"] for row in rows} == {log.head}
    assert len({(r["release"], r["period"], r["query"], r["measure"]) for r in rows}) == len(rows)
    assert {"count", "share"} == {row["measure"] for row in rows}
    for row in rows[::7]:
        count = row["measure"] == "count"
        one = log.answer(row["release"], row["query"], row["period"], count=count)
        wanted = [one.value, one.standard_error, *one.interval]
        stated = [row[c] for c in ("value", "standard_error", "low", "high")]
        assert stated == pytest.approx(wanted, rel=1e-7, abs=1e-7), row
        assert row["people"] == (None if count else one.base)
    totals = [r for r in rows if r["query"].startswith("total") and r["measure"] == "count"]
    if totals:
        assert len(totals) == COUNT * (COUNT + 1) / 2


def test_one_release_alone():
    log = published("n public")
    one = log.answer_table("window")
    assert set(one["release"].to_pylist()) == {"window"}
    patterns = [q for q in one["query"].to_pylist() if q.startswith("pattern")]
    assert set(patterns) >= {"pattern 0 0", "pattern 1", "pattern 1 1"}
    with pytest.raises(UserError, match="no such release"):
        log.answer_table("none")


def change(log, release, query, periods, *, count=False):
    """The answer at the first period less that at the second."""
    asked = [(release, query, period) for period in periods]
    return log.answers(asked, count=count).difference(0, 1)


@pytest.mark.parametrize("name", CASES)
def test_a_change_is_the_difference_with_the_error_of_both_together(name):
    log = published(name)
    query, periods = "pattern 1", ("2021-04", "2021-03")
    release = log.study.releases[0].name
    changed = change(log, release, query, periods, count=True)
    value, error, (low, high) = changed.value, changed.standard_error, changed.interval
    one, other = (log.answer(release, query, period, count=True) for period in periods)
    assert value == pytest.approx(one.value - other.value)
    assert low < value < high
    # Neither more than if the errors stood against each other, nor less than if they went together.
    assert abs(one.standard_error - other.standard_error) < error
    assert error < one.standard_error + other.standard_error
    zero = change(log, release, query, ("2021-03", "2021-03"), count=True)
    assert (zero.value, zero.standard_error) == pytest.approx((0, 0), abs=1e-6)
    share = change(log, release, query, periods)
    first, second = (log.answer(release, query, period) for period in periods)
    assert share.value == pytest.approx(first.value - second.value)
    assert 0 < share.standard_error < first.standard_error + second.standard_error


@pytest.mark.parametrize("name", ["n public", "n private"])
def test_errors_of_changes_are_those_of_repeated_noise(name):
    symbols, squares = CASES[name][-1], []
    for seed in range(20):
        log = published(name, seed)
        for later in (3, 4):
            true = int((symbols[:, later - 1] == 1).sum()) - int((symbols[:, later - 2] == 1).sum())
            periods = (f"2021-0{later}", f"2021-0{later - 1}")
            answer = change(log, "window", "pattern 1", periods, count=True)
            squares.append((answer.value - true) ** 2 / answer.standard_error**2)
    assert abs(np.mean(squares) - 1) <= 4 * (2 / len(squares)) ** 0.5
