"""Parts that an aggregator closes, on the releaser's order."""

from __future__ import annotations

import time as clock_module
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from msgspec.structs import replace

from stream_dp.errors import Inconsistent, UserError
from stream_dp.log.log import NEVER, Log, Positions, Unavailable
from stream_dp.population.cells import CellCounts, Part
from stream_dp.population.population import Population
from stream_dp.population.report_decoding import CHANGED_INPUT
from stream_dp.population.shapes.record_contents import ReadAs, SchemaUse
from stream_dp.study import Study
from stream_dp.study.noisy_gate import GATE
from stream_dp.study.topics import MANIFESTS, REPORTS

from ..intake.markers import FoundMarkers
from ..process.command_output import INCONSISTENT, UNAVAILABLE
from ..process.events import Event
from ..storage import journal
from ..storage.close_orders import (
    Manifest,
    Order,
    OrderBoard,
    newest_complete_close,
    order_record,
    read_manifest,
)
from ..storage.job_records import SnapshotFile
from ..storage.journal import ClosedPeriod, Entry
from ..storage.journal_heads import PeriodInput
from ..storage.snapshots import Snapshots
from .batch_jobs import Child, Jobs
from .input_reading import InputMeter, check_counted, check_end, check_reach, count_closed
from .job_families import JOB_FAMILIES
from .releaser_facts import Context, InputFacts

_EVERY = 0.2  # seconds of waiting for a manifest at most
_PAUSE = 10.0  # seconds until an aggregator that was killed is started again
_MOST_ENDS = 5  # of the aggregator beside it for one order, without an answer
_MOST_SCHEMAS = 5000  # of closed periods in an order, which is one record
_ATTEMPTS = 3  # at an order whose manifest's files are not there


@dataclass(frozen=True)
class Aggregation:
    """How periods are closed in parts.

    count: the number of parts.
    command: the Python interpreter's arguments for the aggregator beside the releaser; None for an
        aggregator that is started elsewhere.
    mapping: the hash of the mapping of records of other shapes; empty for plain reports.
    """

    count: int
    command: list[str] | None = None
    mapping: str = ""


