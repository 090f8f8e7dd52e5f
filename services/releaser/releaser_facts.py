"""Facts of a running releaser for its listeners, most of them confidential, and its clocks.

A wall clock can be set wrong, and a period that closes too early loses its reports and its part of
the budget. So the wall clock is trusted only while it advances as the monotonic clock does, and
while the log's append time, which decides to which period a report belongs, has reached the moment
too. For a process that starts while the wall clock is wrong, the log is the only check: on Kafka
it is another machine's clock, for a file it is the same one.

A log's clock that is ahead dates reports later than they came, so that some miss their period. The
process cannot know which clock is right; it says so long before the close.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from stream_dp.log.message import rfc3339_utc
from stream_dp.population.cells import CellCounts
from stream_dp.study import Study
from stream_dp.study.periods import Periods, duration_seconds

from ..process.events import Event, Tell, ignore
from ..process.heartbeats import Process, Waiting
from ..storage.job_records import Progress

TOLERANCE = 60.0  # seconds
_RECHECK = 10.0  # seconds at most between two reads of a log's clock that is behind
_LOOK = 3600.0  # seconds between two reads of the log's clock before a close


def steady() -> float:
    """Seconds of a clock that cannot be set and that runs while the machine is suspended."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)


@dataclass
class Clocks:
    """The clocks of a process, which are compared with their readings at its start.

    wall: gives Unix seconds.
    steady: gives seconds since any fixed moment.
    """

    wall: Callable[[], float]
    steady: Callable[[], float] = steady
    _lead: float = field(init=False)  # of the wall clock on the steady one, seconds
    # While the log's clock is behind: the steady time of its next reading, and the reason.
    _behind: tuple[float, str] | None = field(default=None, init=False)
    # Before a close: the steady time of the next reading of the log's clock, and a warning.
    _ahead: tuple[float, str] = field(default=(-math.inf, ""), init=False)

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Compares the clocks with their readings now."""
        self._lead = self.wall() - self.steady()

    def before(self, moment: float, log: Callable[[], float] | None = None) -> str:
        """The reason why a moment has not come, or the time until then, in words; empty at last.

        moment: Unix seconds.
        log: gives the append time that a record would get now, in Unix seconds.
        """
        wall = self.wall()
        steady = self.steady()
        if wall < moment:
            warning = "" if log is None else self._warning(log, wall, steady)
            return f"at {rfc3339_utc(moment)}{warning}"
        jump = wall - steady - self._lead
        if abs(jump) > TOLERANCE:
            return (
                f"once the clocks agree: this machine's clock was set {_far(jump)} since this"
                " process began; set it right, or start again once it is right"
            )
        if log is not None and (reason := self._log_reason(log, moment, wall, steady)):
            return reason
        self._lead = wall - steady
        return ""

    def _warning(self, log: Callable[[], float], wall: float, steady: float) -> str:
        """The effect of a fast clock of a log, in words. The clock is read now and then only."""
        if steady >= self._ahead[0]:
            text, lead = "", log() - wall
            if lead > TOLERANCE:
                text = (
                    f"; the log's clock is {_far(lead)} of this machine's, and reports that come"
                    " less than that before the close will be late: set the clocks right"
                )
            self._ahead = (steady + _LOOK, text)
        return self._ahead[1]

    def _log_reason(
        self, log: Callable[[], float], moment: float, wall: float, steady: float
    ) -> str:
        """Why the moment has not come by the log's clock, which is read only now and then."""
        if self._behind is not None and steady < self._behind[0]:
            return self._behind[1]
        time, reason = log(), ""
        if time < moment:
            far = f", and it is {_far(time - wall)} of this machine's" * (wall - time > TOLERANCE)
            reason = f"once the log's clock says {rfc3339_utc(moment)}{far}"
        self._behind = (steady + min(_RECHECK, moment - time), reason) if reason else None
        return reason


def _far(seconds: float) -> str:
    """A difference in coarse words, which stay the same for a while."""
    units = ((86_400, "days"), (3600, "hours"), (60, "minutes"))
    size, name = next((u for u in units if abs(seconds) >= 2 * u[0]), units[-1])
    return f"{abs(seconds) / size:.0f} {name} {'ahead' if seconds > 0 else 'back'}"


