"""Engines: what reads the input of an order, and closes its parts."""

from __future__ import annotations

import threading
from collections import Counter as Tally
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np

from stream_dp.population.rejected import Reason
from stream_dp.population.reports import ReadAs
from stream_dp.population.split import Part

from ..parts.manifests import PartFile
from ..parts.orders import Order, OrderBoard
from .pool import Pool
from .reading import read_reports
from .spill import Spilled, SpilledPart, close_spilled
from .tasks import Closing, MembersOfPart, Source, Written

_RANGE = 1 << 18  # reports of one task at most


@dataclass(frozen=True)
class Given:
    """What the parts of an order are closed with, beside their cells.

    before: their files at the last close; None without one.
    due: the names of the data sets that the close begins.
    members: by part, its members of groups where they are needed.
    """

    before: Sequence[PartFile] | None
    due: tuple[str, ...]
    members: Sequence[MembersOfPart | None]


class Input(Protocol):
    """The input of an order. What was read is known once parts were closed."""

    @property
    def records(self) -> int:
        """How many reports there are."""

    @property
    def rejected(self) -> Tally[Reason]:
        """By reason, the cells that cannot be used."""

    @property
    def read_as(self) -> ReadAs | None:
        """How they were read; None for plain reports."""

    def closed(self, rooms: Mapping[int, int | None]) -> list[Written]:
        """The parts that have a room, in their order, closed and written.

        rooms: by part, how many newcomers it may admit; None for all of them.
        """


class Engine(Protocol):
    """Reads and closes, in this process or others. Any of its tasks may run twice."""

    def input(self, source: Source, order: Order, board: OrderBoard, given: Given) -> Input:
        """The input of an order."""

    def close(self) -> None:
        """Ends what the engine has begun."""


@dataclass
class Processes:
    """Several processes on this machine.

    count: how many; with 1 the tasks run in this process.
    most: reports of one task at most.
    stop: while tasks run, raises Stopped once it is set.
    """

    count: int = 1
    most: int = _RANGE
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._pool = Pool(self.count, self.stop)

    def begin(self) -> None:
        """Begins the processes before there is an order, see `Pool.begin`."""
        self._pool.begin()

    def input(self, source: Source, order: Order, board: OrderBoard, given: Given) -> Input:
        spilled, read_as = read_reports(order, source, board, self._pool, self.most)
        return _OnDisk(self._pool, source, order, given, spilled, read_as)

    def close(self) -> None:
        self._pool.close()


@dataclass(frozen=True)
class _OnDisk:
    """Input whose cells are in files."""

    pool: Pool
    source: Source
    order: Order
    given: Given
    spilled: Sequence[Spilled]
    read_as: ReadAs | None

    @property
    def records(self) -> int:
        return sum(some.decoded.records for some in self.spilled)

    @property
    def rejected(self) -> Tally[Reason]:
        return sum((some.decoded.rejected for some in self.spilled), Tally())

    def closed(self, rooms: Mapping[int, int | None]) -> list[Written]:
        before, members = self.given.before, self.given.members
        files = [some for some in self.spilled if some.file]
        names = tuple(some.file for some in files)
        ends = np.array([some.ends for some in files]).reshape(len(files), self.order.parts + 1)
        tasks = [
            SpilledPart(
                closing=Closing(
                    part=Part(index, self.order.parts),
                    number=self.order.number,
                    before=None if before is None else before[index],
                    blobs=[],
                    room=rooms[index],
                    due=self.given.due,
                    members=members[index],
                ),
                files=names,
                spans=ends[:, index : index + 2],
            )
            for index in sorted(rooms)
        ]
        return self.pool.map(partial(close_spilled, self.source), tasks)
