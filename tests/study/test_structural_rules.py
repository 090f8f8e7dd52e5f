"""Structural rules: their texts, their faults, and values that keep them all."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dp.errors import UserError
from stream_dp.study.structural_rules import AGES as AGES_OF_MAJORITY
from stream_dp.study.structural_rules import (
    MOST_RULES,
    Rule,
    Variable,
    column_numbers,
    least_solution,
    read_group_rules,
    rule_faults,
)

AGES = {"age": (0, 10, 20, 30, "absent"), "work": ("yes", "no")}


@pytest.mark.parametrize(
    ("text", "low", "high", "gap"),
    [
        ("child.age + 12 <= head.age", ("child", "age"), ("head", "age"), 12),
        ("head.age >= child.age + 12", ("child", "age"), ("head", "age"), 12),
        ("head.age - 12 >= child.age", ("child", "age"), ("head", "age"), 12),
        ("spouse.age - 5 <= other.rank + 3", ("spouse", "age"), ("other", "rank"), -8),
        ("spouse.age >= 16", None, ("spouse", "age"), 16),
        ("16 <= spouse.age", None, ("spouse", "age"), 16),
        ("15 < spouse.age", None, ("spouse", "age"), 16),
        ("child.age <= -7", ("child", "age"), None, 7),
    ],
)
def test_a_rule_is_a_smallest_gap(text, low, high, gap):
    rule = Rule.read(text)
    assert (rule.low, rule.high) == (low and Variable(*low), high and Variable(*high))
    assert rule.gap == gap
    assert rule.text == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "head.age", "head.age == 3", "head.age = 3", "age >= 16", "lodger.age >= 1"),
        *(
            "head.age>=16",
            "head.age >=  16",
            " head.age >= 16",
            "head.age >= 1e3",
            "head.age >= 1.5",
        ),
        *(
            "head.age + -1 >= 2",
            "head.age * 2 <= 5",
            "head.age + child.age <= 9",
            "2 + 2 <= head.age",
        ),
        *("head. <= 3", "head.age >= 10000000000", "head.age >= 1 <= 3", "head.age >= 1\n"),
    ],
)
def test_other_texts_are_no_rules(text):
    with pytest.raises(UserError, match="is no rule; write such as"):
        Rule.read(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [("1 <= 2", "two constants"), ("head.age <= head.rank", "compares 'head' with itself")],
)
def test_a_rule_compares_roles(text, why):
    with pytest.raises(UserError, match=why):
        Rule.read(text)


@pytest.mark.parametrize(
    ("texts", "line"),
    [
        (["child.age <= head.rank"], ".0: 'rank' is none of the release's attributes"),
        (["head.age >= 1", "head.work >= 1"], ".1: 'work' has no order"),
        (["other.age <= head.age"], ".0: no member is an other"),
        (["spouse.age >= 31"], ": no group with head and spouse can keep 'spouse.age >= 31'"),
        (
            ["head.age <= 25", "spouse.age >= 1", "child.age + 21 <= head.age"],
            ": no group with head and child can keep 'head.age <= 25', 'child.age + 21",
        ),
        (
            ["child.age + 15 <= head.age", "spouse.age <= 30", "head.age + 15 <= spouse.age"],
            ": no group with head and spouse and child can keep",
        ),
        (["head.age >= 1"] * (MOST_RULES + 1), f": {MOST_RULES + 1} are more than"),
    ],
)
def test_faults_have_a_line(texts, line):
    (fault,) = rule_faults([[Rule.read(t)] for t in texts], AGES, others=False, most=4)
    assert fault.startswith(line)


def test_adults_are_a_rule_for_head_and_spouse():
    texts = [rule.text for rule in read_group_rules("adults of KR: age")]
    assert texts == ["head.age >= 19", "spouse.age >= 19"]
    assert all(16 <= age <= 21 and country.isupper() for country, age in AGES_OF_MAJORITY.items())
    with pytest.raises(UserError, match="no age of majority of 'XX' is known, but of AT"):
        read_group_rules("adults of XX: age")
    with pytest.raises(UserError, match="is no rule"):
        read_group_rules("adults of DE age")


def test_only_groups_that_can_be_need_values():
    """A spouse and a child do not live together in groups of two."""
    texts = ["child.age + 15 <= head.age", "spouse.age <= 30", "head.age + 15 <= spouse.age"]
    rules = [[Rule.read(text)] for text in texts]
    assert list(rule_faults(rules, AGES, others=False, most=3))
    assert not list(rule_faults(rules, AGES, others=False, most=2))


def test_numbers_are_whole_but_for_absent():
    assert column_numbers((3, 1, "absent")) == (3, 1, None)
    assert column_numbers((3, "1")) is None
    assert column_numbers(("absent",)) is None


NAMES = ("head.a", "spouse.a", "child.b")
SIDES = st.one_of(st.sampled_from(NAMES), st.integers(-3, 6).map(str))
TEXTS = st.builds(
    lambda a, sign, shift, order, b: (
        f"{a}{'' if a[-1].isdigit() else f' {sign} {shift}'} {order} {b}"
    ),
    *(SIDES, st.sampled_from("+-"), st.integers(0, 4), st.sampled_from(["<=", ">="]), SIDES),
)


def kept(rule, values):
    low = rule.gap + (values[rule.low] if rule.low else 0)
    return low <= (values[rule.high] if rule.high else 0)


@given(texts=st.lists(TEXTS, max_size=5), data=st.data())
def test_the_least_solution_is_below_all_others(texts, data):
    rules = []
    for text in texts:
        try:
            rules.append(Rule.read(text))
        except UserError:
            continue
    variables = sorted({v for r in rules for v in r.variables}, key=str)
    sets = st.lists(st.integers(0, 6), min_size=1, max_size=4, unique=True).map(sorted)
    numbers = {v: data.draw(sets) for v in variables}
    start = {v: data.draw(st.integers(0, 6)) for v in variables[:1]}
    solutions = [
        values
        for combination in product(*numbers.values())
        for values in [dict(zip(numbers, combination, strict=True))]
        if all(kept(rule, values) for rule in rules)
        and all(values[v] >= bound for v, bound in start.items())
    ]
    least = least_solution(rules, numbers, start)
    if least is None:
        assert not solutions
    else:
        assert least in solutions
        assert all(least[v] <= values[v] for values in solutions for v in variables)
