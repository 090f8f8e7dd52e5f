"""Queries in words, against a plain reading of every window."""

import contextlib
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dp.answers.query import TotalQuery, WindowQuery, parse_query
from stream_dp.errors import UserError

BINARY = (0, 1)
MIXED = (0, "in part", "it's", "absent")


def windows(values, width):
    """Every window of values, in the order of its code."""
    return list(itertools.product([str(v) for v in values], repeat=width))


def pattern_holds(words, window):
    return all(word == "?" or value in word for word, value in zip(words, window, strict=True))


def longest_run(hits):
    return max((len(list(run)) for hit, run in itertools.groupby(hits) if hit), default=0)


def quoted(word):
    return f'"{word}"'


@given(st.data())
def test_patterns(data):
    values = data.draw(st.sampled_from([BINARY, MIXED, (1, 2, 3)]))
    width = data.draw(st.integers(1, 4))
    word = st.just("?") | st.lists(
        st.sampled_from([str(v) for v in values]), min_size=1, max_size=3
    )
    words = [data.draw(word) for _ in range(width)]
    shown = [word if word == "?" else quoted("|".join(word)) for word in words]
    query = parse_query("pattern " + " ".join(shown), "a", values)
    assert isinstance(query, WindowQuery)
    assert query.width == width
    assert query.mask.tolist() == [pattern_holds(words, w) for w in windows(values, width)]


@given(st.data())
def test_times_and_runs(data):
    values = data.draw(st.sampled_from([BINARY, MIXED]))
    width = data.draw(st.integers(1, 5))
    need = data.draw(st.integers(1, width))
    texts = [str(v) for v in values]
    chosen = data.draw(st.lists(st.sampled_from(texts), min_size=1, max_size=2, unique=True))
    named = data.draw(st.sampled_from(["a=", "", "="]))
    for form in ("at-least", "consecutive"):
        event = quoted(named + "|".join(chosen))
        query = parse_query(f"{form} {need} of last {width} {event}", "a", values)
        expected = []
        for window in windows(values, width):
            hits = [value in chosen for value in window]
            expected.append((sum(hits) if form == "at-least" else longest_run(hits)) >= need)
        assert query.mask.tolist() == expected


@given(st.integers(1, 3), st.integers(0, 2), st.integers(0, 26))
def test_over_a_wider_window_older_periods_are_free(width, more, seed):
    q = 3
    rng = np.random.default_rng(seed)
    query = WindowQuery("x", width, rng.random(q**width) < 0.5)
    wide = query.over(q ** (width + more))
    for code, digits in enumerate(itertools.product(range(q), repeat=width + more)):
        own = 0
        for digit in digits[more:]:
            own = own * q + digit
        assert wide[code] == query.mask[own]


def test_totals():
    query = parse_query(" total  at-least 3 ", "a", BINARY)
    assert query == TotalQuery("total at-least 3", 3)
    assert parse_query("total at-least 003", "a", BINARY) == query


JOBS = ("work", ("employed", "unemployed", "not working"))


def test_a_value_by_itself_is_a_query():
    query = parse_query("work=unemployed", *JOBS)
    assert (query.width, query.mask.tolist()) == (1, [False, True, False])
    either = parse_query("work='not working|employed'", *JOBS)
    assert either.mask.tolist() == [True, False, True]
    product = parse_query("job=no", "poor&job", ("poor=1&job=yes", "poor=1&job=no"))
    assert product.mask.tolist() == [False, True]


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("work=unemploied", "did you mean 'unemployed'?"),
        ("work=Employed", "did you mean 'employed'?"),
        ("atleast 1 of last 2 work=employed", "did you mean 'at-least'?"),
        ("patern employed", "did you mean 'pattern'?"),
        ("pattern employd", "did you mean 'employed'?"),
    ],
)
def test_a_mistake_names_the_nearest_word(text, near):
    with pytest.raises(UserError) as raised:
        parse_query(text, *JOBS)
    assert str(raised.value).endswith(near)


@pytest.mark.parametrize("before", ["", "at-least 1 of last 2 "])
def test_a_value_with_spaces_is_shown_in_quotes(before):
    with pytest.raises(UserError) as raised:
        parse_query(f"{before}hired=1 to 5", "hired", ("0", "1 to 5"))
    assert str(raised.value).endswith(f"stands in quotes: write {before}'hired=1 to 5'")
    parse_query(f"{before}'hired=1 to 5'", "hired", ("0", "1 to 5"))


def test_values_as_numbers_or_text_are_the_same():
    masks = [parse_query(f"pattern {w}", "a", (7, 8)).mask for w in ("7", '"7"', "'7'")]
    assert all(mask.tolist() == [True, False] for mask in masks)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not understood; write"),
        ("   ", "not understood; write"),
        ("pattern", "not understood; write"),
        ("Pattern 1", "not understood; write"),
        ("poor people", "not understood; write"),
        ("pattern 1 2", "'2' is no value; the values are 0, 1"),
        ("pattern 1|2", "'2' is no value"),
        ("pattern 1|", "'' is no value"),
        ("pattern ''", "'' is no value"),
        ("pattern ?|1", "'?' is no value"),
        ("pattern '1", "a quotation mark is not closed"),
        ("at-least 2 of last 3", "not understood"),
        ("at-least 2 of 3 poverty=1", "not understood"),
        ("at-least two of last 3 poverty=1", "not understood"),
        ("at-least -1 of last 3 poverty=1", "not understood"),
        ("at-least 1.5 of last 3 poverty=1", "not understood"),
        ("at-least ² of last 3 poverty=1", "not understood"),
        ("at-least 2 of last 3 poverty=1 now", "not understood"),
        ("at-least 4 of last 3 poverty=1", "cannot ask for 4 of 3 periods"),
        ("at-least 0 of last 3 poverty=1", "cannot ask for 0 of 3 periods"),
        ("consecutive 1 of last 0 poverty=1", "cannot ask for 1 of 0 periods"),
        ("at-least 1 of last 3 income=1", "the release is of 'poverty', not 'income'"),
        ("at-least 1 of last 3 poverty=2", "'2' is no value"),
        ("at-least 1 of last 3 poverty=", "'' is no value"),
        ("at-least 1 of last 40 poverty=1", "40 periods are too many to ask about"),
        ("at-least 1 of last 999999 poverty=1", "999999 periods are too many to ask about"),
        ("pattern " + "1 " * 30, "30 periods are too many to ask about"),
        ("total at-least", "not understood"),
        ("total at-least three", "not understood"),
        ("total at-least 9999999", "not understood"),
        ("total at-most 3", "not understood"),
    ],
)
def test_what_is_not_understood_is_said_in_a_line(text, message):
    with pytest.raises(UserError) as error:
        parse_query(text, "poverty", BINARY)
    (line,) = error.value.lines
    assert message in line
    assert line.startswith(f"query '{' '.join(text.split())}': ")
    assert "\n" not in line


@given(st.text(max_size=30))
def test_any_words_are_a_query_or_an_error(text):
    for words in (text, f"pattern {text}", f"at-least 1 of last 2 {text}"):
        with contextlib.suppress(UserError):
            parse_query(words, "a", BINARY)
