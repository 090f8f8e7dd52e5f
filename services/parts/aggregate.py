"""`stream-dp aggregate`: closes periods in parts, in several processes or with Spark.

The aggregator closes periods by order of the releaser, and answers with a manifest. It also counts
people for the gate of a period, and closes nothing then.

It may run on another machine than the releaser: it needs the study file, the confidential log and
the folder of snapshots. It may be killed at any moment, and two may work on the same order: files
are named by their hash, and the same input gives the same bytes. It draws no noise and publishes
nothing.

The tables of a part for data sets are written by the task that closes the part. Here they are read
one by one and joined to the files that a worker reads.
"""

from __future__ import annotations

import argparse
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from stream_dp.errors import Inconsistent, UserError
from stream_dp.log.log import Log, Missing
from stream_dp.population.cells import CellCounts, part_of
from stream_dp.population.population_parts import (
    allot,
    returning,
    split_population,
    total,
)
from stream_dp.study import DataSetRelease, Study
from stream_dp.study.topics import ORDERS, REPORTS

from ..intake.dead_letters import refuse_cells
from ..intake.group_tables import Members, PlacesTable
from ..process.command_output import Output
from ..process.events import Event, Tell, ignore, tell_json, tell_text
from ..process.heartbeats import Pulse, end_with_parent, new_heartbeat, stop_on_signals
from ..releaser.deployed_releaser import check_engine
from ..releaser.job_families import JOB_FAMILIES
from ..releaser.table_results import write_inputs
from ..storage import journal, journal_checks, restored_logs
from ..storage.close_orders import (
    CELLS,
    SUFFIX,
    Manifest,
    Order,
    OrderBoard,
    PartFile,
    answer_record,
    encoded_counts,
    gate_manifest,
    is_complete,
    lost_record,
    read_manifest,
    read_population,
    write_manifest,
)
from ..storage.deployment import Deployment
from ..storage.job_records import SnapshotFile, job_id
from ..storage.snapshots import Snapshots
from .close_tasks import (
    MembersOfPart,
    Source,
    Workplace,
    Written,
    first_entry,
    leave,
    no_step,
    open_workplace,
    write_part,
)
from .decoding_tasks import ReadingLost
from .engines import CloseContext, Engine, Input, Processes
from .spark_engine import Spark, close_session, open_session
from .task_pool import Stopped

NO_SLOTS = np.zeros(0, np.int64)


def due(workplace: Workplace, order: Order) -> tuple[DataSetRelease, ...]:
    """The data sets begun by a close; empty for a repeated close."""
    return workplace.study.due(order.number) if order.letters else ()


def members_by_part(workplace: Workplace, order: Order) -> Sequence[MembersOfPart | None]:
    """Divides the members of groups by part, if a close needs them.

    The first close admits the members, and closes that begin a data set of groups use them. For
    other closes the list has None for every part.

    Confidential: a member is known by the hash of the id, in two halves of 64 bits.
    """
    needed = order.before is None or any(release.needs_members for release in due(workplace, order))
    if workplace.study.groups is None or not needed:
        return [None] * order.parts
    hashes = workplace.members  # (members, 2)
    part_indices = part_of(hashes[:, 0], order.parts)
    by_part = np.argsort(part_indices, kind="stable")
    ends = np.cumsum(np.bincount(part_indices, minlength=order.parts)).tolist()
    return [
        MembersOfPart(hashes[rows, 0], hashes[rows, 1], rows)
        for rows in (by_part[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True))
    ]


def write_all_inputs(
    workplace: Workplace, order: Order, written: Sequence[Written]
) -> Iterator[tuple[str, dict[str, SnapshotFile]]]:
    """Writes the inputs of every data set that a close begins. Yields names, and files by table.

    written: all parts, in their order.

    Raises Inconsistent if the table of a part is gone.
    """
    size = workplace.study.size
    unclaimed = 0 if size is None else size - sum(closed.closed.people for closed in written)
    for release in due(workplace, order):
        name, family = release.name, JOB_FAMILIES[release.family]
        asks = family.asks_people(release)
        part_tables = (
            _read(workplace.snapshots, closed.tables[name]) for closed in written if asks
        )
        empty = written[0].nobody[name] if asks else b""
        nobody = pa.ipc.open_stream(empty).read_all() if empty else None
        tables = family.joined(
            workplace.study, release, part_tables, _table(workplace), nobody, unclaimed
        )
        label = workplace.study.periods.labels[order.number - 1]
        job = job_id(order.genesis, name, label)
        yield name, write_inputs(workplace.snapshots, job, tables)


def _table(workplace: Workplace) -> Members | PlacesTable | None:
    """The operator's table: the members of groups, or the places."""
    roster = workplace.roster
    if roster is None:
        return workplace.places
    codes, roles = roster.codes(workplace.study), roster.role_codes(workplace.study)
    return Members(codes, NO_SLOTS, roster.group_of, roles)


