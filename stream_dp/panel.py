"""The synthetic panel: histories of artificial people, a row a person, extended by periods.

A `PanelTally` counts a panel's answers while records are read, so that no panel stays in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_dp.notebook_html import html_rows

if TYPE_CHECKING:
    import pandas

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PanelCounts:
    """A panel at its last period, as counts of its rows.

    periods: its columns' labels.
    values: the symbols, in the order of their codes.
    rows: the number of rows.
    patterns: the rows by the pattern of their last symbols, (q^width,), as `window_codes` has it.
    totals: the rows by how many periods had one of the events so far.
    """

    periods: tuple[str, ...]
    values: tuple[int | str, ...]
    rows: int
    patterns: Counts
    totals: Counts

    def matching(self, mask: NDArray[np.bool_], width: int) -> int:
        """The number of rows with their last `width` symbols in a mask of patterns, (q^width,)."""
        mask = mask[: self.patterns.shape[0]]  # of a panel that has fewer columns
        return int(self.patterns.reshape(-1, mask.shape[0])[:, mask].sum())

    def reaching(self, events: tuple[int, ...], threshold: int) -> int:
        """The number of rows with one of the counted events in at least `threshold` periods."""
        return int(self.totals[threshold:].sum())

    def newest(self, code: int) -> int:
        """The number of rows with this code as their last symbol."""
        return int(self.patterns.reshape(-1, len(self.values))[:, code].sum())


class PanelTally:
    """Counts a panel column by column, in memory of width + 2 bytes a row.

    values: the symbols, in the order of their codes.
    width: how many periods the longest pattern has.
    events: the codes whose periods are counted.
    """

    def __init__(self, values: tuple[int | str, ...], width: int, events: tuple[int, ...]) -> None:
        self._values, self._width, self._events = values, width, events
        self._recent: list[Symbols] = []
        self._times = np.zeros(0, np.uint16)
        self._at: dict[str, PanelCounts] = {}

    @property
    def at(self) -> Mapping[str, PanelCounts]:
        """The counts at every period so far."""
        return self._at

    def add(self, label: str, values: tuple[int | str, ...], column: Symbols) -> None:
        """Counts the column of the next period, (rows,).

        Raises ValueError unless it has the values and rows of the columns before it.
        """
        if not self._at:
            self._times = np.zeros(column.shape[0], np.uint16)
        if values != self._values or column.shape != self._times.shape or label in self._at:
            raise ValueError("not a next column of the panel before it")
        self._recent = [*self._recent, column][-self._width :]
        q = len(self._values)
        hits = np.zeros(q, bool)
        hits[[code for code in self._events if code < q]] = True
        self._times += hits[column]
        codes = np.zeros(column.shape[0], np.int64)
        for symbols in self._recent:
            codes = codes * q + symbols
        self._at[label] = PanelCounts(
            periods=(*self._at, label),
            values=self._values,
            rows=column.shape[0],
            patterns=np.bincount(codes, minlength=q ** len(self._recent)),
            totals=np.bincount(self._times, minlength=len(self._at) + 2),
        )


Symbols = NDArray[np.uint8]
_CELLS = 1 << 20  # of a chunk of an exported table
_SHOWN = 6  # rows in a notebook, and half of the periods


class Columns(Protocol):
    """A panel with access column by column."""

    @property
    def rows(self) -> int: ...
    @property
    def periods(self) -> tuple[str, ...]: ...
    def column(self, index: int) -> Symbols:
        """Returns the codes of a column, (rows,)."""


@dataclass(frozen=True)
class Panel:
    """Synthetic people in rows.

    symbols: (rows, periods) codes into `values`
    periods: the columns' labels
    values: the symbols, in the order of their codes

    >>> panel = Panel(np.array([[0], [1]], np.uint8), ("2025-01",), ("no", "yes"))
    >>> panel = panel.extended(np.array([[1], [1]], np.uint8), ["2025-02"])
    >>> panel.codes(2).tolist()  # "no yes" is 01, "yes yes" 11
    [1, 3]
    >>> panel.table().to_pydict()
    {'row': [0, 1], '2025-01': ['no', 'yes'], '2025-02': ['yes', 'yes']}
    >>> panel.until("2025-01").periods
    ('2025-01',)
    >>> np.asarray(panel).shape
    (2, 2)
    """

    symbols: Symbols
    periods: tuple[str, ...]
    values: tuple[int | str, ...]

    def __post_init__(self) -> None:
        """Raises ValueError unless the columns of symbols are those of the periods."""
        _check_symbols(self.symbols)
        if self.symbols.shape[1] != len(self.periods):
            raise ValueError("periods: must have a label for every column of symbols")

    @property
    def rows(self) -> int:
        return int(self.symbols.shape[0])

    def column(self, index: int) -> Symbols:
        """Returns the codes of a column, (rows,)."""
        return self.symbols[:, index]

    def extended(self, columns: Symbols, periods: Sequence[str]) -> Panel:
        """Returns the panel with new columns at the right.

        Raises ValueError if the rows do not match or the panel already has one of the periods.
        """
        if columns.shape != (self.rows, len(periods)):
            raise ValueError("new columns must have a row for every row of the panel")
        if set(periods) & set(self.periods):
            raise ValueError("a period of the panel cannot be released again")
        joined = np.concatenate([self.symbols, columns], axis=1)
        return Panel(joined, (*self.periods, *periods), self.values)

    def until(self, period: str) -> Panel:
        """Returns the panel up to the column `period`."""
        end = self.periods.index(period) + 1
        return Panel(self.symbols[:, :end], self.periods[:end], self.values)

    def codes(self, width: int) -> NDArray[np.int64]:
        """Reads the last `width` symbols of every row as a number in base q."""
        return last_codes(self, width, len(self.values))

    def matching(self, mask: NDArray[np.bool_], width: int) -> int:
        """Counts the rows with a pattern of a mask, (q^width,), in the last `width` symbols."""
        return int(mask[self.codes(width)].sum())

    def reaching(self, events: tuple[int, ...], min_periods: int) -> int:
        """Counts the rows with an event in at least `min_periods` periods."""
        count = np.zeros(self.rows, np.int16)
        for column in self.symbols.T:
            for event in dict.fromkeys(events):
                count += column == event
        return int((count >= min_periods).sum())

    def newest(self, code: int) -> int:
        """Counts the rows with this code as the last symbol."""
        return int((self.symbols[:, -1] == code).sum())

    def table(self) -> pa.Table:
        """Returns a table for export: a running row number, and columns of values by period.

        If values are of a product of attributes (such as `poverty=1&job=yes`), there is a column
        for each period and attribute.
        """
        return pa.concat_tables(self.tables())

    def __array__(
        self, dtype: np.typing.DTypeLike | None = None, copy: bool | None = None
    ) -> NDArray[Any]:
        """The values of all rows, (rows, periods): whole numbers if all of them are."""
        plain = all(isinstance(value, int) for value in self.values)
        cells = np.array(self.values if plain else [str(value) for value in self.values])
        return cells[self.symbols].astype(dtype or cells.dtype, copy=False)

    def to_pandas(self) -> pandas.DataFrame:
        """The rows of `table` as a table of pandas, with the row numbers as its index."""
        frame: pandas.DataFrame = self.table().to_pandas()
        return frame.set_index("row")

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows of `table` for any library that reads Arrow's PyCapsule interface."""
        return self.table().__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        shown = Panel(self.symbols[:_SHOWN], self.periods, self.values)
        if len(self.periods) > 2 * _SHOWN:
            newest = slice(-_SHOWN, None)
            shown = Panel(shown.symbols[:, newest], self.periods[newest], self.values)
        table = shown.table()
        first = f", shown from {shown.periods[0]} on" * (len(shown.periods) < len(self.periods))
        title = f"{self.rows:,} synthetic records, {len(self.periods):,} periods{first}"
        return html_rows(title, table.column_names, zip(*table.to_pydict().values(), strict=True))

    def tables(self) -> Iterator[pa.Table]:
        """Yields the rows of `table` in chunks of about a million cells.

        Chunks save memory, because values may be long.
        """
        chunk_rows = max(1, _CELLS // max(1, len(self.periods)))
        named = {name: _typed(values) for name, values in _attributes(self.values).items()}
        for start in range(0, max(1, self.rows), chunk_rows):
            rows = self.symbols[start : start + chunk_rows]
            columns: dict[str, pa.Array] = {"row": pa.array(np.arange(start, start + len(rows)))}
            for period, column in zip(self.periods, rows.T, strict=True):
                codes = pa.array(column, pa.uint8())
                for name, values in named.items():
                    columns[f"{period} {name}".strip()] = values.take(codes)
            yield pa.table(columns)


def _attributes(values: Sequence[int | str]) -> dict[str, list[int | str]]:
    """Splits symbols into the values of every attribute.

    The name of a single attribute is the empty string. In a product of attributes a symbol that
    names no attribute is 'absent', which is then the value of every attribute.
    """
    products = [dict(p.split("=") for p in str(v).split("&")) for v in values if "&" in str(v)]
    if not products:
        return {"": list(values)}
    absent = dict.fromkeys(products[0], str(values[-1]))
    complete = [*products, *[absent] * (len(values) - len(products))]
    by_attribute: dict[str, list[int | str]] = {}
    for name in absent:
        texts = [symbol[name] for symbol in complete]
        plain = all(_number(text) for text in texts)
        by_attribute[name] = [int(text) for text in texts] if plain else list(texts)
    return by_attribute


def _number(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and str(int(text)) == text


def _typed(values: Sequence[int | str]) -> pa.Array:
    if all(isinstance(value, int) for value in values):
        return pa.array(values, pa.int64())
    return pa.array([str(value) for value in values], pa.string())


def last_codes(panel: Columns, width: int, q: int) -> NDArray[np.int64]:
    """Reads the last `width` symbols of every row as a number in base q, (rows,).

    The newest symbol is the last digit.
    """
    end = len(panel.periods)
    codes = np.zeros(panel.rows, np.int64)
    for index in range(end - width, end):
        codes *= q
        codes += panel.column(index)
    return codes


def window_codes(symbols: Symbols, q: int) -> NDArray[np.int64]:
    """Reads rows of symbols (rows, width) as numbers in base q; the last symbol is lowest.

    Raises ValueError for symbols of another shape, and for a q that is no whole number from 1 on.
    """
    _check_symbols(symbols)
    if not isinstance(q, int | np.integer) or isinstance(q, bool) or q < 1:
        raise ValueError(f"q: must be a whole number from 1 on, not {q!r}")
    codes = np.zeros(symbols.shape[0], np.int64)
    for column in symbols.T:
        codes = codes * q + column
    return codes


def _check_symbols(symbols: object) -> None:
    if not isinstance(symbols, np.ndarray) or symbols.ndim != 2:
        raise ValueError("symbols: must be an array of NumPy, (rows, periods)")


def window_symbols(codes: NDArray[np.int64], q: int, width: int) -> Symbols:
    """Inverts `window_codes`: returns rows of symbols (rows, width)."""
    digits = [codes // q**i % q for i in reversed(range(width))]
    return np.stack(digits, axis=1).astype(np.uint8)
