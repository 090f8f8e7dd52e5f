"""Structural rules of tables of people: their texts, their faults, and the cells that keep them."""

import pytest

from stream_dp.errors import UserError
from stream_dp.study import Attribute
from stream_dp.study.column_rules import (
    Cell,
    Function,
    Implication,
    Order,
    attribute_cells,
    column_rule_faults,
    read_column_rule,
)
from stream_dp.study.structural_rules import MOST_RULES

AGE = {"number": {"least": 0, "most": 99}, "bins": [16, 40], "special": [-9]}
COLUMNS = {
    "age": Attribute(**AGE, missing="absent"),
    "pay": Attribute(number={"least": 0, "most": 900, "step": 100}, bins=[500], missing=0),
    "start": Attribute(values=(1, 2, 3), missing="absent"),
    "end": Attribute(values=(1, 2, 3, "open"), missing="absent"),
    "married": Attribute(values=("yes", "no", "widowed"), missing="no"),
}


@pytest.mark.parametrize(
    ("text", "gap", "columns"),
    [
        ("start <= end", 0, ("start", "end")),
        ("end > start", 1, ("start", "end")),
        ("start + 2 < end - 1", 4, ("start", "end")),
        ("age >= 16", 16, ("age",)),
        ("16 > age", -15, ("age",)),
    ],
)
def test_an_order_is_a_smallest_gap(text, gap, columns):
    order = read_column_rule(text)
    assert isinstance(order, Order)
    assert (order.rule.gap, order.columns, order.text) == (gap, columns, text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is no rule"),
        ("start = end", "is no rule"),
        ("start <= end <= age", "is no rule"),
        ("1 <= 2", "compares two constants"),
        ("start <= start + 1", "compares 'start' with itself"),
        ("age < 16 -> no", "'no' is no test of a column"),
        ("age -> married = no", "'age' is no test of a column"),
        ("age < 16 -> age = 3", "has two tests of 'age'"),
        ("age < x -> married = no", "'age < x' compares with no whole number"),
    ],
)
def test_other_texts_are_no_rules(text, why):
    with pytest.raises(UserError, match=why):
        read_column_rule(text)


def kept(text):
    """The pairs of cells that keep a rule."""
    rule = read_column_rule(text)
    first, second = (attribute_cells(COLUMNS[name]) for name in rule.columns)
    return {(a.symbol, b.symbol) for a in first for b in second if rule.kept(a, b)}


def test_an_order_binds_people_with_both_numbers():
    every = {(a, b) for a in ("1", "2", "3", "absent") for b in ("1", "2", "3", "open", "absent")}
    assert every - kept("start <= end") == {("2", "1"), ("3", "1"), ("3", "2")}


def test_an_implication_binds_who_meets_its_condition():
    ages = ("0..15", "16..39", "40..99", "-9", "absent")
    every = {(a, m) for a in ages for m in ("yes", "no", "widowed")}
    broken = every - kept("age < 16 -> married = no, widowed")
    assert broken == {("0..15", "yes")}
    assert every - kept("age = -9 -> married = no") == {("-9", "yes"), ("-9", "widowed")}
    named = kept("married = no -> start = absent")
    assert {s for m, s in named if m == "no"} == {"absent"}
    unnamed = kept("married = no -> start = 1")
    assert {s for m, s in unnamed if m == "no"} == {"1", "absent"}


def test_a_function_has_one_value():
    rule = Function("sector", "trade", {"baker": "food", "smith": "metal"})
    assert rule.kept(Cell("baker"), Cell("food"))
    assert not rule.kept(Cell("smith"), Cell("food"))
    assert rule.text == "sector follows from trade"


@pytest.mark.parametrize(
    ("texts", "line"),
    [
        (["size <= 3"], ".0: 'size' is none of the release's attributes"),
        (["start <= end", "married >= 1"], ".1: 'married' has no order"),
        (["married > 1 -> start = 1"], ".0: 'married' has no order"),
        (["married = divorced -> start = 1"], ".0: 'divorced' is no value of married"),
        (["age < 18 -> married = no"], ".0: the bin 16..39 of 'age' lies on both sides; add 18"),
        (["age <= 18 -> married = no"], ".0: the bin 16..39 of 'age' lies on both sides; add 19"),
        (["age = 0 -> married = no"], ".0: the bin 0..15 of 'age' lies on both sides; add 1 "),
        (["pay >= 50"], ".0: 'pay' and the rule do not count in steps of 100 alone"),
        (["start <= pay"], ".0: 'start' and the rule do not count in steps of 100 alone"),
        (["pay > 1000"], ".0: 'pay' and the rule do not count in steps"),
        (["pay >= 1000"], ".0: no row can keep it"),
        (["age >= 1"] * (MOST_RULES + 1), ": 65 are more than 64"),
    ],
)
def test_faults_name_the_rule(texts, line):
    faults = [*column_rule_faults([*map(read_column_rule, texts)], COLUMNS)]
    assert len(faults) == 1
    assert faults[0].startswith(line)


def test_sound_rules_have_no_fault():
    texts = ("age < 16 -> married = no", "age >= 18", "start <= end", "pay >= 300")
    rules = [*map(read_column_rule, texts)]
    assert not [*column_rule_faults(rules, COLUMNS)]
    assert isinstance(rules[0], Implication)
