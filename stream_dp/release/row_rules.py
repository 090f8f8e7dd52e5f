"""Whether the rows of a published table of people keep the structural rules of its release.

This is a check for readers, and so shares no code with the synthesizers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_dp.study.column_rules import Cell, ColumnRule, Function, Implication, Order
from stream_dp.study.field_types import Symbol
from stream_dp.study.scale import Numbers

_Symbols = Mapping[str, Sequence[Symbol]]


def rows_keep_rules(rules: Iterable[ColumnRule], symbols: _Symbols, people: pa.Table) -> bool:
    """Whether every row keeps every rule. symbols: by column, of its codes."""
    return all(_kept(rule, symbols, people) for rule in rules)


def _kept(rule: ColumnRule, symbols: _Symbols, people: pa.Table) -> bool:
    values = [_values(symbols[name], people[name]) for name in rule.columns]
    if isinstance(rule, Order):
        ends = iter(values)
        low = _numbers(*next(ends)) if rule.rule.low is not None else None
        high = _numbers(*next(ends)) if rule.rule.high is not None else None
        floor = (0.0 if low is None else low) + rule.rule.gap
        # A row without a number, which is nan, keeps every order.
        return not np.any(floor > (0.0 if high is None else high))
    (first, first_rows), (second, second_rows) = values
    if isinstance(rule, Function):
        texts = np.array([str(rule.values[cell.symbol]) for cell in first])
        numbers = np.array([cell.symbol for cell in second])
        return not len(first_rows) or bool((texts[first_rows] == numbers[second_rows]).all())
    return _implied(rule, first, second, first_rows, second_rows)


def _implied(
    rule: Implication,
    first: Sequence[Cell],
    second: Sequence[Cell],
    first_rows: NDArray[np.int64],
    second_rows: NDArray[np.int64],
) -> bool:
    condition = np.array([rule.condition.meets(cell, False) for cell in first], np.bool_)
    conclusion = np.array([rule.conclusion.meets(cell, True) for cell in second], np.bool_)
    return not np.any(condition[first_rows] & ~conclusion[second_rows])


def _values(
    symbols: Sequence[Symbol], codes: pa.ChunkedArray
) -> tuple[list[Cell], NDArray[np.int64]]:
    """The values that rows have, and the value of every row."""
    distinct, rows = np.unique(codes.to_numpy(), return_inverse=True)
    cells = list[Cell]()
    for code in distinct.tolist():
        symbol = symbols[code]
        number = symbol if isinstance(symbol, int) else None
        if isinstance(symbols, Numbers) and code >= len(symbols.scale.points):
            number = None  # a special code
        cells.append(Cell(str(symbol), number, number))
    return cells, np.asarray(rows, np.int64)


def _numbers(cells: Sequence[Cell], rows: NDArray[np.int64]) -> NDArray[np.float64]:
    numbers = [np.nan if cell.least is None else cell.least for cell in cells]
    return np.array(numbers, np.float64)[rows]
