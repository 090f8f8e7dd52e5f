"""The unknown counts of the people of a stream, and the equalities between them.

Unknowns are true counts: in every period of a window release the histogram of the last symbols,
as wide as the widest release of the stream there (a narrower one measures its marginals); for every
event and first period of a cumulative release the people whose total reached b in a period, and
those who were there for the first time (b = 0). Their running sums are S_b.

Equalities, of true counts:
- Histograms of neighbouring periods agree on the symbols that both see. Where the number of people
  is declared, for every overlap. Where people may report late, a newcomer's past is filled with the
  symbol of those of whom nothing is known, 'absent' if there is one: the overlap that is only that
  symbol is left out.
- A declared number of people is the sum of a histogram.
- Those with the event in a period are the rises of all b, and the patterns with the event there.
- As long as a window reaches back to the first period of the totals, S_b are the people of
  patterns with at least b events, and S_0 of those with anybody there.
  Where newcomers' unknown past would itself be the event, neither is used of their past.
- S_b is 0 before the b-th period: there is no such unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_dp.panel import window_symbols

Floats = NDArray[np.float64]
Ints = NDArray[Any]
Key = tuple[tuple[int, ...], int]  # the codes of the event, the first period
Block = tuple[Ints, Ints, Floats, Floats]  # rows, columns, values of entries; the right side


@dataclass(frozen=True)
class HistogramUnknowns:
    """Where a period's patterns begin among the unknowns, and how many symbols they have."""

    start: int
    width: int


@dataclass(frozen=True)
class EntryUnknowns:
    """Where the people who reach b begin among the unknowns, the period of the first, how many."""

    start: int
    first: int
    length: int

    def until(self, number: int) -> int:
        """How many entries lie in periods up to `number`."""
        return min(max(number - self.first + 1, 0), self.length)


