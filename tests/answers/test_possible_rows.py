"""Combinations of structural rules against all rows: which rules no row keeps together."""

from itertools import combinations, product

import numpy as np
import pytest

from stream_dp.answers.tables import possible_rows
from stream_dp.answers.tables.possible_rows import PossibleRows, restricted
from stream_dp.study.column_rules import Cell, Function, Order, read_column_rule

BINS = {"a": [(0, 2), (3, 4), (5, 5)], "b": [(0, 1), (2, 5)], "c": [(1, 3), (4, 4), (6, 7)]}
VALUES = {"d": ["1", "3", "5", "open"], "e": ["x", "y", "z"], "f": ["u", "v"]}


def cells_of(rng):
    """The cells of every column: bins of numbers, listed numbers and texts, some with 'absent'."""
    columns = {
        name: [Cell(f"{low}..{high}", low, high) for low, high in bins]
        for name, bins in BINS.items()
    }
    columns |= {
        name: [Cell(v, int(v), int(v)) if v.isdecimal() else Cell(v) for v in values]
        for name, values in VALUES.items()
    }
    return {
        name: [*cells, *([Cell("absent")] if rng.random() < 0.3 else [])]
        for name, cells in columns.items()
    }


def some_rules(rng, cells):
    """Random rules about the columns."""
    rules = []
    for _ in range(rng.integers(2, 8)):
        kind = rng.integers(3)
        if kind == 0:
            low, high = rng.choice(["a", "b", "c", "d"], 2, replace=False)
            rules.append(read_column_rule(f"{low} + {rng.integers(4)} <= {high}"))
        elif kind == 1:
            one = rng.choice(["a", "b", "c", "d"])
            rules.append(read_column_rule(f"{one} >= {rng.integers(1, 5)}"))
        else:
            first, second = rng.choice(["a", "c", "d", "e", "f"], 2, replace=False)
            tests = [
                f"{name} >= {rng.choice([int(c.least) for c in cells[name] if c.least])}"
                if name in "ac"
                else f"{name} = {rng.choice([c.symbol for c in cells[name]])}"
                for name in (first, second)
            ]
            rules.append(read_column_rule(f"{tests[0]} -> {tests[1]}"))
    values = {c.symbol: cells["f"][int(rng.integers(2))].symbol for c in cells["e"]}
    return [*rules, Function("f", "e", values)] if rng.random() < 0.3 else rules


def points(cells):
    """The numbers and other values of a column, and the cell of each."""
    listed = [
        (Cell(str(n), n, n) if c.least is not None else c, code)
        for code, c in enumerate(cells)
        for n in (range(c.least, c.most + 1) if c.least is not None else [None])
    ]
    values, codes = zip(*listed, strict=True)
    return values, np.array(codes)


class AllRows:
    """All rows of values, with what each rule says of them."""

    def __init__(self, rules, cells):
        self.names = [*cells]
        values = {name: points(cells[name]) for name in cells}
        shape = [len(values[name][0]) for name in cells]
        grid = dict(zip(cells, np.indices(shape), strict=True))
        self.codes = {name: values[name][1][grid[name]] for name in cells}
        self.keeps = []
        for rule in rules:
            table = np.array(
                [rule.kept(*row) for row in product(*(values[n][0] for n in rule.columns))]
            ).reshape([len(values[n][0]) for n in rule.columns])
            self.keeps.append(table[tuple(grid[n] for n in rule.columns)])

    def some(self, known, rules):
        """Whether a row of the known codes keeps rules, by their numbers."""
        rows = np.ones(next(iter(self.codes.values())).shape, bool)
        for name, codes in known.items():
            rows &= np.isin(self.codes[name], codes)
        return bool(np.all([rows, *(self.keeps[r] for r in rules)], axis=0).any())


