"""What a running releaser can be asked about itself: confidential facts, and the public few."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from stream_dp.study import Study

from ..progress import Told


@dataclass(frozen=True)
class Published:
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


@dataclass
class Facts:
    """Set by the releaser's loop, read by its listeners; all but `published` is confidential."""

    study: Study
    ready: bool = False
    open_period: int = 0
    records_read: int = 0
    cells: dict[str, int] = field(default_factory=dict)
    jobs: dict[str, JobFacts] = field(default_factory=dict)
    started: float = field(default_factory=time.time)
    published: Published = Published()

    def count(self, records: int, accounting: Mapping[str, Any]) -> None:
        """More records are read, and what became of all cells so far."""
        self.records_read += records
        rejected = {f"rejected {reason}": n for reason, n in accounting["rejected"].items()}
        whole = {fate: n for fate, n in accounting.items() if fate != "rejected"}
        self.cells = {**whole, **rejected}

    def job(
        self, job: str, state: str, decided: int = 0, told: tuple[Told, int] | None = None
    ) -> None:
        """What the topics say of a job. decided: rounds; told: by its worker, and when."""
        held = replace(self.jobs.get(job, JobFacts()), state=state)
        if told is not None:
            last, _ = told
            held = JobFacts(state, last.done, last.rounds, last.error, last.left)
        self.jobs[job] = replace(held, done=max(held.done, decided))

    def publish(self, messages: int, spent: Fraction, scheduled: float | None) -> None:
        """More messages are public. spent: on all that is. A listener sees all of it or nothing."""
        self.published = Published(self.published.index + messages, spent, scheduled)
