"""The population: the confidential state of every person, and the counts of a closed period.

Each person has a slot in dense arrays, found by the keyed hash of the id in a sorted
array. Cells wait in columns until their period closes. The state at a cut is a function of the
input below it: cells merge by (partition, offset), newcomers are admitted in the order of their
hashes, and nothing depends on how the partitions were interleaved.

If the study's relation makes the size public, all slots exist from the start. A slot without a
person counts as somebody who has not answered. Once all slots have persons, newcomers are refused
permanently, so adding or removing one person swaps at most one other. A closed cohort refuses
whoever is not admitted by its last period of entry: each newcomer by the own reports alone.

When a period closes, the prevailing cells are found attribute by attribute.
"""

from __future__ import annotations

import zipfile
from collections import Counter as Tally
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import BinaryIO

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dp.errors import Inconsistent
from stream_dp.study import Study
from stream_dp.study.table_releases import PastAnswer

from .cells import (
    CLEARED,
    Answering,
    CellCounts,
    Cells,
    Part,
    Reason,
    RejectedRecord,
    WaitingCells,
    code_type,
    rows_by_kind,
)
from .histories import Columns, Counts, layers_of
from .id_index import Index, distinct, sorted_rows


@dataclass(frozen=True)
class ClosedPeriod:
    """A closed period, the input of its releases. Confidential.

    symbols: by attribute, a code for every slot, of 8, 16 or 32 bits by its number of symbols; an
        attribute with a history also has columns of its past (`study.table_releases.PastAnswer`).
    refused: by reason, the cells of people who were not admitted, and cells that contradict a
        fixed value.
    answering: the people with an answer, and their answers.
    count: computes the counts of a range of slots; it is called after the noise is drawn.
    nobody: the number of leading slots that stand for nobody, and are not counted.
    """

    symbols: dict[str, NDArray[np.unsignedinteger]]
    refused: dict[Reason, Cells]
    answering: Answering
    count: Callable[[slice], dict[str, NDArray[np.int64]]]
    nobody: int = 0

    @cached_property
    def counts(self) -> dict[str, NDArray[np.int64]]:
        """The counts of every release's mechanism."""
        return self.count(slice(self.nobody, None))


@dataclass(frozen=True)
class FinalColumn:
    """The last cells of people for an attribute.

    people: ascending, in `FinalCells`.
    rows: by person, the row of the cell.
    code: by person.
    """

    people: NDArray[np.int64]
    rows: NDArray[np.int64]
    code: NDArray[np.signedinteger]

    @property
    def coded(self) -> NDArray[np.bool_]:
        """Marks cells with an answer, in contrast to cells that clear the answer."""
        coded: NDArray[np.bool_] = self.code != CLEARED
        return coded


@dataclass(frozen=True)
class FinalCells:
    """The last cells of a period.

    hi, lo: the hashes of all people with cells: distinct, and sorted.
    columns: by index of an attribute with cells.
    """

    hi: NDArray[np.uint64]
    lo: NDArray[np.uint64]
    columns: dict[int, FinalColumn]

    @classmethod
    def of(cls, cells: Cells) -> FinalCells:
        """Finds the last cell of every person and attribute.

        People are sorted once for all attributes, by their reports.

        cells: of one period, in order of precedence, the prevailing cell last.
        """
        report, count = _report_numbers(cells)
        hi, lo = np.zeros(count, np.uint64), np.zeros(count, np.uint64)
        hi[report], lo[report] = cells.hi, cells.lo
        # A record may have reports of two people: cells of the other one are numbered apart.
        others = np.flatnonzero((hi[report] != cells.hi) | (lo[report] != cells.lo))
        report[others] = count + np.arange(len(others))
        hi = np.concatenate([hi, cells.hi[others]])
        lo = np.concatenate([lo, cells.lo[others]])
        order, begins = sorted_rows(hi, lo)
        person_of_report = np.empty(len(hi), np.int64)
        person_of_report[order] = np.cumsum(begins) - 1
        person = person_of_report[report]
        first = order[begins]
        columns = {}
        for rows in rows_by_kind(cells):
            row_of = np.full(len(first), -1)
            row_of[person[rows]] = rows  # of several rows the last prevails
            people = np.flatnonzero(row_of >= 0)
            rows = row_of[people]
            columns[int(cells.attribute[rows[0]])] = FinalColumn(people, rows, cells.code[rows])
        return cls(hi[first], lo[first], columns)

    def answering(self, study: Study) -> Answering:
        """Counts the people with an answer, and their answers.

        Answers of attributes that carry over or are fixed are not counted.
        """
        answers = 0
        for index, attribute in enumerate(study.attributes.values()):
            if index in self.columns and not (attribute.fixed or attribute.carries):
                answers += int(np.count_nonzero(self.columns[index].coded))
        return Answering(int(np.count_nonzero(self.coded())), answers)

    def coded(self) -> NDArray[np.bool_]:
        """Marks people with a cell that does not clear an answer."""
        coded = np.zeros(len(self.hi), bool)
        for column in self.columns.values():
            coded[column.people[column.coded]] = True
        return coded


