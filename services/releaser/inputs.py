"""The releaser's input: reports and markers, read up to a cut; dead letters for what is refused.

Nothing beyond a period's cut is folded in before that period is closed: a partition that has
reached its cut pauses there, and the rest of its batch waits in memory. Positions never count that
rest: whoever starts anew reads it from the log again, and decides the same.
"""

from __future__ import annotations

import time as clock_module
from collections import Counter as Tally
from collections.abc import Callable, Collection, Iterable, Sequence

from stream_dp.errors import Inconsistent
from stream_dp.log.base import (
    MAX_BATCH,
    Batch,
    Log,
    OutOfRange,
    Positions,
    Record,
    Stored,
    memory_bytes,
)
from stream_dp.population import Population
from stream_dp.population.cells import Cells
from stream_dp.population.reports import Decoder, Reason

from ..dead_letters import dead_letter
from ..markers import NEVER, closed_by
from ..topics import REPORTS
from .facts import SILENCE, Facts

_BATCH = 10_000  # of records that a read takes, and so of those that wait in a partition
_ASK = SILENCE / 3


class Inputs:
    """Positions in the reports topic and what was read below them.

    positions: by partition; marks: by partition, the last period that a marker closes; marked:
    when that marker was appended, in milliseconds; obstructed: whether the last call saw records,
    a marker perhaps among them, that a sender's open transaction keeps from being read.
    """

    def __init__(
        self,
        log: Log,
        decoder: Decoder,
        population: Population,
        positions: Positions,
        marks: dict[int, int],
        facts: Facts,
        at: Callable[[str], None],
        marked: dict[int, int] | None = None,
    ) -> None:
        self._log, self._decoder, self.population = log, decoder, population
        self.positions, self.marks = dict(positions), dict(marks)
        self.marked = dict(marked or {})
        self._facts, self._at = facts, at
        self._rests: dict[int, Batch] = {}  # by partition, what was read beyond its position
        self._ends: Positions | None = None  # of the topic, before the read that found no more
        self.obstructed = False

    def fold_to(self, cut: Positions, timeout: float = 0, *, replay: bool = False) -> bool:
        """Take in everything below a cut that is known. replay: its dead letters exist.

        False where a transaction of a sender is still open below the cut: what it holds belongs
        to the period if it is committed, and so does what others sent after it began.
        """
        while behind := {p: o for p, o in self.positions.items() if o < cut[p]}:
            batch = self._read(behind, timeout)
            self._take(batch, {p: min(cut[p], end) for p, end in batch.next.items()}, replay)
            stuck = any(self.positions[p] < cut[p] for p in behind)
            if stuck and batch.at_end and not batch.records:
                if replay or self._beyond(cut):
                    raise Inconsistent(
                        "reports: the topic ends before the cut of a closed period: records are"
                        " gone; restore the confidential log"
                    )
                return False
        return True

    def _beyond(self, cut: Positions) -> bool:
        """Whether a cut lies beyond the end."""
        ends = self._log.cut(REPORTS, NEVER)
        return any(ends[p] < position for p, position in cut.items())

    def fold_to_marker(self, number: int, timeout: float) -> bool:
        """Read on until every partition has a marker for `number` or later.

        One batch a call; True when all have, or when there is nothing more to read now. What lay
        in the log before a read that reached the end, and was not read, is obstructed.
        """
        waiting = [p for p in self.positions if self.marks[p] < number]
        if not waiting:
            return True
        batch = self._read(waiting, timeout)
        ends = dict(batch.next)
        for record in batch.records:
            closed = closed_by(record) if record.value is None else 0
            if closed and record.offset < ends[record.partition]:
                if closed > self.marks[record.partition]:
                    self.marks[record.partition] = closed
                    self.marked[record.partition] = record.time
                if closed >= number:
                    ends[record.partition] = record.offset + 1
        self._take(batch, ends)
        before, self._ends = self._ends, self._log.cut(REPORTS, NEVER) if batch.at_end else None
        if before is None:
            return False  # what is not read by the next call, although it is there, is obstructed
        self.obstructed = any(
            self.positions[p] < before[p] for p in waiting if self.marks[p] < number
        )
        return batch.at_end

    def fold_before(self, time: float, timeout: float) -> bool:
        """Read on among records appended before `time`; True where there are no more now."""
        reached = {p for p, rest in self._rests.items() if _from(rest.records[:1], time)}
        batch = self._read(self.positions.keys() - reached, timeout)
        ends = dict(batch.next)
        for record in _from(batch.records, time):
            ends[record.partition] = min(ends[record.partition], record.offset)
        self._take(batch, ends)
        return batch.at_end

    def _read(self, parts: Collection[int], timeout: float) -> Batch:
        """What waits of these partitions; where nothing does, more from the log."""
        if not parts:
            clock_module.sleep(timeout)
            self.ask()
            return Batch([], {}, True)
        rests = [self._rests.pop(p) for p in parts if p in self._rests]
        if not rests:
            asked = {p: self.positions[p] for p in parts}
            batch = self._log.read(REPORTS, asked, _BATCH, timeout)
            self._facts.answer()
            return batch
        records = [record for rest in rests for record in rest.records]
        return Batch(records, {p: end for rest in rests for p, end in rest.next.items()}, False)

    def ask(self) -> None:
        """Where nothing is read for a while, see that the log answers. Raises LogError."""
        if self._facts.silence > _ASK:
            self._log.describe(REPORTS)
            self._facts.answer()

    def _take(self, batch: Batch, ends: Positions, replay: bool = False) -> None:
        """Decode and fold the records of a batch below the end of each partition; move there."""
        reports: list[Stored] = []
        rests = {p: Batch([], {p: o}, False) for p, o in batch.next.items() if ends[p] < o}
        for record in batch.records:
            if record.offset >= ends[record.partition]:
                rests[record.partition].records.append(record)
            elif record.value is not None or not closed_by(record):
                reports.append(record)
        cells, rejected = self._decoder.decode(reports, self.population.period)
        self._at("read")
        if rejected and not replay:
            self._refuse((reports[r.place], r.cells) for r in rejected)
            self._at("dead-letters")
        self.population.fold(cells, rejected)
        self.positions.update(ends)
        room = MAX_BATCH // len(self.positions)
        self._rests.update({p: _first(rest, p, room) for p, rest in rests.items()})
        self._facts.count(len(reports), self.population.accounting.as_dict())

    def _refuse(self, several: Iterable[tuple[Stored, dict[Reason, int]]]) -> None:
        """Dead letters, in writes of bounded size."""
        topic, letters, room = self._log.name(REPORTS), list[Record](), MAX_BATCH
        for record, cells in several:
            letters.append(dead_letter(record, cells, topic))
            room -= memory_bytes(letters[-1].key, letters[-1].value, letters[-1].headers)
            if room <= 0:
                self._log.append(letters)
                letters, room = [], MAX_BATCH
        self._log.append(letters)

    def refuse(self, refused: Cells, reason: Reason) -> None:
        """Dead letters for cells that a close could not use, with their records."""
        counted = Tally(zip(refused.partition.tolist(), refused.offset.tolist(), strict=True))
        places = sorted(counted)
        while places:
            part, first = places[0]
            try:
                batch = self._log.read(REPORTS, {part: first}, _BATCH, 0)
            except OutOfRange:
                # The report itself has expired; where it was, and why it is refused, stays known.
                batch = Batch([Stored(part, first, 0, None, None, ())], {part: first + 1}, False)
            records = {(part, record.offset): record for record in batch.records}
            readable = [place for place in places if place in records]
            self._refuse((records[p], {reason: counted[p]}) for p in readable)
            places = [p for p in places if p[0] != part or p[1] >= max(batch.next[part], first + 1)]


def _from(records: Sequence[Stored], time: float) -> list[Stored]:
    """Those appended at or after a time."""
    return [record for record in records if record.time >= time * 1000]


def _first(rest: Batch, partition: int, room: int) -> Batch:
    """The first records of a partition's rest, one at least, that take no more than that many
    bytes; what follows is read again."""
    for place, record in enumerate(rest.records):
        if room <= 0:
            return Batch(rest.records[:place], {partition: record.offset}, False)
        room -= memory_bytes(record.key, record.value, record.headers)
    return rest
