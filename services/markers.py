"""Markers: records among the reports by which an operator closes periods."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field

import msgspec

from stream_dp.log.base import NEVER, Batch, Log, OutOfRange, Positions, Record, Stored
from stream_dp.log.message import canonical
from stream_dp.log.records import Records
from stream_dp.topics import CLOSES, REPORTS

from .deployment import Deployment
from .following import READ_AT_ONCE, following
from .journal import Entry, closes

MARKER = "stream-dp-close"


def close_marker(number: int, partition: int) -> Record:
    """The marker that closes every period up to `number`, for one partition."""
    headers = ((MARKER, str(number).encode()),)
    return Record(REPORTS, None, headers=headers, partition=partition)


def closed_by(record: Stored) -> int:
    """The period that a marker, which has no value, closes; 0 for any other record."""
    if record.value is None:
        for name, value in record.headers or ():
            if name == MARKER and value.isdigit() and len(value) < 6:
                return int(value)
    return 0


def closing_records(records: Records) -> list[int]:
    """The places of the markers among records."""
    return [place for place in records.empty() if closed_by(records[place])]


def without_markers(records: Records) -> Records:
    """The records that are no markers."""
    if marking := set(closing_records(records)):
        return records.take(place for place in range(len(records)) if place not in marking)
    return records


def has_close_markers(log: Log, entries: Sequence[Entry], seconds: float) -> bool | None:
    """Whether every partition has a marker for the open period, read or not.

    None where it is not known, as a sender's open transaction keeps records from being read, or
    as there are too many records.

    seconds: the time to read for.
    """
    last, info = closes(entries)[-1] if entries else None, log.describe(REPORTS)
    number = 1 if last is None else last.number + 1
    left = {
        p: first if last is None else max(first, last.cut[p])
        for p, first in info.first.items()
        if last is None or last.marks[p] < number
    }
    ends, deadline = log.cut(REPORTS, NEVER), time.monotonic() + seconds
    while left:
        try:
            batch = log.read(REPORTS, left, READ_AT_ONCE, 0)
        except OutOfRange:
            return None
        left = dict(batch.next)
        for record in batch.records:
            if closed_by(record) >= number:
                left.pop(record.partition, None)
        if batch.at_end:
            return not left if all(o >= ends[p] for p, o in left.items()) else None
        if time.monotonic() > deadline:
            return None
    return True


def send_close_markers(deployment: Deployment, number: int) -> None:
    """Sends markers that close every period up to `number` to all partitions.

    Where periods are closed in parts, a record before them says where to look for them.
    """
    parts = deployment.run.engine != "here"
    with closing(deployment.log()) as log:
        log.create({REPORTS: deployment.run.partitions, **({CLOSES: 1} if parts else {})})
        if parts:
            announce_markers(log, number)
        log.append(close_marker(number, p) for p in range(log.describe(REPORTS).partitions))


class Announced(msgspec.Struct, frozen=True):
    """Where the markers of a close are. begin: by partition, a position that none is before."""

    number: int
    begin: dict[int, int]


def announce_markers(log: Log, number: int) -> None:
    """Says where the markers begin that are sent next, so that nobody reads everything for them."""
    announced = Announced(number, log.cut(REPORTS, NEVER))
    value = canonical(msgspec.to_builtins(announced, str_keys=True))
    log.append([Record(CLOSES, value, partition=0)])


@dataclass
class MarkerSearch:
    """Finds the markers that end the open period, without reading the reports before them.

    positions: by partition, where the last period that was closed ended.
    marks, marked: by partition, the last period that a marker closes, and its append time in
        milliseconds.
    at_end: whether the last call has read to the end.
    obstructed: whether then a sender's open transaction hid records.
    """

    log: Log
    positions: Positions
    marks: dict[int, int]
    marked: dict[int, int]
    at_end: bool = True
    obstructed: bool = False
    _announced: list[Announced] = field(default_factory=list)
    _read: Positions | None = None  # in the topic of announcements
    _places: Positions = field(default_factory=dict)  # where the search goes on

    def find(self, number: int, wait: float) -> bool:
        """Searches for a while; True where no marker for period `number` or later is missing.

        Then `positions` are behind them: the cut.
        """
        self._read_announced()
        left = {p: o for p in self.marks if (o := self._from(p, number)) is not None}
        self.at_end, self.obstructed = True, False
        if not left:
            time.sleep(wait)
        else:
            ends, stable = self.log.cut(REPORTS, NEVER), self.log.stable(REPORTS)
            left = {p: o for p, o in left.items() if o <= stable[p]}
            batch = Batch([], {}, True)
            if left:
                batch = self.log.read(REPORTS, left, READ_AT_ONCE, wait)
            else:
                time.sleep(wait)
            self._places.update(batch.next)
            for record in batch.records:
                closed, part = closed_by(record), record.partition
                if closed >= number and self.marks[part] < number:
                    self.marks[part], self.marked[part] = closed, record.time
                    self.positions[part] = self._places[part] = record.offset + 1
            self.at_end = batch.at_end
            self.obstructed = batch.at_end and any(
                stable[p] < ends[p] for p, mark in self.marks.items() if mark < number
            )
        return min(self.marks.values()) >= number

    def _read_announced(self) -> None:
        if self._read is None:
            self._read = dict(self.log.describe(CLOSES).first)
        for record in following(self.log, CLOSES, self._read):
            with suppress(msgspec.MsgspecError):
                self._announced.append(msgspec.json.decode(record.value or b"", type=Announced))

    def _from(self, part: int, number: int) -> int | None:
        """Where to search in a partition; None without need, or before it is announced."""
        begins = [a.begin[part] for a in self._announced if a.number >= number and part in a.begin]
        if self.marks[part] >= number or not begins:
            return None
        return max(self.positions[part], self._places.get(part, 0), min(begins))
