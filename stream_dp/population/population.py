"""The population: the confidential state of each person, and the counts of a closed period.

Each person has a slot in dense arrays, which is looked up by the keyed hash of the id in a sorted
array. Cells wait in columns until their period closes. The state at a cut is a function of the
input below it: cells merge by (partition, offset), newcomers are admitted in the order of their
hashes, and nothing depends on how the partitions were interleaved.

Where the study's relation makes the size public, all slots exist from the start; a slot without a
person counts as somebody who has not answered. Once all slots have persons, newcomers are refused
permanently, so adding or removing one person swaps at most one other.
"""

from __future__ import annotations

import zipfile
from collections import Counter as Tally
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, BinaryIO

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dp.errors import Inconsistent
from stream_dp.study import CumulativeRelease, JointRelease, Release, Study, WindowRelease

from .accounting import Accounting
from .cells import CLEARED, Cells, WaitingCells, latest_cells
from .rejected import Reason, RejectedRecord

_VERSION = 4
_UNCOUNTED = 3  # the version in which repeated cells counted as superseded once they were merged


@dataclass(frozen=True)
class ClosedPeriod:
    """A closed period, confidential.

    symbols: by attribute, a code for every slot.
    refused: by reason, the cells of people who were not admitted, and those that contradict a
        fixed value.
    count: computes the counts; it is called after the noise is drawn.
    """

    symbols: dict[str, NDArray[np.uint8]]
    refused: dict[Reason, Cells]
    count: Callable[[], dict[str, NDArray[np.int64]]]

    @cached_property
    def counts(self) -> dict[str, NDArray[np.int64]]:
        """By release, the counts that its mechanism measures."""
        return self.count()


