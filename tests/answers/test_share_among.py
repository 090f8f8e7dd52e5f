"""Shares among respondents, or among any other people that a query names."""

import numpy as np
import pytest
from kit.data_sets import groups_table, people_table
from kit.public_logs import Silent, public
from kit.studies import attribute, cumulative, joint, small_study, window

from stream_dp.answers.flat_answers import flat_answers
from stream_dp.answers.query import query_words
from stream_dp.answers.tables.table_answer import Conjunctions
from stream_dp.errors import UserError
from stream_dp.privacy.noise import SeededNoise

PEOPLE, COUNT, ABSENT = 400, 4, 2
LABELS = [f"2021-0{i}" for i in range(1, COUNT + 1)]
POOR = np.random.default_rng(3).choice(3, (PEOPLE, COUNT), p=[0.4, 0.3, 0.3]).astype(np.uint8)
NOW, BEFORE = POOR[:, -1], POOR[:, -2]
SINCE = (POOR == 1).sum(axis=1)
RELEASES = [
    window("pairs", "poor", width=2, rho=2000),
    cumulative("months", "poor", [1], 2000),
    joint("both", "poor", width=2, event=[1], rho=2000),
]


def log_of(source, missing="absent", releases=RELEASES):
    study = small_study(
        rho=6000,
        size=PEOPLE,
        periods={"first": LABELS[0], "every": "month", "count": COUNT},
        attributes={"poor": attribute([0, 1], missing=missing)},
        releases=releases,
    )
    return public(study, {"poor": POOR if missing == "absent" else POOR % 2}, source)


@pytest.fixture(scope="module")
def exact():
    return log_of(Silent())


@pytest.mark.parametrize(
    ("release", "query", "share", "count"),
    [
        ("pairs", "poor=1 among respondents", NOW == 1, NOW != ABSENT),
        ("pairs", "pattern 1 among pattern 1 ?", (NOW == 1) & (BEFORE == 1), BEFORE == 1),
        ("pairs", "pattern 0|absent among poor=0|1", NOW == 0, NOW != ABSENT),
        ("both", "at-least 1 of last 2 poor=1 among respondents", None, NOW != ABSENT),
        ("months", "total at-least 2 among total at-least 1", SINCE >= 2, SINCE >= 1),
        ("months", "total at-least 1 among total at-least 2", SINCE >= 2, SINCE >= 2),
    ],
)
def test_without_noise_it_is_the_people_s_own_share(exact, release, query, share, count):
    if share is None:
        share = ((NOW == 1) | (BEFORE == 1)) & (NOW != ABSENT)
    answer = exact.answer(release, query)
    assert answer.value == pytest.approx(share.sum() / count.sum())
    assert answer.query == query
    assert answer.people == f"among {query_words(query).among}"
    counted = exact.answer(release, query, count=True)
    assert counted.value == pytest.approx(share.sum())
    (joint_answer,) = exact.answers([(release, query, None)]).answers
    assert joint_answer.interval == pytest.approx(answer.interval)


@pytest.mark.parametrize(
    ("query", "whom", "of", "people"),
    [
        ("poor=1", NOW == 1, NOW != ABSENT, "respondents"),
        ("pattern 1 ?", (BEFORE == 1) & (NOW != ABSENT), NOW != ABSENT, "respondents"),
        ("poor=1 among everybody", NOW == 1, NOW >= 0, "all persons"),
        ("pattern 0|1", NOW != ABSENT, NOW >= 0, "all persons"),
        ("pattern absent", NOW == ABSENT, NOW >= 0, "all persons"),
        ("pattern 1 absent", (BEFORE == 1) & (NOW == ABSENT), NOW >= 0, "all persons"),
        ("respondents", NOW != ABSENT, NOW >= 0, "all persons"),
    ],
)
def test_a_share_is_of_those_who_answered_unless_it_is_about_the_response(
    exact, query, whom, of, people
):
    answer = exact.answer("pairs", query)
    assert answer.value == pytest.approx(whom.sum() / of.sum())
    assert answer.synthetic == pytest.approx(answer.value, abs=0.01)
    assert answer.base == people
    counted = exact.answer("pairs", query, count=True)
    everybody = (BEFORE == 1) if query == "pattern 1 ?" else whom
    assert counted.value == pytest.approx(everybody.sum())


def test_a_stated_share_has_the_base_and_the_error_of_an_answer_to_the_same_measurements():
    log = log_of(SeededNoise(4), releases=RELEASES[:1])
    first = log.releases_of("pairs")[0]
    stated = {(a.query, a.measure): a for a in flat_answers(log.study, first)}
    shares = [a for a in stated.values() if a.measure == "share"]
    assert {a.people for a in shares} == {"respondents", "all persons"}
    alone = log_of(SeededNoise(4), releases=RELEASES[:1])
    for share in shares:
        answer = alone.answer("pairs", share.query, share.period)
        assert share.people == answer.base
        # The answer has later windows, too, so it is at most as uncertain.
        assert answer.standard_error <= 1.01 * share.error
        assert abs(answer.value - share.value) < 4 * share.error


