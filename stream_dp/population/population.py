"""The population: the confidential state of each person, and the counts of a closed period.

Each person has a slot in dense arrays, found by the keyed hash of the id in a sorted
array. Cells wait in columns until their period closes. The state at a cut is a function of the
input below it: cells merge by (partition, offset), newcomers are admitted in the order of their
hashes, and nothing depends on how the partitions were interleaved.

If the study's relation makes the size public, all slots exist from the start. A slot without a
person counts as somebody who has not answered. Once all slots have persons, newcomers are refused
permanently, so adding or removing one person swaps at most one other. A closed cohort refuses
whoever is not admitted by its last period of entry: each newcomer by the own reports alone.
"""

from __future__ import annotations

import zipfile
from collections import Counter as Tally
from collections.abc import Callable
from typing import Any, BinaryIO

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dp.errors import Inconsistent
from stream_dp.study import CumulativeRelease, JointRelease, Study, has_patterns, has_totals
from stream_dp.study.table_releases import PastAnswer

from .accounting import Accounting, CellCounts
from .cells import CLEARED, Cells, WaitingCells, code_type, latest_cells
from .closed import ClosedPeriod
from .index import Index, distinct
from .rejection_reasons import Reason, RejectedRecord
from .split import Part

_VERSION = 1


class Population:
    """The state of all people at a position of the input; its methods change it in place.

    index: the slots of people.
    columns: the state of each slot, by the names of the columns in a snapshot, see `_unknown`.
    waiting: cells of open periods.
    pending: the number of cells of each open period, superseded cells among them.
    part: the part of the people that it holds; None for all people. In a part of a study that
        declares a size, slot 0 stands for nobody: it counts for nothing, and newcomers begin with
        its
        state. Unclaimed slots count as copies of it.
    """

    def __init__(self, study: Study, part: Part | None = None) -> None:
        self.study = study
        self.part = part
        self.period = 0  # the last closed period
        self.accounting = Accounting()
        self.index = Index()
        self.waiting = WaitingCells()
        self.pending: Tally[int] = Tally()
        self._alphabets = {r.stream: study.alphabet(r) for r in study.releases}
        self._wheres = {r.stream: r.where for r in study.releases}
        self._widths = {
            stream: max(r.history for r in study.releases if r.stream == stream)
            for stream in self._alphabets
        }
        # By stream and symbol of absence: a bit for each of the last periods in which a person was
        # present, the lowest for the last period.
        self._reaches: dict[tuple[str, int], int] = {}
        for release in study.releases:
            symbol = study.presence(release)
            if symbol is not None:
                key = (release.stream, symbol)
                self._reaches[key] = max(self._reaches.get(key, 0), 2 * release.history - 1)
        self._counted = [r for r in study.releases if has_totals(r)]
        slots = study.size or 0 if part is None else self.nobodies
        self.columns = {name: value.repeat(slots) for name, value in self._unknown().items()}

    @property
    def nobodies(self) -> int:
        """The number of leading slots that stand for nobody."""
        return int(self.part is not None and self.study.size is not None)

    def _unknown(self) -> dict[str, NDArray[Any]]:
        """Returns the state of a person without an answer, in columns of one row.

        last: by attribute, the code of the last answer.
        past: by attribute and number of periods, the code this many periods before the last close.
        recent: by stream, the recent symbols, as a code in base q.
        present: by stream and symbol of absence, the presence in the last periods: a bit for each
            period, the lowest for the last.
        totals: by release, in how many periods its event happened.
        entered: by release, whether a person was ever present.
        """
        attributes = self.study.attributes
        columns: dict[str, NDArray[Any]] = {
            f"last {name}": np.array([a.first_code], code_type(len(a.symbols)))
            for name, a in attributes.items()
        }
        columns |= {
            f"past {PastAnswer(name, ago).column}": columns[f"last {name}"]
            for name, longest in self.study.past.items()
            for ago in range(1, longest + 1)
        }
        columns |= {f"recent {stream}": self._unknown_past(stream) for stream in self._alphabets}
        columns |= {f"present {s} {k}": np.zeros(1, np.uint16) for k, s in self._reaches}
        columns |= {f"totals {r.name}": np.zeros(1, np.uint16) for r in self._counted}
        return columns | {f"entered {r.name}": np.zeros(1, bool) for r in self._counted}

    def _unknown_past(self, stream: str) -> NDArray[np.uint32]:
        """Returns the recent symbols of a person without an answer, in base q."""
        first = {n: np.array([a.first_code]) for n, a in self.study.attributes.items()}
        (symbol,) = self._symbols(stream, first).tolist()
        q, code = len(self._alphabets[stream].values), 0
        for _ in range(self._widths[stream]):
            code = code * q + symbol
        return np.array([code], np.uint32)

    def _symbols(self, stream: str, codes: dict[str, NDArray[Any]]) -> NDArray[np.uint32]:
        """Computes each person's symbol in a stream's alphabet from the codes of the attributes."""
        alphabet, condition = self._alphabets[stream], self._wheres[stream]
        symbols: NDArray[np.uint32] = np.zeros(1, np.uint32)
        for name, values in zip(alphabet.attributes, alphabet.symbols, strict=True):
            symbols = symbols * np.uint32(len(values)) + codes[name].astype(np.uint32)
        if condition is not None:
            ((name, value),) = condition.items()
            inside = codes[name] == self.study.attributes[name].codes[value]
            assert alphabet.absent is not None
            symbols = np.where(inside, symbols, np.uint32(alphabet.absent))
        return symbols

    @property
    def size(self) -> int:
        """The number of slots: the declared size, or the people admitted so far."""
        return self.study.size or len(self.index)

    @property
    def people(self) -> int:
        """The number of people with a slot."""
        return len(self.index)

    @property
    def open_cells(self) -> int:
        """The number of cells that wait for the next period, superseded cells among them."""
        return self.pending[self.period + 1]

    def enrol(self, hi: NDArray[np.uint64], lo: NDArray[np.uint64]) -> None:
        """Admits the members of groups before the first period, whether they report or not.

        Raises ValueError once anybody is admitted or a period is closed.
        """
        if self.period or len(self.index):
            raise ValueError("people are enrolled before anything else")
        self._admit(hi, lo, self._room)

    def slots(self, hi: NDArray[np.uint64], lo: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Returns the slots of people, which index the arrays of symbols.

        A person without a slot has -1.
        """
        return self.index.find(hi, lo)

    def fold(self, cells: Cells, rejected: list[RejectedRecord]) -> None:
        """Adds a decoded batch: its cells and its rejected records."""
        for record in rejected:
            self.accounting.rejected.update(record.cells)
        self.accounting.received += len(cells) + sum(sum(r.cells.values()) for r in rejected)
        self.accounting.pending += len(cells)
        self.pending.update(cells_by_period(cells))
        self.waiting.add(cells)

    def answering(self) -> tuple[int, int]:
        """Counts the people with an answer for the next period, admitted or not, and their answers.

        Answers of attributes that carry over or are fixed are not counted.
        """
        waiting = self.waiting.all()
        final = latest_cells(waiting.take(waiting.period == self.period + 1))
        final = final.take(final.code != CLEARED)
        new_person = (final.hi[1:] != final.hi[:-1]) | (final.lo[1:] != final.lo[:-1])
        staying = [a.fixed or a.carries for a in self.study.attributes.values()]
        answers = ~np.array([*staying, True])[final.attribute]
        return int(new_person.sum()) + (len(final) > 0), int(answers.sum())

    def close(self, room: int | None = None) -> ClosedPeriod:
        """Closes the next period: merges its cells, admits newcomers, updates all people's symbols.

        room: of a part, how many newcomers it admits at most.
        """
        period = self.period + 1
        final = latest_cells(self.waiting.pop(period))
        slots = self.index.find(final.hi, final.lo)
        unknown = (slots < 0) & (final.code != CLEARED)
        self._admit(final.hi[unknown], final.lo[unknown], self._room if room is None else room)
        slots[slots < 0] = self.index.find(final.hi[slots < 0], final.lo[slots < 0])
        coded = final.code != CLEARED
        no_place: Reason = "full" if self.study.last_entry is None else "closed"
        refused: dict[Reason, Cells] = {no_place: final.take((slots < 0) & coded)}
        coded &= slots >= 0
        contradicting = self._contradicting(final, slots, coded)
        refused["fixed"] = final.take(contradicting)
        coded &= ~contradicting
        for reason, cells in refused.items():
            if len(cells):
                self.accounting.rejected[reason] += len(cells)
        self.accounting.accepted += len(final) - sum(map(len, refused.values()))
        pending = self.pending.pop(period, 0)
        self.accounting.superseded += pending - len(final)
        self.accounting.pending -= pending
        symbols = self._pasts()
        for index, name in enumerate(self.study.attributes):
            rows = coded & (final.attribute == index)
            symbols[name] = self._advance(name, slots[rows], final.code[rows])
        self.period = period
        streams = {stream: self._symbols(stream, symbols) for stream in self._alphabets}
        for stream, current in streams.items():
            q, column = len(self._alphabets[stream].values), f"recent {stream}"
            keep = np.uint32(q ** (self._widths[stream] - 1))
            self.columns[column] = self.columns[column] % keep * np.uint32(q) + current
        for (stream, symbol), reach in self._reaches.items():
            column = f"present {symbol} {stream}"
            shifted = self.columns[column] & np.uint16((1 << reach - 1) - 1)
            present = streams[stream] != symbol
            self.columns[column] = shifted << np.uint16(1) | present.astype(np.uint16)
        counted = {r.name: self._rises(r, streams[r.stream]) for r in self._counted}
        columns = dict(self.columns)
        return ClosedPeriod(
            symbols, refused, lambda slots: self._count(columns, counted, slots), self.nobodies
        )

    def _pasts(self) -> dict[str, NDArray[np.unsignedinteger]]:
        """Moves the columns of the past by a period. Returns all people's codes by column."""
        pasts: dict[str, NDArray[np.unsignedinteger]] = {}
        for name, longest in self.study.past.items():
            newer = self.columns[f"last {name}"]
            for ago in range(1, longest + 1):
                column = PastAnswer(name, ago).column
                newer, self.columns[f"past {column}"] = self.columns[f"past {column}"], newer
                pasts[column] = self.columns[f"past {column}"]
        return pasts

    def _contradicting(
        self, cells: Cells, slots: NDArray[np.int64], coded: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Marks cells that contradict a person's value of a fixed attribute."""
        contradicting = np.zeros(len(cells), bool)
        for index, (name, attribute) in enumerate(self.study.attributes.items()):
            if attribute.fixed:
                rows = np.flatnonzero(coded & (cells.attribute == index))
                fixed = self.columns[f"last {name}"][slots[rows]]
                contradicting[rows] = (fixed != attribute.first_code) & (fixed != cells.code[rows])
        return contradicting

    @property
    def _room(self) -> int | None:
        """The number of people still to be admitted at most, or None."""
        last_entry = self.study.last_entry
        if last_entry is not None and self.period >= last_entry:
            return 0
        if self.part is not None or self.study.size is None:
            return None
        return self.study.size - len(self.index)

    def _admit(self, hi: NDArray[np.uint64], lo: NDArray[np.uint64], room: int | None) -> None:
        """Gives newcomers slots in the order of their hashes until the room is used up."""
        hi, lo = (half[:room] for half in distinct(hi, lo))
        first, fresh = self.nobodies + len(self.index), self._unknown()
        if self.nobodies or self.study.size is None:
            for name, column in self.columns.items():
                newcomer = column[:1] if self.nobodies else fresh[name]
                self.columns[name] = np.concatenate([column, newcomer.repeat(hi.shape[0])])
        self.index.insert(hi, lo, first)

    def _advance(
        self, name: str, slots: NDArray[np.int64], codes: NDArray[np.signedinteger]
    ) -> NDArray[np.unsignedinteger]:
        """Applies cells with codes. Returns the code of an attribute for every slot."""
        attribute, last = self.study.attributes[name], self.columns[f"last {name}"]
        if attribute.carries or attribute.fixed:
            symbols = last.copy()
        else:
            symbols = np.full(last.shape[0], attribute.first_code, last.dtype)
        symbols[slots] = codes
        self.columns[f"last {name}"] = symbols
        return symbols

    def _rises(
        self, release: CumulativeRelease | JointRelease, symbols: NDArray[np.uint32]
    ) -> Callable[[slice], NDArray[np.int64]]:
        """Updates the totals of a release's event. Returns a function that counts them for slots.

        The counts, (T + 1,) int64: how many people's total reached b in this period, b = 1..T, and
        how many were present for the first time. They are the increments of the sums S_b of Bun et
        al. 2024, Algorithm 2.
        """
        first, last = self.study.span(release)
        alphabet, horizon = self._alphabets[release.stream], last - first + 1
        if not first <= self.period <= last:
            return lambda slots: np.zeros(horizon + 1, np.int64)
        happens = np.zeros(len(alphabet.values), bool)
        happens[list(self.study.event_codes(release))] = True
        event = happens[symbols]
        present = (
            np.ones(event.shape[0], bool)
            if alphabet.absent is None
            else (symbols != alphabet.absent)
        )
        entered = self.columns[f"entered {release.name}"]
        enters = present & ~entered
        self.columns[f"entered {release.name}"] = entered | present
        totals = self.columns[f"totals {release.name}"] + event
        self.columns[f"totals {release.name}"] = totals

        def count(slots: slice) -> NDArray[np.int64]:
            rises = np.bincount(totals[slots][event[slots]], minlength=horizon + 1)[1:]
            return np.append(rises, enters[slots].sum()).astype(np.int64)

        return count

    def _count(
        self,
        columns: dict[str, NDArray[Any]],
        counted: dict[str, Callable[[slice], NDArray[np.int64]]],
        slots: slice,
    ) -> dict[str, NDArray[np.int64]]:
        """Counts patterns (window), rises (cumulative), or both (joint), by release.

        If a release measures presence, its patterns are followed by the number of people for each
        pattern of presence in the last 2k - 1 periods, (2^(2k - 1),). In a joint release the rises
        come
        last.
        """
        counts = {}
        for release in self.study.releases:
            measured = []
            if has_patterns(release):
                bins = len(self._alphabets[release.stream].values) ** release.width
                codes = columns[f"recent {release.stream}"][slots]
                if release.width < self._widths[release.stream]:
                    codes = codes % bins
                measured.append(np.bincount(codes, minlength=bins).astype(np.int64))
                symbol = self.study.presence(release)
                if symbol is not None:
                    kinds = 1 << 2 * release.width - 1
                    presence = columns[f"present {symbol} {release.stream}"][slots]
                    patterns = presence & np.uint16(kinds - 1)
                    measured.append(np.bincount(patterns, minlength=kinds).astype(np.int64))
            if has_totals(release):
                measured.append(counted[release.name](slots))
            counts[release.name] = np.concatenate(measured)
        return counts

    def save(self, file: BinaryIO) -> None:
        """Writes the state as a NumPy archive."""
        arrays: dict[str, NDArray[Any]] = {**vars(self.index), **self.columns}
        arrays |= {f"waiting {i}": c for i, c in enumerate(self.waiting.all().columns())}
        head = {
            "version": _VERSION,
            "study": self.study.hash,
            "period": self.period,
            "accounting": self.accounting.as_dict(),
            "pending": dict(sorted(self.pending.items())),
            **({} if self.part is None else {"part": vars(self.part)}),
        }
        packed = np.frombuffer(msgspec.json.encode(head), np.uint8)
        np.savez(file, head=packed, **arrays)  # type: ignore[arg-type]

    @classmethod
    def load(cls, study: Study, file: BinaryIO, part: Part | None = None) -> Population:
        """Reads a state written by `save`.

        Raises Inconsistent for another version, study or part.
        """
        try:
            arrays = np.load(file, allow_pickle=False)
            head = msgspec.json.decode(arrays["head"].tobytes())
        except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, msgspec.DecodeError):
            raise Inconsistent("snapshot: cannot be read; remove it to replay the input") from None
        if head.get("version") != _VERSION or head["study"] != study.hash:
            raise Inconsistent("snapshot: of another version or study; remove it to replay")
        if head.get("part") != (None if part is None else vars(part)):
            raise Inconsistent("snapshot: of another part; remove it to replay")
        self = cls(study, part)
        self.period = head["period"]
        numbers = head["accounting"]
        self.accounting = Accounting.of(CellCounts(**numbers))
        self.index = Index(arrays["hi"], arrays["lo"], arrays["slot"])
        self.waiting = WaitingCells.of(Cells(*(arrays[f"waiting {i}"] for i in range(7))))
        self.pending = Tally({int(number): count for number, count in head["pending"].items()})
        self.columns = {name: arrays[name] for name in self.columns}
        return self


def cells_by_period(cells: Cells) -> dict[int, int]:
    """Counts the cells of each period."""
    counts = np.bincount(cells.period)
    return {number: int(counts[number]) for number in np.flatnonzero(counts).tolist()}
