"""Reads the input of an order, and closes or counts its parts, in Spark's tasks.

Every close is a single plan over known offsets: ranges of reports, cells by part, parts. There is
no state besides the parts' files, so a task, an executor or the driver may end at any moment.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import threading
from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from stream_dp.errors import UserError, missing_extra
from stream_dp.log.log import NEVER, Log
from stream_dp.population.cells import Reason
from stream_dp.population.population_parts import ReturningPart
from stream_dp.population.shapes.record_contents import ReadAs
from stream_dp.study.topics import REPORTS

from ..storage.close_orders import Order, OrderBoard
from .close_tasks import Range, Source, Written, close, lost, returning
from .decoding_tasks import agrees, first_reading, ranges_of, settle
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

# Settings unless the operator sets them.
_DEFAULTS = {
    "spark.app.name": "stream-dp",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    # Tasks run in copies of a process that has done their imports.
    "spark.python.daemon.module": f"{__package__}.spark_daemon",
    # Hostile input may take a task's memory: the task fails, and its executor goes on.
    "spark.executor.killOnFatalError.depth": "0",
}
# Plans are the same in every run, and a task's rows are few and large.
_FIXED = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16",
    "spark.sql.execution.arrow.useLargeVarTypes": "true",
}
_UNNAMED = "local[*]"  # Spark's value if no master is named
_LOCAL = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}


def check_master(settings: dict[str, str]) -> None:
    """Raises UserError for a cluster that is open to other users.

    settings: of Spark. A master in this process alone needs none.
    """
    master = settings.get("spark.master", "local[*]")
    if re.fullmatch(r"local(\[[^\]]*\])?", master):
        return

    def on(name: str) -> bool:
        return settings.get(name, "false").strip().lower() == "true"

    lines = []
    if not on("spark.authenticate"):
        lines.append("set spark.authenticate to true: whoever reaches a port could join")
    elif master.startswith("spark://") and not settings.get("spark.authenticate.secret"):
        lines.append("set spark.authenticate.secret to the cluster's: Spark reads it from no file")
    if not (on("spark.network.crypto.enabled") or on("spark.ssl.rpc.enabled")):
        lines.append("set spark.network.crypto.enabled to true: answers cross the network")
    if not on("spark.io.encryption.enabled"):
        lines.append("set spark.io.encryption.enabled to true: answers lie on the machines' disks")
    if on("spark.eventLog.enabled"):
        lines.append("set spark.eventLog.enabled to false: the log of events names what is read")
    if lines:
        raise UserError(f"aggregator: Spark on '{_scheme(master)}': {line}" for line in lines)


def _scheme(master: str) -> str:
    return re.split(r"[:\[]", master, maxsplit=1)[0]


def open_session(processes: int) -> Any:
    """Returns the session of the application, started if none runs in this process.

    processes: the number of tasks at once if no master is named. Spark's settings come from
    `spark-submit` or from `spark-defaults.conf` in SPARK_CONF_DIR.

    Raises UserError if Spark is not installed, does not start, or is not to be trusted.
    """
    try:
        from pyspark import SparkConf, SparkContext
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError:
        raise missing_extra("spark: not installed", "spark") from None
    # Tasks run in this interpreter, which has this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        SparkContext._ensure_initialized()  # starts Java, which alone knows Spark's own settings
        conf = SparkConf()
    except PySparkException:
        raise UserError(
            "spark: Java does not start, or ended at once: it is to be 17 or newer (JAVA_HOME), and"
            " this machine's name must have an address (or set SPARK_LOCAL_IP)"
        ) from None
    if conf.get("spark.master", _UNNAMED) == _UNNAMED:
        # A task whose process is killed is retried, as Spark does on clusters only.
        conf.setMaster(f"local[{processes},4]")
    conf.set("spark.ui.showConsoleProgress", "false")  # true by default
    for name, value in _DEFAULTS.items():
        conf.setIfMissing(name, value)
    settings = dict(conf.getAll())
    check_master(settings)
    if settings["spark.master"].startswith("local"):
        for name, value in _LOCAL.items():
            conf.setIfMissing(name, value)
    session = SparkSession.builder.config(conf=conf).getOrCreate()
    check_master(dict(session.sparkContext.getConf().getAll()))
    for name, value in _FIXED.items():
        session.conf.set(name, value)
    return session


def close_session(session: Any) -> None:
    """Stops the application, and removes Spark's empty folder `artifacts` in the working folder."""
    artifacts = None
    if Path("artifacts").exists():
        of_session = session._jsparkSession.artifactManager().artifactPath()
        artifacts = Path(of_session.toAbsolutePath().toString()).parent
    session.stop()
    if artifacts is not None:
        shutil.rmtree(artifacts, ignore_errors=True)
        with suppress(OSError):  # another application's are there
            artifacts.parent.rmdir()


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
