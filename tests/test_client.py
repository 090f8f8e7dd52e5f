"""Analysts' answers: exact where there is no noise, unbiased with honest errors where there is."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import public_logs
from kit.public_logs import Shelf, Silent, shelf

from stream_dp.client import PublicLog
from stream_dp.errors import Inconsistent, UserError
from stream_dp.estimate.query import parse_query as parse_query
from stream_dp.log.base import Damaged, LogError, Missing, Unavailable
from stream_dp.log.message import START, build_message, canonical
from stream_dp.panel import window_codes
from stream_dp.privacy.noise import SeededNoise
from stream_dp.release.panels import STUDY_TYPE
from stream_dp.studyfile import parse_study

PEOPLE, HORIZON, Q = 300, 4, 3


def make(neighbours="replace_one", rho="2", **changed):
    replace = neighbours != "add_remove"
    cumulative = {"kind": "cumulative", "attribute": "work", "rho": rho}
    sized = {} if replace else {"size_share": "1/5"}
    releases = [
        {"name": "pairs", "kind": "window", "attribute": "work", "width": 2, "rho": rho},
        {"name": "full-time", "event": ["full"], **cumulative, **sized},
    ]
    if not replace:
        releases.append({"name": "declared", "event": ["full"], "rows": 400, **cumulative})
    raw = {
        "study": {
            "name": "asked",
            "unit": "person",
            "neighbours": neighbours,
            "rho": str(Fraction(rho) * len(releases)),
            "delta": "1/1000000",
            "periods": {"first": "2021-Q1", "every": "quarter", "count": HORIZON},
            "population": {"size": PEOPLE} if replace else {},
        },
        "attributes": {"work": {"values": ["not at all", "part", "full"], "missing": "part"}},
        "releases": releases,
    }
    return parse_study({**raw, **changed})


TRUTH = np.random.default_rng(5).choice(3, (PEOPLE, HORIZON), p=[0.2, 0.5, 0.3]).astype(np.uint8)
LABELS = ("2021-Q1", "2021-Q2", "2021-Q3", "2021-Q4")
WORDS = ('"not at all"', "part", "full")


def published(study, source, truth=TRUTH, periods=HORIZON):
    """The public messages of a study on this truth."""
    return public_logs.published(study, {"work": truth}, source, periods)


def public(study, source, **options):
    return PublicLog(shelf(published(study, source, **options)))


EXACT = {n: public(make(n), Silent()) for n in ("replace_one", "add_remove")}


# Without noise every answer is the truth.


@st.composite
def window_queries(draw):
    width = draw(st.integers(1, 2))
    form = draw(st.sampled_from(["pattern", "at-least", "consecutive"]))
    if form == "pattern":
        words = [draw(st.sampled_from(["?", "part|full", *WORDS])) for _ in range(width)]
        return f"pattern {' '.join(words)}"
    need = draw(st.integers(1, width))
    value = draw(st.sampled_from(["part", "full", "part|full"]))
    return f"{form} {need} of last {width} work={value}"


def holds(text, t, truth=TRUTH):
    """Who a window query is true of at t."""
    query = parse_query(text, "work", ("not at all", "part", "full"))
    return query.mask[window_codes(truth[:, t - query.width : t], Q)]


@pytest.mark.parametrize("neighbours", EXACT)
@settings(max_examples=40)
@given(text=window_queries(), t=st.integers(2, HORIZON))
def test_windows_without_noise(neighbours, text, t):
    found = EXACT[neighbours].estimate("pairs", text, LABELS[t - 1])
    assert found.value == pytest.approx(holds(text, t).mean())
    counted = EXACT[neighbours].estimate("pairs", text, LABELS[t - 1], count=True)
    assert counted.value == pytest.approx(holds(text, t).sum(), abs=1e-6)
    assert (found.period, found.measure, counted.measure) == (LABELS[t - 1], "share", "count")


@pytest.mark.parametrize("name", ["full-time", "declared"])
@pytest.mark.parametrize("t", range(1, HORIZON + 1))
@pytest.mark.parametrize("b", range(1, HORIZON + 1))
def test_totals_without_noise(name, t, b):
    expected = int(((TRUTH[:, :t] == 2).sum(axis=1) >= b).sum())
    for neighbours, source in EXACT.items():
        if neighbours == "replace_one" and name == "declared":
            continue
        found = source.estimate(name, f"total at-least {b}", LABELS[t - 1], count=True)
        assert found.value == pytest.approx(expected, abs=1e-6)
        # Without noise the panel is the truth itself.
        assert found.panel == pytest.approx(expected)
        if name == "full-time":
            share = source.estimate(name, f"total at-least {b}", LABELS[t - 1])
            assert share.value == pytest.approx(expected / PEOPLE)
            assert share.panel == pytest.approx(expected / PEOPLE)
        assert (found.standard_error == 0) == (b > t)


def test_the_last_period_is_the_default():
    for source in EXACT.values():
        for name, query in (("pairs", "pattern full full"), ("full-time", "total at-least 2")):
            assert source.estimate(name, query) == source.estimate(name, query, LABELS[-1])


def test_a_share_of_a_declared_number_of_rows_is_refused():
    study = make("add_remove")
    alone = study.model_copy(update={"releases": study.releases[2:]})
    with pytest.raises(UserError, match="private and not measured; ask for --count"):
        public(alone, Silent()).estimate("declared", "total at-least 1")
    # Another release of the stream knows how many they are.
    share = EXACT["add_remove"].estimate("declared", "total at-least 1", LABELS[0])
    assert share.people == "who have entered by 2021-Q1"
    assert share.value == pytest.approx((TRUTH[:, 0] == 2).mean())


def test_an_estimate_for_machines():
    held = EXACT["replace_one"].estimate("pairs", " pattern full ? ", "2021-Q3").as_dict()
    low, high = held.pop("interval")
    error, value = held["standard_error"], held["value"]
    assert (low, high) == pytest.approx((value - 1.959964 * error, value + 1.959964 * error))
    assert held["level"] == 0.95
    assert held["query"] == "pattern full ?"
    assert held["release"] == "pairs"


# With noise.


QUERIES = [
    ("pairs", "pattern full full"),
    ("pairs", "pattern ? part"),
    ("pairs", "at-least 1 of last 2 work=full"),
    ("pairs", 'pattern "not at all|part|full" ?'),
    ("full-time", "total at-least 1"),
    ("full-time", "total at-least 2"),
]
REPETITIONS = 400


def true_answer(name, text, t):
    if name == "pairs":
        return float(holds(text, t).sum())
    least = int(text.rsplit(" ", 1)[1])
    return float(((TRUTH[:, :t] == 2).sum(axis=1) >= least).sum())


@pytest.fixture(scope="module", params=["replace_one", "add_remove"])
def repeated(request):
    """Estimates of many runs: by (release, query, period, measure), (value, error, covered)."""
    study, source = make(request.param, rho="1/8"), SeededNoise(20)
    found = {}
    for _ in range(REPETITIONS):
        asked = public(study, source)
        for (name, text), t, count in itertools.product(QUERIES, (2, HORIZON), (False, True)):
            one = asked.estimate(name, text, LABELS[t - 1], count=count)
            truth = true_answer(name, text, t) / (1 if count else PEOPLE)
            row = (
                one.value - truth,
                one.standard_error,
                one.interval[0] <= truth <= one.interval[1],
            )
            found.setdefault((name, text, t, count), []).append(row)
    return request.param, {key: np.array(rows, float) for key, rows in found.items()}


def test_estimates_are_unbiased(repeated):
    relation, found = repeated
    for key, rows in found.items():
        errors = rows[:, 0]
        # A ratio is biased to second order: by its relative spread squared.
        slack = 0.0 if key[3] or relation == "replace_one" else 2 * errors.var()
        assert abs(errors.mean()) <= 4 * errors.std() / REPETITIONS**0.5 + slack + 1e-12, key


def test_standard_errors_are_right(repeated):
    for key, rows in repeated[1].items():
        errors, told = rows[:, 0], rows[:, 1]
        if told.max() < 1e-9:
            assert np.abs(errors).max() < 1e-9, key
            continue
        ratio = (errors**2).mean() / (told**2).mean()
        assert abs(ratio - 1) <= 4.5 * (2 / REPETITIONS) ** 0.5, key


def test_intervals_cover_the_truth_as_often_as_they_say(repeated):
    reach = 4 * (0.95 * 0.05 / REPETITIONS) ** 0.5
    for key, rows in repeated[1].items():
        covered = rows[:, 2].mean()
        if rows[:, 1].max() < 1e-9:
            assert (np.abs(rows[:, 0]) < 1e-9).all(), key
        else:
            # Numbers are whole: the interval holds a little more than its level.
            assert 0.95 - reach <= covered <= 0.95 + reach + 0.01, key


def test_the_share_of_everybody_is_certain_where_their_number_is_its_own_measurement(repeated):
    relation, found = repeated
    for t in (2, HORIZON):
        rows = found["pairs", QUERIES[3][1], t, False]
        if relation == "add_remove":
            assert np.abs(rows[:, :2]).max() < 1e-9
        else:
            assert (rows[:, :2] == 0).all()


def test_errors_of_shares_follow_from_those_of_counts():
    study = make("add_remove", rho="1/8")
    asked = public(study, SeededNoise(3))
    table = asked.at("full-time", LABELS[0]).measurements
    n, n_error = table["value"][-1].as_py(), table["standard_error"][-1].as_py()
    assert table["query"][-1].as_py() == "people"
    for t, b in ((1, 1), (4, 2)):
        query = f"total at-least {b}"
        count = asked.estimate("full-time", query, LABELS[t - 1], count=True)
        share = asked.estimate("full-time", query, LABELS[t - 1])
        assert share.value == pytest.approx(count.value / n)
        expected = math.hypot(count.standard_error, share.value * n_error) / n
        assert share.standard_error == pytest.approx(expected)


def test_a_share_without_anybody_is_refused():
    study = make("add_remove", rho="1/1000")
    asked = public(study, SeededNoise(2), truth=TRUTH[:0])
    noisy = asked.at("full-time", LABELS[0]).measurements["value"][-1].as_py()
    source = asked if noisy <= 0 else public(study, SeededNoise(1), truth=TRUTH[:0])
    with pytest.raises(UserError, match="not clearly positive; ask for --count"):
        source.estimate("full-time", "total at-least 1")


# Errors in words.


@pytest.mark.parametrize(
    ("name", "query", "period", "told"),
    [
        ("none", "pattern full", None, "release 'none': the study has no such release; it has"),
        ("pairs", "pattern full", "2021-Q1", "none at period '2021-Q1'; it has 2021-Q2 to 2021-Q4"),
        ("pairs", "pattern full", "May", "none at period 'May'"),
        ("pairs", "pattern full full full", None, "looks at 3 periods and the release at 2"),
        ("pairs", "total at-least 1", None, "ask a window release for a pattern instead"),
        ("full-time", "pattern 1", None, "ask a cumulative release 'total at-least B'"),
        ("full-time", "pattern full", None, "ask a cumulative release 'total at-least B'"),
        ("full-time", "total at-least 0", None, "ask for 1 to 4 periods"),
        ("full-time", "total at-least 5", None, "ask for 1 to 4 periods"),
        ("pairs", "pattern later", None, "'later' is no value; the values are not at all, part"),
        ("pairs", "whatever", None, "not understood; write"),
    ],
)
def test_what_cannot_be_answered_is_told_in_a_line(name, query, period, told):
    with pytest.raises(UserError) as error:
        EXACT["replace_one"].estimate(name, query, period)
    (line,) = error.value.lines
    assert told in line


def test_every_example_of_a_query_can_be_asked():
    for source in EXACT.values():
        for release in source.study.releases:
            examples = source.queries(release.name)
            assert examples
            for query in examples:
                source.estimate(release.name, query, count=True)
    with pytest.raises(UserError, match="no such release"):
        EXACT["replace_one"].queries("none")


@pytest.mark.parametrize("missing", ["part", "absent", {"carry": True, "first": "part"}])
@pytest.mark.parametrize("last", ["full", "half day", "it's", 'a "b"', "\\", "$HOME", "?!"[1]])
def test_every_example_can_be_asked_whatever_the_values(missing, last):
    attribute = {"values": ["part", last], "missing": missing}
    study = make(attributes={"work": attribute}, releases=[make_window(3)])
    first = build_message(0, START, {"type": STUDY_TYPE, "study": as_json(study)}, [])
    source = PublicLog(shelf([first]))
    symbols = study.attributes["work"].symbols
    for query in source.queries("w"):
        assert parse_query(query, "work", symbols).mask.any()


def make_window(width):
    return {"name": "w", "kind": "window", "attribute": "work", "width": width, "rho": 1}


def as_json(study):
    return study.model_dump(mode="json", exclude_none=True)


# Panels, and what a public log says of itself.


@pytest.mark.parametrize("neighbours", EXACT)
def test_panels_only_grow(neighbours):
    asked = public(make(neighbours), SeededNoise(9))
    for declared in asked.study.releases:
        last = asked.panel(declared.name)
        assert last.periods == LABELS
        for release in asked.of(declared.name):
            held = release.certificate
            panel = asked.panel(declared.name, held.period)
            assert panel.periods == LABELS[: held.number]
            assert np.array_equal(panel.symbols, last.until(held.period).symbols)
            assert panel.rows == held.rows == last.rows


def test_without_noise_a_cumulative_panel_has_the_true_totals():
    panel = EXACT["replace_one"].panel("full-time")
    totals = np.sort(panel.symbols.sum(axis=1))
    assert np.array_equal(totals, np.sort((TRUTH == 2).sum(axis=1)))


def test_without_noise_a_window_panel_has_the_true_patterns_and_padding():
    asked = EXACT["replace_one"]
    panel, padding = asked.panel("pairs"), asked.at("pairs", None).certificate.padding
    # The first two periods were made together, from the noisy histogram.
    codes = window_codes(panel.symbols[:, :2], Q)
    true = np.bincount(window_codes(TRUTH[:, :2], Q), minlength=9)
    assert np.array_equal(np.bincount(codes, minlength=9), true + padding)


def test_verify_says_what_holds():
    asked = EXACT["add_remove"]
    lines = asked.verify()
    assert any("12 messages" in line for line in lines)
    assert sum("every panel a prefix of the next" in line for line in lines) == 3
    assert asked.head == asked.messages[-1].hash


def test_an_empty_public_log_is_told():
    with pytest.raises(UserError, match="nothing is published yet"):
        PublicLog(Shelf([]))


def test_a_log_that_cannot_be_read_is_told():
    class Gone(Shelf):
        def describe(self, topic):
            raise LogError("no such log")

    with pytest.raises(UserError, match="public log: no such log"):
        PublicLog(Gone([]))


@pytest.mark.parametrize("kind", [Damaged, Unavailable, Missing])
def test_what_may_pass_and_what_is_damaged_stay_apart(kind):
    class Gone(Shelf):
        def describe(self, topic):
            raise kind("why")

    with pytest.raises(kind, match="why"):
        PublicLog(Gone([]))


def test_a_release_of_which_nothing_is_published_is_told():
    asked = public(make(), Silent(), periods=1)
    assert [r.certificate.release for r in asked.releases] == ["full-time"]
    with pytest.raises(UserError, match="release 'pairs': nothing is published of it yet"):
        asked.panel("pairs")


def rewritten(sent, place, **changed):
    """A chain with other words in one manifest and every later link made to fit."""
    found = list(sent[:place])
    for one in sent[place:]:
        previous = found[-1].hash if found else START
        head = {**one.head, **changed} if one.index == place else one.head
        found.append(build_message(one.index, previous, head, one.parts))
    return PublicLog(shelf(found))


SENT = published(make(), Silent())


@pytest.mark.parametrize(
    ("place", "changed", "told"),
    [
        (0, {"type": "other"}, "does not begin with a study's declaration"),
        (0, {"study": {"name": "x"}}, "does not begin with a study's declaration"),
        (0, {"study_hash": "f" * 64}, "declaration does not have its hash"),
        (2, {"study_hash": "f" * 64}, "of another study"),
        (2, {"rho": "1/1000"}, "its budget does not add up"),
        (2, {"rho_spent": "0"}, "its budget does not add up"),
        (2, {"rows": 3}, "not the columns of its certificate"),
        (2, {"columns": ["2021-Q1"]}, "not the columns of its certificate"),
        (2, {"rho": "much"}, "a certificate cannot be read"),
        (2, {"rho": "1/0"}, "a certificate cannot be read"),
        (2, {"type": "other"}, "a certificate cannot be read"),
        (2, {"rows": None}, "a certificate cannot be read"),
    ],
)
def test_what_contradicts_itself_is_refused(place, changed, told):
    with pytest.raises(Inconsistent, match=told):
        rewritten(SENT, place, **changed).verify()


def test_two_releases_of_a_period_are_refused():
    sent = list(SENT)
    last = sent[-1]
    sent.append(build_message(last.index + 1, last.hash, last.head, last.parts))
    with pytest.raises(Inconsistent, match="over the budget"):
        PublicLog(shelf(sent)).verify()


def test_a_period_of_a_panel_twice_is_refused():
    # The same column again under the number of the next period.
    first, second = (m for m in SENT[1:] if m.head["release"] == "full-time" and m.index < 4)
    head = {**second.head, "columns": list(first.head["columns"])}
    sent = [SENT[0], first]
    sent.append(build_message(2, first.hash, head, first.parts))
    with pytest.raises(Inconsistent, match="cannot be released again"):
        PublicLog(shelf(sent)).panel("full-time")


def test_the_manifest_is_the_certificate():
    for sent, release in zip(SENT[1:], EXACT["replace_one"].releases, strict=True):
        held = release.certificate.model_dump(mode="json")
        assert all(sent.head[name] == value for name, value in held.items() if name != "notes")
        assert canonical(sent.head)
