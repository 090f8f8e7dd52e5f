"""The histories of people, in columns by slot, and their counts by release.

A stratum is a value of a fixed attribute. A person has at most one and keeps it, so the releases of
all strata share one history of each person: what it costs does not grow with the strata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_dp.study import (
    Alphabet,
    CumulativeRelease,
    JointRelease,
    Release,
    Study,
    WindowRelease,
)

Codes = Mapping[str, NDArray[np.unsignedinteger]]
Columns = dict[str, NDArray[Any]]
Counts = dict[str, NDArray[np.int64]]
_EVERYBODY = 0  # the stratum of a release without strata
# Of each slot: its stratum; None if everybody is in one.
Strata = NDArray[np.unsignedinteger] | None


@dataclass(frozen=True)
class Layer:
    """The history of every person, shared by several releases.

    releases: of the same attributes, and of everybody or of strata of the same fixed attribute.
    by: the fixed attribute; None for releases of everybody.
    """

    study: Study
    releases: tuple[Release, ...]
    by: str | None

    @cached_property
    def name(self) -> str:
        """The attributes, and the fixed attribute."""
        return "&".join(self.releases[0].attributes) + ("" if self.by is None else f" by {self.by}")

    @cached_property
    def alphabet(self) -> Alphabet:
        """The symbols; a person without a stratum is absent."""
        return self.study.alphabet(self.releases[0])

    @cached_property
    def width(self) -> int:
        """The number of periods in `recent`."""
        return max(release.history for release in self.releases)

    @cached_property
    def reaches(self) -> dict[int, int]:
        """By symbol of absence, the number of periods in `present`."""
        reaches: dict[int, int] = {}
        for release in self.releases:
            if (symbol := self.study.presence(release)) is not None:
                reaches[symbol] = max(reaches.get(symbol, 0), 2 * release.history - 1)
        return reaches

    @cached_property
    def counted(self) -> list[dict[int, CumulativeRelease | JointRelease]]:
        """The releases with totals by stratum, no two of a stratum in the same dictionary."""
        rows: list[dict[int, CumulativeRelease | JointRelease]] = []
        for release in (r.totals for r in self.releases if r.totals):
            stratum = self.stratum(release)
            row = next((row for row in rows if stratum not in row), None)
            if row is None:
                rows.append(row := {})
            row[stratum] = release
        return rows

    def stratum(self, release: Release) -> int:
        """Returns the code of a release's stratum."""
        if self.by is None:
            return _EVERYBODY
        assert release.where is not None
        return self.study.attributes[self.by].codes[release.where[self.by]]

    def strata(self, codes: Codes) -> Strata:
        """Returns the stratum of every slot."""
        return None if self.by is None else codes[self.by]

    def symbols(self, codes: Codes) -> NDArray[np.uint32]:
        """Returns the symbol of every slot from the codes of the attributes."""
        alphabet = self.alphabet
        symbols: NDArray[np.uint32] = np.zeros(1, np.uint32)
        for name, values in zip(alphabet.attributes, alphabet.symbols, strict=True):
            symbols = symbols * np.uint32(len(values)) + codes[name].astype(np.uint32)
        if self.by is not None:
            assert alphabet.absent is not None
            symbols[codes[self.by] == self.study.attributes[self.by].first_code] = alphabet.absent
        return symbols

    def unknown(self) -> Columns:
        """Returns the state of a person without an answer, in columns of one row.

        recent: the recent symbols, as a code in base q.
        present: by symbol of absence, the presence in the last periods: a bit for each period, the
            lowest for the last.
        totals: by row of `counted`, in how many periods the event happened.
        entered: by row of `counted`, whether a person was ever present.
        """
        first = {
            name: np.array([self.study.attributes[name].first_code])
            for name in self.releases[0].questions
        }
        (symbol,) = self.symbols(first).tolist()
        q, code = len(self.alphabet.values), 0
        for _ in range(self.width):
            code = code * q + symbol
        columns: Columns = {f"recent {self.name}": np.array([code], np.uint32)}
        columns |= {f"present {k} {self.name}": np.zeros(1, np.uint16) for k in self.reaches}
        for row in range(len(self.counted)):
            columns[f"totals {row} {self.name}"] = np.zeros(1, np.uint16)
            columns[f"entered {row} {self.name}"] = np.zeros(1, bool)
        return columns

    def advance(self, columns: Columns, codes: Codes, period: int) -> Callable[[slice], Counts]:
        """Adds a closed period to the histories, in `columns`.

        Returns a function that counts the histories of a range of slots by release: patterns
        (window), rises (cumulative), or both (joint). If a release measures presence, its patterns
        are followed by the number of people for each pattern of presence in the last 2k - 1
        periods, (2^(2k - 1),). In a joint release the rises come last.
        """
        symbols, strata = self.symbols(codes), self.strata(codes)
        name, q = f"recent {self.name}", len(self.alphabet.values)
        keep = np.uint32(q ** (self.width - 1))
        columns[name] = recent = columns[name] % keep * np.uint32(q) + symbols
        presences = {}
        for symbol, reach in self.reaches.items():
            name = f"present {symbol} {self.name}"
            shifted = columns[name] & np.uint16((1 << reach - 1) - 1)
            present = shifted << np.uint16(1) | (symbols != symbol).astype(np.uint16)
            columns[name] = presences[symbol] = present
        rises = [
            self._rise(columns, row, symbols, strata, period) for row in range(len(self.counted))
        ]

        def count(slots: slice) -> Counts:
            members = Members.of(strata, slots, len(recent))
            counts: dict[str, list[NDArray[np.int64]]] = {r.name: [] for r in self.releases}
            for release in (r.patterns for r in self.releases if r.patterns):
                counts[release.name] += self._patterns(release, recent, presences, members)
            for rise in rises:
                for name, measured in rise.counts(members):
                    counts[name].append(measured)
            return {name: np.concatenate(measured) for name, measured in counts.items()}

        return count

    def _patterns(
        self,
        release: WindowRelease | JointRelease,
        recent: NDArray[np.uint32],
        presences: Mapping[int, NDArray[np.uint16]],
        members: Members,
    ) -> list[NDArray[np.int64]]:
        """Counts the patterns of a release, and the patterns of presence if it measures them."""
        stratum, bins = self.stratum(release), len(self.alphabet.values) ** release.width
        codes = members.take(recent, stratum)
        if release.width < self.width:
            codes = codes % bins
        counts = [np.bincount(codes, minlength=bins).astype(np.int64)]
        if (symbol := self.study.presence(release)) is not None:
            kinds = 1 << 2 * release.width - 1
            bits = members.take(presences[symbol], stratum) & np.uint16(kinds - 1)
            counts.append(np.bincount(bits, minlength=kinds).astype(np.int64))
        if outside := members.outside(stratum):
            counts[0][-1] += outside  # absent throughout: the last symbol of the alphabet
            if symbol is not None:
                counts[1][0] += outside
        return counts

    def _rise(
        self,
        columns: Columns,
        row: int,
        symbols: NDArray[np.uint32],
        strata: Strata,
        period: int,
    ) -> Rise:
        """Updates the totals of the events of a row of `counted`."""
        releases, kinds = self.counted[row], 1
        if self.by is not None:
            kinds = len(self.study.attributes[self.by].symbols)
        happens = np.zeros((kinds, len(self.alphabet.values)), bool)
        counts = np.zeros(kinds, bool)
        for stratum, release in releases.items():
            first, last = self.study.span(release)
            counts[stratum] = first <= period <= last
            happens[stratum, list(self.study.event_codes(release))] = counts[stratum]
        if strata is None:
            event, counting = happens[_EVERYBODY][symbols], counts[_EVERYBODY]
        else:
            event, counting = happens[strata, symbols], counts[strata]
        present = counting
        if self.alphabet.absent is not None:
            present = counting & (symbols != self.alphabet.absent)
        entered = columns[f"entered {row} {self.name}"]
        enters = present & ~entered
        columns[f"entered {row} {self.name}"] = entered | present
        totals = columns[f"totals {row} {self.name}"] + event
        columns[f"totals {row} {self.name}"] = totals
        horizons = {code: _horizon(self.study, release) for code, release in releases.items()}
        return Rise(releases, horizons, totals, event, enters)


