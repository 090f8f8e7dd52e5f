"""Whether a row of a table of people can keep several structural rules together.

A rule is a constraint on one column or two. First every rule removes the cells and numbers that no
row within the ranges of the other column supports (arc consistency, Mackworth 1977). An order
leaves a range of the numbers of a bin, so ranges lose nothing. Where the rules that still bind form
no cycle, a row is then possible (Freuder 1982). Otherwise one column after another is restricted to
one cell. Cells of numbers alone leave a system of differences: its bounds settle within as many
sweeps as there are columns, or never (Bellman 1958).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stream_dp.study.column_rules import Cell, ColumnRule, Order
from stream_dp.study.structural_rules import Variable

MOST_CASES = (
    1_000  # restrictions of columns that are tried; beyond them every row counts as possible
)
_NO_BOUND = 1 << 60  # stands for a number that no column has

Bools = NDArray[np.bool_]
Ranges = NDArray[np.int64]
State = Mapping[str, Ranges]


def cell_ranges(cells: Sequence[Cell]) -> Ranges:
    """(cells, 2) the first and the last number of every cell; 0 and 0 where it is no number."""
    ends = [(0, 0) if c.least is None or c.most is None else (c.least, c.most) for c in cells]
    return np.array(ends, np.int64).reshape(-1, 2)


def possible(ranges: Ranges) -> Bools:
    """(cells,) whether a cell is possible: its last number is not below its first."""
    return np.asarray(ranges[:, 0] <= ranges[:, 1], np.bool_)


def restricted(ranges: Ranges, cells: Bools) -> Ranges:
    """The ranges of some cells; 1 and 0, which is impossible, for all others."""
    return np.where((cells & possible(ranges))[:, None], ranges, np.array([1, 0]))


@dataclass(frozen=True, eq=False)
class _PairRule:
    """A rule about the cells of two columns.

    kept: (cells of the first column, cells of the second).
    """

    rule: ColumnRule
    columns: tuple[str, ...]
    kept: Bools

    def narrowed(self, state: State) -> Iterator[tuple[str, Ranges]]:
        """The columns within the ranges of the rule."""
        first, second = (state[name] for name in self.columns)
        kept = self.kept & possible(first)[:, None] & possible(second)
        yield self.columns[0], restricted(first, np.asarray(kept.any(1)))
        yield self.columns[1], restricted(second, np.asarray(kept.any(0)))

    def holds(self, state: State) -> bool:
        """Whether every row of possible cells keeps the rule."""
        first, second = (possible(state[name]) for name in self.columns)
        return bool(self.kept[np.ix_(first, second)].all())


@dataclass(frozen=True, eq=False)
class _OrderRule:
    """The rule low + gap <= high.

    numbers: by column, the cells that are numbers; other cells keep the rule.
    """

    rule: Order
    numbers: Mapping[str, Bools]

    @property
    def columns(self) -> tuple[str, ...]:
        return self.rule.columns

    def _bounds(self, side: Variable | None, state: State) -> tuple[int, int, bool]:
        """The first and the last possible number of a side, and whether it may be no number."""
        if side is None:
            return 0, 0, False
        cells, numbers = possible(state[side.column]), self.numbers[side.column]
        ranges = state[side.column][cells & numbers]
        if not ranges.size:
            return _NO_BOUND, -_NO_BOUND, True
        return int(ranges[:, 0].min()), int(ranges[:, 1].max()), bool((cells & ~numbers).any())

    def narrowed(self, state: State) -> Iterator[tuple[str, Ranges]]:
        """See `_PairRule.narrowed`."""
        rule = self.rule.rule
        least, _, free = self._bounds(rule.low, state)
        if rule.high is not None and not free:
            yield self._within(rule.high, state, least + rule.gap, _NO_BOUND)
        _, most, free = self._bounds(rule.high, state)
        if rule.low is not None and not free:
            yield self._within(rule.low, state, -_NO_BOUND, most - rule.gap)

    def _within(self, side: Variable, state: State, least: int, most: int) -> tuple[str, Ranges]:
        """The column of a side with its numbers from `least` to `most`."""
        ranges, numbers = state[side.column].copy(), self.numbers[side.column]
        ranges[numbers, 0] = np.maximum(ranges[numbers, 0], least)
        ranges[numbers, 1] = np.minimum(ranges[numbers, 1], most)
        return side.column, restricted(ranges, possible(ranges))

    def holds(self, state: State) -> bool:
        """See `_PairRule.holds`."""
        _, most, _ = self._bounds(self.rule.rule.low, state)
        least, _, _ = self._bounds(self.rule.rule.high, state)
        return most + self.rule.rule.gap <= least


_Constraint = _PairRule | _OrderRule


@dataclass(frozen=True, eq=False)
class PossibleRows:
    """The rows that rules leave possible.

    rules: sound, of a release of people.
    cells: by column that has rules.
    """

    rules: Sequence[ColumnRule]
    cells: Mapping[str, Sequence[Cell]]
    _excluding: dict[tuple[tuple[str, bytes], ...], tuple[ColumnRule, ...]] = field(
        default_factory=dict, init=False, repr=False
    )

    @cached_property
    def ranges(self) -> State:
        """The ranges of every column before any rule."""
        return {name: cell_ranges(cells) for name, cells in self.cells.items()}

    @cached_property
    def numbers(self) -> Mapping[str, Bools]:
        """By column, (cells,) whether a cell is of numbers."""
        return {
            name: np.array([cell.least is not None for cell in cells], np.bool_)
            for name, cells in self.cells.items()
        }

    @cached_property
    def _constraints(self) -> tuple[_Constraint, ...]:
        result = list[_Constraint]()
        for rule in self.rules:
            if isinstance(rule, Order):
                result.append(_OrderRule(rule, self.numbers))
                continue
            first, second = (self.cells[name] for name in rule.columns)
            kept = np.array([[rule.kept(a, b) for b in second] for a in first], np.bool_)
            result.append(_PairRule(rule, rule.columns, kept))
        return tuple(result)

    def excluding(self, known: State) -> tuple[ColumnRule, ...]:
        """Some rules that no row keeps together, each of them needed; the fewest are one rule.

        known: the ranges of some columns. Empty if a row is possible, if a column has no cell even
        before the rules, or if more than MOST_CASES restrictions do not decide it.
        """
        key = tuple((name, own.tobytes()) for name, own in known.items())
        if key not in self._excluding:
            self._excluding[key] = self._found_excluding(known)
        return self._excluding[key]

    def _found_excluding(self, known: State) -> tuple[ColumnRule, ...]:
        ranges = self._ranges_of_some_row
        state = {**ranges, **{name: _common(ranges[name], own) for name, own in known.items()}}
        if _some_row(state, self._constraints, {*known}):
            return ()
        if not all(possible(own).any() for own in known.values()):
            return ()
        state = {**self.ranges, **known}
        constraints = self._connected(known)
        for constraint in constraints:
            if not _some_row(state, [constraint], constraint.columns):
                return (constraint.rule,)
        for constraint in constraints:
            others = [other for other in constraints if other is not constraint]
            if not _some_row(state, others, state):
                constraints = others
        return tuple(constraint.rule for constraint in constraints)

    def together(self, first: str, second: str) -> Bools:
        """(cells, cells) False for two cells of two columns that no row has.

        Where rules form a cycle of columns it may be True for more of them.
        """
        ranges = self._ranges_of_some_row
        rows = [np.zeros(len(ranges[second]), np.bool_)] * len(ranges[first])
        for code in np.flatnonzero(possible(ranges[first])):
            own = restricted(ranges[first], np.arange(len(rows)) == code)
            settled = _settled({**ranges, first: own}, self._constraints, [first])
            if settled is not None:
                rows[code] = possible(settled[0][second])
        return np.stack(rows)

    @cached_property
    def _ranges_of_some_row(self) -> State:
        """The ranges that rules leave where nothing else is known. A release's rules leave some."""
        settled = _settled(self.ranges, self._constraints, self.ranges)
        return self.ranges if settled is None else settled[0]

    def _connected(self, known: State) -> list[_Constraint]:
        """The constraints that some column ties to known columns, in the order of the rules."""
        reached, before = {*known}, 0
        while len(reached) > before:
            before = len(reached)
            for constraint in self._constraints:
                if reached.intersection(constraint.columns):
                    reached.update(constraint.columns)
        return [c for c in self._constraints if reached.intersection(c.columns)]


