"""The people who reach total b in a period: unknowns, and their equalities with windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from stream_dp.panel import window_symbols

from .blocks import Block, CounterBlock, Floats, Ints, TotalMeasurements
from .coupled_block import CoupledBlock, CoupledMeasurements
from .measured_rows import ReleaseMeasurements
from .system import Equalities
from .window_unknowns import Coefficients, WindowUnknowns

Key = tuple[tuple[int, ...], int]  # the codes of the event, the first period


class Equality(NamedTuple):
    """columns, values: of a row of G; right_side: of f"""

    columns: Ints
    values: Floats
    right_side: float


@dataclass(frozen=True)
class EntryUnknowns:
    """Where the people who reach b begin among the unknowns, the period of the first, how many."""

    start: int
    first: int
    length: int

    def until(self, number: int) -> Ints:
        """The unknowns of periods up to `number`."""
        return self.start + np.arange(min(max(number - self.first + 1, 0), self.length))

    def covers(self, number: int) -> bool:
        """Whether the period has an unknown."""
        return self.first <= number < self.first + self.length


def key_of(release: ReleaseMeasurements) -> Key:
    return release.events, release.first


def counter_blocks(
    releases: Sequence[ReleaseMeasurements], start: int
) -> tuple[list[Block], dict[Key, dict[int, EntryUnknowns]]]:
    """The blocks of all totals, and by event and first period, then by b, where they are.

    Thresholds that any release measures together are one block; others have a block each.
    start: the number of unknowns before them
    """
    sources: dict[Key, dict[int, list[TotalMeasurements]]] = {}
    for release in releases:
        for b, measured in release.counters():
            sources.setdefault(key_of(release), {}).setdefault(b, []).append(measured)
    blocks: list[Block] = []
    entries: dict[Key, dict[int, EntryUnknowns]] = {}
    for key, thresholds in sorted(sources.items()):
        every = [thresholds[b] for b in sorted(thresholds)]
        sizes = [max(source.steps for source in own) for own in every]
        if any(isinstance(source, CoupledMeasurements) for own in every for source in own):
            blocks.append(CoupledBlock(tuple(sizes), every))
        else:
            blocks += [CounterBlock(n, own) for n, own in zip(sizes, every, strict=True)]
        for b, size in zip(sorted(thresholds), sizes, strict=True):
            own_unknowns = EntryUnknowns(start, key[1] + max(b, 1) - 1, size)
            entries.setdefault(key, {})[b] = own_unknowns
            start += size
    return blocks, entries


@dataclass(frozen=True, eq=False)
class Bonds:
    """The equalities between totals and windows.

    windows: the unknowns of windows, which are the first of all
    entries: by event and first period, then by b
    absent: the code of 'absent', None where nobody can be
    known: whether each unknown of windows is measured
    """

    windows: WindowUnknowns
    entries: dict[Key, dict[int, EntryUnknowns]]
    absent: int | None
    known: Ints

    def equalities(self, starts: Ints) -> Equalities:
        """starts: where each block's unknowns begin, and where the last end"""
        every = list(self._all())
        count = len(every)
        rows = np.repeat(np.arange(count), [one.columns.size for one in every])
        columns = np.concatenate([np.zeros(0, np.int64), *(one.columns for one in every)])
        values = np.concatenate([np.zeros(0), *(one.values for one in every)])
        order = np.argsort(columns, kind="stable")
        rows, columns, values = rows[order], columns[order], values[order]
        of_block = []
        for start, end in pairwise(starts):
            own = slice(*np.searchsorted(columns, [start, end]))
            where = rows[own], columns[own] - start
            of_block.append(csr_array((values[own], where), shape=(count, end - start)))
        return Equalities(of_block, np.array([one.right_side for one in every]))

    def _all(self) -> Iterator[Equality]:
        for (events, first), own in self.entries.items():
            last = max(e.first + e.length for e in own.values())
            for number in range(first, last):
                past = number - first + 1
                here = [own[b] for b in range(1, past + 1) if b in own]
                if len(here) == past and all(e.covers(number) for e in here):
                    yield from self._happened(events, number, here)
                    yield from self._reached(events, first, number=number, own=here)
                if 0 in own and own[0].covers(number):
                    yield from self._entered(first, number, own[0])

    def _happened(
        self, events: tuple[int, ...], number: int, own: Sequence[EntryUnknowns]
    ) -> Iterator[Equality]:
        rises = np.array([e.start + number - e.first for e in own])
        yield from self._equal(rises, number, np.isin(np.arange(self.windows.q), events))

    def _reached(
        self, events: tuple[int, ...], first: int, *, number: int, own: Sequence[EntryUnknowns]
    ) -> Iterator[Equality]:
        """S_b is the people of patterns with at least b events since the first period."""
        filled_in = self.windows.blank in events
        if (filled_in and number > first) or number - first >= self.windows.width:
            return
        happened = np.isin(self._patterns(number - first + 1), events).sum(axis=1)
        for b, entries in enumerate(own, 1):
            yield from self._equal(entries.until(number), number, happened >= b)

    def _entered(self, first: int, number: int, own: EntryUnknowns) -> Iterator[Equality]:
        if self.absent is None:
            yield from self._equal(own.until(number), number, np.ones(self.windows.q, bool))
        elif number - first < self.windows.width:
            here = (self._patterns(number - first + 1) != self.absent).any(axis=1)
            yield from self._equal(own.until(number), number, here)

    def _patterns(self, width: int) -> Ints:
        return window_symbols(np.arange(self.windows.q**width), self.windows.q, width)

    def _equal(self, people: Ints, number: int, who: Ints) -> Iterator[Equality]:
        """The equality: as many people are in the unknowns as have the patterns at a period.

        Nothing where no window says how many have them.
        """
        asked = self.windows.question(number, who.astype(float))
        columns, values = on_unknowns(self.windows, asked)
        if self.known[columns].all():
            yield Equality(
                np.concatenate([people, columns]),
                np.concatenate([np.ones(people.size), -values]),
                asked.constant,
            )


def on_unknowns(windows: WindowUnknowns, asked: Coefficients) -> tuple[Ints, Floats]:
    """The columns and coefficients of a question to windows."""
    (entries, own), (there, others) = asked.entries, asked.presence
    return np.concatenate([entries, windows.entries + there]), np.concatenate([own, others])
