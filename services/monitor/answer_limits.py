"""Limits of computed answers, shared by all studies of a monitor.

The memory of the monitor's control group, and slots for as many answers as it has room for.
"""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from .forks import MEMORY, Work


class Full(Exception):
    """Too many requests wait for a slot."""


class RequestSlots:
    """Slots for concurrent requests, with a bound on waiting requests.

    number: requests served at once.
    limit: requests served or waiting.
    """

    def __init__(self, number: int, limit: int) -> None:
        self._free, self._taken, self._limit = asyncio.Semaphore(number), 0, limit

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Waits for a slot. Raises Full."""
        if self._taken >= self._limit:
            raise Full
        self._taken += 1
        try:
            async with self._free:
                yield
        finally:
            self._taken -= 1


_OWN = 1 << 29  # bytes of the process that holds the connections and of the first study's
_STUDY = 48 << 20  # bytes of the process of each further study


def memory_limit(
    groups: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")
) -> int | None:
    """The smallest limit of this process's control group and of those around it, in bytes.

    None without a limit, or without control groups of version 2.
    """
    limits = []
    with suppress(OSError):
        lines = own.read_text().splitlines()
        for path in [line.removeprefix("0::/") for line in lines if line.startswith("0::/")]:
            for group in [Path(path), *Path(path).parents]:
                with suppress(OSError, ValueError):  # the file of no limit says max
                    limits.append(int((groups / group / "memory.max").read_text()))
    return min(limits, default=None)


def answers_at_once(limit: int | None, studies: int = 1) -> int:
    """How many answers may be computed at once: as many as processors, two at least.

    Fewer, but one at least, where the memory has no room for them and a download beside them.

    limit: of the memory, in bytes; None for none
    studies: that are served
    """
    processors = max(2, os.cpu_count() or 1)
    if limit is None:
        return processors
    bytes_needed = _OWN + (studies - 1) * _STUDY
    return max(1, min(processors, (limit - bytes_needed) // MEMORY - 1))


MOST_STREAMS = 256  # viewers of events
MOST_BYTES = 64 << 20  # of answers that are kept
MOST_WAITING = 128  # requests whose answers are being computed or wait for it
MOST_DOWNLOADS = 32  # that are written, wait for it or are on their way


class AnswerCache:
    """A cache of answers by request, least recently used first out. limit: bytes of all answers."""

    def __init__(self, limit: int = MOST_BYTES) -> None:
        self._answers: OrderedDict[tuple[str, ...], Work] = OrderedDict()
        self._bytes, self._limit = 0, limit

    def get(self, key: tuple[str, ...]) -> Work | None:
        if key in self._answers:
            self._answers.move_to_end(key)
        return self._answers.get(key)

    def keep(self, key: tuple[str, ...], answer: Work) -> None:
        """Adds an answer, and drops the oldest ones beyond the limit."""
        self._drop(key)
        self._answers[key] = answer
        self._bytes += _size(key, answer)
        while self._bytes > self._limit:
            self._drop(next(iter(self._answers)))

    def _drop(self, key: tuple[str, ...]) -> None:
        dropped = self._answers.pop(key, None)
        if dropped is not None:
            self._bytes -= _size(key, dropped)


def _size(key: tuple[str, ...], answer: Work) -> int:
    return sum(map(len, key)) + len(answer.body) + len(answer.packed) + 1000


class AnswerLimits:
    """The limits of one monitor, however many studies it serves.

    studies: their number.
    computed, written, sent: slots for answers, and for downloads that are written and sent.
    viewed: slots for streams of events.
    cache: of answers.
    """

    def __init__(self, studies: int = 1) -> None:
        self.computed = RequestSlots(answers_at_once(memory_limit(), studies), MOST_WAITING)
        self.written = RequestSlots(1, MOST_DOWNLOADS)
        self.sent = RequestSlots(MOST_DOWNLOADS, MOST_DOWNLOADS)
        self.viewed = RequestSlots(MOST_STREAMS, MOST_STREAMS)
        self.cache = AnswerCache()
