"""Reads the input of an order with Spark's source for Kafka, and closes its parts in Spark's tasks.

Every close is one plan over known positions: rows of Kafka, cells by part, parts. There is no
state besides the parts' files, so a task, an executor or the driver may end at any moment.
"""

from __future__ import annotations

import json
import threading
from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from stream_dp.errors import Inconsistent, UserError
from stream_dp.log import address
from stream_dp.log.base import NEVER, Log
from stream_dp.log.settings import connection_settings
from stream_dp.population.rejected import Reason
from stream_dp.topics import REPORTS

from ...deployment import Deployment
from ...parts.orders import Order, OrderBoard
from ..engines import Given, Input
from ..pool import Stopped
from ..reading import ranges_of
from ..tasks import Source, Written, lost
from .settings import kafka_settings
from .tasks import (
    COLUMNS,
    COUNTED,
    FAILED,
    LARGE,
    ROWS,
    Counted,
    Decoding,
    Failed,
    Parting,
    received,
    sent,
)

_RANGE = 1 << 18  # reports of one task at most
_POLL = 0.2
_TASKS_EACH = 4  # of closing, for each that runs at once


@dataclass
class Spark:
    """An application of Spark.

    session: of the application, which goes on when the engine is closed.
    log: the confidential log.
    options: of Spark's source for Kafka, but for the positions.
    most: reports of one task at most.
    stop: while tasks run, raises Stopped once it is set.
    """

    session: Any
    log: Log
    options: Mapping[str, str]
    most: int = _RANGE
    stop: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def of(
        cls, deployment: Deployment, session: Any, log: Log, stop: threading.Event, **how: Any
    ) -> Spark:
        """The engine of a study. Raises UserError for settings that Spark's client lacks."""
        run = deployment.run
        servers, prefix = address(run.log)
        settings = connection_settings(
            servers, run.kafka, insecure=run.insecure, base=deployment.base
        )
        options = {f"kafka.{name}": value for name, value in kafka_settings(settings).items()}
        options |= {
            "subscribe": log.name(REPORTS),
            "kafka.group.id": f"{prefix}.reader",  # as ours reads; no position is committed to it
            "kafka.isolation.level": "read_committed",
            "failOnDataLoss": "true",
            "includeHeaders": "true",
        }
        return cls(session, log, options, stop=stop, **how)

    def input(self, source: Source, order: Order, board: OrderBoard, given: Given) -> Input:
        self.reached(order)
        return _Input(self, source, order, given)

    def close(self) -> None:
        pass

    def reached(self, order: Order) -> None:
        """Waits until no transaction is open below the cut: Spark would end before it, silently.

        Raises Inconsistent, Stopped.
        """
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

    def rows(self, order: Order) -> Any:
        """The records of an order, as Spark reads them."""
        topic = self.options["subscribe"]
        positions = {
            "startingOffsets": {str(p): begin for p, begin in order.begin.items()},
            "endingOffsets": {str(p): max(order.begin[p], cut) for p, cut in order.cut.items()},
        }
        reader = self.session.read.format("kafka").options(**self.options)
        for name, by_partition in positions.items():
            reader = reader.option(name, json.dumps({topic: by_partition}))
        records = reader.option("maxRecordsPerPartition", str(self.most)).load()
        return records.selectExpr("*", f"{LARGE} as large").selectExpr(*COLUMNS)

    def ranges(self, order: Order) -> Any:
        """What to read of an order without Spark's source, a task for each."""
        tasks = [(r.partition, r.begin, r.end) for r in ranges_of(order, self.most)]
        schema = "partition int, begin long, end long"
        return self.session.createDataFrame(tasks, schema).repartition(max(1, len(tasks)))

    def parts(self, rooms: Mapping[int, int | None], given: Given) -> Any:
        """A row for each part that is closed, with its members of groups.

        So a part without cells is closed, too.
        """
        members = {i: some for i, some in enumerate(given.members) if some is not None}
        listed = [
            (index, b"", bytearray(sent(members[index])) if index in members else None)
            for index in sorted(rooms)
        ]
        return self.session.createDataFrame(listed, ROWS).coalesce(1)

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
    """Input that stays with Spark; what was read is known once parts were closed."""

    spark: Spark
    source: Source
    order: Order
    given: Given
    records: int = 0
    rejected: Tally[Reason] = field(default_factory=Tally)
    read_as: None = None  # plain reports alone
    _first: bool = True
    _by_source: bool = True  # whether Spark's own source reads

    def closed(self, rooms: Mapping[int, int | None]) -> list[Written]:
        """Closes parts; a second time reads and decodes again, in one period of a study."""
        order, spark = self.order, self.spark
        at_once = spark.session.sparkContext.defaultParallelism
        tasks = min(len(rooms), _TASKS_EACH * at_once)
        spark.session.conf.set("spark.sql.shuffle.partitions", str(tasks))
        decoding = Decoding(self.source, order.number, order.parts, order.letters and self._first)
        given = self.given
        parting = Parting(
            self.source, order.number, order.parts, given.before, given.due, dict(rooms)
        )
        wanted = [*rooms, COUNTED, FAILED]

        def plan() -> Any:
            if self._by_source:
                cells = spark.rows(order).mapInArrow(decoding.rows, ROWS)
            else:
                cells = spark.ranges(order).mapInArrow(decoding.ranges, ROWS)
            if not self._first:
                cells = cells.where(cells.part.isin(wanted))
            grouped = cells.union(spark.parts(rooms, given)).groupBy("part")
            return grouped.applyInArrow(lambda key, rows: parting.closed(key, rows), ROWS)

        rows = self._collected(plan)
        for row in rows:
            if row.part == FAILED:
                failed = msgspec.msgpack.decode(row.content, type=Failed)
                raise (Inconsistent if failed.inconsistent else UserError)(failed.lines)
        if self._first:
            for counted in (r.content for r in rows if r.part == COUNTED):
                some = msgspec.msgpack.decode(counted, type=Counted)
                self.records += some.records
                self.rejected.update(some.rejected)
        self._first = False
        done = {row.part: row.content for row in rows if row.part >= 0}
        return [received(bytes(done[index]), Written) for index in sorted(rooms)]

    def _collected(self, plan: Callable[[], Any]) -> list[Any]:
        """The rows of a plan. Raises Inconsistent, Stopped; UserError where Spark gives up."""
        try:
            return self.spark.collected(plan)
        except Failing:
            self.spark.check(self.order)  # records may have gone meanwhile
            if self._by_source:
                # Among what others send is what Java's client does not read, or has no memory for.
                self._by_source = False
                return self._collected(plan)
        raise UserError(
            "aggregator: Spark gave up closing the period, after several attempts; its own log,"
            " on the machines of its executors, says why"
        )