@pytest.mark.parametrize("seed", range(40))
def test_rules_exclude_what_no_row_keeps(seed):
    rng = np.random.default_rng(seed)
    cells = cells_of(rng)
    rules = some_rules(rng, cells)
    rows, every = PossibleRows(rules, cells), AllRows(rules, cells)
    numbers = range(len(rules))
    if not every.some({}, numbers):
        return  # a study with such rules is refused
    ruled = sorted({name for rule in rules for name in rule.columns})
    for _ in range(10):
        names = rng.choice(ruled, min(len(ruled), int(rng.integers(1, 4))), replace=False)
        known = {
            name: rng.choice(len(cells[name]), rng.integers(1, 3), replace=False) for name in names
        }
        ranges = {
            name: restricted(rows.ranges[name], np.isin(np.arange(len(cells[name])), codes))
            for name, codes in known.items()
        }
        found = [rules.index(rule) for rule in rows.excluding(ranges)]
        assert bool(found) == (not every.some(known, numbers))
        if found:
            assert not every.some(known, found)
            assert all(every.some(known, rest) for rest in combinations(found, len(found) - 1))
            alone = [r for r in numbers if not every.some(known, [r])]
            assert not alone or found == alone[:1]


@pytest.mark.parametrize("seed", range(20))
def test_cells_of_a_row_are_possible_together(seed):
    rng = np.random.default_rng(seed)
    cells = cells_of(rng)
    rules = some_rules(rng, cells)
    every, numbers = AllRows(rules, cells), range(len(rules))
    if not every.some({}, numbers):
        return
    first, second = sorted({name for rule in rules for name in rule.columns})[:2]
    shape = len(cells[first]), len(cells[second])
    codes = product(*map(range, shape))
    found = PossibleRows(rules, cells).together(first, second)
    expected = [every.some({first: [a], second: [b]}, numbers) for a, b in codes]
    kept = np.reshape(expected, shape)
    assert (kept <= found).all()
    if possible_rows._acyclic(rule.columns for rule in rules if len(rule.columns) == 2):
        assert (kept == found).all()


def numbers_of(**ends):
    return {name: [Cell(name, least, most)] for name, (least, most) in ends.items()}


def test_orders_go_on_within_bins():
    cells = numbers_of(a=(0, 10**9), b=(0, 10**9), c=(0, 9))
    ruled = PossibleRows([*map(read_column_rule, ["a + 5 <= b", "b + 5 <= c"])], cells)
    assert len(ruled.excluding({"c": ruled.ranges["c"]})) == 2
    cells["c"] = [Cell("c", 0, 10)]
    assert not PossibleRows(ruled.rules, cells).excluding({"c": np.array([[0, 10]])})


def test_bounds_that_never_settle_leave_no_row():
    cells = numbers_of(a=(0, 10**9), b=(0, 10**9))
    rules = [*map(read_column_rule, ["a < b", "b <= a"])]
    ruled = PossibleRows(rules, cells)
    assert all(isinstance(rule, Order) for rule in ruled.excluding({"a": ruled.ranges["a"]}))
    assert len(ruled.excluding({"a": ruled.ranges["a"]})) == 2
    shifted = [*map(read_column_rule, ["a <= b", "b <= a"])]
    assert not PossibleRows(shifted, cells).excluding({"a": ruled.ranges["a"]})


def test_nothing_is_said_beyond_the_cases(monkeypatch):
    """Three pairs of three colours: two colours alone leave no row, which needs cases."""
    colours = [Cell(colour) for colour in "xyz"]
    pairs = product(combinations("abc", 2), "xyz")
    rules = [read_column_rule(f"{a} = {value} -> {b} != {value}") for (a, b), value in pairs]
    ruled = PossibleRows(rules, dict.fromkeys("abc", colours))
    two = {name: restricted(ruled.ranges[name], np.array([True, True, False])) for name in "abc"}
    assert len(ruled.excluding(two)) > 1
    assert not ruled.excluding({"a": two["a"]})
    monkeypatch.setattr(possible_rows, "MOST_CASES", 2)
    assert not PossibleRows(rules, ruled.cells).excluding(two)
