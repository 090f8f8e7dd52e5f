"""Best estimates against brute force: unknown numbers of people of every possible history.

Whatever is true of counts follows from histories, so dense least squares over all of them needs no
equality but a declared number of people. That it gives the same answers and errors shows that the
estimator's equalities hold, and that none is missing.
"""

import itertools

import numpy as np
import pytest
from kit.histories import OPEN, SIZE, Case, joint, single_ratio, study_of, totals, window

from stream_dp.answers.joint_answers import fieller_ratio
from stream_dp.answers.measured_rows import PeriodMeasurements, releases_of_stream
from stream_dp.answers.query import TotalQuery, parse_query
from stream_dp.errors import Inconsistent, UserError

CASES = {
    "histogram": (study_of([window(2, strategy="histogram")]), 1),
    "residuals": (study_of([window(2, strategy="residuals")]), 1),
    "three symbols": (study_of([window(2)], values=(0, 1, 2)), 1),
    "wide and narrow": (study_of([window(3), window(2, strategy="histogram"), window(1)]), 1),
    "totals": (study_of([totals()], relation="replace_one"), 1),
    "both": (study_of([window(2, strategy="residuals"), totals()]), 1),
    "both, wide": (study_of([window(3, strategy="histogram"), totals()], count=5), 1),
    "two events": (
        study_of(
            [window(2), totals((1,)), totals((1, 2)), totals((1, 2))], values=(0, 1, 2), count=3
        ),
        1,
    ),
    "other spans": (
        study_of(
            [window(2, last="3"), window(3, first="2"), totals(first="2"), totals(last="3")],
            count=5,
        ),
        1,
    ),
    "a gap": (study_of([window(2, last="2"), window(2, first="4"), totals()], count=5), 1),
    "private n": (
        study_of([window(2), totals(size_share="1/5")], relation="add_remove"),
        4,
    ),
    "late entry": (
        study_of(
            [window(2, strategy="histogram"), totals(size_share="1/5")],
            relation="add_remove",
            count=3,
        ),
        3,
    ),
    "late entry, the event is filled in": (
        study_of(
            [window(2, strategy="histogram"), totals(size_share="1/5")],
            relation="add_remove",
            missing=1,
            count=3,
        ),
        3,
    ),
    "a closed cohort": (
        study_of([window(3), window(2, strategy="histogram"), window(1)], closed=True),
        1,
    ),
    "a closed cohort, three symbols": (
        study_of([window(2)], values=(0, 1, 2), closed=True, count=3),
        1,
    ),
    "a closed cohort, totals": (
        study_of([window(2), totals(size_share="1/5")], missing=1, closed=True),
        1,
    ),
    "a closed cohort, other spans": (
        study_of(
            [window(2, last="4"), window(2, first="2"), totals(first="2", size_share="1/5")],
            closed=True,
        ),
        1,
    ),
    "a closed cohort that enters late": (
        study_of([window(2, first="2"), joint(2, first="2")], missing=1, closed=True),
        2,
    ),
    "a closed cohort with absences": (
        study_of([joint(2), totals(size_share="1/5")], missing="absent", closed=True, count=3),
        1,
    ),
    "people come and go": (study_of([window(2, rows=700)], count=3, **OPEN), 3),
    "people come and go, histograms": (
        study_of([window(2, rows=700, strategy="histogram"), window(1, rows=700)], count=3, **OPEN),
        3,
    ),
    "people come and go, totals": (
        study_of([window(2, rows=700), totals(size_share="1/5")], count=3, **OPEN),
        3,
    ),
    "absent, everybody counted": (
        study_of([window(2, strategy="histogram"), totals(size_share="1/5")], count=3, **OPEN),
        3,
    ),
    "absent, n public": (study_of([window(2), totals()], missing="absent", count=3), 1),
    "entries": (
        study_of([window(2, rows=700), totals(rows=700, size_share="1/5")], count=3, **OPEN),
        3,
    ),
    "other counters": (
        study_of([window(2), totals(counter="tree"), totals(counter="unbounded")]),
        1,
    ),
    "a triangular counter and coupled totals": (
        study_of([window(2), totals(counter="unbounded"), totals()]),
        1,
    ),
    "a triangular counter": (study_of([window(2), totals(counter="unbounded")]), 1),
    "joint": (study_of([joint(2)]), 1),
    "joint of people who come and go": (study_of([joint(2, rows=700)], count=3, **OPEN), 3),
    "joint and others": (study_of([joint(3), window(2), totals(counter="tree")], count=4), 1),
    "a stratum": (
        study_of(
            [window(2, rows=700, where={"region": "n"}), totals(rows=700, where={"region": "n"})],
            count=3,
        ),
        1,
    ),
}


