"""Reads a topic to its end."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from .log import Log, Positions, Stored

READ_AT_ONCE = 20_000  # records of one read, for records as small as reports


def following(log: Log, topic: str, positions: Positions, at_once: int = 500) -> Iterator[Stored]:
    """The records from the positions to the end of the topic; moves the positions there.

    at_once: records of one read.
    """
    while True:
        batch = log.read(topic, positions, at_once, 0)
        yield from batch.records
        positions.update(batch.next)
        if batch.at_end:
            return


def stop_following(log: Log, topic: str) -> None:
    """Ends prefetching by the log after the last read, because the next read may be days away."""
    log.read(topic, {}, 0, 0)


@contextmanager
def collector_paused() -> Iterator[None]:
    """While a batch is read: the cyclic garbage collector, which finds no cycle in records, would
    go through all of them several times.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
