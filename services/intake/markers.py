"""Markers: records among the reports by which an operator closes periods."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field

import msgspec

from stream_dp.log.log import (
    NEVER,
    READ_AT_ONCE,
    Batch,
    Headers,
    Log,
    OutOfRange,
    Positions,
    Record,
    Stored,
    following,
)
from stream_dp.log.message import canonical
from stream_dp.log.records import Records
from stream_dp.study import Study
from stream_dp.study.topics import CLOSES, REPORTS

from ..storage.deployment import Deployment, bind
from ..storage.journal import Entry, closes, open_gate
from ..storage.log_guard import check_readable

MARKER = "stream-dp-close"
MARKED_STUDY = "stream-dp-study"  # the header that names the study of a marker
DESPITE_GATE = "stream-dp-despite-gate"  # the header of a marker that closes a held period


def close_marker(
    number: int, partition: int, study: Study | None = None, *, despite_gate: bool = False
) -> Record:
    """A partition's marker for closing every period up to `number`.

    study: which the marker names, so that it closes a period of no other study.
    despite_gate: whether it closes period `number` where the gate holds that period.
    """
    headers: Headers = ((MARKER, str(number).encode()),)
    if despite_gate:
        headers += ((DESPITE_GATE, b"1"),)
    if study is not None:
        headers += ((MARKED_STUDY, study_mark(study)),)
    return Record(REPORTS, None, headers=headers, partition=partition)


def study_mark(study: Study) -> bytes:
    """The study that a marker names: its name and the hash of its terms."""
    return f"{study.name} {study.terms_hash}".encode()


@dataclass(frozen=True)
class MarkerReader:
    """Tells markers from reports.

    A marker that names another study is none: its record is rejected like any that is no report.

    mark: of the study, as `study_mark` gives it.
    """

    mark: bytes

    @classmethod
    def of(cls, study: Study) -> MarkerReader:
        return cls(study_mark(study))

    def closed_by(self, record: Stored) -> int:
        """The period of a marker, or 0 for other records."""
        return 0 if self.foreign(record) else _number(record)

    def foreign(self, record: Stored) -> str:
        """The name of another study in a marker, or an empty text for other records."""
        named = record.header(MARKED_STUDY)
        if not _number(record) or named in {b"", self.mark}:
            return ""
        return named.decode("utf-8", "replace").partition(" ")[0]

    def closing_records(self, records: Records) -> list[int]:
        """The places of the markers among records."""
        return [row for row in records.empty() if self.closed_by(records[row])]

    def without_markers(self, records: Records) -> Records:
        """The records other than markers."""
        if marking := set(self.closing_records(records)):
            return records.take(row for row in range(len(records)) if row not in marking)
        return records


class Announced(msgspec.Struct, frozen=True):
    """An announced close. begin: by partition, a position at or before the marker."""

    number: int
    begin: dict[int, int]


@dataclass
class FoundMarkers:
    """The markers found in every partition.

    They are found among the reports (`find`), or without a look at the reports before an announced
    marker (`search`).

    reader: tells the study's markers from others.
    marks: by partition, the last period that a marker closes.
    marked: by partition, when that marker was appended, in milliseconds.
    foreign: the name of another study whose marker was found since the last close; else empty.
    held: the period that a gate holds, which only markers despite the gate close; else 0.
    despite: the partitions where such a marker was found.
    obstructed: whether at the last look a sender's open transaction kept records, perhaps a marker
        among them, from being read.
    """

    reader: MarkerReader
    marks: dict[int, int]
    marked: dict[int, int] = field(default_factory=dict)
    foreign: str = ""
    held: int = 0
    despite: set[int] = field(default_factory=set)
    obstructed: bool = False
    # Of a search: the announced closes, the position in their topic, and where it goes on.
    _announced: list[Announced] = field(default_factory=list)
    _read: Positions = field(default_factory=dict)
    _reached: Positions = field(default_factory=dict)

    @classmethod
    def at(cls, study: Study, entry: Entry) -> FoundMarkers:
        """Returns the markers below the cut of a journal entry that closes a period."""
        return cls(MarkerReader.of(study), entry.next_marks, dict(entry.input.marked))

    @classmethod
    def at_gate(cls, study: Study, gate: Entry, partitions: Iterable[int]) -> FoundMarkers:
        """Returns the markers below the cut of the input that a gate counted.

        partitions: of the reports, more than the gate counted if some were added.
        """
        marks = dict.fromkeys(partitions, 0) | gate.input.marks
        found = cls(MarkerReader.of(study), marks, dict(gate.input.marked))
        if gate.gate.held and gate.gated is not None:
            found.hold(gate.gated)
        return found

    def hold(self, number: int) -> None:
        """Notes a period held by the gate."""
        self.held, self.despite = number, set()

    def close(self) -> None:
        """Notes that the period was closed."""
        self.foreign, self.held = "", 0

    def missing(self, number: int) -> list[int]:
        """Returns the partitions without a marker for period `number`."""
        if number == self.held:
            return [partition for partition in self.marks if partition not in self.despite]
        return [partition for partition, mark in self.marks.items() if mark < number]

    def find(self, records: Sequence[Stored], number: int) -> Positions:
        """Finds the first marker for period `number` in the other partitions.

        records: the next ones of their partitions.

        Returns, by partition, the position behind the marker: the period's cut.
        """
        cuts: Positions = {}
        columns = Records.of(records)
        for row in columns.empty():
            record = columns[row]
            self.foreign = self.reader.foreign(record) or self.foreign
            closed, partition = self.reader.closed_by(record), record.partition
            if not closed or partition in cuts or partition not in self.missing(number):
                continue
            if number == self.held:
                # Markers without the word are kept for later periods.
                self.marks[partition] = max(self.marks[partition], closed)
                if closed != number or record.header(DESPITE_GATE) != b"1":
                    continue
                self.despite.add(partition)
            elif closed >= number:
                self.marks[partition] = closed
            else:
                continue
            self.marked[partition] = record.time
            cuts[partition] = record.offset + 1
        return cuts

    def search(self, log: Log, number: int, cut: Positions, wait: float) -> bool:
        """Searches for a while for markers for period `number`; whether there is no more to read.

        cut: by partition, the end of the last closed period; moved behind every marker that is
            found.
        wait: seconds to wait for records.
        """
        self._read_announced(log)
        begins = {
            partition: begin
            for partition in self.missing(number)
            if (begin := self._begin(partition, number, cut[partition])) is not None
        }
        stable = log.stable(REPORTS) if begins else {}
        readable = {p: begin for p, begin in begins.items() if begin <= stable[p]}
        batch = Batch([], {}, True)
        if readable:
            batch = log.read(REPORTS, readable, READ_AT_ONCE, wait)
            found = self.find(batch.records, number)
            cut.update(found)
            self._reached |= {**batch.next, **found}
        else:
            time.sleep(wait)
        still = self.missing(number)
        self.obstructed = bool(begins) and batch.at_end and hides_records(log, still)
        return batch.at_end

    def _read_announced(self, log: Log) -> None:
        self._read = self._read or dict(log.describe(CLOSES).first)
        for record in following(log, CLOSES, self._read):
            with suppress(msgspec.MsgspecError):
                self._announced.append(msgspec.json.decode(record.value or b"", type=Announced))

    def _begin(self, partition: int, number: int, cut: int) -> int | None:
        """The position to search from in a partition; None without an announced marker."""
        ahead = [a.begin for a in self._announced if a.number >= number]
        begins = [begin[partition] for begin in ahead if partition in begin]
        if not begins:
            return None
        return max(cut, self._reached.get(partition, 0), min(begins))


def _number(record: Stored) -> int:
    """The period of a marker of any study, or 0 for other records."""
    if record.value is None:
        for name, value in record.headers or ():
            if name == MARKER and value.isdigit() and len(value) < 6:
                return int(value)
    return 0


def has_close_markers(
    log: Log, study: Study, entries: Sequence[Entry], seconds: float
) -> bool | None:
    """Whether every partition has a marker for the open period, read or not.

    None where it is not known, as a sender's open transaction keeps records from being read, or
    as there are too many records.

    seconds: the time to read for.
    """
    last, info = closes(entries)[-1] if entries else None, log.describe(REPORTS)
    number = 1 if last is None else last.number + 1
    marks = dict.fromkeys(info.first, 0) if last is None else last.next_marks
    markers = FoundMarkers(MarkerReader.of(study), marks)
    begin = info.first if last is None else last.next_begin
    if (gate := open_gate(entries)) is not None:
        markers = FoundMarkers.at_gate(study, gate, begin)
        begin = dict.fromkeys(begin, 0) | gate.input.cut
    waiting = {p: max(info.first[p], begin[p]) for p in markers.missing(number)}
    ends, deadline = log.cut(REPORTS, NEVER), time.monotonic() + seconds
    while waiting:
        try:
            batch = log.read(REPORTS, waiting, READ_AT_ONCE, 0)
        except OutOfRange:
            return None
        cuts = markers.find(batch.records, number)
        waiting = {p: position for p, position in batch.next.items() if p not in cuts}
        if batch.at_end:
            return not waiting if all(o >= ends[p] for p, o in waiting.items()) else None
        if time.monotonic() > deadline:
            return None
    return True


def hides_records(log: Log, partitions: Iterable[int]) -> bool:
    """Whether a sender's open transaction hides reports of given partitions."""
    ends, stable = log.cut(REPORTS, NEVER), log.stable(REPORTS)
    return any(stable[p] < ends[p] for p in partitions)


def send_close_markers(deployment: Deployment, number: int, *, despite_gate: bool = False) -> None:
    """Sends markers that close every period up to `number` to all partitions.

    Where periods are closed in parts, a record before them says where to look for them.

    despite_gate: whether they close the period that the gate holds.
    """
    in_parts = deployment.run.engine != "here"
    study = deployment.study
    with closing(deployment.log()) as log:
        bind(log, study)
        log.create({REPORTS: deployment.run.partitions, **({CLOSES: 1} if in_parts else {})})
        check_readable(deployment, log)
        if in_parts:
            announce_markers(log, number)
        partitions = range(deployment.run.partitions)
        log.append(close_marker(number, p, study, despite_gate=despite_gate) for p in partitions)


def announce_markers(log: Log, number: int) -> None:
    """Records the positions from which to search for the next markers."""
    announced = Announced(number, log.cut(REPORTS, NEVER))
    value = canonical(msgspec.to_builtins(announced, str_keys=True))
    log.append([Record(CLOSES, value, partition=0)])
