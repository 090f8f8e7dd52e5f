"""The synthetic panel: artificial people's histories, one row each, that only ever grow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Symbols = NDArray[np.uint8]


@dataclass(frozen=True)
class Panel:
    """symbols: (rows, periods) codes into `values`; periods: the columns' labels."""

    symbols: Symbols
    periods: tuple[str, ...]
    values: tuple[int | str, ...]

    @property
    def rows(self) -> int:
        return int(self.symbols.shape[0])

    def extended(self, columns: Symbols, periods: Sequence[str]) -> Panel:
        """The panel with new columns at its right; what was there stays as it was.

        Raises ValueError if the rows do not match or a period is there already.
        """
        if columns.shape != (self.rows, len(periods)):
            raise ValueError("new columns must have a row for every row of the panel")
        if set(periods) & set(self.periods):
            raise ValueError("a period of the panel cannot be released again")
        joined = np.concatenate([self.symbols, columns], axis=1)
        return Panel(joined, (*self.periods, *periods), self.values)

    def until(self, period: str) -> Panel:
        """The panel as it was when `period` was its last column."""
        end = self.periods.index(period) + 1
        return Panel(self.symbols[:, :end], self.periods[:end], self.values)

    def codes(self, width: int) -> NDArray[np.int64]:
        """Each row's last `width` symbols as one number in base q, the newest symbol last."""
        return window_codes(self.symbols[:, self.symbols.shape[1] - width :], len(self.values))

    def table(self) -> pa.Table:
        """A column of values for each period, and a running row number, for export."""
        columns: dict[str, pa.Array] = {"row": pa.array(np.arange(self.rows))}
        whole = all(isinstance(value, int) for value in self.values)
        values = pa.array(
            self.values if whole else [str(v) for v in self.values],
            pa.int64() if whole else pa.string(),
        )
        for period, column in zip(self.periods, self.symbols.T, strict=True):
            columns[period] = values.take(pa.array(column, pa.uint8()))
        return pa.table(columns)


def window_codes(symbols: Symbols, q: int) -> NDArray[np.int64]:
    """Rows of symbols (rows, width) read as numbers in base q, the last symbol lowest."""
    codes = np.zeros(symbols.shape[0], np.int64)
    for column in symbols.T:
        codes = codes * q + column
    return codes


def window_symbols(codes: NDArray[np.int64], q: int, width: int) -> Symbols:
    """The rows (rows, width) that `window_codes` reads as these numbers."""
    digits = [codes // q**i % q for i in reversed(range(width))]
    return np.stack(digits, axis=1).astype(np.uint8)