def _some_row(state: State, constraints: Sequence[_Constraint], changed: Iterable[str]) -> bool:
    """Whether a row keeps all constraints, or too many cases are left to tell.

    changed: the columns whose ranges are not yet within the constraints of the others.
    """
    cases = [(state, {*changed})]
    for _ in range(MOST_CASES):
        if not cases:
            return False
        settled = _settled(cases[-1][0], constraints, cases.pop()[1])
        if settled is None:
            continue
        state, unsettled = settled
        binding = [c for c in constraints if len(c.columns) == 2 and not c.holds(state)]
        counts = {n: int(possible(state[n]).sum()) for c in binding for n in c.columns}
        several = [name for name, count in counts.items() if count > 1]
        if not unsettled and (not several or _acyclic(c.columns for c in binding)):
            return True
        if several:
            name = min(several, key=counts.__getitem__)
            codes = np.arange(len(state[name]))
            for code in np.flatnonzero(possible(state[name])):
                own = restricted(state[name], codes == code)
                cases.append(({**state, name: own}, {*unsettled, name}))
    return True


def _settled(
    state: State, constraints: Sequence[_Constraint], changed: Iterable[str]
) -> tuple[State, set[str]] | None:
    """The ranges within all constraints; None if a column has no cell left.

    The second value is empty, but where bounds still move as many sweeps after the last removed
    cell as there are columns: then it has the columns that moved last.
    """
    ranges, moved = dict(state), {*changed}
    if not all(possible(ranges[name]).any() for name in moved):
        return None
    sweeps = 0
    while moved and sweeps <= len(ranges):
        sweeps, before, moved = sweeps + 1, moved, set()
        for constraint in constraints:
            if before.isdisjoint(constraint.columns) and moved.isdisjoint(constraint.columns):
                continue
            for name, own in constraint.narrowed(ranges):
                if np.array_equal(own, ranges[name]):
                    continue
                removed = int(possible(ranges[name]).sum()) - int(possible(own).sum())
                ranges[name] = own
                moved.add(name)
                if not possible(own).any():
                    return None
                if removed:
                    sweeps = 0
    return ranges, moved


def _common(first: Ranges, second: Ranges) -> Ranges:
    """The numbers and cells in both."""
    both = np.stack(
        [np.maximum(first[:, 0], second[:, 0]), np.minimum(first[:, 1], second[:, 1])], axis=1
    )
    return restricted(both, possible(both))


def _acyclic(pairs: Iterable[tuple[str, ...]]) -> bool:
    """Whether pairs of columns form no cycle; two pairs of the same columns are one."""
    root = dict[str, str]()

    def find(name: str) -> str:
        while root.get(name, name) != name:
            name = root[name]
        return name

    for first, second in pairs:
        first, second = find(first), find(second)
        if first == second:
            return False
        root[first] = second
    return True