@dataclass(frozen=True)
class Rise:
    """The people with a higher total in a period than before.

    releases, horizons: by stratum.
    totals, event, enters: by slot, the total, whether it rises, and whether the person is present
        for the first time.
    """

    releases: Mapping[int, CumulativeRelease | JointRelease]
    horizons: Mapping[int, int]
    totals: NDArray[np.uint16]
    event: NDArray[np.bool_]
    enters: NDArray[np.bool_]

    def counts(self, members: Members) -> Iterator[tuple[str, NDArray[np.int64]]]:
        """Yields the name of every release and its rises, (T + 1,).

        They are how many people's total reached b in this period, b = 1..T, and how many were
        present for the first time: the increments of the sums S_b of Bun et al. 2024, Algorithm 2.
        """
        for stratum, release in self.releases.items():
            totals = members.take(self.totals, stratum)[members.take(self.event, stratum)]
            rises = np.bincount(totals, minlength=self.horizons[stratum] + 1)[1:]
            entering = np.count_nonzero(members.take(self.enters, stratum))
            yield release.name, np.append(rises, entering).astype(np.int64)


@dataclass(frozen=True)
class Members:
    """The slots of every stratum, of a range of slots.

    order: slots by stratum; None if everybody is in one stratum.
    ends: by stratum, the end of its slots in `order`.
    """

    slots: slice
    count: int
    order: NDArray[np.int64] | None = None
    ends: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, strata: Strata, slots: slice, size: int) -> Members:
        """Sorts a range of slots by stratum. size: the number of all slots."""
        count = len(range(size)[slots])
        if strata is None:
            return cls(slots, count)
        chosen = strata[slots]
        order = np.argsort(chosen, kind="stable") + (slots.start or 0)
        return cls(slots, count, order, np.cumsum(np.bincount(chosen)))

    def take(self, column: NDArray[Any], stratum: int) -> NDArray[Any]:
        """Selects the rows of a stratum from a column of all slots."""
        if self.order is None or self.ends is None:
            return column[self.slots]
        if stratum >= len(self.ends):
            return column[:0]
        start = self.ends[stratum - 1] if stratum else 0
        return column[self.order[start : self.ends[stratum]]]

    def outside(self, stratum: int) -> int:
        """Returns the number of slots outside of a stratum."""
        if self.ends is None:
            return 0
        inside = np.diff(self.ends, prepend=0)[stratum : stratum + 1].sum()
        return self.count - int(inside)


def layers_of(study: Study) -> list[Layer]:
    """Groups the releases of a study into layers."""
    groups: dict[tuple[tuple[str, ...], str | None], list[Release]] = {}
    for release in study.releases:
        by = next(iter(release.where or {}), None)
        groups.setdefault((release.attributes, by), []).append(release)
    return [Layer(study, tuple(releases), by) for (_, by), releases in groups.items()]


def _horizon(study: Study, release: Release) -> int:
    first, last = study.span(release)
    return last - first + 1
