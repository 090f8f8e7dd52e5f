"""The input of a period that an aggregator reads and closes in parts, by order of the releaser."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from stream_dp.errors import Inconsistent, UserError
from stream_dp.log.log import NEVER, Log, Positions, Unavailable
from stream_dp.population import CellCounts, Population
from stream_dp.population.report_decoding import CHANGED_INPUT, ReadAs, SchemaUse
from stream_dp.population.split import Part
from stream_dp.study import Study
from stream_dp.study.topics import MANIFESTS, REPORTS

from ..aggregator.manifests import Manifest, newest_files, read_manifest
from ..aggregator.orders import Order, OrderBoard, order_record
from ..intake.markers import FoundMarkers, MarkerSearch
from ..jobs.job_families import JOB_FAMILIES
from ..jobs.job_records import SnapshotFile
from ..journal.closed_input import ClosedInput
from ..journal.journal import Entry
from ..process.events import Event
from ..process.output import UNAVAILABLE
from ..storage.snapshots import Snapshots
from .batch_jobs import Jobs
from .child import Child
from .closing import Ending
from .recovery import check_counted, check_end, check_reach, count_closed
from .releaser_facts import MEASURE, MEASURE_SHARE, SILENCE, Facts, InputFacts

_EVERY = 0.2  # seconds of waiting for a manifest at most
_PAUSE = 10.0  # seconds until an aggregator that was killed is started again
_MOST_ENDS = 5  # of the aggregator beside it for one order, without an answer
_MOST_SCHEMAS = 5000  # of closed periods in an order, which is one record
_ATTEMPTS = 3  # at an order whose manifest's files are not there


@dataclass(frozen=True)
class Aggregation:
    """How periods are closed in parts.

    parts: how many there are.
    command: the Python interpreter's arguments for the aggregator that the releaser starts; None
        where it is started elsewhere.
    mapping: the hash of how records of other shapes are read; empty for plain reports.
    """

    parts: int
    command: list[str] | None = None
    mapping: str = ""


@dataclass
class InParts:
    """Orders each close from an aggregator and reads its manifest.

    start: the newest close whose files are all there; those after it are ordered again first.
    closes: genesis and the entries that close a period.
    owner: the hash of genesis.
    child: the aggregator beside the releaser; None where it is started elsewhere.
    """

    study: Study
    log: Log
    snapshots: Snapshots
    ending: Ending
    facts: Facts
    at: Callable[[str], None]
    aggregation: Aggregation
    closes: Sequence[Entry]
    start: Entry
    child: Child | None
    _lengths: dict[str, int] = field(init=False)  # by release, bytes of its counts
    _search: MarkerSearch = field(init=False)
    _board: OrderBoard = field(init=False)
    _replays: list[Entry] = field(init=False)
    _begin: Positions = field(init=False)  # of what is ordered next
    _schemas: dict[int, str] = field(default_factory=dict, init=False)  # hash by id, when closed
    _before: SnapshotFile | None = field(init=False)
    _accounting: CellCounts = field(init=False)
    _cut: Positions | None = field(default=None, init=False)
    _order: Order | None = field(default=None, init=False)
    _manifest: Manifest | None = field(default=None, init=False)
    _not_before: float = field(default=0.0, init=False)  # of the child's start, monotonic seconds
    _ends: int = field(default=0, init=False)  # of the child, since the order
    _attempt: int = field(default=0, init=False)
    _next_measurement: float = field(default=0.0, init=False)  # monotonic seconds

    def __post_init__(self) -> None:
        last, nobody = self.closes[-1], Population(self.study, Part(0, 1)).close()
        self._lengths = {name: 8 * len(counts) for name, counts in nobody.counts.items()}
        self._search = MarkerSearch(
            self.log,
            FoundMarkers.at(self.ending.study, last),
            positions=last.cut,
        )
        self._board = OrderBoard(self.log)
        self._replays = list(self.closes[self.start.number + 1 :])
        self._begin = dict(self.start.cut)
        self._before = SnapshotFile(*self.start.snapshot) if self.start.number else None
        self._accounting = self.start.accounting or CellCounts(rejected={})
        for entry in self.closes:
            self._note_schemas(entry.read_as)

    def _note_schemas(self, read_as: ReadAs | None) -> None:
        for number, use in ({} if read_as is None else read_as.schemas).items():
            self._schemas[number] = use.sha256

    @classmethod
    def recovered(
        cls,
        study: Study,
        closes: Sequence[Entry],
        snapshots: Snapshots,
        ending: Ending,
        facts: Facts,
        at: Callable[[str], None],
        aggregation: Aggregation,
        stack: ExitStack,
    ) -> InParts:
        """The input at the last cut. Raises Inconsistent where reports are not the journal's.

        stack: stops the aggregator beside this process when it is closed.
        """
        start, last = newest_files(closes, snapshots), closes[-1]
        check_reach(ending.log, start)
        check_end(ending.log, last.cut)
        count_closed(facts, closes, last.accounting or CellCounts(rejected={}))
        child = None
        if aggregation.command is not None:
            child = Child(aggregation.command, "the aggregator")
            stack.callback(child.stop)
        return cls(
            study=study,
            log=ending.log,
            snapshots=snapshots,
            ending=ending,
            facts=facts,
            at=at,
            aggregation=aggregation,
            closes=closes,
            start=start,
            child=child,
        )

    @property
    def marked(self) -> Mapping[int, int]:
        return self._search.found.marked

    @property
    def busy(self) -> bool:
        return self.child is not None and self._order is not None

    def advance(self, number: int, wait: float) -> Event | bool:
        while self._replays:
            entry = self._replays[0]
            if (entry.read_as or ReadAs("")).mapping != self.aggregation.mapping:
                raise Inconsistent(CHANGED_INPUT)
            if waits := self._awaited(entry.number, entry.cut, wait, again=entry):
                return waits
            self._follow(entry.cut)
            check_counted(entry, self._accounting)
            del self._replays[0]
        if self._cut is None:
            cut = self._cut_of(number, wait)
            if not isinstance(cut, dict):
                return cut
            self._cut = cut
        return self._awaited(number, self._cut, wait) or True

    def _cut_of(self, number: int, wait: float) -> Positions | Event | bool:
        """The cut of the open period; until it is known, what `advance` returns."""
        self._answered()
        self._measure()
        if not self.ending.scheduled(number):
            if self._search.find(number, wait):
                return dict(self._search.positions)
            if not self._search.at_end:
                return False
            return self.ending.marker_awaited(
                number, obstructed=self._search.obstructed, foreign=self._search.found.foreign
            )
        cut = self.ending.cut(number)
        if isinstance(cut, Event):
            time.sleep(wait)
            return cut
        if self._reached(cut):
            return cut
        time.sleep(wait)
        return self.ending.senders_awaited(number)

    def _reached(self, cut: Positions) -> bool:
        """Whether no transaction is open below a cut. Raises Inconsistent beyond the end."""
        stable = self.log.stable(REPORTS)
        if any(stable[p] < position for p, position in cut.items()):
            ends = self.log.cut(REPORTS, NEVER)
            if any(ends[p] < position for p, position in cut.items()):
                raise Inconsistent("reports: the topic ends before the cut of a period")
            return False
        return True

    def _awaited(
        self, number: int, cut: Positions, wait: float, *, again: Entry | None = None
    ) -> Event | None:
        """Orders a close; what it waits for, None once its manifest is read.

        again: the entry of a period that was closed before.
        """
        if self._order is None:
            self._order = Order(
                genesis=self.closes[0].message.hash,
                number=number,
                begin=self._begin,
                cut=cut,
                before=self._before,
                accounting=self._accounting,
                parts=self.aggregation.parts,
                letters=again is None,
                attempt=self._attempt,
                read_as=self._read_as() if again is None else again.read_as,
            )
            self._ends = 0
            self._board.refresh()
            if self._board.last is None or self._board.last.id != self._order.id:
                self.log.append([order_record(self._order)])
            self.at("ordered")
        order = self._order
        self._board.refresh()
        self._answered()
        answer = self._board.answer(order)
        if answer is not None:
            self._manifest = self._read(order, answer)
            if self._manifest is not None:
                return None
            # Files of an order that a crash left open may be removed: it is given again.
            self._order, self._attempt = None, self._attempt + 1
            return self._awaited(number, cut, wait, again=again)
        self._run_child()
        self._board.wait(MANIFESTS, min(wait, _EVERY))
        label = self.study.periods.labels[number - 1]
        words = f"{label} is being closed in parts"
        if self.child is None:
            words = f"{label} waits for: stream-dp aggregate {self.ending.file}"
        return Event("aggregator-awaited", words, label)

    def _read_as(self) -> ReadAs | None:
        """How records are read, with the last schemas of closed periods; None for plain reports."""
        if not self.aggregation.mapping:
            return None
        last = list(self._schemas.items())[-_MOST_SCHEMAS:]
        return ReadAs(self.aggregation.mapping, {n: SchemaUse(sha256) for n, sha256 in last})

    def _read(self, order: Order, answer: SnapshotFile) -> Manifest | None:
        """The manifest that answers an order; its counts are not looked at. None without files."""
        manifest = read_manifest(self.snapshots, answer.name, answer.sha256)
        if manifest is None or not all(map(self.snapshots.holds, manifest.files)):
            if order.attempt + 1 == _ATTEMPTS:
                raise Inconsistent(
                    f"snapshot {answer.name}: the aggregator wrote it, and it or its parts are not"
                    " in this releaser's folder of snapshots: give both the same run.snapshots"
                )
            return None
        lengths = {name: len(data) for name, data in manifest.counted.items()}
        if (
            (manifest.order, manifest.number) != (order.id, order.number)
            or len(manifest.parts) != order.parts
            or lengths != self._lengths
            or not _reads_as(order, manifest)
            or not _has_inputs(self.study, order, manifest)
        ):
            raise Inconsistent(
                f"snapshot {answer.name}: it does not answer the order of period {order.number};"
                " run an aggregator of this version, with this study file"
            )
        return manifest

    def _follow(self, cut: Positions) -> tuple[Manifest, SnapshotFile]:
        """Goes on from a manifest."""
        assert self._order is not None
        assert self._manifest is not None
        file = self._board.answer(self._order)
        assert file is not None
        manifest = self._manifest
        self._begin, self._before, self._accounting = dict(cut), file, manifest.accounting
        self._order = self._manifest = self._cut = None
        self._attempt = 0
        return manifest, file

    def close(self, number: int, jobs: Jobs | None) -> ClosedInput:
        cut, accepted = self._cut, self._accounting.accepted
        assert cut is not None
        manifest, file = self._follow(cut)
        self._note_schemas(manifest.read_as)
        self.at("closed")
        self.facts.count(manifest.records, manifest.accounting)
        self.facts.closed_accepted = manifest.accounting.accepted - accepted
        return ClosedInput(
            number=number,
            cut=cut,
            marks=dict(self._search.found.marks),
            closed=manifest,
            accounting=manifest.accounting,
            jobs=() if jobs is None else jobs.due(number, manifest.jobs),
            snapshot=(file.name, file.sha256),
            marked=dict(self._search.found.marked),
            read_as=manifest.read_as,
        )

    def _run_child(self) -> None:
        """Starts the aggregator beside the releaser where it does not run.

        Raises UserError where it ended with an error, or was killed again and again.
        """
        if self.child is None:
            return
        code = self.child.ended()
        if code is not None:
            self._ends += 1
            if code == UNAVAILABLE:
                raise Unavailable(self.child.reason)
            if code > 0 or self._ends >= _MOST_ENDS:
                raise UserError(f"aggregator: {self.child.reason}")
            self._not_before = time.monotonic() + (_PAUSE if self._ends > 1 else 0)
        if not self.child.running and time.monotonic() >= self._not_before:
            self.child.start()

    def check_log(self) -> None:
        if self.facts.silence > SILENCE / 3:
            self.log.describe(REPORTS)
            self._answered()
        self._measure()

    def _measure(self) -> None:
        """Now and then, tells the metrics what came since the last cut, which is all unread.

        How long it has waited says nothing: it waits for the close.
        """
        begun = time.monotonic()
        if begun < self._next_measurement:
            return
        ends = self.log.cut(REPORTS, NEVER)
        unread = sum(max(0, ends[p] - position) for p, position in self._begin.items())
        self.facts.input = InputFacts(unread, None, None)
        now = time.monotonic()
        self._next_measurement = now + max(MEASURE, MEASURE_SHARE * (now - begun))

    def _answered(self) -> None:
        self.facts.answer()


def _reads_as(order: Order, manifest: Manifest) -> bool:
    """Whether the reports were read as ordered: as they were then, if that was before."""
    if order.read_as is None or manifest.read_as is None or not order.letters:
        return order.read_as == manifest.read_as
    return order.read_as.mapping == manifest.read_as.mapping


def _has_inputs(study: Study, order: Order, manifest: Manifest) -> bool:
    """Whether there is the input of each data set that the close begins, and no other."""
    due = study.due(order.number) if order.letters else ()
    return {name: set(files) for name, files in manifest.jobs.items()} == {
        release.name: {*JOB_FAMILIES[release.family].tables} for release in due
    }
