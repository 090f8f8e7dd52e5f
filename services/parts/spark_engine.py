"""Reads the input of an order, and closes or counts its parts, in Spark's tasks.

Every close is a single plan over known offsets: ranges of reports, cells by part, parts. There is
no state besides the parts' files, so a task, an executor or the driver may end at any moment.
"""

from __future__ import annotations

import threading
from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import msgspec

from stream_dp.errors import UserError
from stream_dp.log.log import NEVER, Log
from stream_dp.population.population_parts import ReturningPart
from stream_dp.population.rejection_reasons import Reason
from stream_dp.population.report_decoding import ReadAs
from stream_dp.study.topics import REPORTS

from ..releaser.orders import Order, OrderBoard
from .close_tasks import Range, Source, Written, close, lost, returning
from .decoding import agrees, first_reading, ranges_of, settle
from .engines import CloseContext, Input
from .spark_tasks import (
    COUNTED,
    FAILED,
    ROWS,
    Counted,
    Failed,
    PartCloser,
    PartWork,
    RangeDecoder,
    received,
    sent,
)
from .task_pool import Stopped

_RANGE = 1 << 18  # reports of one task at most
_POLL = 0.2
_Result = TypeVar("_Result", Written, ReturningPart)
_TASKS_EACH = 4  # tasks of closing for each task that runs at once


@dataclass
class Spark:
    """An application of Spark.

    session: of the application, which continues when the engine is closed.
    log: the confidential log.
    max_reports: reports of a task at most.
    stop: while tasks run, raises Stopped once it is set.
    """

    session: Any
    log: Log
    max_reports: int = _RANGE
    stop: threading.Event = field(default_factory=threading.Event)

    def input(
        self, source: Source, order: Order, board: OrderBoard, context: CloseContext
    ) -> Input:
        self.reached(order)
        return _Input(self, source, order, board, context, *first_reading(order, source, board))

    def close(self) -> None:
        pass

    def reached(self, order: Order) -> None:
        """Waits until no transaction is open below the cut. Raises Inconsistent, Stopped."""
        self.check(order)
        while any(self.log.stable(REPORTS)[p] < cut for p, (_, cut) in order.ranges.items()):
            if self.stop.wait(_POLL):
                raise Stopped

    def check(self, order: Order) -> None:
        """Raises Inconsistent if records are gone, or the topic ends before the cut."""
        first, ends = self.log.describe(REPORTS).first, self.log.cut(REPORTS, NEVER)
        for partition, (begin, cut) in sorted(order.ranges.items()):
            if first[partition] > begin:
                raise lost(partition, begin)
            if ends[partition] < cut:
                raise lost(partition, ends[partition], behind=True)

    def collected(self, plan: Callable[[], Any]) -> list[Any]:
        """Runs a plan and returns its rows. Raises Stopped, Failing."""
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
        """Cancels running tasks once `stop` is set."""
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
    """Input that stays with Spark; its properties are known after the parts' close.

    read_as: the schemas of the reports; None for plain reports.
    settled: whether the schemas are the same for every aggregator.
    """

    spark: Spark
    source: Source
    order: Order
    board: OrderBoard
    context: CloseContext
    read_as: ReadAs | None
    settled: bool
    records: int = 0
    rejected: Tally[Reason] = field(default_factory=Tally)
    _first: bool = True

    def closed(self, rooms: Mapping[int, int | None]) -> list[Written]:
        """Closes parts; a second call reads and decodes again, in one period of a study."""
        return self._results(rooms, close, Written)

    def returning(self) -> list[ReturningPart]:
        rooms = dict.fromkeys(range(self.order.parts))
        return self._results(rooms, returning, ReturningPart)

    def _results(
        self, rooms: Mapping[int, int | None], work: PartWork, kind: type[_Result]
    ) -> list[_Result]:
        """The results of parts; decodes again if tasks have not read with the same schemas."""
        counted, results = self._once(rooms, work, kind)
        if not self.settled:
            decoded = [c.decoded for c in counted]
            self.read_as, repeated = settle(self.order, self.source, self.board, decoded)
            self.settled = True
            if any(not agrees(decoded[i], self.read_as) for i in repeated):
                counted, results = self._once(rooms, work, kind)
            elif repeated:
                self._append_letters(repeated)
        if self._first:
            self.records = sum(c.records for c in counted)
            self.rejected = sum((c.decoded.rejected for c in counted), Tally())
        self._first = False
        return results

    def _once(
        self, rooms: Mapping[int, int | None], work: PartWork, kind: type[_Result]
    ) -> tuple[list[Counted], list[_Result]]:
        """Runs the plan. Returns the counts of the ranges, in their order, and of the parts.

        work, kind: of the task for a part, and the type of its result.
        """
        order, context, session = self.order, self.context, self.spark.session
        ranges = self._ranges()
        members = {
            i: sent(part_members)
            for i, part_members in enumerate(context.members)
            if part_members is not None
        }
        decoder = RangeDecoder(self.source, ranges, frozenset(rooms), members)
        closings = {
            i: replace(context.closing(order, i, room), members=None) for i, room in rooms.items()
        }
        closer = PartCloser(self.source, work, closings)
        at_once = session.sparkContext.defaultParallelism
        tasks = min(len(rooms), _TASKS_EACH * at_once)
        session.conf.set("spark.sql.shuffle.partitions", str(tasks))

        def plan() -> Any:
            range_indices = session.range(0, len(ranges) + 1, 1, len(ranges) + 1)
            grouped = range_indices.mapInArrow(decoder.rows, ROWS).groupBy("part")
            return grouped.applyInArrow(lambda key, rows: closer.closed(key, rows), ROWS)

        rows = self._collected(plan)
        counted = [
            msgspec.msgpack.decode(row.content, type=Counted) for row in rows if row.part == COUNTED
        ]
        done = {row.part: row.content for row in rows if row.part >= 0}
        results = [received(bytes(done[index]), kind) for index in sorted(rooms)]
        return sorted(counted, key=lambda c: c.range_index), results

    def _append_letters(self, range_indices: Sequence[int]) -> None:
        """Decodes these ranges again, for their dead letters alone."""
        ranges = self._ranges()
        decoder = RangeDecoder(self.source, [ranges[i] for i in range_indices], frozenset(), {})
        numbers = self.spark.session.range(0, len(range_indices), 1, len(range_indices))
        self._collected(lambda: numbers.mapInArrow(decoder.rows, ROWS))

    def _ranges(self) -> list[Range]:
        letters = self.order.letters and self._first
        return [
            replace(task, letters=letters, read_as=self.read_as, only=self.settled)
            for task in ranges_of(self.order, self.spark.max_reports)
        ]

    def _collected(self, plan: Callable[[], Any]) -> list[Any]:
        """Runs a plan and returns its rows.

        Raises Inconsistent, Stopped, and the error of a refused task; UserError if Spark gives up.
        """
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
