"""The state of a running releaser, which a start recovers and the loop updates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stream_dp.log.base import Positions
from stream_dp.privacy.ledger import Ledger

from ..snapshots import Snapshots
from .decision import ClosedInput, ReleaseState
from .facts import Facts
from .inputs import Inputs
from .jobs import Jobs
from .ownership import OwnedJournal
from .publishing import Publisher


@dataclass
class Recovered:
    """The state that the loop works on.

    number: the number of the open period at the start.
    ledger: the ledger with the charges of every closed period.
    states: the states of the continual releases after the last close.
    population_files: names of the population's snapshots on disk, the newest last.
    jobs: the batch jobs; None without batch releases.
    """

    number: int
    journal: OwnedJournal
    publisher: Publisher
    ledger: Ledger
    states: tuple[ReleaseState, ...]
    inputs: Inputs
    snapshots: Snapshots
    population_files: list[str]
    jobs: Jobs | None

    def keep_working(self) -> None:
        """Checks the log and the batch jobs while a release waits for its time."""
        self.inputs.check_log()
        if self.jobs is not None:
            self.jobs.look()

    def keep_snapshots(self, *names: str) -> None:
        """Keeps the last two snapshots of the population, and removes the others."""
        self.population_files = [*self.population_files, *names][-2:]
        self.snapshots.keep(set(self.population_files))

    def close_input(
        self, cut: Positions, *, facts: Facts, at: Callable[[str], None]
    ) -> ClosedInput:
        """Steps 2 and 3: closes the population at the cut, and writes the snapshots.

        facts: is given what was counted.
        at: called with the name of every step.
        """
        inputs, accepted = self.inputs, self.inputs.population.accounting.accepted
        closed = inputs.population.close()
        at("closed")
        for reason, cells in closed.refused.items():
            inputs.refuse(cells, reason)
        at("refused")
        snapshot = self.snapshots.write(inputs.population)
        at("snapshot")
        jobs = () if self.jobs is None else self.jobs.snapshot(inputs.population.period, closed)
        accounting = inputs.population.accounting.counts
        facts.count(0, accounting)
        facts.closed_accepted = accounting.accepted - accepted
        inputs.check_log()
        return ClosedInput(
            cut=cut,
            marks=dict(inputs.marks),
            closed=closed,
            accounting=accounting,
            snapshot=snapshot,
            jobs=jobs,
            marked=dict(inputs.marked),
            read_as=inputs.close_period(),
        )