class OrderedParts:
    """Orders each close from an aggregator and reads its manifest.

    Before the close of a period with a gate, the count of the gate is ordered, too. That order
    closes nothing and appends no dead letters, so that a held period is read again up to the
    operator's marker.

    Closes after the newest one whose files are all there are ordered again first, also where files
    are lost later.

    closes: genesis and the entries that close a period.
    gate: the entry with the gate of the open period, or None before it is drawn.
    stack: stops the aggregator beside this process when it is closed.
    accounting: of all cells up to the next order.

    Raises Inconsistent for reports other than the journal's.
    """

    def __init__(
        self,
        study: Study,
        log: Log,
        closes: Sequence[Entry],
        gate: Entry | None,
        snapshots: Snapshots,
        context: Context,
        aggregation: Aggregation,
        stack: ExitStack,
    ) -> None:
        self._study, self._log, self._snapshots = study, log, snapshots
        self._context, self._aggregation = context, aggregation
        self._genesis, last = closes[0].message.hash, closes[-1]
        changes = [close.reading.reports for close in closes if close.reading is not None]
        self._reports = [closes[0].genesis.reports, *changes][-1].identity
        self._begin_after_newest(closes)
        self.positions, self.markers = last.next_begin, FoundMarkers.at(study, last)
        if gate is not None:
            self.positions = dict.fromkeys(self.positions, 0) | gate.input.cut
            self.markers = FoundMarkers.at_gate(study, gate, self.positions)
        check_end(self._log, self.positions)
        count_closed(context.facts, closes, last.input.accounting or CellCounts(rejected={}))
        self._child: Child | None = None  # the aggregator beside this process
        if aggregation.command is not None:
            self._child = stack.enter_context(Child(aggregation.command, "the aggregator"))
        nobody = Population(study, Part(0, 1)).close()
        # By release, bytes of its counts.
        self._lengths = {name: 8 * len(counts) for name, counts in nobody.counts.items()}
        self._board, self._meter = OrderBoard(self._log), InputMeter(self._log, context.facts)
        self._schemas: dict[int, str] = {}  # hash by id, in the order of closes
        for entry in closes:
            self._note_schemas(entry.read_as)
        self._order: Order | None = None
        self._manifest: Manifest | None = None
        self._not_before = 0.0  # of the child's start, monotonic seconds
        self._ends, self._attempt = 0, 0  # ends of the child since the order; attempts at orders

    def _begin_after_newest(self, closes: Sequence[Entry]) -> None:
        """Makes the newest close with all of its files the state before the next order.

        Raises Inconsistent if reports after that close are gone.
        """
        start = newest_complete_close(closes, self._snapshots)
        check_reach(self._log, closes, start)
        self._replays = list(closes[start.number + 1 :])
        self._begin: Positions = start.next_begin  # of the next order
        self._previous = SnapshotFile(*start.snapshot) if start.number else None
        self.accounting = start.input.accounting or CellCounts(rejected={})

    def _note_schemas(self, read_as: ReadAs | None) -> None:
        for number, use in ({} if read_as is None else read_as.schemas).items():
            self._schemas[number] = use.sha256

    @property
    def unread(self) -> Positions:
        return self._begin

    @property
    def busy(self) -> bool:
        return self._child is not None and self._order is not None

    def catch_up(self, wait: float) -> Event | bool:
        self._context.facts.answer()
        self._measure()
        while self._replays:
            entry = self._replays[0]
            if (entry.read_as or ReadAs("")).mapping != self._aggregation.mapping:
                raise Inconsistent(CHANGED_INPUT)
            waits = self._awaited(entry.number, entry.input.cut, wait, closed=entry)
            if waits is not True:
                return waits
            self._follow(entry.next_begin)
            check_counted(entry, self.accounting)
            del self._replays[0]
        return True

    def read_to_marker(self, number: int, wait: float) -> bool:
        return self.markers.search(self._log, number, self.positions, wait)

    def read_before(self, time: float, wait: float) -> bool:
        clock_module.sleep(wait)
        return True

    def read_to(self, cut: Positions, wait: float) -> bool:
        """Nothing is read here. Raises Inconsistent for a cut beyond the end."""
        if self._order is None:
            stable = self._log.stable(REPORTS)
            if any(stable[p] < position for p, position in cut.items()):
                ends = self._log.cut(REPORTS, NEVER)
                if any(ends[p] < position for p, position in cut.items()):
                    raise Inconsistent("reports: the topic ends before the cut of a period")
                clock_module.sleep(wait)
                return False
        self.positions = dict(cut)
        return True

    def counted(self, number: int, cut: Positions, wait: float, *, gate: bool) -> Event | bool:
        return self._awaited(number, cut, wait, gate=gate)

    def _awaited(
        self,
        number: int,
        cut: Positions,
        wait: float,
        *,
        closed: Entry | None = None,
        gate: bool = False,
    ) -> Event | bool:
        """Orders a close and returns the event to wait for; True once the manifest is read.

        Returns False if files of the last close are lost, and an older close is the state before
        the next order.

        closed: the entry of a period that was closed before.
        gate: whether the count of the period's gate is ordered, and no close.
        """
        if self._order is None:
            self._order = Order(
                genesis=self._genesis,
                number=number,
                begin=self._begin,
                cut=cut,
                before=self._previous,
                accounting=self.accounting,
                parts=self._aggregation.count,
                letters=closed is None and not gate,
                attempt=self._attempt,
                read_as=self._read_as(closed),
                gate=gate,
                reports=self._reports,
            )
            self._ends = 0
            self._board.refresh()
            if self._board.last is None or self._board.last.id != self._order.id:
                self._log.append([order_record(self._order)])
            self._context.at("ordered")
        order = self._order
        self._board.refresh()
        self._context.facts.answer()
        answer = self._board.answer(order)
        if answer is not None:
            self._manifest = self._read(order, answer, closed)
            if self._manifest is not None:
                return True
            # Files of an order that a crash left open may be removed: it is given again.
            self._order, self._attempt = None, self._attempt + 1
            return self._awaited(number, cut, wait, closed=closed, gate=gate)
        if self._board.lost(order):
            self._replay_lost(order)
            return False
        self._run_child()
        self._board.wait(MANIFESTS, min(wait, _EVERY))
        label = self._study.periods.labels[number - 1]
        message = f"{label} is being {'counted for its gate' if gate else 'closed'} in parts"
        if self._child is None:
            message = f"{label} waits for: stream-dp aggregate {self._context.file}"
        return Event("aggregator-awaited", message, label)

    def _replay_lost(self, order: Order) -> None:
        """Begins after an older close, as the aggregator lacks files of the one before an order.

        Raises Inconsistent where all of them are in this releaser's folder.
        """
        self._begin_after_newest(journal.closes(journal.read_heads(self._log)))
        self._order = None
        if self._previous != order.before:
            return
        # Files that were lost and made again look so as well, once.
        self._attempt += 1
        if self._attempt == _ATTEMPTS:
            raise Inconsistent(
                "snapshot: files of the last close are in this releaser's folder of snapshots, and"
                " not in the aggregator's: give both the same run.snapshots"
            )

    def _read_as(self, closed: Entry | None) -> ReadAs | None:
        """How records are read, with the last schemas of closed periods; None for plain reports.

        closed: the entry of a period that is closed again with the schemas of the entry.
        """
        if not self._aggregation.mapping:
            return None
        if closed is not None:
            return ReadAs(self._aggregation.mapping)
        last = list(self._schemas.items())[-_MOST_SCHEMAS:]
        return ReadAs(self._aggregation.mapping, {n: SchemaUse(sha256) for n, sha256 in last})

    def _read(self, order: Order, answer: SnapshotFile, closed: Entry | None) -> Manifest | None:
        """Reads the manifest of an order, without a look at the counts; None for missing files.

        closed: the entry of a period that is closed again.
        """
        manifest = read_manifest(self._snapshots, answer.name, answer.sha256)
        if manifest is None or not all(map(self._snapshots.holds, manifest.files)):
            if order.attempt + 1 == _ATTEMPTS:
                raise Inconsistent(
                    f"snapshot {answer.name}: the aggregator wrote it, and it or its parts are not"
                    " in this releaser's folder of snapshots: give both the same run.snapshots"
                )
            return None
        same = closed is None or manifest.read_as == closed.read_as
        due = self._study.due(order.number) if order.letters else ()
        tables = {release.name: {*JOB_FAMILIES[release.family].tables} for release in due}
        if not (same and manifest.answers(order, self._lengths, tables)):
            raise Inconsistent(
                f"snapshot {answer.name}: it does not answer the order of period {order.number};"
                " run an aggregator of this version, with this study file"
            )
        return manifest

    def _follow(self, cut: Positions) -> tuple[Manifest, SnapshotFile]:
        """Makes a manifest the state before the next order."""
        assert self._order is not None
        assert self._manifest is not None
        file = self._board.answer(self._order)
        assert file is not None
        manifest = self._manifest
        self._begin, self._previous, self.accounting = dict(cut), file, manifest.accounting
        self._forget_order()
        return manifest, file

    def _forget_order(self) -> None:
        """Forgets an answered order."""
        self._order = self._manifest = None
        self._attempt = 0

    def returning(self) -> int:
        assert self._manifest is not None
        return int(self._manifest.counts[GATE][0])

    def pass_gate(self) -> None:
        self._forget_order()

    def close(self, number: int, period: PeriodInput, jobs: Jobs | None) -> ClosedPeriod:
        manifest, file = self._follow(period.cut)
        self._note_schemas(manifest.read_as)
        self._context.at("closed")
        self._context.facts.count(manifest.records, manifest.accounting)
        return ClosedPeriod(
            number,
            replace(
                period,
                accounting=manifest.accounting,
                answering=manifest.answering,
                read_as=manifest.read_as,
            ),
            manifest,
            file,
            () if jobs is None else jobs.due(number, manifest.jobs),
        )

    def _run_child(self) -> None:
        """Starts the aggregator beside the releaser unless it runs.

        Raises UserError after an error of the aggregator, or several kills.
        """
        if self._child is None:
            return
        code = self._child.ended()
        if code is not None:
            self._ends += 1
            if code == UNAVAILABLE:
                raise Unavailable(self._child.reason)
            if code == INCONSISTENT:
                raise Inconsistent(f"aggregator: {self._child.reason}")
            if code > 0 or self._ends >= _MOST_ENDS:
                raise UserError(f"aggregator: {self._child.reason}")
            self._not_before = clock_module.monotonic() + (_PAUSE if self._ends > 1 else 0)
        if not self._child.running and clock_module.monotonic() >= self._not_before:
            self._child.start()

    def check_log(self) -> None:
        self._meter.check_log()
        self._measure()

    def _measure(self) -> None:
        # The time that reports have waited says nothing: they wait for the close.
        self._meter.measure(self._begin, lambda unread: InputFacts(unread, None, None))