def _read(snapshots: Snapshots, file: SnapshotFile) -> pa.Table:
    with snapshots.opened(file.name, file.sha256) as opened:
        if opened is None:
            raise Inconsistent(
                f"snapshot {file.name}: the table of a part is gone while a data set is written;"
                " start the aggregator again"
            )
        return pyarrow.parquet.ParquetFile(opened).read()  # `read_table` imports pandas


_POLL = 0.2


@dataclass
class Aggregator:
    """Answers orders.

    file: the study file.
    study: the study of the file.
    log: the confidential log.
    snapshots: the folder of the parts' files.
    engine: reads and closes; this process by default.
    tell: called with events for the operator.
    at: called with the name of every step, in this process and, as it can be pickled, in others.
    stop: ends the work when set.
    """

    file: Path
    study: Study
    log: Log
    snapshots: Snapshots
    engine: Engine = field(default_factory=Processes)
    tell: Tell = ignore
    at: Callable[[str], None] = no_step
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self, *, until_idle: bool = False) -> None:
        """Works until `stop` is set or, with `until_idle`, until no order is open.

        Raises Inconsistent, LogError, OSError, UserError.
        """
        board, tidied = OrderBoard(self.log), False
        try:
            while not self.stop.is_set():
                with suppress(Missing):  # before the releaser's first start
                    board.refresh()
                order = board.last
                if order is not None and self._is_open(order, board):
                    self._answer(board, order)
                    tidied = False
                    continue
                if not tidied and order is not None:
                    self._tidy(order)
                if until_idle:
                    return
                if not tidied:
                    self.tell(Event("aggregator-idle", "waits for an order"))
                    tidied = True
                self._await(board)
        except Stopped:
            return
        finally:
            self.engine.close()
            leave()

    def _is_open(self, order: Order, board: OrderBoard) -> bool:
        """Whether an order has no answer, and its topic of reports is still there."""
        if board.answer(order) is not None or board.lost(order):
            return False
        return order.reports in {"", self.log.describe(REPORTS).identity}

    def _await(self, board: OrderBoard) -> None:
        """Waits for the next order, or until `stop` is set."""
        try:
            while not (self.stop.is_set() or board.wait(ORDERS, _POLL)):
                pass
        except Missing:
            self.stop.wait(_POLL)

    def _answer(self, board: OrderBoard, order: Order) -> None:
        """Closes the period of an order; gives up if another aggregator was first."""
        label = self.study.periods.labels[order.number - 1]
        self.at("order")
        closes, closed = "closes", "is closed"
        if order.gate:
            closes, closed = "counts the people of", "is counted"
        self.tell(Event("order-begun", f"{closes} {label} in {order.parts} parts", label))
        try:
            manifest = self._close(order, board)
        except (OSError, Inconsistent) as error:
            # Once another aggregator has answered, it may remove files of this close.
            board.refresh()
            if board.last != order or board.answer(order) is not None:
                return
            if self._has_state_before(order) and not isinstance(error, ReadingLost):
                raise
            self.log.append([lost_record(order)])
            message = f"{label}: files of the last close are lost; the releaser orders it again"
            self.tell(Event("order-lost", message, label))
            return
        file = write_manifest(self.snapshots.of(order.owner), manifest)
        self.at("manifest")
        self.log.append([answer_record(order, file)])
        self.at("answered")
        self.tell(Event("order-answered", f"{label} {closed} in {order.parts} parts", label))

    def _has_state_before(self, order: Order) -> bool:
        """Whether the files of the last close are there; damaged ones are set aside."""
        before, snapshots = order.before, self.snapshots.of(order.owner)
        return before is None or is_complete(snapshots, before.name, before.sha256)

    def _tidy(self, order: Order) -> None:
        """Removes all files of cells of an answered order; another aggregator at work gives up.

        The cells of a gate stay: another aggregator may already close the same period.
        """
        self.snapshots.of(order.owner).keep(set(), CELLS, order.number - order.gate)
        self.at("tidied")

    def _close(self, order: Order, board: OrderBoard) -> Manifest:
        """Closes the parts, writes the inputs of new jobs, and adds up the manifest."""
        if first_entry(self.log).message.hash != order.genesis:
            raise Inconsistent("orders: the last one is of another journal; run the releaser")
        source = Source(self.file, order.owner, self.at)
        workplace = open_workplace(source)
        previous_files, people = self._previous_files(order, workplace)
        names = tuple(release.name for release in due(workplace, order))
        context = CloseContext(previous_files, names, members_by_part(workplace, order))
        reports = self.engine.input(source, order, board, context)
        if order.gate:
            people = returning(workplace.study, reports.returning(), order.number)
            self.at("gate-counted")
            return gate_manifest(order, people, reports.records, reports.read_as)
        written = self._closed(reports, order, people)
        jobs = dict[str, dict[str, SnapshotFile]]()
        for name, files in write_all_inputs(workplace, order, written):
            jobs[name] = files
            self.at("job-inputs")
        if order.letters:
            for written_part in written:
                for reason, cells in written_part.closed.refused.items():
                    refuse_cells(self.log, cells, reason)
            self.at("refused")
        counts, accounting, answering = total(
            workplace.study, [written_part.closed for written_part in written]
        )
        by_reason = {str(reason): cells for reason, cells in reports.rejected.items()}
        refused = CellCounts(received=sum(by_reason.values()), rejected=by_reason)
        return Manifest(
            order=order.id,
            number=order.number,
            parts=[written_part.file for written_part in written],
            counted=encoded_counts(counts),
            accounting=order.accounting.plus(refused).plus(accounting),
            records=reports.records,
            answering=answering,
            read_as=reports.read_as,
            jobs=jobs,
        )

    def _closed(self, reports: Input, order: Order, people: int) -> list[Written]:
        """Closes and writes the parts. people: the number of people admitted before.

        All newcomers are admitted at first. Parts that turn somebody away are closed again, in the
        single period of a study in which newcomers exceed the room of the declared size.
        """
        room = None if self.study.size is None else self.study.size - people
        written = reports.closed(dict.fromkeys(range(order.parts), 0 if room == 0 else None))
        newcomers = [written_part.closed.newcomers for written_part in written]
        if room is None or sum(newcomers) <= room:
            return written
        rooms = allot(newcomers, room)
        repeated = {i: rooms[i] for i, count in enumerate(newcomers) if rooms[i] < count}
        for i, written_part in zip(sorted(repeated), reports.closed(repeated), strict=True):
            written[i] = written_part
        return written

    def _previous_files(
        self, order: Order, workplace: Workplace
    ) -> tuple[list[PartFile] | None, int]:
        """Returns the files of the parts at the last close, and the number of admitted people.

        Before the first close these people are the members of groups. A snapshot of everybody and a
        manifest of another number of parts are divided first.
        """
        if order.before is None:
            return None, 0 if workplace.roster is None else len(workplace.roster.persons)
        snapshots, name = self.snapshots.of(order.owner), order.before.name
        if name.endswith(SUFFIX):
            manifest = read_manifest(snapshots, name, order.before.sha256)
            if manifest is not None and len(manifest.parts) == order.parts:
                return manifest.parts, manifest.people
        everybody = read_population(workplace.study, snapshots, name, order.before.sha256)
        if everybody is None:
            raise Inconsistent(
                f"snapshot {name}: it is not in this aggregator's folder of snapshots: give it and"
                " the releaser the same run.snapshots"
            )
        self.at("dividing")
        files = [
            write_part(snapshots, population)
            for population in split_population(everybody, order.parts)
        ]
        return files, everybody.people