def _report_numbers(cells: Cells) -> tuple[NDArray[np.int64], int]:
    """Numbers the reports of cells from 0. Returns each cell's report and the number of reports."""
    if not len(cells):
        return np.zeros(0, np.int64), 0
    place = cells.offset - cells.offset.min()
    if (partitions := int(cells.partition.max()) + 1) > 1:
        place = place * partitions + cells.partition
    if (places := int(place.max()) + 1) > _SPARSE * len(cells):
        numbers, report = np.unique(place, return_inverse=True)
        return report, len(numbers)
    used = np.zeros(places, bool)
    used[place] = True
    number = np.cumsum(used) - 1
    return number[place], int(number[-1]) + 1


_VERSION = 1
_NO_ROWS = np.zeros(0, np.int64)
_NO_CODES = np.zeros(0, np.int16)


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
        self.accounting = CellCounts(rejected={})
        self.index = Index()
        self.waiting = WaitingCells()
        self.pending: Tally[int] = Tally()
        self._layers = layers_of(study)
        slots = study.size or 0 if part is None else self.nobodies
        self.columns = {name: value.repeat(slots) for name, value in self._unknown().items()}

    @property
    def nobodies(self) -> int:
        """The number of leading slots without a person."""
        return int(self.part is not None and self.study.size is not None)

    def _unknown(self) -> Columns:
        """Returns the state of a person without an answer, in columns of one row.

        last: by attribute, the code of the last answer.
        past: by attribute and number of periods, the code this many periods before the last close.
        The histories of `Layer.unknown` follow.
        """
        attributes = self.study.attributes
        columns: Columns = {
            f"last {name}": np.array([a.first_code], code_type(len(a.symbols)))
            for name, a in attributes.items()
        }
        columns |= {
            f"past {PastAnswer(name, ago).column}": columns[f"last {name}"]
            for name, longest in self.study.past.items()
            for ago in range(1, longest + 1)
        }
        for layer in self._layers:
            columns |= layer.unknown()
        return columns

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
        refused = Tally[str]()
        for _, cells_by_reason in rejected:
            for reason, count in cells_by_reason.items():
                refused[reason] += count
        received = len(cells) + refused.total()
        folded = CellCounts(received=received, pending=len(cells), rejected=refused)
        self.accounting = self.accounting.plus(folded)
        self.pending.update(cells_by_period(cells))
        self.waiting.add(cells)

    def returning(self) -> int:
        """Counts the people with an answer for the next period and an earlier place.

        For the first period, everybody with an answer who gets a place counts.
        """
        returning, newcomers = self.answering_with_and_without_place()
        if self.period:
            return returning
        return returning + (newcomers if self._room is None else min(newcomers, self._room))

    def answering_with_and_without_place(self) -> tuple[int, int]:
        """Counts the people with an answer for the next period, with and without a place."""
        waiting = self.waiting.all()
        final = FinalCells.of(waiting.take(waiting.period == self.period + 1))
        answering, placed = final.coded(), self.index.find(final.hi, final.lo) >= 0
        with_place = int(np.count_nonzero(answering & placed))
        return with_place, int(np.count_nonzero(answering)) - with_place

    def close(self, room: int | None = None) -> ClosedPeriod:
        """Closes the next period: merges its cells, admits newcomers, updates all people's symbols.

        room: of a part, how many newcomers it admits at most.
        """
        period = self.period + 1
        cells = self.waiting.pop(period)
        final = FinalCells.of(cells)
        answering = final.answering(self.study)
        slots = self.index.find(final.hi, final.lo)
        new = np.flatnonzero((slots < 0) & final.coded())
        self._admit(final.hi[new], final.lo[new], self._room if room is None else room)
        slots[new] = self.index.find(final.hi[new], final.lo[new])
        symbols = self._pasts()
        unplaced, contradicting = [_NO_ROWS], [_NO_ROWS]
        for index, name in enumerate(self.study.attributes):
            slots_with_code, codes = _NO_ROWS, _NO_CODES
            if (column := final.columns.get(index)) is not None:
                slots_with_code, codes, coded = slots[column.people], column.code, column.coded
                unplaced.append(column.rows[coded & (slots_with_code < 0)])
                coded &= slots_with_code >= 0
                against = self._contradicting(name, slots_with_code, codes) & coded
                contradicting.append(column.rows[against])
                coded &= ~against
                if not coded.all():
                    slots_with_code, codes = slots_with_code[coded], codes[coded]
            symbols[name] = self._advance(name, slots_with_code, codes)
        no_place: Reason = "full" if self.study.last_entry is None else "closed"
        refused: dict[Reason, Cells] = {
            no_place: cells.take(np.concatenate(unplaced)),
            "fixed": cells.take(np.concatenate(contradicting)),
        }
        last = sum(len(column.rows) for column in final.columns.values())
        pending = self.pending.pop(period, 0)
        rejected = {str(reason): len(refused_cells) for reason, refused_cells in refused.items()}
        closed = CellCounts(
            accepted=last - sum(rejected.values()),
            superseded=pending - last,
            pending=-pending,
            rejected=rejected,
        )
        self.accounting = self.accounting.plus(closed)
        self.period = period
        counters = [layer.advance(self.columns, symbols, period) for layer in self._layers]

        def count(slots: slice) -> Counts:
            counts = Counts()
            for counter in counters:
                counts |= counter(slots)
            return {release.name: counts[release.name] for release in self.study.releases}

        return ClosedPeriod(symbols, refused, answering, count, self.nobodies)

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
        self, name: str, slots: NDArray[np.int64], codes: NDArray[np.signedinteger]
    ) -> NDArray[np.bool_]:
        """Marks codes that contradict a person's value of a fixed attribute."""
        attribute = self.study.attributes[name]
        contradicting = np.zeros(len(codes), bool)
        if attribute.fixed and len(self.columns[f"last {name}"]):
            fixed = self.columns[f"last {name}"][slots]
            contradicting = (fixed != attribute.first_code) & (fixed != codes)
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
        """Sets the codes of slots with a cell. Returns the attribute's code for every slot.

        Another slot keeps its last code if the attribute carries or is fixed, and otherwise gets
        the code of a person without an answer.
        """
        attribute, last = self.study.attributes[name], self.columns[f"last {name}"]
        if attribute.carries or attribute.fixed:
            symbols = last.copy()
        else:
            symbols = np.full(last.shape[0], attribute.first_code, last.dtype)
        symbols[slots] = codes
        self.columns[f"last {name}"] = symbols
        return symbols

    def save(self, file: BinaryIO) -> None:
        """Writes the state as a NumPy archive."""
        arrays: Columns = {**vars(self.index), **self.columns}
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
        self.accounting = CellCounts(**numbers)
        self.index = Index(arrays["hi"], arrays["lo"], arrays["slot"])
        self.waiting = WaitingCells.of(Cells(*(arrays[f"waiting {i}"] for i in range(7))))
        self.pending = Tally({int(number): count for number, count in head["pending"].items()})
        self.columns = {name: arrays[name] for name in self.columns}
        return self


