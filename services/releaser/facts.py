"""What a running releaser can be asked about itself: confidential facts, and the public few."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from stream_dp.population.reports import REASONS
from stream_dp.study import Study

from ..jobs.progress import Progress

SILENCE = 15.0  # seconds without an answer of the log after which a releaser is not ready


@dataclass(frozen=True)
class PublicFacts:
    """What the public log holds, and no more.

    index: of the last public message; spent: rho of the releases, as the ledger composes it;
    scheduled: the last one's scheduled time, Unix seconds, where the calendar closes periods.
    """

    index: int = -1
    spent: Fraction = Fraction(0)
    scheduled: float | None = None


@dataclass(frozen=True)
class JobFacts:
    """state: waiting, running, done, failed, abandoned; done, rounds: of its rounds.

    error: of the model on the noisy answers; left: seconds. Both nan where unknown.
    """

    state: str = "waiting"
    done: int = 0
    rounds: int = 0
    error: float = math.nan
    left: float = math.nan


@dataclass(frozen=True)
class CellCounts:
    """Cells of reports that this process has counted; pending: those that wait now."""

    received: int = 0
    accepted: int = 0
    superseded: int = 0
    pending: int = 0
    rejected: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(REASONS, 0))

    def after(self, before: Mapping[str, Any], now: Mapping[str, Any]) -> CellCounts:
        """With what an accounting of the whole study has more than the one before it."""
        old, new = before["rejected"], now["rejected"]
        return CellCounts(
            self.received + now["received"] - before["received"],
            self.accepted + now["accepted"] - before["accepted"],
            self.superseded + now["superseded"] - before["superseded"],
            now["pending"],
            {r: n + new.get(r, 0) - old.get(r, 0) for r, n in self.rejected.items()},
        )


@dataclass
class Facts:
    """Set by the releaser's loop, read by its listeners; all but `published` is confidential."""

    study: Study
    recovered: bool = False
    open_period: int = 0
    records_read: int = 0
    cells: CellCounts = field(default_factory=CellCounts)
    closed_accepted: int | None = None  # cells, in the last period that was closed
    released: int | None = None  # the last period whose releases are public; 0: only the study
    jobs: dict[str, JobFacts] = field(default_factory=dict)
    started: float = field(default_factory=time.time)
    answered: float | None = None  # when the log last answered, Unix seconds
    published: PublicFacts = PublicFacts()
    _answered: float = -math.inf  # the same on the monotonic clock
    _accounting: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ready(self) -> bool:
        """Whether the journal is read and owned, and the log answers."""
        return self.recovered and self.silence <= SILENCE

    @property
    def silence(self) -> float:
        """Seconds since the log last answered."""
        return time.monotonic() - self._answered

    @property
    def due(self) -> float | None:
        """When the next releases are to be public, Unix seconds; None without a schedule."""
        periods = self.study.periods
        if self.released is None or periods.close == "marker" or self.released == periods.count:
            return None
        return periods.release_time(self.released + 1)

    def answer(self) -> None:
        """The log has answered."""
        self.answered, self._answered = time.time(), time.monotonic()

    def count(self, records: int, accounting: Mapping[str, Any]) -> None:
        """More records are read. accounting: what became of all cells since the study began.

        Counted is what comes after the recovery, so that no counter ever falls.
        """
        self.records_read += records
        if self.recovered:
            self.cells = self.cells.after(self._accounting, accounting)
        self._accounting = accounting

    def job(
        self, job: str, state: str, decided: int = 0, told: tuple[Progress, int] | None = None
    ) -> None:
        """What the topics say of a job. decided: rounds; told: by its worker, and when."""
        held = replace(self.jobs.get(job, JobFacts()), state=state)
        if told is not None:
            last, _ = told
            held = JobFacts(state, last.done, last.rounds, last.error, last.left)
        self.jobs[job] = replace(held, done=max(held.done, decided))

    def publish(self, messages: int, spent: Fraction, scheduled: float | None) -> None:
        """More messages are public. spent: on all that is. A listener sees all of it or nothing."""
        self.published = PublicFacts(self.published.index + messages, spent, scheduled)
