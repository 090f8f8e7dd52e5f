"""The period that is open: its input on the way to the cut, and its close there.

A close has parts. The process itself is one part, which reads the reports as they come (`Inputs`).
Several parts are ordered from an aggregator once the cut is known (`OrderedParts`). Decided records
are copied to the public log at their scheduled time or later.

The gate of a period is drawn once, at the first cut of the period. Its journal entry is committed
before anything follows from the draw: the close, or the wait for the operator. A crash between the
draw and the commit decides nothing. A held period has a second cut, at the operator's marker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from functools import partial
from typing import Protocol

from stream_dp.log.log import Log, Positions, Writer
from stream_dp.log.message import Message
from stream_dp.population.cells import CellCounts
from stream_dp.privacy.ledger import Ledger
from stream_dp.privacy.noise import NoiseSource
from stream_dp.release.certificate import CertifiedLedger
from stream_dp.study import Study
from stream_dp.study.noisy_gate import gate_charges, noisy_gate
from stream_dp.study.periods import Periods
from stream_dp.study.topics import CLOCK, REPORTS

from ..intake.markers import FoundMarkers
from ..process.events import KEY_CHANGED, Event, outstanding
from ..process.heartbeats import Pulse
from ..storage.close_orders import keep_files
from ..storage.journal import ClosedPeriod, Entry
from ..storage.journal_heads import GateHead, PeriodInput, WeightsHead
from ..storage.log_guard import LogGuard
from ..storage.snapshots import Snapshots
from . import decision
from .answer_topic import AnswerTopic, AnswerWeights
from .batch_jobs import Jobs
from .decision import ReleaseState, certified, certified_charges
from .releaser_facts import Context, delayed_release_time
from .releaser_role import Lookout, OwnedJournal


@dataclass
class Publisher:
    """Publishes journal entries in their order.

    writer: the one writer of the public log.
    context: as in `Releaser`.
    poll: seconds between two checks of the clock.
    certified: the charges that certificates state.
    guard: of both logs, asked before every publication.
    meanwhile: called every `poll` seconds during a wait for a scheduled time.
    answers: the topic of answers, where the service fills one.
    """

    study: Study
    writer: Writer
    context: Context
    poll: float
    certified: CertifiedLedger
    guard: LogGuard
    meanwhile: Callable[[], None]
    answers: AnswerTopic | None = None

    def follow(self, published: Sequence[Entry], chain: Sequence[Message]) -> None:
        """Sets the public facts to those of published entries, and writes missing answers.

        chain: the messages of the entries.
        """
        if self.answers is not None:
            self.answers.catch_up(chain)
        index = -1
        for entry in published:
            index += len(entry.published)
            self._show(entry, index)

    def _show(self, entry: Entry, index: int) -> None:
        """Sets the public facts to the facts of an entry. index: of the entry's last message."""
        self.certified = certified(self.certified, entry)
        self.context.facts.released = max(entry.number, self.context.facts.released or 0)
        self.context.facts.marked = {}
        if index > self.context.facts.published.index:
            time = self.study.periods.release_time(entry.number) if entry.number else None
            messages = index - self.context.facts.published.index
            self.context.facts.publish(messages, self.certified.spent, time)

    def publish(self, entry: Entry, until_idle: bool) -> bool:
        """Copies an entry's records to the public log, at the scheduled time or later.

        False if the releaser is to stop, or until_idle not to wait, before that time.
        """
        if not entry.published:
            self._show(entry, self.context.facts.published.index)
            return True
        self.context.facts.marked = entry.input.marked if entry.closes else {}
        due = self._due(entry)
        label = self.study.periods.labels[max(0, entry.number - 1)]
        if due is not None:
            self.context.facts.paused = True
            try:
                if not self._wait(due, until_idle, label):
                    return False
            finally:
                self.context.facts.paused = False
        self.context.at("publish")
        self.guard.require()
        records = entry.public_records()
        self.writer.commit(records)
        self.guard.published(entry.published)
        self._show(entry, self.context.facts.published.index + len(entry.published))
        self.context.at("published")
        if self.answers is not None:
            self.answers.add(records)
            self.context.at("answered")
        if (job := entry.result_of) is not None:
            (charge,) = certified_charges(entry, self.study)
            message = f"published the result of job {job}"
            self.context.tell(
                Event("job-published", message, label, release=charge.release, job=job)
            )
        elif isinstance(entry.head, WeightsHead):
            message = f"published the weights of answers about {label}"
            self.context.tell(Event("weights-published", message, label))
        elif not entry.closes:
            self.context.tell(KEY_CHANGED)
        elif entry.number:
            self.context.tell(Event("period-published", f"published {label}", label))
        return True

    def _due(self, entry: Entry) -> float | None:
        """The time of publication in Unix seconds, independent of reports; None: at once.

        That is a declared delay after the scheduled close, or after the last marker of the period.
        """
        periods = self.study.periods
        if entry.number and periods.close != "marker":
            return periods.release_time(entry.number)
        return delayed_release_time(periods, entry.input.marked if entry.closes else {})

    def _wait(self, moment: float, until_idle: bool, label: str) -> bool:
        """Waits for a period's release. False if asked to stop, or not to wait, before that."""
        reported = ""
        while reason := self.context.clocks.before(moment):
            if reason != reported:
                event = Event("release-awaited", f"{label} goes out {reason}", period=label)
                self.context.tell(event)
                self.context.facts.wait(event)
                reported = reason
            self.meanwhile()
            if until_idle or self.context.stop.wait(self.poll):
                return False
        return True


