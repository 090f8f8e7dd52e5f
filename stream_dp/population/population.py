"""The population: the confidential state per person, and the counts of a closed period.

People are slots of dense arrays; an id finds its slot through a sorted array of keyed hashes.
Cells wait in columns until their period closes. The state at a cut is a function of the input
below it: cells merge by (partition, offset), newcomers enter in the order of their hashes, and
nothing depends on how the partitions were interleaved.

Where the study's relation makes the size public, all slots exist from the start; a slot that
nobody has claimed is a person of whom nothing is known. Once all are claimed, newcomers are
refused for good: so one person's coming or going swaps at most one other.
"""

from __future__ import annotations

import io
import zipfile
from collections import Counter as Tally
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, BinaryIO

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dp.errors import Inconsistent
from stream_dp.study import CumulativeRelease, JointRelease, Release, Study, WindowRelease

from .cells import CLEARED, Cells, WaitingCells, latest_cells
from .reports import Reason, RejectedRecord

_VERSION = 2


@dataclass
class Accounting:
    """Cells: received = accepted + superseded + rejected + pending. Confidential."""

    received: int = 0
    accepted: int = 0
    superseded: int = 0
    rejected: Tally[Reason] = field(default_factory=Tally)
    pending: int = 0

    def as_dict(self) -> dict[str, Any]:
        return {
            "received": self.received,
            "accepted": self.accepted,
            "superseded": self.superseded,
            "rejected": dict(sorted(self.rejected.items())),
            "pending": self.pending,
        }


@dataclass(frozen=True)
class ClosedPeriod:
    """A closed period, confidential.

    symbols: by attribute, a code for every slot; refused: by reason, the cells of people who
    were not admitted, and those that contradict a fixed value; count: gives the counts, which
    are not looked at before the noise is drawn.
    """

    symbols: dict[str, NDArray[np.uint8]]
    refused: dict[Reason, Cells]
    count: Callable[[], dict[str, NDArray[np.int64]]]

    @cached_property
    def counts(self) -> dict[str, NDArray[np.int64]]:
        """By release, what its mechanism takes."""
        return self.count()


