"""The people who reach total b in a period: unknowns, and their equalities with windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy

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
        all_sources = [thresholds[b] for b in sorted(thresholds)]
        sizes = [max(source.steps for source in sources) for sources in all_sources]
        if any(
            isinstance(source, CoupledMeasurements) for sources in all_sources for source in sources
        ):
            blocks.append(CoupledBlock(tuple(sizes), all_sources))
        else:
            blocks += [
                CounterBlock(n, sources) for n, sources in zip(sizes, all_sources, strict=True)
            ]
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
        equalities = list(self._all())
        count = len(equalities)
        rows = np.repeat(np.arange(count), [equality.columns.size for equality in equalities])
        columns = np.concatenate(
            [np.zeros(0, np.int64), *(equality.columns for equality in equalities)]
        )
        values = np.concatenate([np.zeros(0), *(equality.values for equality in equalities)])
        order = np.argsort(columns, kind="stable")
        rows, columns, values = rows[order], columns[order], values[order]
        of_block = []
        for start, end in pairwise(starts):
            block = slice(*np.searchsorted(columns, [start, end]))
            where = rows[block], columns[block] - start
            of_block.append(
                scipy.sparse.csr_array((values[block], where), shape=(count, end - start))
            )
        return Equalities(of_block, np.array([equality.right_side for equality in equalities]))

    def _all(self) -> Iterator[Equality]:
        for (events, first), by_threshold in self.entries.items():
            last = max(e.first + e.length for e in by_threshold.values())
            for number in range(first, last):
                past = number - first + 1
                entries = [by_threshold[b] for b in range(1, past + 1) if b in by_threshold]
                if len(entries) == past and all(e.covers(number) for e in entries):
                    yield from self._happened(events, number, entries)
                    yield from self._reached(events, first, number=number, thresholds=entries)
                if 0 in by_threshold and by_threshold[0].covers(number):
                    yield from self._entered(first, number, by_threshold[0])

    def _happened(
        self, events: tuple[int, ...], number: int, entries: Sequence[EntryUnknowns]
    ) -> Iterator[Equality]:
        rises = np.array([e.start + number - e.first for e in entries])
        yield from self._equal(rises, number, np.isin(np.arange(self.windows.q), events))

    def _reached(
        self,
        events: tuple[int, ...],
        first: int,
        *,
        number: int,
        thresholds: Sequence[EntryUnknowns],
    ) -> Iterator[Equality]:
        """S_b is the people of patterns with at least b events since the first period."""
        filled_in = self.windows.blank in events
        if (filled_in and number > first) or number - first >= self.windows.width:
            return
        happened = np.isin(self._patterns(number - first + 1), events).sum(axis=1)
        for b, entries in enumerate(thresholds, 1):
            yield from self._equal(entries.until(number), number, happened >= b)

    def _entered(self, first: int, number: int, entries: EntryUnknowns) -> Iterator[Equality]:
        if self.absent is None:
            yield from self._equal(entries.until(number), number, np.ones(self.windows.q, bool))
        elif number - first < self.windows.width:
            present = (self._patterns(number - first + 1) != self.absent).any(axis=1)
            yield from self._equal(entries.until(number), number, present)

    def _patterns(self, width: int) -> Ints:
        return window_symbols(np.arange(self.windows.q**width), self.windows.q, width)

    def _equal(self, people: Ints, number: int, who: Ints) -> Iterator[Equality]:
        """The equality: as many people are in the unknowns as have the patterns at a period.

        Nothing where no window says how many have them.
        """
        question = self.windows.question(number, who.astype(float))
        columns, values = on_unknowns(self.windows, question)
        if self.known[columns].all():
            yield Equality(
                np.concatenate([people, columns]),
                np.concatenate([np.ones(people.size), -values]),
                question.constant,
            )


def on_unknowns(windows: WindowUnknowns, question: Coefficients) -> tuple[Ints, Floats]:
    """The columns and coefficients of a question to windows."""
    (entries, coefficients), (presence, presence_coefficients) = question.entries, question.presence
    return np.concatenate([entries, windows.entries + presence]), np.concatenate(
        [coefficients, presence_coefficients]
    )
