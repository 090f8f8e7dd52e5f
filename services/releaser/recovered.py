"""The state of a running releaser: recovered at the start, and updated by the loop."""

from __future__ import annotations

from dataclasses import dataclass

from stream_dp.privacy.ledger import Ledger

from ..process.heartbeats import Pulse
from ..storage.snapshots import Snapshots
from .batch_jobs import Jobs
from .closing import OpenPeriod
from .decision import ReleaseState
from .journal_heads import GateHead
from .lookout import Lookout
from .manifests import keep_files
from .ownership import OwnedJournal
from .publishing import Publisher


@dataclass
class Recovered:
    """The state of the loop.

    number: of the open period at the start.
    ledger: with the charges of every closed period.
    states: of the continual releases after the last close.
    population_files: names of the population's snapshots on disk, the newest last.
    jobs: the batch jobs; None without batch releases.
    gates: by period, the gate that the journal holds.
    pulse: the heartbeats of this process; they notice another process in its role.
    lookout: for missing processes.
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
