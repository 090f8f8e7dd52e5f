"""The panel's answers, counted while records are read: no panel stays in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_dp.panel import Symbols

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
