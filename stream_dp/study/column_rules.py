"""Structural rules of tables of people: cells of one column or two that cannot occur in the world.

    start <= end                     an order of whole numbers, as in `structural_rules.py`
    age < 16 -> married = no         a test of a column, and what then holds of another column
    work = no -> sector = absent     a test may name several values: 'married = no, widowed'

A derived column that is one of the release's attributes is a rule as well: its value follows from
the other column's. A person without a number keeps every order. A person who is 'absent' in a
column keeps every rule that does not name 'absent' for the column. Rules are public: they come from
the world, never from the data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from operator import ge, gt, le, lt
from typing import NamedTuple

from stream_dp.errors import UserError

from .attribute import Attribute
from .field_types import ABSENT, NAME_PATTERN, Symbol
from .scale import Numbers
from .structural_rules import MOST_RULES, Rule

_TEST = re.compile(rf"({NAME_PATTERN}) (=|!=|<=|>=|<|>) (\S.*)")
_ORDERS = {"<": lt, "<=": le, ">": gt, ">=": ge}
_EXAMPLES = "write such as 'start <= end' or 'age < 16 -> married = no'"


class Cell(NamedTuple):
    """A value of a column, or a bin of numbers.

    symbol: the value, or the bin's label.
    least, most: the first and the last number; None where the value is no number.
    """

    symbol: str
    least: int | None = None
    most: int | None = None

    @property
    def is_range(self) -> bool:
        return self.least != self.most


def column_cells(values: Sequence[Symbol], numbers: Numbers | None = None) -> tuple[Cell, ...]:
    """The cells of a column. values: its values, or the labels of the bins of `numbers`."""
    if numbers is None:
        return tuple(Cell(str(v), v, v) if isinstance(v, int) else Cell(v) for v in values)
    points, starts = numbers.scale.points, numbers.bin_starts
    bins = [
        Cell(str(label), points[first], points[end - 1])
        for label, first, end in zip(values, starts[:-1], starts[1:], strict=False)
    ]
    return (*bins, *(Cell(str(label)) for label in values[len(bins) :]))


def attribute_cells(attribute: Attribute) -> tuple[Cell, ...]:
    """The cells of a column of a sound attribute's answers."""
    numbers = attribute.numbers
    return column_cells(attribute.symbols if numbers is None else numbers.bin_labels, numbers)


@dataclass(frozen=True)
class Test:
    """A test of a column, like `age < 16` or `married = no, widowed`.

    order: =, !=, <, <=, > or >=.
    """

    column: str
    order: str
    values: tuple[str, ...]

    @staticmethod
    def read(text: str) -> Test:
        """Raises UserError for a text other than a test."""
        match = _TEST.fullmatch(text.strip())
        if match is None:
            raise UserError(f"'{text.strip()}' is no test of a column; {_EXAMPLES}")
        column, order, right = match.groups()
        values = tuple(value.strip() for value in right.split(","))
        if order in _ORDERS and not re.fullmatch(r"-?\d{1,17}", right):
            raise UserError(f"'{text.strip()}' compares with no whole number; {_EXAMPLES}")
        return Test(column, order, values)

    def meets(self, cell: Cell, other: bool) -> bool:
        """Whether a cell meets the test. other: the result for a cell beside it."""
        if self.order in _ORDERS:
            if cell.least is None:
                return other
            return bool(_ORDERS[self.order](cell.least, int(self.values[0])))
        if cell.symbol == ABSENT and ABSENT not in self.values:
            return other
        symbol = cell.symbol if cell.least is None else str(cell.least)
        return (symbol in self.values) == (self.order == "=")

    def divides(self, cell: Cell) -> int | None:
        """The missing edge of a bin with numbers on both sides of the test; else None."""
        if cell.least is None or cell.most is None or not cell.is_range:
            return None
        numbers = [int(v) for v in self.values if re.fullmatch(r"-?\d{1,17}", v)]
        ends = {"<": (0,), ">=": (0,), "<=": (1,), ">": (1,)}.get(self.order, (0, 1))
        edges = sorted(n + end for n in numbers for end in ends)
        return next((e for e in edges if cell.least < e <= cell.most), None)


@dataclass(frozen=True)
class Implication:
    """Whoever meets the condition meets the conclusion."""

    text: str
    condition: Test
    conclusion: Test

    @property
    def columns(self) -> tuple[str, ...]:
        return self.condition.column, self.conclusion.column

    def kept(self, first: Cell, second: Cell) -> bool:
        """Whether a row of these cells of `columns` keeps the rule."""
        return not self.condition.meets(first, False) or self.conclusion.meets(second, True)