class Population:
    """The state of all people at a position of the input; its methods change it in place."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self.period = 0  # the last closed one
        self.accounting = Accounting()
        self._hi = np.zeros(0, np.uint64)
        self._lo = np.zeros(0, np.uint64)
        self._slot = np.zeros(0, np.int32)
        self._waiting = WaitingCells()
        self._pending: Tally[int] = Tally()  # by open period, its cells, replaced ones among them
        size = study.size or 0
        self._alphabets = {r.stream: study.alphabet(r) for r in study.releases}
        self._wheres = {r.stream: r.where for r in study.releases}
        self._widths = {
            stream: max(_width(r) for r in study.releases if r.stream == stream)
            for stream in self._alphabets
        }
        self._last = {
            name: np.full(size, attribute.first_code, np.uint8)
            for name, attribute in study.attributes.items()
        }
        self._recent = {stream: self._unknown(stream, size) for stream in self._alphabets}
        # By stream and the symbol of those who are not there: a bit for each of the last periods at
        # which a person was there, the lowest for the last one.
        self._reaches: dict[tuple[str, int], int] = {}
        for release in study.releases:
            symbol = study.presence(release)
            if symbol is not None:
                key = (release.stream, symbol)
                self._reaches[key] = max(self._reaches.get(key, 0), 2 * _width(release) - 1)
        self._present = {key: np.zeros(size, np.uint16) for key in self._reaches}
        self._counted = [r for r in study.releases if not isinstance(r, WindowRelease)]
        self._totals = {r.name: np.zeros(size, np.uint16) for r in self._counted}
        self._entered = {r.name: np.zeros(size, bool) for r in self._counted}

    def _unknown(self, stream: str, size: int) -> NDArray[np.uint32]:
        """The recent symbols, as codes in base q, of `size` people who have not answered."""
        first = {n: np.array([a.first_code]) for n, a in self._study.attributes.items()}
        (symbol,) = self._symbols(stream, first).tolist()
        q, code = len(self._alphabets[stream].values), 0
        for _ in range(self._widths[stream]):
            code = code * q + symbol
        return np.full(size, code, np.uint32)

    def _symbols(self, stream: str, codes: dict[str, NDArray[Any]]) -> NDArray[np.uint32]:
        """Each person's symbol in a stream's alphabet, from the codes of the attributes."""
        alphabet, where = self._alphabets[stream], self._wheres[stream]
        symbols: NDArray[np.uint32] = np.zeros(1, np.uint32)
        for name, part in zip(alphabet.attributes, alphabet.parts, strict=True):
            symbols = symbols * np.uint32(len(part)) + codes[name].astype(np.uint32)
        if where is not None:
            ((name, value),) = where.items()
            inside = codes[name] == self._study.attributes[name].codes[value]
            assert alphabet.absent is not None
            symbols = np.where(inside, symbols, np.uint32(alphabet.absent))
        return symbols

    @property
    def size(self) -> int:
        """The number of slots: the declared size, or the people admitted so far."""
        return self._study.size or int(self._slot.shape[0])

    @property
    def open_cells(self) -> int:
        """How many cells wait for the period that is open, repeated ones among them."""
        return self._pending[self.period + 1]

    def enrol(self, hi: NDArray[np.uint64], lo: NDArray[np.uint64]) -> None:
        """Admit the members of groups before the first period, whether they report or not.

        Raises ValueError once anybody is admitted or a period is closed.
        """
        if self.period or self._hi.shape[0]:
            raise ValueError("people are enrolled before anything else")
        order = np.lexsort((lo, hi))
        self._admit(hi[order], lo[order])

    def slots(self, hi: NDArray[np.uint64], lo: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The slots of people, which index the arrays of symbols; -1 for those without one."""
        return self._find(hi, lo)

    def fold(self, cells: Cells, rejected: list[RejectedRecord]) -> None:
        """Add a decoded batch: its cells, and the records that were rejected."""
        for record in rejected:
            self.accounting.rejected.update(record.cells)
        self.accounting.received += len(cells) + sum(sum(r.cells.values()) for r in rejected)
        self.accounting.pending += len(cells)
        self._pending.update(_by_period(cells))
        self._waiting.add(cells)

    def answering(self) -> int:
        """How many people have an answer for the next period, admitted or not."""
        waiting = self._waiting.all()
        final = latest_cells(waiting.take(waiting.period == self.period + 1))
        final = final.take(final.code != CLEARED)
        other = (final.hi[1:] != final.hi[:-1]) | (final.lo[1:] != final.lo[:-1])
        return int(other.sum()) + (len(final) > 0)

    def close(self) -> ClosedPeriod:
        """Close the next period: merge its cells, admit newcomers, update everybody's symbols."""
        period = self.period + 1
        final = latest_cells(self._waiting.pop(period))
        slots = self._find(final.hi, final.lo)
        unknown = (slots < 0) & (final.code != CLEARED)
        self._admit(final.hi[unknown], final.lo[unknown])
        slots[slots < 0] = self._find(final.hi[slots < 0], final.lo[slots < 0])
        coded = final.code != CLEARED
        refused: dict[Reason, Cells] = {"full": final.take((slots < 0) & coded)}
        coded &= slots >= 0
        contradicting = self._contradicting(final, slots, coded)
        refused["fixed"] = final.take(contradicting)
        coded &= ~contradicting
        for reason, cells in refused.items():
            if len(cells):
                self.accounting.rejected[reason] += len(cells)
        self.accounting.accepted += len(final) - sum(map(len, refused.values()))
        pending = self._pending.pop(period, 0)
        self.accounting.superseded += pending - len(final)
        self.accounting.pending -= pending
        symbols = {}
        for index, name in enumerate(self._study.attributes):
            own = coded & (final.attribute == index)
            symbols[name] = self._advance(name, slots[own], final.code[own])
        self.period = period
        streams = {stream: self._symbols(stream, symbols) for stream in self._alphabets}
        for stream, now in streams.items():
            q = len(self._alphabets[stream].values)
            keep = np.uint32(q ** (self._widths[stream] - 1))
            self._recent[stream] = self._recent[stream] % keep * np.uint32(q) + now
        for (stream, symbol), reach in self._reaches.items():
            kept = self._present[stream, symbol] & np.uint16((1 << reach - 1) - 1)
            here = streams[stream] != symbol
            self._present[stream, symbol] = kept << np.uint16(1) | here.astype(np.uint16)
        counted = {r.name: self._rises(r, streams[r.stream]) for r in self._counted}
        recent, present = dict(self._recent), dict(self._present)
        return ClosedPeriod(symbols, refused, lambda: self._count(recent, present, counted))

    def _contradicting(
        self, cells: Cells, slots: NDArray[np.int64], coded: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Which cells contradict the value that a person already has of a fixed attribute."""
        contradicting = np.zeros(len(cells), bool)
        for index, (name, attribute) in enumerate(self._study.attributes.items()):
            if attribute.fixed:
                own = np.flatnonzero(coded & (cells.attribute == index))
                fixed = self._last[name][slots[own]]
                contradicting[own] = (fixed != attribute.first_code) & (fixed != cells.code[own])
        return contradicting

    def _find(self, hi: NDArray[np.uint64], lo: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Slots by hash, -1 where there is none: a search by `hi`, and a comparison of `lo`."""
        count = self._hi.shape[0]
        slots = np.full(hi.shape[0], -1, np.int64)
        places = np.searchsorted(self._hi, hi)
        rows = np.flatnonzero(places < count)
        while rows.size:
            rows = rows[self._hi[places[rows]] == hi[rows]]
            same = self._lo[places[rows]] == lo[rows]
            slots[rows[same]] = self._slot[places[rows[same]]]
            # Several people may share `hi`: compare with the next one.
            rows = rows[~same]
            places[rows] += 1
            rows = rows[places[rows] < count]
        return slots

    def _admit(self, hi: NDArray[np.uint64], lo: NDArray[np.uint64]) -> None:
        """Give newcomers slots in the order of their hashes, as far as there is room."""
        if (hi[1:] <= hi[:-1]).any():
            order = np.lexsort((lo, hi))
            hi, lo = hi[order], lo[order]
            new = np.ones(hi.shape[0], bool)
            new[1:] = (hi[1:] != hi[:-1]) | (lo[1:] != lo[:-1])
            hi, lo = hi[new], lo[new]
        before = self._hi.shape[0]
        if self._study.size is not None:
            hi, lo = hi[: self._study.size - before], lo[: self._study.size - before]
        else:
            self._grow(hi.shape[0])
        place = np.searchsorted(self._hi, hi)
        slots = np.arange(before, before + hi.shape[0], dtype=np.int32)
        self._hi = np.insert(self._hi, place, hi)
        self._lo = np.insert(self._lo, place, lo)
        self._slot = np.insert(self._slot, place, slots)

    def _grow(self, count: int) -> None:
        """Add slots for newcomers, who have not answered yet."""
        for name, attribute in self._study.attributes.items():
            fresh = np.full(count, attribute.first_code, np.uint8)
            self._last[name] = np.concatenate([self._last[name], fresh])
        for stream, recent in self._recent.items():
            self._recent[stream] = np.concatenate([recent, self._unknown(stream, count)])
        for key, present in self._present.items():
            self._present[key] = np.append(present, np.zeros(count, np.uint16))
        for name, totals in self._totals.items():
            self._totals[name] = np.append(totals, np.zeros(count, np.uint16))
            self._entered[name] = np.append(self._entered[name], np.zeros(count, bool))

    def _advance(
        self, name: str, slots: NDArray[np.int64], codes: NDArray[np.uint8]
    ) -> NDArray[np.uint8]:
        """The code of an attribute for every slot, once cells with codes are applied."""
        attribute, last = self._study.attributes[name], self._last[name]
        if attribute.carries or attribute.fixed:
            symbols = last.copy()
        else:
            symbols = np.full(last.shape[0], attribute.first_code, np.uint8)
        symbols[slots] = codes
        self._last[name] = symbols
        return symbols

    def _rises(
        self, release: CumulativeRelease | JointRelease, symbols: NDArray[np.uint32]
    ) -> Callable[[], NDArray[np.int64]]:
        """Update the totals of a release's event; returns a function that counts them.

        The counts, (T + 1,) int64: how many people's total reached b in this period, b = 1..T, and
        how many were present for the first time. They are the increments of the sums S_b of Bun et
        al. 2024, Algorithm 2.
        """
        first, last = self._study.span(release)
        alphabet, horizon = self._alphabets[release.stream], last - first + 1
        if not first <= self.period <= last:
            return lambda: np.zeros(horizon + 1, np.int64)
        happens = np.zeros(len(alphabet.values), bool)
        happens[list(self._study.event_codes(release))] = True
        event = happens[symbols]
        here = (
            np.ones(event.shape[0], bool)
            if alphabet.absent is None
            else (symbols != alphabet.absent)
        )
        enters = here & ~self._entered[release.name]
        self._entered[release.name] = self._entered[release.name] | here
        totals = self._totals[release.name] = self._totals[release.name] + event

        def count() -> NDArray[np.int64]:
            rises = np.bincount(totals[event], minlength=horizon + 1)[1:]
            return np.append(rises, enters.sum()).astype(np.int64)

        return count

    def _count(
        self,
        recent: dict[str, NDArray[np.uint32]],
        present: dict[tuple[str, int], NDArray[np.uint16]],
        counted: dict[str, Callable[[], NDArray[np.int64]]],
    ) -> dict[str, NDArray[np.int64]]:
        """By release: patterns (window), rises (cumulative), or patterns, then rises (joint).

        Where a release measures who is present, its patterns are followed by the people by when
        they were present in the last 2k - 1 periods, (2^(2k - 1),).
        """
        counts = {}
        for release in self._study.releases:
            parts = []
            if not isinstance(release, CumulativeRelease):
                bins = len(self._alphabets[release.stream].values) ** release.width
                codes = recent[release.stream]
                if release.width < self._widths[release.stream]:
                    codes = codes % bins
                parts.append(np.bincount(codes, minlength=bins).astype(np.int64))
                symbol = self._study.presence(release)
                if symbol is not None:
                    kinds = 1 << 2 * release.width - 1
                    when = present[release.stream, symbol] & np.uint16(kinds - 1)
                    parts.append(np.bincount(when, minlength=kinds).astype(np.int64))
            if not isinstance(release, WindowRelease):
                parts.append(counted[release.name]())
            counts[release.name] = np.concatenate(parts)
        return counts

    def save(self, file: BinaryIO) -> None:
        """Write the state as a NumPy archive."""
        arrays: dict[str, NDArray[Any]] = {"hi": self._hi, "lo": self._lo, "slot": self._slot}
        arrays |= {f"last {k}": v for k, v in self._last.items()}
        arrays |= {f"recent {k}": v for k, v in self._recent.items()}
        arrays |= {f"present {s} {k}": v for (k, s), v in self._present.items()}
        arrays |= {f"totals {k}": v for k, v in self._totals.items()}
        arrays |= {f"entered {k}": v for k, v in self._entered.items()}
        arrays |= {f"waiting {i}": c for i, c in enumerate(self._waiting.all().columns())}
        head = {
            "version": _VERSION,
            "study": self._study.hash,
            "period": self.period,
            "accounting": self.accounting.as_dict(),
            "pending": dict(sorted(self._pending.items())),
        }
        packed = np.frombuffer(msgspec.json.encode(head), np.uint8)
        np.savez(file, head=packed, **arrays)  # type: ignore[arg-type]

    @classmethod
    def load(cls, study: Study, file: BinaryIO) -> Population:
        """The state that `save` wrote. Raises Inconsistent for another version or study."""
        try:
            arrays = np.load(file, allow_pickle=False)
            head = msgspec.json.decode(arrays["head"].tobytes())
        except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, msgspec.DecodeError):
            raise Inconsistent("snapshot: cannot be read; remove it to replay the input") from None
        if head.get("version") not in {_UNCOUNTED, _VERSION} or head["study"] != study.hash:
            raise Inconsistent("snapshot: of another version or study; remove it to replay")
        self = cls(study)
        self.period = head["period"]
        numbers = head["accounting"]
        self.accounting = Accounting(**{**numbers, "rejected": Tally(numbers["rejected"])})
        self._hi, self._lo, self._slot = arrays["hi"], arrays["lo"], arrays["slot"]
        self._waiting = WaitingCells.of(Cells(*(arrays[f"waiting {i}"] for i in range(7))))
        pending = head.get("pending")
        self._pending = (
            Tally(_by_period(self._waiting.all()))
            if pending is None
            else Tally({int(number): count for number, count in pending.items()})
        )
        self._last = {name: arrays[f"last {name}"] for name in self._last}
        self._recent = {name: arrays[f"recent {name}"] for name in self._recent}
        self._present = {(k, s): arrays[f"present {s} {k}"] for k, s in self._present}
        self._totals = {name: arrays[f"totals {name}"] for name in self._totals}
        self._entered = {name: arrays[f"entered {name}"] for name in self._entered}
        return self


def _width(release: Release) -> int:
    """How many periods of a person's history the release needs."""
    return 1 if isinstance(release, CumulativeRelease) else release.width


def _by_period(cells: Cells) -> dict[int, int]:
    """How many of the cells are of each period."""
    counts = np.bincount(cells.period)
    return {number: int(counts[number]) for number in np.flatnonzero(counts).tolist()}