def asked_of(declared, case):
    """Queries of every kind, and the periods to ask them at."""
    first, last = case.study.span(declared)
    if declared.kind != "cumulative":
        for number in range(first + declared.width - 1, last + 1):
            for width in range(1, declared.width + 1):
                for code in itertools.product(case.alphabet.values, repeat=width):
                    if any(v != "absent" for v in code) or declared.rows is None:
                        yield "pattern " + " ".join(map(str, code)), number
                yield f"at-least 1 of last {width} x=1", number
                yield f"consecutive {width} of last {width} x=1", number
    if declared.kind != "window":
        for number in range(first, last + 1):
            for b in range(1, last - first + 2):
                yield f"total at-least {b}", number


# Equalities that would hold of newcomers' unknown past are not looked for there.
NOT_BEST = {"late entry, the event is filled in"}


@pytest.mark.parametrize("name", CASES)
def test_answers_and_errors_are_those_of_all_histories(name):
    study, late = CASES[name]
    case = Case(study, late=late)
    rows, _, variances = case.system
    for declared in study.releases:
        best = case.best(declared.name)
        for text, number in asked_of(declared, case):
            wanted = case.wanted(declared, text, number)
            answer = case.answer(best, declared, text, number)
            value, variance = case.brute(wanted)
            stated = answer.variance
            # Unbiased, whatever histories people have.
            weights, constant = case.weights(answer)
            assert weights @ rows + constant / SIZE == pytest.approx(wanted, abs=1e-7), text
            assert stated == pytest.approx(weights**2 @ variances, rel=1e-7, abs=1e-8)
            if name in NOT_BEST:
                assert stated >= variance * (1 - 1e-9)
                continue
            assert answer.value == pytest.approx(value, rel=1e-7, abs=1e-5), (text, number)
            assert stated == pytest.approx(variance, rel=1e-7, abs=1e-10), (text, number)


ALONE = {
    "n private": (study_of([window(3, rows=700, strategy="residuals")], **OPEN), 4),
    "n public": CASES["residuals"],
    "three symbols": (study_of([window(2, strategy="residuals")], values=(0, 1, 2), count=4), 1),
    "open": (study_of([window(2, rows=700, strategy="residuals")], count=3, **OPEN), 3),
    "totals": CASES["totals"],
}


@pytest.mark.parametrize("name", ALONE)
def test_alone_and_measured_once_nothing_is_gained(name):
    """Residuals measure every free number once, and so does a counter: the mechanism's own
    recursion is best linear unbiased, and errors are those that the plan states."""
    case = Case(ALONE[name][0], late=ALONE[name][1])
    best, release = case.best("r0"), case.stream.releases[0]
    for text, number in asked_of(case.declared, case):
        answer = case.answer(best, case.declared, text, number)
        asked = parse_query(text, "x", case.alphabet.values)
        rounding = 1e-9
        if isinstance(asked, TotalQuery):
            stated = release.totals.variance(asked.threshold, number)
            rounding = 2.0**-14  # `coupled_gains` rounds up
        else:
            weights = asked.over(release.window.bins).astype(float)
            _, stated = release.window.functional(number, weights)
        assert answer.variance == pytest.approx(stated, rel=rounding, abs=1e-9), (text, number)


def test_damaged_measurements_are_refused():
    case = Case(study_of([window(2)]))
    short = [
        PeriodMeasurements(m.number, m.values[1:], m.variances[1:]) for m in case.messages["r0"]
    ]
    with pytest.raises(Inconsistent, match="not the measurements that it declares"):
        releases_of_stream(case.study, {"r0": short}, "x")[0].slices  # noqa: B018


# A share of a noisy number of people.


def test_fieller_s_interval_is_where_the_difference_is_not_far_from_zero():
    case = Case(study_of([window(2, rows=700)], count=3, **OPEN), late=3)
    best = case.best("r0")
    value = best.patterns(3, np.array([0.0, 1, 0]))
    question, who = best.people_question(3, totals=False)
    people = case.stream.answers([question])
    assert who == "present at 3"
    share, error, (low, high) = fieller_ratio(single_ratio(value, people), 1.96)
    assert share == pytest.approx(value.value / people.value)
    for end in (low, high):
        off = value.minus(people, end)
        assert abs(off.value) == pytest.approx(1.96 * off.variance**0.5)
    assert (high - low) / 2 == pytest.approx(1.96 * error, rel=0.2)
    nobody = value.minus(value, 1.0)
    with pytest.raises(UserError, match="not clearly positive"):
        fieller_ratio(single_ratio(value, nobody), 1.96)