@dataclass(frozen=True)
class Unknowns:
    """All unknowns of a stream."""

    # How many symbols there are.
    q: int
    # The code of 'absent', and that of people of whom nothing is known.
    absent: int | None
    blank: int
    # The declared number of people, where the stream is of all of them.
    size: int | None
    # By period number.
    histograms: dict[int, HistogramUnknowns]
    # By event and first period, then by b.
    entries: dict[Key, dict[int, EntryUnknowns]]

    @property
    def count(self) -> int:
        bins = sum(int(self.q**h.width) for h in self.histograms.values())
        return bins + sum(e.length for own in self.entries.values() for e in own.values())

    # Questions, as coefficients on the unknowns: (n,) float64.

    def patterns(self, number: int, weights: Floats) -> Floats:
        """weights @ the histogram of the last symbols at a period; older symbols are free."""
        histogram = self.histograms[number]
        bins = self.q**histogram.width
        coefficients = np.zeros(self.count)
        coefficients[histogram.start : histogram.start + bins] = np.tile(
            weights, bins // weights.shape[0]
        )
        return coefficients

    def total(self, key: Key, b: int, number: int) -> Floats:
        """S_b at a period."""
        coefficients = np.zeros(self.count)
        if b in self.entries[key]:
            own = self.entries[key][b]
            coefficients[own.start : own.start + own.until(number)] = 1
        return coefficients

    # Equalities.

    def equalities(self) -> tuple[csr_array, Floats]:
        """E, (c, n), and f: E u = f for the true counts u."""
        blocks = [*self._overlaps(), *self._sums()]
        if not blocks:
            return csr_array((0, self.count)), np.zeros(0)
        above = np.cumsum([0, *(right_side.shape[0] for *_, right_side in blocks)])
        row = np.concatenate([b[0] + start for b, start in zip(blocks, above[:-1], strict=True)])
        column, value, right_side = (np.concatenate([b[i] for b in blocks]) for i in (1, 2, 3))
        return csr_array((value, (row, column)), shape=(above[-1], self.count)), right_side

    def _overlaps(self) -> Iterator[Block]:
        numbers = sorted(self.histograms)
        if self.size is not None and numbers:
            yield self._everybody(numbers[0])
        for before, after in pairwise(numbers):
            old, new, gap = self.histograms[before], self.histograms[after], after - before
            shared = min(old.width, new.width - gap)
            if shared > 0 or (shared == 0 and self.size is None):
                left_out = repeated(self.blank, shared, self.q) if self.size is None else None
                yield self._agree(old, new, gap=gap, shared=shared, left_out=left_out)
            elif self.size is not None:
                yield self._everybody(after)

    def _agree(
        self,
        old: HistogramUnknowns,
        new: HistogramUnknowns,
        *,
        gap: int,
        shared: int,
        left_out: int | None,
    ) -> Block:
        """As many people before as after, for every overlap but `left_out`.

        gap: periods between the two histograms.
        shared: how many symbols both see.
        left_out: the overlap for which it need not be true.
        """
        rows, columns, values = [], [], []
        for histogram, newest, sign in ((old, 0, 1.0), (new, gap, -1.0)):
            codes = np.arange(self.q**histogram.width)
            overlap = codes // self.q**newest % self.q**shared
            kept = overlap != left_out
            rows.append(overlap[kept] - (overlap[kept] > left_out if left_out is not None else 0))
            columns.append(histogram.start + codes[kept])
            values.append(np.full(rows[-1].shape[0], sign))
        count = self.q**shared - (left_out is not None)
        return (
            np.concatenate(rows),
            np.concatenate(columns),
            np.concatenate(values),
            np.zeros(count),
        )

    def _everybody(self, number: int) -> Block:
        histogram = self.histograms[number]
        assert self.size is not None
        columns = histogram.start + np.arange(self.q**histogram.width)
        return np.zeros_like(columns), columns, np.ones(len(columns)), np.array([float(self.size)])

    def _sums(self) -> Iterator[Block]:
        """The equalities between the totals of an event and the patterns of the same people."""
        for (events, first), own in self.entries.items():
            for number in range(first, max(e.first + e.length for e in own.values())):
                past = number - first + 1
                here = [own[b] for b in range(1, past + 1) if b in own]
                if len(here) == past and all(number < e.first + e.length for e in here):
                    yield from self._happened(events, number, here)
                    for b, entries in enumerate(here, 1):
                        yield from self._reached(entries, (events, first), number=number, b=b)
                if 0 in own and number < first + own[0].length:
                    yield from self._entered(first, number, own[0])

    def _sight(self, start: int, number: int) -> tuple[int, NDArray[np.uint8]] | None:
        """The period of the first histogram that sees the periods start..number.

        With it come its patterns' symbols there, (q^width, periods). None if no histogram does.
        """
        for at in sorted(self.histograms):
            width = self.histograms[at].width
            if at >= number and at - width < start:
                codes = np.arange(self.q**width) // self.q ** (at - number)
                return at, window_symbols(codes, self.q, number - start + 1)
        return None

    def _known(self, at: int, number: int, events: tuple[int, ...]) -> bool:
        """Whether the patterns at a period say who had the event at another."""
        return at == number or self.size is not None or self.blank not in events

    def _happened(
        self, events: tuple[int, ...], number: int, own: Sequence[EntryUnknowns]
    ) -> Iterator[Block]:
        sight = self._sight(number, number)
        if sight is not None and self._known(sight[0], number, events):
            rises = np.array([e.start + number - e.first for e in own])
            yield self._equal(rises, sight[0], np.isin(sight[1][:, 0], events))

    def _reached(self, own: EntryUnknowns, key: Key, *, number: int, b: int) -> Iterator[Block]:
        """S_b is the people of patterns with at least b events since the first period."""
        events, first = key
        sight = self._sight(first, number)
        if (
            sight is not None
            and self._known(first, number, events)
            and self._known(sight[0], number, events)
        ):
            many = np.isin(sight[1], events).sum(axis=1) >= b
            yield self._equal(self._until(own, number), sight[0], many)

    def _entered(self, first: int, number: int, own: EntryUnknowns) -> Iterator[Block]:
        if self.absent is None:
            sight = self._sight(number, number)
            if sight is not None and sight[0] == number:
                yield self._equal(self._until(own, number), number, np.ones(len(sight[1]), bool))
            return
        sight = self._sight(first, number)
        if sight is not None:
            here = (sight[1] != self.absent).any(axis=1)
            yield self._equal(self._until(own, number), sight[0], here)

    @staticmethod
    def _until(own: EntryUnknowns, number: int) -> Ints:
        return own.start + np.arange(own.until(number))

    def _equal(self, people: Ints, at: int, who: NDArray[np.bool_]) -> Block:
        """As many people are in some entries as in some patterns at a period."""
        patterns = self.histograms[at].start + np.flatnonzero(who)
        columns = np.concatenate([people, patterns])
        values = np.where(np.arange(columns.shape[0]) < people.shape[0], 1.0, -1.0)
        return np.zeros_like(columns), columns, values, np.zeros(1)


def repeated(code: int, times: int, q: int) -> int:
    """The code of the pattern that repeats a symbol."""
    return sum(code * q**place for place in range(times))