def test_the_interval_is_fieller_s_of_both_counts():
    log = log_of(SeededNoise(4))
    answer = log.answer("pairs", "poor=1 among respondents")
    counts = log.answers(
        [("pairs", "poor=1", LABELS[-1]), ("pairs", "poor=0|1", LABELS[-1])], count=True
    )
    assert counts.covariance[0, 1] != 0
    ratio = counts.ratio(0, 1)
    assert (answer.value, *answer.interval) == pytest.approx((ratio.value, *ratio.interval))
    assert answer.standard_error == pytest.approx(ratio.standard_error)


def test_changes_and_panels_have_it_too(exact):
    change = exact.answers(
        [("pairs", "poor=1 among respondents", label) for label in (LABELS[3], LABELS[1])]
    ).difference(0, 1)
    shares = [(POOR[:, t] == 1).sum() / (POOR[:, t] != ABSENT).sum() for t in (3, 1)]
    assert change.value == pytest.approx(shares[0] - shares[1])
    answer = exact.answer("pairs", "poor=1 among respondents")
    assert answer.synthetic == pytest.approx(answer.value, abs=0.01)


@pytest.mark.parametrize(
    ("release", "query", "words"),
    [
        ("months", "total at-least 1 among respondents", "totals are of all who have entered"),
        ("both", "total at-least 1 among poor=1", "totals and patterns are not measured together"),
        ("pairs", "poor=1 among poor=3", "'3' is no value"),
        ("pairs", "poor=1 among respondents & poor=1", "not understood"),
        ("pairs", "poor=1 among total at-least 1", "ask a window release for a pattern"),
        ("pairs", "weighted poor=1", r"no weighting cells; they stand in \[study.weights\]"),
        ("pairs", "among respondents", "not understood"),
    ],
)
def test_what_nobody_measured_is_refused_in_words(exact, release, query, words):
    with pytest.raises(UserError, match=words):
        exact.answer(release, query)


def test_without_absence_there_are_no_respondents():
    with pytest.raises(UserError, match="nobody can be absent in 'pairs'"):
        log_of(Silent(), 0, RELEASES[:1]).answer("pairs", "poor=1 among respondents")


def test_a_share_among_nobody_is_refused_instead_of_an_unbounded_interval():
    nobody = np.zeros_like(POOR)
    study = log_of(Silent()).study
    log = public(study, {"poor": nobody}, SeededNoise(5))
    with pytest.raises(UserError, match="not clearly positive; ask for a count"):
        log.answer("pairs", "pattern 1 1 among pattern 1 ?")
    (answer,) = log.answers([("pairs", "pattern 1 1 among pattern 1 ?", None)]).answers
    assert answer.interval is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("home=all among friends", ("home=all among friends", None, False)),
        ("weighted  a=1  among respondents", ("a=1", "respondents", True)),
        ("weighted=1 & a=2", ("weighted=1 & a=2", None, False)),
        ("a=1 among b=2 among c=3", ("a=1 among b=2", "c=3", False)),
        ("a=1 among people: b=2", ("a=1", "people: b=2", False)),
        ("a=1 among pay <= 3", ("a=1", "pay <= 3", False)),
        ("", ("", None, False)),
    ],
)
def test_words_around_a_query(text, words):
    assert query_words(text) == words


# Tables of people.


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize(
    ("query", "among"),
    [
        ("work=some|half", "sex=f"),
        ("work=none & sex=f", "age=30-39"),
        ("work=some", "work=some|half|full"),
        ("work=some", "work=none"),
    ],
)
def test_a_table_s_share_is_that_of_its_records_without_noise(moves, query, among):
    tables, _, _ = people_table(moves=moves, again=[(0, 1)])
    answer = Conjunctions(tables).answer(f"{query} among {among}", count=False)
    parts = [Conjunctions(tables).answer(q, count=True) for q in (query, among)]
    assert answer.value == pytest.approx(answer.synthetic, abs=1e-9)
    assert (answer.standard_error > 0) == (answer.value > 0)  # nobody has two values
    assert answer.value <= parts[0].value / parts[1].value + 1e-9
    texts = [f"{query} among {among}"]
    (joint_answer,) = Conjunctions(tables).joint(texts, count=False).answers
    assert joint_answer == answer


def test_a_table_without_absence_has_no_respondents():
    tables, _, _ = people_table()
    with pytest.raises(UserError, match="nobody is absent in a column of it"):
        Conjunctions(tables).answer("work=some among respondents", count=False)


def test_groups_are_compared_by_their_own_columns():
    tables = groups_table()
    answers = Conjunctions(tables)
    unit = tables.study.groups.unit
    column, person = tables.names["groups"][0], tables.names["people"][0]
    first, other = tables.columns["groups"][column][0], tables.columns["people"][person][0]
    person_term, group_term = f"people: {person}={other}", f"{unit}s: {column}={first}"
    with pytest.raises(UserError, match="people on one side and households on the other"):
        answers.answer(f"{person_term} among {group_term}", count=False)
    by_members = f"{group_term} among {unit}s: {person}={other}"
    with pytest.raises(UserError, match="by columns of households alone"):
        answers.answer(by_members, count=False)
    among = f"{person_term} among people: {column}={first}"
    answer = answers.answer(among, count=False)
    assert answer.standard_error is None
    assert 0 < answer.value <= 1
