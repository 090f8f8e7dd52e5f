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

from .cells import NULL, Cells, Waiting, latest
from .errors import Inconsistent
from .report import Reason, Rejected
from .study import Cumulative, Release, Study, Window

_VERSION = 1


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
class Closed:
    """A closed period, confidential.

    symbols: by attribute, a code for every slot; refused: the cells of people who were not
    admitted; count: gives the counts, which are not looked at before the noise is drawn.
    """

    symbols: dict[str, NDArray[np.uint8]]
    refused: Cells
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
        self._waiting = Waiting()
        size = study.size or 0
        self._widths = {
            name: max([1, *(_width(release, name) for release in study.releases)])
            for name in study.attributes
        }
        self._recent = {name: self._unknown(name, size) for name in study.attributes}
        self._cumulative = [r for r in study.releases if isinstance(r, Cumulative)]
        self._totals = {r.name: np.zeros(size, np.uint16) for r in self._cumulative}

    def _unknown(self, name: str, size: int) -> NDArray[np.uint32]:
        """The recent symbols, as codes in base q, of `size` people of whom nothing is known."""
        attribute = self._study.attributes[name]
        q, code = len(attribute.symbols), 0
        for _ in range(self._widths[name]):
            code = code * q + attribute.first_code
        return np.full(size, code, np.uint32)

    @property
    def size(self) -> int:
        """Slots: the declared size, or the people admitted so far."""
        return self._study.size or int(self._slot.shape[0])

    def fold(self, cells: Cells, rejected: list[Rejected]) -> None:
        """Take in a decoded batch."""
        for one in rejected:
            self.accounting.rejected.update(one.cells)
        self.accounting.received += len(cells) + sum(sum(r.cells.values()) for r in rejected)
        self.accounting.pending += len(cells)
        self._supersede(self._waiting.hold(cells))

    def _supersede(self, count: int) -> None:
        self.accounting.superseded += count
        self.accounting.pending -= count

    def close(self) -> Closed:
        """Close the next period: merge its cells, admit newcomers, count."""
        period = self.period + 1
        due = self._waiting.due(period)
        final = latest(due)
        self._supersede(len(due) - len(final))
        slots = self._find(final.hi, final.lo)
        unknown = (slots < 0) & (final.code != NULL)
        self._admit(final.hi[unknown], final.lo[unknown])
        slots[slots < 0] = self._find(final.hi[slots < 0], final.lo[slots < 0])
        refused = final.take((slots < 0) & (final.code != NULL))
        if len(refused):
            self.accounting.rejected["full"] += len(refused)
        self.accounting.accepted += len(final) - len(refused)
        self.accounting.pending -= len(final)
        told = (slots >= 0) & (final.code != NULL)
        symbols = {}
        for index, name in enumerate(self._study.attributes):
            own = told & (final.attribute == index)
            symbols[name] = self._advance(name, slots[own], final.code[own])
        events = {r.name: self._happens(r, symbols) for r in self._cumulative}
        for name, event in events.items():
            self._totals[name] = self._totals[name] + event
        self.period = period
        recent, totals, size = dict(self._recent), dict(self._totals), self.size
        return Closed(symbols, refused, lambda: self._count(recent, totals, events, size))

    def _find(self, hi: NDArray[np.uint64], lo: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Slots by hash, -1 where there is none. 64 bits to search, 64 to check."""
        count = self._hi.shape[0]
        found = np.full(hi.shape[0], -1, np.int64)
        place = np.searchsorted(self._hi, hi)
        open_ = np.flatnonzero(place < count)
        while open_.size:
            open_ = open_[self._hi[place[open_]] == hi[open_]]
            hit = self._lo[place[open_]] == lo[open_]
            found[open_[hit]] = self._slot[place[open_[hit]]]
            # Two people may share 64 bits: look at the next one.
            open_ = open_[~hit]
            place[open_] += 1
            open_ = open_[place[open_] < count]
        return found

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
            for name in self._recent:
                fresh = self._unknown(name, hi.shape[0])
                self._recent[name] = np.concatenate([self._recent[name], fresh])
            for name, totals in self._totals.items():
                self._totals[name] = np.append(totals, np.zeros(hi.shape[0], np.uint16))
        place = np.searchsorted(self._hi, hi)
        slots = np.arange(before, before + hi.shape[0], dtype=np.int32)
        self._hi = np.insert(self._hi, place, hi)
        self._lo = np.insert(self._lo, place, lo)
        self._slot = np.insert(self._slot, place, slots)

    def _advance(
        self, name: str, slots: NDArray[np.int64], codes: NDArray[np.uint8]
    ) -> NDArray[np.uint8]:
        """Everybody's symbol of the period, appended to the recent ones."""
        attribute, recent = self._study.attributes[name], self._recent[name]
        q = len(attribute.symbols)
        if attribute.carries:
            symbols = (recent % q).astype(np.uint8)
        else:
            symbols = np.full(recent.shape[0], attribute.first_code, np.uint8)
        symbols[slots] = codes
        self._recent[name] = recent % q ** (self._widths[name] - 1) * np.uint32(q) + symbols
        return symbols

    def _happens(
        self, release: Cumulative, symbols: dict[str, NDArray[np.uint8]]
    ) -> NDArray[np.bool_]:
        """Whom the release's event has happened to in the period."""
        happens = np.zeros(len(self._study.attributes[release.attribute].symbols), bool)
        happens[list(self._study.event_codes(release))] = True
        return happens[symbols[release.attribute]]

    def _count(
        self,
        recent: dict[str, NDArray[np.uint32]],
        totals: dict[str, NDArray[np.uint16]],
        events: dict[str, NDArray[np.bool_]],
        size: int,
    ) -> dict[str, NDArray[np.int64]]:
        """What each release's mechanism takes; see their `measure`."""
        counts = {}
        for release in self._study.releases:
            if isinstance(release, Window):
                bins = len(self._study.attributes[release.attribute].symbols) ** release.width
                codes = recent[release.attribute]
                if release.width < self._widths[release.attribute]:
                    codes = codes % bins
                counts[release.name] = np.bincount(codes, minlength=bins).astype(np.int64)
            else:
                reached = totals[release.name][events[release.name]]
                rises = np.bincount(reached, minlength=self._study.periods.count + 1)
                counts[release.name] = np.append(rises[1:], size).astype(np.int64)
        return counts

    def save(self, file: BinaryIO) -> None:
        """Write the whole state."""
        arrays: dict[str, NDArray[Any]] = {"hi": self._hi, "lo": self._lo, "slot": self._slot}
        arrays |= {f"recent {k}": v for k, v in self._recent.items()}
        arrays |= {f"totals {k}": v for k, v in self._totals.items()}
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
            held = np.load(io.BytesIO(data), allow_pickle=False)
            head = msgspec.json.decode(held["head"].tobytes())
        except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, msgspec.DecodeError):
            raise Inconsistent("snapshot: cannot be read; remove it to replay the input") from None
        if head.get("version") != _VERSION or head["study"] != study.hash:
            raise Inconsistent("snapshot: of another version or study; remove it to replay")
        self = cls(study)
        self.period = head["period"]
        numbers = head["accounting"]
        self.accounting = Accounting(**{**numbers, "rejected": Tally(numbers["rejected"])})
        self._hi, self._lo, self._slot = held["hi"], held["lo"], held["slot"]
        self._waiting = Waiting.of(Cells(*(held[f"waiting {i}"] for i in range(7))))
        self._recent = {name: held[f"recent {name}"] for name in self._recent}
        self._totals = {name: held[f"totals {name}"] for name in self._totals}
        return self


def _width(release: Release, attribute: str) -> int:
    """Periods of the attribute that the release looks back on."""
    if isinstance(release, Window) and release.attribute == attribute:
        return release.width
    return 0
