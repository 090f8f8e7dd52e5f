"""A reader's check of the rules of rows."""

import pyarrow as pa
import pytest

from stream_dp.release.row_rules import rows_keep_rules
from stream_dp.study import Attribute
from stream_dp.study.column_rules import Function, read_column_rule

AGE = Attribute(number={"least": 0, "most": 99}, bins=[16], special=[-9], missing="absent")
SYMBOLS = {"age": AGE.symbols, "end": (10, 50, "open"), "work": ("yes", "no", "absent")}


def keeps(rule, **codes):
    rules = [read_column_rule(rule) if isinstance(rule, str) else rule]
    return rows_keep_rules(rules, SYMBOLS, pa.table(codes))


@pytest.mark.parametrize(
    ("age", "end", "kept"),
    [(10, 0, True), (11, 0, False), (99, 2, True), (100, 0, True), (101, 0, True), (50, 1, True)],
)
def test_an_order_of_numbers(age, end, kept):
    """Code 100 is the special code, 101 'absent', and 'open' is no number."""
    assert keeps("age <= end", age=[3, age], end=[1, end]) == kept
    assert keeps("end - 60 < age", age=[age], end=[end])


def test_an_implication():
    assert keeps("age < 16 -> work = no", age=[15, 16, 100, 101, 7], work=[1, 0, 0, 0, 2])
    assert not keeps("age < 16 -> work = no", age=[15, 16], work=[0, 0])
    assert not keeps("age = -9 -> work = no", age=[100], work=[0])
    assert not keeps("work = no -> end = 10", work=[1], end=[1])


def test_a_function():
    rule = Function("work", "end", {"10": "yes", "50": "no", "open": "absent"})
    assert keeps(rule, work=[0, 1, 2], end=[0, 1, 2])
    assert not keeps(rule, work=[0, 0], end=[0, 1])
    assert keeps(rule, work=pa.array([], pa.int8()), end=pa.array([], pa.int8()))


def test_a_constant_is_a_bound():
    assert keeps("age >= 16", age=[16, 99, 100])
    assert not keeps("16 > age", age=[16])