@dataclass(frozen=True)
class Function:
    """A column as a function of another column.

    values: by value of the other column.
    """

    column: str
    of: str
    values: Mapping[str, Symbol]

    @property
    def text(self) -> str:
        return f"{self.column} follows from {self.of}"

    @property
    def columns(self) -> tuple[str, ...]:
        return self.of, self.column

    def kept(self, first: Cell, second: Cell) -> bool:
        return str(self.values[first.symbol]) == second.symbol


@dataclass(frozen=True)
class Order:
    """An order of numbers of two columns, or of a column and a constant."""

    rule: Rule

    @property
    def text(self) -> str:
        return self.rule.text

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(variable.column for variable in self.rule.variables)

    def kept(self, *cells: Cell) -> bool:
        """Whether some numbers of the cells keep the order."""
        if any(cell.least is None or cell.most is None for cell in cells):
            return True
        rest = [*cells]
        low = (rest.pop(0).least or 0) if self.rule.low is not None else 0
        high = (rest.pop(0).most or 0) if self.rule.high is not None else 0
        return low + self.rule.gap <= high


ColumnRule = Order | Implication | Function


def read_column_rule(text: str) -> Order | Implication:
    """Reads a rule of a table of people. Raises UserError for a text other than a rule."""
    if "->" in text:
        condition, _, conclusion = text.partition("->")
        rule = Implication(text, Test.read(condition), Test.read(conclusion))
        if len({*rule.columns}) < 2:
            raise UserError(f"has two tests of '{rule.condition.column}'; name two columns")
        return rule
    order = Rule.of_columns(text)
    if order is None:
        raise UserError(f"is no rule; {_EXAMPLES}")
    if not order.variables:
        raise UserError("compares two constants; name a column")
    if len({v.column for v in order.variables}) < len(order.variables):
        raise UserError(f"compares '{order.variables[0].column}' with itself; name two columns")
    return Order(order)


def column_rule_faults(
    rules: Sequence[Order | Implication], columns: Mapping[str, Attribute]
) -> Iterator[str]:
    """The faults of sound texts, to be put after the rules' key in the file.

    columns: the sound attributes of the release's columns.
    """
    if len(rules) > MOST_RULES:
        yield f": {len(rules)} are more than {MOST_RULES}; leave some out"
        return
    cells = {name: attribute_cells(attribute) for name, attribute in columns.items()}
    for index, rule in enumerate(rules):
        unknown = [name for name in rule.columns if name not in columns]
        if unknown:
            yield f".{index}: '{unknown[0]}' is none of the release's attributes"
            continue
        if isinstance(rule, Order):
            faults = _order_faults(rule, columns)
        else:
            tests = rule.condition, rule.conclusion
            faults = (f for test in tests for f in _test_faults(test, columns[test.column]))
        found = [*faults]
        tables = [cells[name] for name in rule.columns]
        if not found and not any(rule.kept(*row) for row in product(*tables)):
            found = ["no row can keep it; change it or leave it out"]
        yield from (f".{index}: {fault}" for fault in found)


def _order_faults(rule: Order, columns: Mapping[str, Attribute]) -> Iterator[str]:
    for name in rule.columns:
        if all(cell.least is None for cell in attribute_cells(columns[name])):
            yield f"'{name}' has no order: its values must be whole numbers"
            return
    steps = {s for name in rule.columns if (n := columns[name].numbers) and (s := n.scale.step) > 1}
    for name in rule.columns:
        numbers = columns[name].numbers
        counted = [rule.rule.gap, *_listed_numbers(columns[name])]
        step = 1 if numbers is None else numbers.scale.step
        if steps and (
            (numbers is not None and {step} != steps) or any(n % max(steps) for n in counted)
        ):
            yield f"'{name}' and the rule do not count in steps of {max(steps)} alone; let both"
            return


def _listed_numbers(attribute: Attribute) -> list[int]:
    symbols = attribute.symbols if attribute.numbers is None else ()
    return [symbol for symbol in symbols if isinstance(symbol, int)]


def _test_faults(test: Test, attribute: Attribute) -> Iterator[str]:
    cells, name = attribute_cells(attribute), test.column
    if test.order in _ORDERS:
        if all(cell.least is None for cell in cells):
            yield f"'{name}' has no order: its values must be whole numbers"
            return
    else:
        for value in test.values:
            points = () if attribute.number is None else map(str, attribute.number.points)
            if value not in attribute.codes and value not in points:
                yield f"'{value}' is no value of {name}"
                return
    for cell in cells:
        edge = test.divides(cell)
        if edge is not None:
            yield f"the bin {cell.symbol} of '{name}' lies on both sides; add {edge} to its bins"
            return