class Parts(Protocol):
    """The parts of the population, on the way to a cut.

    markers: those that were found.
    positions: by partition, the end of the reports that were read, or whose markers were found.
    """

    markers: FoundMarkers
    positions: Positions

    @property
    def accounting(self) -> CellCounts:
        """The outcome of all cells so far."""

    @property
    def unread(self) -> Positions:
        """By partition, the first report that was not read."""

    @property
    def busy(self) -> bool:
        """Whether work is under way elsewhere that ends by itself."""

    def catch_up(self, wait: float) -> Event | bool:
        """Repeats closes whose outcome is lost; True once the state of the last close is there.

        Returns the awaited event if there is nothing to do. wait: seconds to wait for records.
        """

    def read_to_marker(self, number: int, wait: float) -> bool:
        """Looks for the markers of a period for a while; whether there is no more to read now."""

    def read_before(self, time: float, wait: float) -> bool:
        """Reads reports appended before `time`; whether there is no more to read now."""

    def read_to(self, cut: Positions, wait: float) -> bool:
        """Reads to a cut. False while a transaction is open below the cut."""

    def counted(self, number: int, cut: Positions, wait: float, *, gate: bool) -> Event | bool:
        """True once the counts at a cut are there; before, the awaited event.

        gate: whether the people of the period's gate are counted, and no close.
        """

    def returning(self) -> int:
        """The people counted by the gate, after the count."""

    def pass_gate(self) -> None:
        """Forgets the count of the gate."""

    def close(self, number: int, period: PeriodInput, jobs: Jobs | None) -> ClosedPeriod:
        """Closes a counted period, and writes the snapshots.

        period: without its accounting.
        jobs: the batch jobs of the journal.
        """

    def check_log(self) -> None:
        """Asks the log for an answer after a silence. Raises LogError."""


@dataclass
class Ending:
    """The ends of a study's periods."""

    study: Study
    log: Log
    context: Context

    @property
    def periods(self) -> Periods:
        return self.study.periods

    def scheduled(self, number: int) -> bool:
        return self.periods.close_time(number) is not None

    def cut(self, number: int) -> Positions | Event:
        """The cut of a period that the calendar closes; before the close, the awaited event."""
        time, label = self.periods.close_time(number), self.periods.labels[number - 1]
        assert time is not None
        if moment := self.context.clocks.before(time, partial(self.log.now, CLOCK)):
            return Event("time-awaited", f"{label} closes {moment}", label)
        return self.log.cut(REPORTS, time)

    def marker_awaited(self, number: int, markers: FoundMarkers) -> Event:
        """The event awaited by a period before its marker, or by its gate."""
        label = self.periods.labels[number - 1]
        if markers.held == number:
            return held_event(self.context.file, label)
        if markers.obstructed:
            message = f"{label} waits for a sender's open transaction: what was sent after it"
            message += " began, a stream-dp close among it, is read when it ends"
            return Event("sender-awaited", message, label)
        message = f"{label} waits for: stream-dp close {self.context.file} {label}"
        if markers.foreign:
            message += f"; a marker of another study, '{markers.foreign}', was refused"
        return Event("close-awaited", message, label)

    def senders_awaited(self, number: int) -> Event:
        """The event that a scheduled period awaits before its cut."""
        label = self.periods.labels[number - 1]
        message = f"{label} waits for transactions that senders hold open"
        return Event("sender-awaited", message, label)


