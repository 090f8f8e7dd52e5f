"""What a public log gives an analyst: panels, examples of queries, and errors in words."""

import numpy as np
import pytest
from kit.employment import EXACT, LABELS, TRUTH, Q, employment_study, public_log
from kit.public_logs import Silent, TopicInMemory, log_in_memory

from stream_dp.answers.query import parse_query, query_words
from stream_dp.client import PublicLog
from stream_dp.errors import UserError
from stream_dp.log.log import Damaged, LogError, Missing, Unavailable
from stream_dp.log.message import START, build_message
from stream_dp.panel import window_codes
from stream_dp.privacy.noise import SeededNoise
from stream_dp.release.published_panels import STUDY_TYPE

# Errors in words.


@pytest.mark.parametrize(
    ("name", "query", "period", "message"),
    [
        ("none", "pattern full", None, "release 'none': the study has no such release; it has"),
        ("pairs", "pattern full full", "2021-Q1", "at 2021-Q1 there are 1 so far"),
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
def test_what_cannot_be_answered_is_refused_in_a_line(name, query, period, message):
    with pytest.raises(UserError) as error:
        EXACT["replace_one"].answer(name, query, period)
    (line,) = error.value.lines
    assert message in line


def test_every_example_of_a_query_can_be_asked():
    for source in EXACT.values():
        for release in source.study.releases:
            examples = source.queries(release.name)
            assert examples
            for query in examples:
                source.answer(release.name, query, count=True)
    with pytest.raises(UserError, match="no such release"):
        EXACT["replace_one"].queries("none")


@pytest.mark.parametrize("missing", ["part", "absent", {"carry": True, "first": "part"}])
@pytest.mark.parametrize("last", ["full", "half day", "it's", 'a "b"', "\\", "$HOME", "?!"[1]])
def test_every_example_can_be_asked_whatever_the_values(missing, last):
    attribute = {"values": ["part", last], "missing": missing}
    study = employment_study(attributes={"work": attribute}, releases=[make_window(3)])
    first = build_message(0, START, {"type": STUDY_TYPE, "study": as_json(study)}, [])
    source = PublicLog(log_in_memory([first]))
    symbols = study.attributes["work"].symbols
    for query in source.queries("w"):
        words = query_words(query)
        assert parse_query(words.query, "work", symbols).mask.any()


def make_window(width):
    return {"name": "w", "kind": "window", "attribute": "work", "width": width, "rho": 1}


def as_json(study):
    return study.model_dump(mode="json", exclude_none=True)


# Panels, and what a public log says of itself.


@pytest.mark.parametrize("neighbours", EXACT)
def test_panels_only_grow(neighbours):
    asked = public_log(employment_study(neighbours), SeededNoise(9))
    for declared in asked.study.releases:
        last = asked.panel(declared.name)
        assert last.periods == LABELS
        for release in asked.releases_of(declared.name):
            certificate = release.certificate
            panel = asked.panel(declared.name, certificate.period)
            assert panel.periods == LABELS[: certificate.number]
            assert np.array_equal(panel.symbols, last.until(certificate.period).symbols)
            assert panel.rows == certificate.rows == last.rows


def test_without_noise_a_cumulative_panel_has_the_true_totals():
    panel = EXACT["replace_one"].panel("full-time")
    totals = np.sort(panel.symbols.sum(axis=1))
    assert np.array_equal(totals, np.sort((TRUTH == 2).sum(axis=1)))


def test_without_noise_a_window_panel_has_the_true_patterns_and_padding():
    asked = EXACT["replace_one"]
    panel, padding = asked.panel("pairs"), asked.release_at("pairs", None).certificate.padding
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


def test_an_empty_public_log_is_refused():
    with pytest.raises(UserError, match="nothing is published yet"):
        PublicLog(TopicInMemory([]))


def test_a_log_that_cannot_be_read_is_refused():
    class Gone(TopicInMemory):
        def describe(self, topic):
            raise LogError("no such log")

    with pytest.raises(UserError, match="public log: no such log"):
        PublicLog(Gone([]))


@pytest.mark.parametrize("kind", [Damaged, Unavailable, Missing])
def test_what_may_pass_and_what_is_damaged_stay_apart(kind):
    class Gone(TopicInMemory):
        def describe(self, topic):
            raise kind("why")

    with pytest.raises(kind, match="why"):
        PublicLog(Gone([]))


def test_a_release_of_which_nothing_is_published_is_named():
    asked = public_log(employment_study(), Silent(), periods=1)
    assert [r.certificate.release for r in asked.releases] == ["full-time"]
    with pytest.raises(UserError, match="release 'pairs': nothing is published of it yet") as error:
        asked.panel("pairs")
    first = "it has its first answer for 2021-Q2, when that quarter is published"
    assert first in str(error.value)
    with pytest.raises(UserError, match="release 'pairs': nothing is published of it yet"):
        asked.answer("pairs", "pattern part full")