SILENCE = 15.0  # seconds without an answer of the log after which a releaser is not ready
MEASURE = 1.0  # seconds at least between two measurements of what is unread
MEASURE_SHARE = 20  # at most one part in so many of the time goes into measuring


@dataclass(frozen=True)
class PublicFacts:
    """Facts that the public log shows too."""

    index: int = -1  # of the last public message
    spent: Fraction = Fraction(0)  # rho of the releases, as the ledger composes it
    # The last release's scheduled time, Unix seconds, where the calendar closes periods.
    scheduled: float | None = None


@dataclass(frozen=True)
class JobFacts:
    """The state of a batch job and its progress."""

    state: str = "waiting"  # or running, done, failed, abandoned
    since: float = field(default_factory=time.time)  # of the last attempt's request, Unix seconds
    done: int = 0  # rounds
    progress: Progress | None = None  # the worker's last report


@dataclass(frozen=True)
class InputFacts:
    """The unread input at the last measurement.

    unread: the number of unread records of the reports topic.
    behind_since: since when records are unread, Unix seconds: the last time at which the reader had
        read everything, or the append time of the last record read, whichever is later; None if
        nothing is unread or both times are unknown.
    open_cells: the number of cells that wait for the open period; None if they are unread, in
        parts.
    """

    unread: int = 0
    behind_since: float | None = None
    open_cells: int | None = 0


def _grown(cells: CellCounts, earlier: CellCounts, later: CellCounts) -> CellCounts:
    """The counts, increased by the difference between two accountings of the study."""
    old, new = earlier.rejected, later.rejected
    return CellCounts(
        received=cells.received + later.received - earlier.received,
        accepted=cells.accepted + later.accepted - earlier.accepted,
        superseded=cells.superseded + later.superseded - earlier.superseded,
        pending=later.pending,
        rejected={r: n + new.get(r, 0) - old.get(r, 0) for r, n in cells.rejected.items()},
    )


def delayed_release_time(periods: Periods, marked: Mapping[int, int]) -> float | None:
    """The time of publication of a period that markers close, in Unix seconds; None: at once.

    marked: by partition, the append time of the marker, in milliseconds; empty before the marker is
        read, and if no marker closes the period.
    """
    if periods.delay is None or not marked:
        return None
    return max(marked.values()) / 1000 + duration_seconds(periods.delay)


