"""The period that is open: its input on the way to the cut, and its close there.

A close has parts. The process itself is one part, which reads the reports as they come (`Inputs`).
Several parts are ordered from an aggregator once the cut is known (`OrderedParts`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field
from functools import partial
from typing import Protocol

from stream_dp.log.log import Log, Positions
from stream_dp.population.accounting import CellCounts
from stream_dp.study import Study
from stream_dp.study.periods import Periods
from stream_dp.study.topics import CLOCK, REPORTS

from ..intake.markers import FoundMarkers
from ..process.events import Event
from .batch_jobs import Jobs
from .journal import ClosedPeriod, Entry
from .journal_heads import PeriodInput
from .releaser_facts import Context


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
        """The people whom the gate counts, once they are counted."""

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
        """The event that a period awaits before its marker, or that its gate holds it for."""
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
    """The open period, which goes on to the next at each close.

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
        before = self.parts.accounting.accepted
        closed = self.parts.close(number, self.input, jobs)
        self.ending.context.facts.closed_accepted = self.parts.accounting.accepted - before
        self.parts.markers.close()
        self._cut, self._gate_due = None, self.ending.study.gate is not None
        return closed