def held_event(file: str, label: str) -> Event:
    """The event that a held period awaits. file: the study file."""
    message = f"{label} is held by [study.gate]: send what is missing, then decide:"
    return Event("period-held", f"{message} stream-dp close {file} {label} --despite-gate", label)


@dataclass
class OpenPeriod:
    """The open period, which goes on to the next at every close.

    gate: the entry with the gate of the open period, or None before it is drawn.
    """

    ending: Ending
    parts: Parts
    gate: InitVar[Entry | None] = None
    _cut: Positions | None = field(default=None, init=False)  # once it is known
    _gate_due: bool = field(default=False, init=False)  # whether its gate is not drawn yet

    def __post_init__(self, gate: Entry | None) -> None:
        self._gate_due = self.ending.study.gate is not None and gate is None
        if gate is not None and not gate.gate.held:
            self._cut = dict.fromkeys(self.parts.positions, 0) | gate.input.cut

    @property
    def marked(self) -> Mapping[int, int]:
        """By partition, the append time of the last marker, in milliseconds."""
        return self.parts.markers.marked

    def advance(self, number: int, wait: float) -> Event | bool:
        """Reads on towards the close of a period for a while.

        wait: seconds to wait for records.

        Returns True once the period can close, or once its gate can be drawn, and the awaited event
        if there is nothing to do.
        """
        if (waits := self.parts.catch_up(wait)) is not True:
            return waits
        if self._cut is None:
            cut = self._next_cut(number, wait)
            if not isinstance(cut, dict):
                return cut
            self._cut = cut
        if not self.parts.read_to(self._cut, wait):
            return self.ending.senders_awaited(number)
        return self.parts.counted(number, self._cut, wait, gate=self._gate_due)

    def _next_cut(self, number: int, wait: float) -> Positions | Event | bool:
        """The cut of the open period; the result of `advance` until the cut is known."""
        markers, time = self.parts.markers, self.ending.periods.close_time(number)
        if time is None or markers.held == number:
            if markers.missing(number):
                idle = self.parts.read_to_marker(number, wait)
                if markers.missing(number):
                    return idle and self.ending.marker_awaited(number, markers)
            return dict(self.parts.positions)
        cut = self.ending.cut(number)
        if isinstance(cut, Event):
            return self.parts.read_before(time, wait) and cut
        # The operator may have closed the last period after this one's time.
        return {p: max(cut[p], position) for p, position in self.parts.positions.items()}

    @property
    def input(self) -> PeriodInput:
        """The input of the period that can close, and that its gate counts."""
        assert self._cut is not None
        markers = self.parts.markers
        return PeriodInput(dict(self._cut), dict(markers.marks), dict(markers.marked))

    def pass_gate(self, number: int, *, held: bool) -> None:
        """Goes on after the gate. held: keeps the period open until the operator closes it."""
        self.parts.pass_gate()
        self._gate_due = False
        if held:
            self._cut = None
            self.parts.markers.hold(number)

    def close(self, number: int, jobs: Jobs | None) -> ClosedPeriod:
        """Closes the period and writes the snapshots. jobs: the batch jobs of the journal."""
        accepted = self.parts.accounting.accepted
        closed = self.parts.close(number, self.input, jobs)
        self.ending.context.facts.closed_accepted = self.parts.accounting.accepted - accepted
        self.parts.markers.close()
        self._cut, self._gate_due = None, self.ending.study.gate is not None
        return closed


