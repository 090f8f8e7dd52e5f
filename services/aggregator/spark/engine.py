"""Reads the input of an order, and closes its parts, in Spark's tasks.

Every close is one plan over known positions: ranges of reports, cells by part, parts. There is no
state besides the parts' files, so a task, an executor or the driver may end at any moment.
"""

from __future__ import annotations

import threading
from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from stream_dp.errors import UserError
from stream_dp.log.base import NEVER, Log
from stream_dp.population.rejected import Reason
from stream_dp.population.reports import ReadAs
from stream_dp.topics import REPORTS

from ...parts.orders import Order, OrderBoard
from ..engines import Given, Input
from ..pool import Stopped
from ..reading import agrees, first_reading, ranges_of, settle
from ..tasks import Range, Source, Written, lost
from .tasks import COUNTED, FAILED, ROWS, Counted, Decoding, Failed, Parting, received, sent

_RANGE = 1 << 18  # reports of one task at most
_POLL = 0.2
_TASKS_EACH = 4  # of closing, for each that runs at once


@dataclass
class Spark:
    """An application of Spark.

    session: of the application, which goes on when the engine is closed.
    log: the confidential log.
    most: reports of one task at most.
    stop: while tasks run, raises Stopped once it is set.
    """

    session: Any
    log: Log
    most: int = _RANGE
    stop: threading.Event = field(default_factory=threading.Event)

    def input(self, source: Source, order: Order, board: OrderBoard, given: Given) -> Input:
        self.reached(order)
        return _Input(self, source, order, board, given, *first_reading(order, board))

    def close(self) -> None:
        pass

    def reached(self, order: Order) -> None:
        """Waits until no transaction is open below the cut. Raises Inconsistent, Stopped."""
        self.check(order)
        while any(self.log.stable(REPORTS)[p] < cut for p, (_, cut) in order.ranges.items()):
            if self.stop.wait(_POLL):
                raise Stopped

    def check(self, order: Order) -> None:
        """Raises Inconsistent where records are gone, or the topic ends before the cut."""
        first, ends = self.log.describe(REPORTS).first, self.log.cut(REPORTS, NEVER)
        for part, (begin, cut) in sorted(order.ranges.items()):
            if first[part] > begin:
                raise lost(part, begin)
            if ends[part] < cut:
                raise lost(part, ends[part], behind=True)

    def collected(self, plan: Callable[[], Any]) -> list[Any]:
        """The rows of a plan. Raises Stopped, Failing."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        with self._cancelled_on_stop():
            try:
                rows: list[Any] = plan().collect()
            except (PySparkException, Py4JError) as error:
                if self.stop.is_set():
                    raise Stopped from None
                raise Failing from error
        return rows

    @contextmanager
    def _cancelled_on_stop(self) -> Iterator[None]:
        """While tasks run, ends them once `stop` is set."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(_POLL):
                if self.stop.is_set():
                    self.session.sparkContext.cancelAllJobs()

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()


class Failing(Exception):
    """Spark gave up a plan, after several attempts."""


@dataclass
class _Input:
    """Input that stays with Spark; what was read is known once parts were closed.

    read_as: how to read it; None for plain reports. settled: whether everybody reads it so.
    """

    spark: Spark
    source: Source
    order: Order
    board: OrderBoard
    given: Given
    read_as: ReadAs | None
    settled: bool
    records: int = 0
    rejected: Tally[Reason] = field(default_factory=Tally)
    _first: bool = True

    def closed(self, rooms: Mapping[int, int | None]) -> list[Written]:
        """Closes parts; a second time reads and decodes again, in one period of a study.

        So it does where tasks have not read with the same schemas.
        """
        counted, written = self._once(rooms)
        if not self.settled:
            decoded = [one.decoded for one in counted]
            self.read_as, again = settle(self.order, self.source, self.board, decoded)
            self.settled = True
            if any(not agrees(decoded[i], self.read_as) for i in again):
                counted, written = self._once(rooms)
            elif again:
                self._append_letters(again)
        if self._first:
            self.records = sum(one.records for one in counted)
            self.rejected = sum((one.decoded.rejected for one in counted), Tally())
        self._first = False
        return written

    def _once(self, rooms: Mapping[int, int | None]) -> tuple[list[Counted], list[Written]]:
        """What is in the ranges, in their order, and the parts."""
        order, given, session = self.order, self.given, self.spark.session
        ranges = self._ranges()
        members = {i: sent(some) for i, some in enumerate(given.members) if some is not None}
        decoding = Decoding(self.source, ranges, frozenset(rooms), members)
        parting = Parting(
            self.source, order.number, order.parts, given.before, given.due, dict(rooms)
        )
        at_once = session.sparkContext.defaultParallelism
        tasks = min(len(rooms), _TASKS_EACH * at_once)
        session.conf.set("spark.sql.shuffle.partitions", str(tasks))

        def plan() -> Any:
            places = session.range(0, len(ranges) + 1, 1, len(ranges) + 1)
            grouped = places.mapInArrow(decoding.rows, ROWS).groupBy("part")
            return grouped.applyInArrow(lambda key, rows: parting.closed(key, rows), ROWS)

        rows = self._collected(plan)
        counted = [
            msgspec.msgpack.decode(row.content, type=Counted) for row in rows if row.part == COUNTED
        ]
        done = {row.part: row.content for row in rows if row.part >= 0}
        written = [received(bytes(done[index]), Written) for index in sorted(rooms)]
        return sorted(counted, key=lambda one: one.place), written

    def _append_letters(self, places: Sequence[int]) -> None:
        """Decodes these ranges again, for their dead letters alone."""
        ranges = self._ranges()
        decoding = Decoding(self.source, [ranges[i] for i in places], frozenset(), {})
        numbers = self.spark.session.range(0, len(places), 1, len(places))
        self._collected(lambda: numbers.mapInArrow(decoding.rows, ROWS))

    def _ranges(self) -> list[Range]:
        letters = self.order.letters and self._first
        return [
            replace(task, letters=letters, read_as=self.read_as, only=self.settled)
            for task in ranges_of(self.order, self.spark.most)
        ]

    def _collected(self, plan: Callable[[], Any]) -> list[Any]:
        """The rows of a plan. Raises Inconsistent, Stopped, and what a task was refused with;
        UserError where Spark gives up."""
        try:
            rows = self.spark.collected(plan)
        except Failing:
            self.spark.check(self.order)  # records may have gone meanwhile
            raise UserError(
                "aggregator: Spark gave up closing the period, after several attempts; its own"
                " log, on the machines of its executors, says why"
            ) from None
        for row in rows:
            if row.part == FAILED:
                raise msgspec.msgpack.decode(row.content, type=Failed).error
        return rows
