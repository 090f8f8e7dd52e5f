"""Markers: records among the reports by which an operator closes periods."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing

from stream_dp.log.base import Log, OutOfRange, Record, Stored
from stream_dp.topics import REPORTS

from .deployment import Deployment
from .following import READ_AT_ONCE
from .journal import Entry, closes

MARKER = "stream-dp-close"
NEVER = 2.0**40  # a time after every record


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
    """Sends markers that close every period up to `number` to all partitions."""
    with closing(deployment.log()) as log:
        log.create({REPORTS: deployment.run.partitions})
        log.append(close_marker(number, p) for p in range(log.describe(REPORTS).partitions))
