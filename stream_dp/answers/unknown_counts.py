"""The unknown counts of a stream: of its windows, and of the people who reach a total.

The unknowns of windows are the interactions that neighbouring histograms share. A histogram of the
last symbols is a sum of interactions of sets of periods (`residuals.py`), and the same interaction
is in every window that covers its set: so these are the unknowns, whatever the widths, spans and
strategies of the releases, and no equality is left between them.

- Entries: the histogram times an integer Helmert row for each period, at least one of them not the
  constant row. The rows are orthogonal, so the entries of a histogram with equal noise in every
  bin have independent noise, as entries that are measured by themselves do.
- The number of people is a constant where it is public. In a closed cohort of private size it is
  one more entry, the same in every window.
- Where people come and go or enter late, the symbol of those of whom nothing is known ('absent',
  or the value that earlier periods are filled in with) is separated from the others by the last
  row.
  Entries of that row and the constant one are replaced by the people u_B who were there at all
  periods of a set B (`presence.py`): with f(c) the sum of weights over the patterns of people
  there at the periods c, by how many such patterns there are, a question has the coefficient
  sum over c within B of (-1)^(|B| - |c|) f(c) on u_B. Of the empty set this is everybody who is
  counted at that period.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from stream_dp.continual.window.measurement_strategy import Histograms
from stream_dp.continual.window.open_residuals import OpenResiduals
from stream_dp.continual.window.residuals import Residuals, along_axes, helmert, lengths
from stream_dp.panel import window_symbols

from .linear_system import Equalities
from .measured_rows import ReleaseMeasurements, Slice
from .measurement_blocks import (
    BandedBlock,
    Block,
    CounterBlock,
    CoupledBlock,
    CoupledMeasurements,
    DiagonalBlock,
    Floats,
    Ints,
    TotalMeasurements,
)

_NEGLIGIBLE = 1e-12  # of the largest weight of a question


class PatternSum(NamedTuple):
    """A sum of patterns on the unknowns of windows, which is alike at every period.

    before: the positions of its unknowns at the period before the first, (n,)
    steps: how far they move from period to period, (n,)
    coefficients: (n,)
    constant: the part without unknowns
    """

    before: Ints
    steps: Ints
    coefficients: Floats
    constant: float

    def at(self, number: int) -> Ints:
        """The positions of its unknowns at a period."""
        positions: Ints = self.before + number * self.steps
        return positions


class Rows(NamedTuple):
    """Rows on the people present: positions of unknowns, coefficients, values, variances."""

    positions: Ints
    matrix: Floats
    values: Floats
    variances: Floats


@dataclass(frozen=True)
class WindowUnknowns:
    """The unknowns of windows up to `width` periods wide, and their positions among all.

    q: the number of symbols
    width: of the widest window
    periods: of the study
    people: the public number of people, None if private
    blank: the symbol of people without any record, if people come and go or enter late; None if
        all are counted from the start
    """

    q: int
    width: int
    periods: int
    people: int | None
    blank: int | None

    @property
    def _codes(self) -> int:
        return int(self.q**self.width)

    @property
    def _sets(self) -> int:
        """The number of sets with a given last period, and the empty set."""
        return int(2 ** (self.width - 1)) + 1

    @property
    def entries(self) -> int:
        """The number of positions for entries; positions never measured stay empty."""
        return (self.periods + 1) * self._codes

    @property
    def presences(self) -> int:
        """The number of positions for people present, by sets of periods."""
        return 0 if self.blank is None else (self.periods + 1) * self._sets

    @property
    def size(self) -> int:
        """The number of all positions of windows."""
        return self.entries + self.presences

    def sum(self, weights: Floats) -> PatternSum:
        """weights @ the histogram of the last j symbols at a period: (q^j,).

        The histogram is the sum of h / |h|^2 times its entry, over the Helmert rows h. So an entry
        has the coefficient h @ weights / |h|^2. People u_B, present at all periods of a set B, have
        the coefficient sum over c within B of (-1)^(|B| - |c|) f(c), with f(c) the mean weight of
        the patterns of people present at the periods c alone.
        """
        width = _digits(weights.size, self.q)
        of_entries = along_axes(self._helmert / lengths(self.q)[:, None], weights, self.q, width)
        codes = np.flatnonzero(self._entry_codes(width) & _above(of_entries, weights))
        # Entry 0, the number of people, has one position for all periods.
        before, steps = self._entry_places(0, codes), np.where(codes > 0, self._codes, 0)
        if self.blank is None:
            constant = of_entries[0] * (self.people or 0)
            return PatternSum(before, steps, of_entries[codes], constant)
        mean_weights = _sums(self._presence(width), weights * self._shared(width), width)
        of_sets = _differences(mean_weights[:, None])[:, 0]
        sets = np.flatnonzero(_above(of_sets, weights))
        return PatternSum(
            np.concatenate([before, self.entries + self._set_places(0, sets)]),
            np.concatenate([steps, np.full(sets.size, self._sets)]),
            np.concatenate([of_entries[codes], of_sets[sets]]),
            0.0,
        )

    def blocks(self, releases: Sequence[ReleaseMeasurements]) -> tuple[DiagonalBlock, BandedBlock]:
        """The windows' measurements of entries, and of the people present."""
        precision, moment = np.zeros(self.entries), np.zeros(self.entries)
        rows: list[Rows] = []
        for release in releases:
            for section in release.slices:
                if section.b is None:
                    positions, values, variances = self._measured_entries(release, section)
                    precision[positions] += 1 / variances
                    moment[positions] += values / variances
                    rows += self._measured_presence(release, section)
        return DiagonalBlock(precision, moment), self._banded(rows)

    def _banded(self, rows: Sequence[Rows]) -> BandedBlock:
        """The block of all measurements of people present, each divided by its deviation."""
        row, column, entry, values = [], [], [], []
        offset = 0
        for positions, matrix, measured, variances in rows:
            i, j = np.nonzero(matrix)
            row.append(i + offset)
            column.append(positions[j])
            entry.append(matrix[i, j] / np.sqrt(variances)[i])
            values.append(measured / np.sqrt(variances))
            offset += measured.size
        if not rows:
            return BandedBlock(scipy.sparse.csr_array((0, self.presences)), np.zeros(0))
        cells = np.concatenate(row), np.concatenate(column)
        design = scipy.sparse.csr_array(
            (np.concatenate(entry), cells), shape=(offset, self.presences)
        )
        return BandedBlock(design, np.concatenate(values))

    def _measured_entries(
        self, release: ReleaseMeasurements, section: Slice
    ) -> tuple[Ints, Floats, Floats]:
        """The positions, values and variances, (n,) each, of a slice's measured entries."""
        values, variances = release.measured(section)
        window = release.window_measurement
        if isinstance(window, Histograms):
            width, histogram = window.width, np.zeros(window.counts_size)
            histogram[release.measured_patterns] = values
            codes = np.flatnonzero(self._entry_codes(width))
            squared_norms = np.ones(1)  # of the rows of the transform along all axes
            for _ in range(width):
                squared_norms = np.multiply.outer(squared_norms, lengths(self.q)).ravel()
            values = along_axes(self._helmert, histogram, self.q, width)[codes]
            return (
                self._entry_places(section.number, codes),
                values,
                variances.mean() * squared_norms[codes],
            )
        inside = window.inside if isinstance(window, OpenResiduals) else window
        assert isinstance(inside, Residuals)
        codes = inside.entries(section.time)
        positions = self._entry_places(section.number, codes)
        return positions, values[: codes.size], variances[: codes.size]

    def _measured_presence(self, release: ReleaseMeasurements, section: Slice) -> Iterator[Rows]:
        """The rows of a slice that measure u_B, the people present at all periods of a set B.

        Of residuals these are measurements of their own. Of a histogram they are sums of its bins,
        over the patterns of people who are present at the same periods. By inclusion and exclusion,
        the people present at exactly the periods c are the sum of (-1)^(|B| - |c|) u_B over the
        sets B that hold c. Yields nothing where all people are counted from the start.
        """
        if self.blank is None:
            return
        values, variances = release.measured(section)
        window, number = release.window_measurement, section.number
        if isinstance(window, Histograms):
            width, measured = window.width, release.measured_patterns
            kinds = self._presence(width)[measured]
            sums = _sums(kinds, values, width)
            sizes = _sums(kinds, variances, width)
            seen = np.flatnonzero(sizes)
            matrix = _differences(np.eye(2**width))[:, seen].T
            positions = self._set_places(number, np.arange(2**width))
            yield Rows(positions, matrix, sums[seen], sizes[seen])
            return
        assert isinstance(window, OpenResiduals)
        presence, at = window.presence, window.inside.entries(section.time).size
        for i in presence.measured_periods(section.time):
            positions = self._set_places(number + i - section.time, presence.masks(i))
            rows = slice(at, at + presence.size(i))
            yield Rows(positions, presence.matrix(i).astype(float), values[rows], variances[rows])
            at = rows.stop
        if window.direct:
            width = window.inside.width
            positions = self._set_places(number, np.arange(2**width))
            nobody = _differences(np.eye(2**width)[:, :1]).T
            yield Rows(positions, nobody, values[-1:], variances[-1:])

    @cached_property
    def _helmert(self) -> NDArray[np.int64]:
        return helmert(self.q, self.blank)

    def _entry_codes(self, width: int) -> NDArray[np.bool_]:
        """Whether an entry of a window is an unknown: (q^width,)."""
        digits = self._digits(width)
        inner = digits > 0
        if self.blank is not None:
            inner &= digits < self.q - 1
        unknown = np.asarray(inner.any(axis=1))
        unknown[0] = self.blank is None and self.people is None
        return unknown

    def _presence(self, width: int) -> Ints:
        """The presence of people by pattern: bit g for g periods ago, (q^width,)."""
        bits: Ints = (self._digits(width) != self.blank) @ (1 << np.arange(width))
        return bits

    def _shared(self, width: int) -> Floats:
        """1 over the number of patterns of the same presence: (q^width,)."""
        return np.asarray(1 / (self.q - 1.0) ** np.bitwise_count(self._presence(width)))

    def _digits(self, width: int) -> Ints:
        """The symbols of every pattern, the newest first: (q^width, width)."""
        digits: Ints = np.arange(self.q**width)[:, None] // self.q ** np.arange(width) % self.q
        return digits

    def _entry_places(self, number: int, codes: Ints) -> Ints:
        """The positions of a window's entries at a period.

        The digit 0 means that the entry is a sum over the symbols of that period. So an entry
        whose newest digits are 0 is that of the shorter window that ends before them, and windows
        of several periods share it. The number of people, all of whose digits are 0, is at the
        period 0.
        """
        codes, last = codes.copy(), np.where(codes > 0, number, 0)
        while (ends_in_sum := (codes % self.q == 0) & (codes > 0)).any():
            codes[ends_in_sum] //= self.q
            last[ends_in_sum] -= 1
        return last * self._codes + codes

    def _set_places(self, number: int, masks: Ints) -> Ints:
        """As `_entry_places`, for sets of periods: bit g of a mask is the period g before."""
        lowest = np.frexp((masks & -masks).astype(float))[1] - 1
        shifted = masks >> np.maximum(lowest, 0)
        last = number - np.where(masks > 0, lowest, 0)
        return last * self._sets + np.where(masks > 0, shifted >> 1, self._sets - 1)