@dataclass
class Recovered:
    """The state of the loop: recovered at the start, and updated at every step.

    number: of the open period at the start.
    ledger: with the charges of every closed period.
    states: of the continual releases after the last close.
    population_files: names of the population's snapshots on disk, the newest last.
    jobs: the batch jobs; None without batch releases.
    gates: by period, the gate that the journal holds.
    pulse: the heartbeats of this process; they notice another process in its role.
    lookout: for missing processes.
    weights: of answers, which are computed while a period waits.
    """

    number: int
    journal: OwnedJournal
    publisher: Publisher
    ledger: Ledger
    states: tuple[ReleaseState, ...]
    period: OpenPeriod
    snapshots: Snapshots
    population_files: list[str]
    jobs: Jobs | None
    gates: dict[int, GateHead]
    pulse: Pulse
    lookout: Lookout
    weights: AnswerWeights

    def watch(self) -> None:
        """Checks the role and, now and then, both logs; looks for missing processes."""
        self.pulse.require()
        self.journal.guard.look()
        self.lookout.look()

    def keep_working(self) -> None:
        """Checks the role, the log and the batch jobs while a release waits for its time."""
        self.watch()
        self.period.parts.check_log()
        if self.jobs is not None:
            self.jobs.look()

    def keep_snapshots(self, number: int, *names: str) -> None:
        """Keeps the last two snapshots of the population. number: of the last closed period."""
        self.population_files = [*self.population_files, *names][-2:]
        keep_files(self.snapshots, self.population_files, number)


POLL, SOON = 0.5, 0.1  # seconds between checks, in general and while only jobs are waited for


@dataclass
class PeriodReading:
    """Reads the input to the close of every period.

    source, context: as in `Releaser`.
    meanwhile: called again and again while a period waits.
    """

    study: Study
    source: NoiseSource
    context: Context
    meanwhile: Callable[[Recovered], None]

    def to_close(self, number: int, run: Recovered, until_idle: bool) -> bool:
        """Reads until period `number` can close; False if asked to stop before that."""
        if not self._to_cut(number, run, until_idle):
            return False
        if self.study.gate is None or number in run.gates:
            return True
        self._draw_gate(number, run)
        return self._to_cut(number, run, until_idle)

    def _draw_gate(self, number: int, run: Recovered) -> None:
        """Charges, draws and commits the gate of a period."""
        gate, at = noisy_gate(self.study), self.context.at
        assert gate is not None
        run.journal.require_decidable()
        run.ledger = run.ledger.charge(*gate_charges(self.study, run.ledger, number))
        draw = self.source.draw(gate.demand)
        at("gate-drawn")
        end = decision.decide_gate(
            self.study,
            run.journal.end,
            number,
            people=run.period.parts.returning(),
            draw=draw,
            counted=run.period.input,
        )
        run.journal.commit(end, at, "gate-")
        run.journal.renew()
        run.gates[number] = end.entry.gate
        run.period.pass_gate(number, held=end.entry.gate.held)

    def _to_cut(self, number: int, run: Recovered, until_idle: bool) -> bool:
        """Reads until the cut of period `number` is reached; False if asked to stop before that."""
        reported: Event | None = None
        facts, stop = self.context.facts, self.context.stop
        while not stop.is_set():
            run.watch()
            self.meanwhile(run)
            wait = 0 if until_idle or reported is None else POLL
            waits = run.period.advance(number, wait)
            if waits is True:
                facts.wait(None)
                return True
            if isinstance(waits, Event):
                facts.wait(waits, run.period.marked)
                if reported != waits:
                    self.context.tell(waits)
                    reported = waits
                run.weights.begin(number - 1)
                if until_idle and (
                    run.period.parts.busy
                    or run.weights.busy
                    or (run.jobs is not None and run.jobs.busy)
                ):
                    stop.wait(SOON)
                elif until_idle:
                    if run.jobs is not None and (jobs := run.jobs.left()):
                        self.context.tell(outstanding(f"batch jobs that are outstanding: {jobs}"))
                    return False
        return False