def cells_by_period(cells: Cells) -> dict[int, int]:
    """Counts the cells of every period."""
    if len(cells) and cells.period.min() == (number := int(cells.period.max())):
        return {number: len(cells)}  # usually
    counts = np.bincount(cells.period)
    return {number: int(counts[number]) for number in np.flatnonzero(counts).tolist()}


def symbols_of(population: Population) -> dict[str, NDArray[np.unsignedinteger]]:
    """Returns, by attribute and by column of a history, a code for every slot.

    Like `ClosedPeriod.symbols`, but also for a population that was read from its snapshot.
    """
    study, columns = population.study, population.columns
    codes = {name: columns[f"last {name}"] for name in study.attributes}
    for name, longest in study.past.items():
        for ago in range(1, longest + 1):
            column = PastAnswer(name, ago).column
            codes[column] = columns[f"past {column}"]
    return codes


def slots_by_hash(population: Population) -> NDArray[np.int64]:
    """Returns the slots of people in the order of the hashes of their ids, then unclaimed slots.

    The parts of a population, concatenated, have the order of the whole population: a part is a
    range of hashes. The slot that stands for nobody in a part is left out.
    """
    slots = min((len(column) for column in population.columns.values()), default=0)
    unclaimed = np.arange(population.nobodies + len(population.index), slots)
    return np.concatenate([population.index.slot.astype(np.int64), unclaimed])


_SPARSE = 16  # a table of offsets has at most so many places for each cell
