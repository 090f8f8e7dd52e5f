"""Engines read the input of an order and close its parts."""

from __future__ import annotations

import threading
from collections import Counter as Tally
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np

from stream_dp.population.cells import Part, Reason
from stream_dp.population.population_parts import ReturningPart
from stream_dp.population.shapes.record_contents import ReadAs

from ..storage.close_orders import Order, OrderBoard, PartFile
from .close_tasks import Closing, MembersOfPart, Source, Written
from .decoding_tasks import Spilled, SpilledPart, close_spilled, count_spilled, read_reports
from .task_pool import Pool

_RANGE = 1 << 18  # reports of one task at most


@dataclass(frozen=True)
class CloseContext:
    """The context of closing the parts of an order, beside their cells.

    previous_files: the parts' files at the last close; None without a close.
    due: the names of the data sets that the close begins.
    members: by part, its members of groups if needed.
    """

    previous_files: Sequence[PartFile] | None
    due: tuple[str, ...]
    members: Sequence[MembersOfPart | None]

    def closing(self, order: Order, index: int, room: int | None) -> Closing:
        """The task of closing a part, without the cells. room: see `Closing`."""
        return Closing(
            part=Part(index, order.parts),
            number=order.number,
            previous_file=None if self.previous_files is None else self.previous_files[index],
            blobs=[],
            room=room,
            due=self.due,
            members=self.members[index],
        )


class Input(Protocol):
    """The input of an order. Its properties are known once parts were closed or counted."""

    @property
    def records(self) -> int:
        """The number of reports."""

    @property
    def rejected(self) -> Tally[Reason]:
        """The number of unusable cells by reason."""

    @property
    def read_as(self) -> ReadAs | None:
        """How the reports were read; None for plain reports."""

    def closed(self, rooms: Mapping[int, int | None]) -> list[Written]:
        """Closes and writes the parts with a room, in their order.

        rooms: by part, how many newcomers it may admit; None for all of them.
        """

    def returning(self) -> list[ReturningPart]:
        """Counts the people of all parts for the gate of the period."""


class Engine(Protocol):
    """Reads and closes, in any process; a task may run twice."""

    def input(
        self, source: Source, order: Order, board: OrderBoard, context: CloseContext
    ) -> Input:
        """Returns the input of an order."""

    def close(self) -> None:
        """Ends the engine's processes."""


@dataclass
class Processes:
    """Several processes on this machine.

    count: the number of processes; with 1 the tasks run in this process.
    max_reports: reports of a task at most.
    stop: while tasks run, raises Stopped once it is set.
    """

    count: int = 1
    max_reports: int = _RANGE
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._pool = Pool(self.count, self.stop)

    def begin(self) -> None:
        """Begins the processes before the first order, see `Pool.begin`."""
        self._pool.begin()

    def input(
        self, source: Source, order: Order, board: OrderBoard, context: CloseContext
    ) -> Input:
        spilled, read_as = read_reports(order, source, board, self._pool, self.max_reports)
        return _OnDisk(self._pool, source, order, context, spilled, read_as)

    def close(self) -> None:
        self._pool.close()


@dataclass(frozen=True)
class _OnDisk:
    """Input with its cells in files."""

    pool: Pool
    source: Source
    order: Order
    context: CloseContext
    spilled: Sequence[Spilled]
    read_as: ReadAs | None

    @property
    def records(self) -> int:
        return sum(spilled.decoded.records for spilled in self.spilled)

    @property
    def rejected(self) -> Tally[Reason]:
        return sum((spilled.decoded.rejected for spilled in self.spilled), Tally())

    def closed(self, rooms: Mapping[int, int | None]) -> list[Written]:
        return self.pool.map(partial(close_spilled, self.source), self._tasks(rooms))

    def returning(self) -> list[ReturningPart]:
        rooms = dict.fromkeys(range(self.order.parts))
        return self.pool.map(partial(count_spilled, self.source), self._tasks(rooms))

    def _tasks(self, rooms: Mapping[int, int | None]) -> list[SpilledPart]:
        files = [spilled for spilled in self.spilled if spilled.file]
        names = tuple(spilled.file for spilled in files)
        ends = np.array([spilled.ends for spilled in files]).reshape(
            len(files), self.order.parts + 1
        )
        return [
            SpilledPart(
                self.context.closing(self.order, index, rooms[index]),
                files=names,
                spans=ends[:, index : index + 2],
            )
            for index in sorted(rooms)
        ]
