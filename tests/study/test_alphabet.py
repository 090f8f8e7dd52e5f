"""Alphabets of one attribute or of the product of several, and queries in their words."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dp.answers.query import parse_query
from stream_dp.errors import UserError
from stream_dp.study.attribute import Alphabet, matching_codes
from stream_dp.study.field_types import ABSENT

values = st.lists(
    st.integers(-3, 99) | st.text("abé ;'\"", min_size=1, max_size=4),
    min_size=1,
    max_size=4,
    unique_by=str,
)
part = st.builds(lambda v, gone: (*v, *([ABSENT] * gone)), values, st.booleans())
alphabets = st.builds(
    lambda parts, outside: Alphabet(tuple(f"a{i}" for i in range(len(parts))), parts, outside),
    st.lists(part, min_size=1, max_size=3).map(tuple),
    st.booleans(),
).filter(lambda a: len(a.values) > 1)

BOTH = Alphabet(("poverty", "job"), ((0, 1), ("yes", "no", ABSENT)))
GONE = Alphabet(("poverty", "job"), ((0, 1, ABSENT), ("yes", ABSENT)))


@given(alphabets)
def test_every_code_has_a_name_and_every_name_means_that_code(alphabet):
    names = [str(value) for value in alphabet.values]
    assert len(set(names)) == len(names)
    assert [matching_codes(name, alphabet.values) for name in names] == [
        [i] for i in range(len(names))
    ]


@given(alphabets)
def test_codes_are_numbers_in_mixed_radix_and_absence_is_the_last(alphabet):
    combined = list(itertools.product(*alphabet.symbols))
    gone = [all(v == ABSENT for v in symbols) for symbols in combined]
    assert len(alphabet.values) == len(combined) + (alphabet.outside and not gone[-1])
    for code, one in enumerate(combined):
        radix = 0
        for value, symbols in zip(one, alphabet.symbols, strict=True):
            radix = radix * len(symbols) + symbols.index(value)
        assert radix == code
    assert alphabet.absent == (len(alphabet.values) - 1 if gone[-1] or alphabet.outside else None)
    assert [str(v) == ABSENT for v in alphabet.values[: len(combined)]] == gone


@given(alphabets, st.data())
def test_a_part_of_a_name_means_all_that_have_it(alphabet, data):
    if len(alphabet.symbols) == 1:
        return
    some = data.draw(st.sets(st.sampled_from(range(len(alphabet.symbols))), min_size=1))
    chosen = {i: data.draw(st.sampled_from(alphabet.symbols[i])) for i in some}
    words = [f"{alphabet.attributes[i]}={v}" for i, v in chosen.items()]
    word = "&".join(data.draw(st.permutations(words)))
    expected = [
        code
        for code, one in enumerate(itertools.product(*alphabet.symbols))
        if all(one[i] == v for i, v in chosen.items()) and any(v != ABSENT for v in one)
    ]
    assert matching_codes(word, alphabet.values) == expected


def test_names_of_products():
    assert BOTH.name == "poverty&job"
    assert BOTH.values[:3] == ("poverty=0&job=yes", "poverty=0&job=no", "poverty=0&job=absent")
    assert (BOTH.absent, GONE.absent) == (None, 5)
    assert GONE.values[-2:] == ("poverty=absent&job=yes", ABSENT)
    assert Alphabet(BOTH.attributes, BOTH.symbols, True).values == (*BOTH.values, ABSENT)
    assert Alphabet(GONE.attributes, GONE.symbols, True).values == GONE.values
    assert Alphabet(("a",), ((0, 1),), True).values == (0, 1, ABSENT)


def test_words_that_mean_nothing():
    for word in ("", "poverty", "poverty=2", "job=yes&job=no", "=", "&", "poverty=1&", "yes", "1"):
        assert matching_codes(word, BOTH.values) == []
    assert matching_codes("poverty=1&poverty=1", BOTH.values) == [3, 4, 5]
    assert matching_codes("1", (0, 1)) == [1]
    assert matching_codes("a=1", (0, 1)) == []


def bins(mask, q):
    return {divmod(code, q) for code in mask.nonzero()[0].tolist()}


def test_queries_over_products():
    q, poor, idle = 6, {3, 4, 5}, {1, 4}
    query = parse_query("pattern poverty=1 job=no", BOTH.name, BOTH.values)
    assert bins(query.mask, q) == set(itertools.product(poor, idle))
    query = parse_query("pattern poverty=1&job=no|job=absent ?", BOTH.name, BOTH.values)
    assert bins(query.mask, q) == set(itertools.product({4, 2, 5}, range(q)))
    query = parse_query("at-least 1 of last 2 job=no", BOTH.name, BOTH.values)
    every = set(itertools.product(range(q), repeat=2))
    assert bins(query.mask, q) == {w for w in every if set(w) & idle}
    query = parse_query("consecutive 2 of last 2 job=no&poverty=1", BOTH.name, BOTH.values)
    assert bins(query.mask, q) == {(4, 4)}
    query = parse_query("pattern absent poverty=absent", GONE.name, GONE.values)
    assert bins(query.mask, q) == {(5, 4)}


@pytest.mark.parametrize("word", ["poverty=2", "work=no", "no", "poverty", "1"])
def test_a_query_that_a_product_does_not_know_is_refused_with_its_values(word):
    with pytest.raises(UserError, match="is no value; the values are poverty=0&job=yes,"):
        parse_query(f"at-least 1 of last 2 {word}", BOTH.name, BOTH.values)