class Population:
    """Everything known of everybody at a position of the input; changed in place."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self.period = 0  # the last closed one
        self.accounting = Accounting()
        self._hi = np.zeros(0, np.uint64)
        self._lo = np.zeros(0, np.uint64)
        self._slot = np.zeros(0, np.int32)
        self._waiting = WaitingCells()
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
        self._counted = [r for r in study.releases if not isinstance(r, WindowRelease)]
        self._totals = {r.name: np.zeros(size, np.uint16) for r in self._counted}
        self._entered = {r.name: np.zeros(size, bool) for r in self._counted}

    def _unknown(self, stream: str, size: int) -> NDArray[np.uint32]:
        """The recent symbols, as codes in base q, of `size` people of whom nothing is known."""
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
        """Slots: the declared size, or the people admitted so far."""
        return self._study.size or int(self._slot.shape[0])

    def enrol(self, hi: NDArray[np.uint64], lo: NDArray[np.uint64]) -> None:
        """Give people slots before the first period, whoever reports: members of groups."""
        if self.period or self._hi.shape[0]:
            raise ValueError("people are enrolled before anything else")
        order = np.lexsort((lo, hi))
        self._admit(hi[order], lo[order])

    def slots(self, hi: NDArray[np.uint64], lo: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Where people are in the arrays of symbols; -1 for those without a place."""
        return self._find(hi, lo)

    def fold(self, cells: Cells, rejected: list[RejectedRecord]) -> None:
        """Take in a decoded batch."""
        for one in rejected:
            self.accounting.rejected.update(one.cells)
        self.accounting.received += len(cells) + sum(sum(r.cells.values()) for r in rejected)
        self.accounting.pending += len(cells)
        self._supersede(self._waiting.hold(cells))

    def _supersede(self, count: int) -> None:
        self.accounting.superseded += count
        self.accounting.pending -= count

    def close(self) -> ClosedPeriod:
        """Close the next period: merge its cells, admit newcomers, count."""
        period = self.period + 1
        due = self._waiting.due(period)
        final = latest_cells(due)
        self._supersede(len(due) - len(final))
        slots = self._find(final.hi, final.lo)
        unknown = (slots < 0) & (final.code != CLEARED)
        self._admit(final.hi[unknown], final.lo[unknown])
        slots[slots < 0] = self._find(final.hi[slots < 0], final.lo[slots < 0])
        coded = final.code != CLEARED
        refused: dict[Reason, Cells] = {"full": final.take((slots < 0) & coded)}
        coded &= slots >= 0
        against = self._against(final, slots, coded)
        refused["fixed"] = final.take(against)
        coded &= ~against
        turned = 0
        for reason, cells in refused.items():
            turned += len(cells)
            if len(cells):
                self.accounting.rejected[reason] += len(cells)
        self.accounting.accepted += len(final) - turned
        self.accounting.pending -= len(final)
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
        counted = {r.name: self._rises(r, streams[r.stream]) for r in self._counted}
        recent = dict(self._recent)
        return ClosedPeriod(symbols, refused, lambda: self._count(recent, counted))

    def _against(
        self, cells: Cells, slots: NDArray[np.int64], coded: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Which cells say another value than the one that a fixed attribute has for good."""
        against = np.zeros(len(cells), bool)
        for index, (name, attribute) in enumerate(self._study.attributes.items()):
            if attribute.fixed:
                own = np.flatnonzero(coded & (cells.attribute == index))
                fixed = self._last[name][slots[own]]
                against[own] = (fixed != attribute.first_code) & (fixed != cells.code[own])
        return against

    def _find(self, hi: NDArray[np.uint64], lo: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Slots by hash, -1 where there is none. 64 bits to search, 64 to check."""
        count = self._hi.shape[0]
        slots = np.full(hi.shape[0], -1, np.int64)
        place = np.searchsorted(self._hi, hi)
        open_ = np.flatnonzero(place < count)
        while open_.size:
            open_ = open_[self._hi[place[open_]] == hi[open_]]
            hit = self._lo[place[open_]] == lo[open_]
            slots[open_[hit]] = self._slot[place[open_[hit]]]
            # Two people may share 64 bits: look at the next one.
            open_ = open_[~hit]
            place[open_] += 1
            open_ = open_[place[open_] < count]
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
        """Slots for newcomers, of whom nothing is known."""
        for name, attribute in self._study.attributes.items():
            fresh = np.full(count, attribute.first_code, np.uint8)
            self._last[name] = np.concatenate([self._last[name], fresh])
        for stream, recent in self._recent.items():
            self._recent[stream] = np.concatenate([recent, self._unknown(stream, count)])
        for name, totals in self._totals.items():
            self._totals[name] = np.append(totals, np.zeros(count, np.uint16))
            self._entered[name] = np.append(self._entered[name], np.zeros(count, bool))

    def _advance(
        self, name: str, slots: NDArray[np.int64], codes: NDArray[np.uint8]
    ) -> NDArray[np.uint8]:
        """Everybody's code of the period."""
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
        """Count the event in a period of the release; what gives the counts, (T + 1,) int64.

        They are the people whose total reached b, b = 1..T, and those who entered: who are
        present for the first time.
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
        counted: dict[str, Callable[[], NDArray[np.int64]]],
    ) -> dict[str, NDArray[np.int64]]:
        """What each release's mechanism takes: its patterns, its rises, or first one then both."""
        counts = {}
        for release in self._study.releases:
            parts = []
            if not isinstance(release, CumulativeRelease):
                bins = len(self._alphabets[release.stream].values) ** release.width
                codes = recent[release.stream]
                if release.width < self._widths[release.stream]:
                    codes = codes % bins
                parts.append(np.bincount(codes, minlength=bins).astype(np.int64))
            if not isinstance(release, WindowRelease):
                parts.append(counted[release.name]())
            counts[release.name] = np.concatenate(parts)
        return counts

    def save(self, file: BinaryIO) -> None:
        """Write the whole state."""
        arrays: dict[str, NDArray[Any]] = {"hi": self._hi, "lo": self._lo, "slot": self._slot}
        arrays |= {f"last {k}": v for k, v in self._last.items()}
        arrays |= {f"recent {k}": v for k, v in self._recent.items()}
        arrays |= {f"totals {k}": v for k, v in self._totals.items()}
        arrays |= {f"entered {k}": v for k, v in self._entered.items()}
        arrays |= {f"waiting {i}": c for i, c in enumerate(self._waiting.all().columns())}
        head = {
            "version": _VERSION,
            "study": self._study.hash,
            "period": self.period,
            "accounting": self.accounting.as_dict(),
        }
        packed = np.frombuffer(msgspec.json.encode(head), np.uint8)
        np.savez(file, head=packed, **arrays)  # type: ignore[arg-type]

    @classmethod
    def load(cls, study: Study, data: bytes) -> Population:
        """The state that `save` wrote. Raises Inconsistent."""
        try:
            arrays = np.load(io.BytesIO(data), allow_pickle=False)
            head = msgspec.json.decode(arrays["head"].tobytes())
        except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, msgspec.DecodeError):
            raise Inconsistent("snapshot: cannot be read; remove it to replay the input") from None
        if head.get("version") != _VERSION or head["study"] != study.hash:
            raise Inconsistent("snapshot: of another version or study; remove it to replay")
        self = cls(study)
        self.period = head["period"]
        numbers = head["accounting"]
        self.accounting = Accounting(**{**numbers, "rejected": Tally(numbers["rejected"])})
        self._hi, self._lo, self._slot = arrays["hi"], arrays["lo"], arrays["slot"]
        self._waiting = WaitingCells.of(Cells(*(arrays[f"waiting {i}"] for i in range(7))))
        self._last = {name: arrays[f"last {name}"] for name in self._last}
        self._recent = {name: arrays[f"recent {name}"] for name in self._recent}
        self._totals = {name: arrays[f"totals {name}"] for name in self._totals}
        self._entered = {name: arrays[f"entered {name}"] for name in self._entered}
        return self


def _width(release: Release) -> int:
    """Periods that the release looks back on."""
    return 1 if isinstance(release, CumulativeRelease) else release.width
