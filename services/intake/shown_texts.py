"""The rejected texts of a table, for the sender's terminal alone. CONFIDENTIAL."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict

from stream_dp.population.rejection_reasons import Reason

from ..process.output import say, visible

_REASONS: tuple[Reason, ...] = ("period", "value", "range", "step")
_MOST_TEXTS = 20  # of a column
_MOST_KEPT = 10_000  # different ones of a column
_LONGEST = 60  # characters


class ShownTexts:
    """Counts the texts that are no period and no declared value, by column.

    Ids are never among them. On any output but a terminal nothing is counted or shown.
    """

    def __init__(self, *, wanted: bool) -> None:
        self.shows = wanted and sys.stdout.isatty()
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def add(self, row: int, column: str, reason: Reason, text: str) -> None:
        """Counts a faulty cell."""
        counts, text = self._counts[column], text[:_LONGEST]
        if self.shows and reason in _REASONS and (text in counts or len(counts) < _MOST_KEPT):
            counts[text] += 1

    def show(self) -> None:
        """Prints the most frequent texts of each column with their numbers."""
        for column, counts in self._counts.items():
            for text, count in counts.most_common(_MOST_TEXTS):
                say(f"{count:>9} cells  {visible(column)}: {visible(text)}")
            if len(counts) > _MOST_TEXTS:
                say(f"{'':>15}  {visible(column)}: {len(counts) - _MOST_TEXTS} texts more")