def run(options: argparse.Namespace) -> Output:
    deployment = Deployment.load(options.study)
    if deployment.run.engine == "here":
        raise UserError(
            f"{options.study}: run.engine = 'here' closes periods in the releaser, so there is"
            " nothing to do; write engine = 'processes' or 'spark' to close them in parts"
        )
    stop = threading.Event()
    with ExitStack() as stack:
        processes = _processes(deployment, stop, stack)
        stop_on_signals(stop)
        if options.attached:
            end_with_parent()
        log = stack.enter_context(closing(deployment.log()))
        study = deployment.study
        with suppress(Missing):
            entries = journal.read_heads(log)
            if entries:
                study = journal_checks.first_declared(entries[0], deployment.study)
                restored_logs.check_identity(entries, log, str(deployment.path))
        process = Aggregator(
            deployment.path,
            study,
            log,
            deployment.snapshots,
            processes or _spark(deployment, log, stop, stack),
            tell=tell_json(study.name) if options.json else tell_text,
            stop=stop,
        )
        beat = new_heartbeat("aggregator", service=not options.until_idle)
        with Pulse(log.append, beat):
            process.run(until_idle=options.until_idle)
    return Output({"stopped": stop.is_set()}, "")


def _processes(deployment: Deployment, stop: threading.Event, stack: ExitStack) -> Processes | None:
    """Starts the engine `processes` while this process has neither a thread nor a connection."""
    if deployment.run.engine != "processes":
        return None
    engine = Processes(_at_once(deployment), stop=stop)
    engine.begin()
    stack.callback(engine.close)
    return engine


def _spark(deployment: Deployment, log: Log, stop: threading.Event, stack: ExitStack) -> Spark:
    """Opens the engine `spark`. Raises UserError."""
    check_engine(deployment)
    session = open_session(_at_once(deployment))
    stack.callback(close_session, session)
    stop_on_signals(stop)  # Spark has taken one of them
    return Spark(session, log, stop=stop)


def _at_once(deployment: Deployment) -> int:
    return deployment.run.processes or len(os.sched_getaffinity(0))