def _sums(kinds: Ints, values: Floats, width: int) -> Floats:
    """Sums of values by kind, (2^width,)."""
    return np.bincount(kinds, values, minlength=2**width).astype(np.float64)


def _digits(size: int, q: int) -> int:
    width = 0
    while q**width < size:
        width += 1
    return width


def _above(coefficients: Floats, weights: Floats) -> NDArray[np.bool_]:
    threshold = _NEGLIGIBLE * float(np.abs(weights).max(initial=0.0))
    return np.asarray(np.abs(coefficients) > threshold)


def _differences(by_presence: Floats) -> Floats:
    """sum over c within B of (-1)^(|B| - |c|) f(c), for every B: (2^j, m) for (2^j, m)."""
    count, columns = by_presence.shape
    sums = by_presence.reshape(-1, columns).copy()
    step = 1
    while step < count:
        halves = sums.reshape(-1, 2, step, columns)
        halves[:, 1] -= halves[:, 0]
        step *= 2
    return sums


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
            entries.setdefault(key, {})[b] = EntryUnknowns(start, key[1] + max(b, 1) - 1, size)
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
        """The equalities G u = f, with a sparse matrix of G's columns for each block.

        starts: (blocks + 1,), where each block's unknowns begin, and where the last end
        """
        equalities = list(self._all())
        count = len(equalities)
        rows = np.repeat(np.arange(count), [equality.columns.size for equality in equalities])
        columns = np.concatenate(
            [np.zeros(0, np.int64), *(equality.columns for equality in equalities)]
        )
        values = np.concatenate([np.zeros(0), *(equality.values for equality in equalities)])
        # In the order of the columns the entries of a block are one slice.
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
        """All equalities, by event and first period, then by period."""
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
        """All S_b together rise by the people with the event at the period."""
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
        """S_0 is everybody; where people may be absent, everybody present in a period up to t."""
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
        patterns = self.windows.sum(who.astype(float))
        columns = patterns.at(number)
        if self.known[columns].all():
            yield Equality(
                np.concatenate([people, columns]),
                np.concatenate([np.ones(people.size), -patterns.coefficients]),
                patterns.constant,
            )