@dataclass
class Facts:
    """Facts that the releaser sets and its listeners read; all but `published` are confidential."""

    study: Study
    instance: str = ""  # of this process's heartbeats since it took the releaser's role
    owned: bool = False  # whether it had the role at its last heartbeat
    waiting: Waiting | None = None  # what it waits for
    missing: Mapping[Process, bool] = field(default_factory=dict)  # of the processes that have work
    recovered: bool = False
    open_period: int = 0
    records_read: int = 0
    cells: CellCounts = field(default_factory=CellCounts)
    closed_accepted: int | None = None  # cells, in the last period that was closed
    input: InputFacts | None = None  # None before it is measured
    paused: bool = False  # whether nothing is read while a decided release waits for its time
    marked: Mapping[int, int] = field(default_factory=dict)  # see `delayed_release_time`
    released: int | None = None  # the last period whose releases are public; 0: only the study
    jobs: dict[str, JobFacts] = field(default_factory=dict)
    started: float = field(default_factory=time.time)
    answered: float | None = None  # when the log last answered, Unix seconds
    published: PublicFacts = PublicFacts()
    _answered: float = -math.inf  # the same on the monotonic clock
    _accounting: CellCounts = field(default_factory=CellCounts)

    @property
    def ready(self) -> bool:
        """Whether the journal is read and owned, and the log answers."""
        return self.recovered and self.owned and self.silence <= SILENCE

    @property
    def silence(self) -> float:
        """Seconds since the log last answered."""
        return time.monotonic() - self._answered

    @property
    def due(self) -> float | None:
        """The time of the next releases in Unix seconds; None if unknown, as before a marker."""
        periods = self.study.periods
        if self.released is None or self.released == periods.count:
            return None
        if periods.close == "marker":
            return delayed_release_time(periods, self.marked)
        return periods.release_time(self.released + 1)

    @property
    def lag(self) -> float | None:
        """A bound for the seconds that the oldest unread record has waited; None if unknown."""
        if self.input is None or not self.input.unread:
            return None if self.input is None else 0.0
        since = self.input.behind_since
        return None if since is None else max(0.0, time.time() - since)

    def take_role(self, instance: str) -> None:
        """Notes that this process has the role."""
        self.instance, self.owned = instance, True

    def lose_role(self) -> None:
        """Notes that this process does not have the role."""
        self.owned = False

    def wait(self, event: Event | None, marked: Mapping[int, int] | None = None) -> None:
        """Sets the event that the releaser waits for.

        marked: by partition, the time of the close's marker in milliseconds, which begins the wait
            for a close in parts. Other waits begin at once.
        """
        waiting = self.waiting
        if event is None:
            self.waiting = None
        elif waiting is None or (waiting.event, waiting.message) != (event.name, event.message):
            ordered = event.name == "aggregator-awaited" and marked
            since = max(marked.values()) / 1000 if ordered and marked else time.time()
            self.waiting = Waiting(event.name, event.message, since)

    @property
    def held(self) -> bool:
        """Whether the gate holds the open period."""
        return self.waiting is not None and self.waiting.event == "period-held"

    @property
    def close_due(self) -> float | None:
        """The time from which the open period can be closed, in Unix seconds.

        None if the period waits for the operator.
        """
        if not 0 < self.open_period <= self.study.periods.count or self.paused or self.held:
            return None
        time = self.study.periods.close_time(self.open_period)
        ordered = self.waiting is not None and self.waiting.event == "aggregator-awaited"
        return self.waiting.since if time is None and self.waiting and ordered else time

    def answer(self) -> None:
        """Notes that the log has answered."""
        self.answered, self._answered = time.time(), time.monotonic()

    def count(self, records: int, accounting: CellCounts) -> None:
        """Counts new records and their cells; cells only after the recovery, so counters rise.

        records: the number of new records of the reports topic.
        accounting: the outcome of all cells since the study began.
        """
        self.records_read += records
        if self.recovered:
            self.cells = _grown(self.cells, self._accounting, accounting)
        self._accounting = accounting

    def job(
        self,
        job: str,
        state: str,
        since: float | None = None,
        done: int = 0,
        progress: Progress | None = None,
    ) -> None:
        """Sets the facts of the job with the id `job`, see `JobFacts`; None keeps a fact."""
        facts = self.jobs.get(job, JobFacts())
        done = max(facts.done, done, 0 if progress is None else progress.done)
        since = facts.since if since is None else since
        self.jobs[job] = JobFacts(state, since, done, progress or facts.progress)

    def publish(self, messages: int, spent: Fraction, scheduled: float | None) -> None:
        """Sets the public facts, all at once for a listener.

        messages: the number of new public messages.
        spent: rho of all public releases.
        """
        self.published = PublicFacts(self.published.index + messages, spent, scheduled)


@dataclass(frozen=True)
class Context:
    """What all of a running releaser shares.

    facts: for its listeners.
    clocks: by which a moment has come.
    tell: called with events for the operator.
    at: called with the name of every step, for tests that stop there.
    stop: ends the run at the next safe point when set.
    file: the name of the study file, for messages to the operator.
    """

    facts: Facts
    clocks: Clocks
    tell: Tell = ignore
    at: Callable[[str], None] = lambda name: None
    stop: threading.Event = field(default_factory=threading.Event)
    file: str = "STUDY.toml"

    @classmethod
    def of(
        cls,
        study: Study,
        *,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = steady,
        **others: Any,
    ) -> Context:
        """The context of a releaser that begins now. clock, steady: see `Clocks`."""
        return cls(Facts(study), Clocks(clock, steady), **others)
