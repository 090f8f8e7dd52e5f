"""The input of a period on the way to its cut, and the close there; `Here`: in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass, field
from functools import partial
from typing import Protocol

from stream_dp.log.log import Log, Positions
from stream_dp.study import Study
from stream_dp.study.periods import Periods
from stream_dp.study.topics import CLOCK, REPORTS

from ..process.events import Event
from ..storage.snapshots import Snapshots
from .batch_jobs import Jobs
from .clocks import Clocks
from .input_reading import Inputs
from .journal import ClosedInput, Entry
from .journal_heads import CountedInput
from .releaser_facts import Facts


class PeriodInput(Protocol):
    """The input of the period that is open."""

    @property
    def marked(self) -> Mapping[int, int]:
        """By partition, the append time of the last marker, in milliseconds."""

    @property
    def unread(self) -> Positions:
        """By partition, the first report that was not read."""

    @property
    def busy(self) -> bool:
        """Whether work is under way elsewhere that ends by itself."""

    def advance(self, number: int, wait: float) -> Event | bool:
        """Reads on towards the close of a period for a while.

        wait: seconds to wait for records.

        Returns True once the period can close, or once its gate can be drawn, and the awaited event
        if there is nothing to do.
        """

    def counted(self) -> CountedInput:
        """The input of the period that can close, and that its gate counts."""

    def returning(self) -> int:
        """Counts, once the period can close, the people whom its gate counts."""

    def pass_gate(self, number: int, *, held: bool) -> None:
        """Goes on after the gate. held: keeps the period open until the operator closes it."""

    def close(self, number: int, jobs: Jobs | None) -> ClosedInput:
        """Closes the period and writes the snapshots. jobs: the batch jobs of the journal."""

    def check_log(self) -> None:
        """Asks the log for an answer after a silence. Raises LogError."""


@dataclass
class Ending:
    """The ends of a study's periods. file: the study file's name, for messages to the operator."""

    study: Study
    log: Log
    clocks: Clocks
    file: str

    @property
    def periods(self) -> Periods:
        return self.study.periods

    def scheduled(self, number: int) -> bool:
        return self.periods.close_time(number) is not None

    def cut(self, number: int) -> Positions | Event:
        """The cut of a period that the calendar closes; before the close, the awaited event."""
        time, label = self.periods.close_time(number), self.periods.labels[number - 1]
        assert time is not None
        if moment := self.clocks.before(time, partial(self.log.now, CLOCK)):
            return Event("time-awaited", f"{label} closes {moment}", label)
        return self.log.cut(REPORTS, time)

    def marker_awaited(
        self, number: int, *, obstructed: bool, foreign: str, held: bool = False
    ) -> Event:
        """The event that a period awaits before its marker.

        held: whether the gate holds the period.
        obstructed: whether a sender's open transaction hides records.
        foreign: the name of another study whose marker was refused; else empty.
        """
        label = self.periods.labels[number - 1]
        if held:
            return held_event(self.file, label)
        if obstructed:
            message = f"{label} waits for a sender's open transaction: what was sent after it"
            message += " began, a stream-dp close among it, is read when it ends"
            return Event("sender-awaited", message, label)
        message = f"{label} waits for: stream-dp close {self.file} {label}"
        if foreign:
            message += f"; a marker of another study, '{foreign}', was refused"
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
class Here:
    """The input is read, and the population of everybody closed, in this process.

    inputs: at the last cut. facts: learn the counts. at: called with the name of every step.
    """

    inputs: Inputs
    ending: Ending
    snapshots: Snapshots
    facts: Facts
    at: Callable[[str], None]
    gate: InitVar[Entry | None] = None
    _cut: Positions | None = field(default=None, init=False)  # of the open period, once it is known

    def __post_init__(self, gate: Entry | None) -> None:
        if gate is not None:
            self.inputs.read_to_gate(self.ending.study, gate)
            if not gate.gate.held:
                self._cut = dict.fromkeys(self.inputs.positions, 0) | gate.gate.counted.cut

    @property
    def marked(self) -> Mapping[int, int]:
        return self.inputs.markers.marked

    @property
    def unread(self) -> Positions:
        return self.inputs.positions

    @property
    def busy(self) -> bool:
        return False

    def advance(self, number: int, wait: float) -> Event | bool:
        inputs = self.inputs
        held = inputs.markers.held == number
        if self.ending.scheduled(number) and not held:
            return self._to_time(number, wait)
        if inputs.markers.missing(number):
            idle = inputs.fold_to_marker(number, wait)
            if inputs.markers.missing(number):
                waits = self.ending.marker_awaited(
                    number,
                    obstructed=inputs.obstructed,
                    foreign=inputs.markers.foreign,
                    held=held,
                )
                return idle and waits
        self._cut = dict(inputs.positions)
        return True

    def _to_time(self, number: int, wait: float) -> Event | bool:
        """`advance` for a period that the calendar closes."""
        if self._cut is None:
            cut = self.ending.cut(number)
            if isinstance(cut, Event):
                time = self.ending.periods.close_time(number)
                assert time is not None
                return self.inputs.fold_before(time, wait) and cut
            # The operator may have closed the last period after this one's time.
            self._cut = {p: max(cut[p], o) for p, o in self.inputs.positions.items()}
        return self.inputs.fold_to(self._cut, wait) or self.ending.senders_awaited(number)

    def counted(self) -> CountedInput:
        assert self._cut is not None
        markers = self.inputs.markers
        return CountedInput(dict(self._cut), dict(markers.marks), dict(markers.marked))

    def returning(self) -> int:
        return self.inputs.population.returning()

    def pass_gate(self, number: int, *, held: bool) -> None:
        if held:
            self._cut = None
            self.inputs.markers.hold(number)

    def close(self, number: int, jobs: Jobs | None) -> ClosedInput:
        inputs, accepted = self.inputs, self.inputs.population.accounting.accepted
        assert self._cut is not None
        cut, self._cut = self._cut, None
        closed = inputs.population.close()
        self.at("closed")
        for reason, cells in closed.refused.items():
            inputs.refuse(cells, reason)
        self.at("refused")
        snapshot = self.snapshots.write(inputs.population)
        self.at("snapshot")
        begun = () if jobs is None else jobs.snapshot(number, inputs.population)
        accounting = inputs.population.accounting.counts
        self.facts.count(0, accounting)
        self.facts.closed_accepted = accounting.accepted - accepted
        inputs.check_log()
        return ClosedInput(
            number=number,
            cut=cut,
            marks=dict(inputs.markers.marks),
            closed=closed,
            accounting=accounting,
            snapshot=snapshot,
            jobs=begun,
            marked=dict(inputs.markers.marked),
            read_as=inputs.close_period(),
        )

    def check_log(self) -> None:
        self.inputs.check_log()
