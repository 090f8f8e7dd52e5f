"""The loop's state, and its way to the close of a period: to the cut, and past the gate.

The gate of a period is drawn once, at the first cut of the period. Its journal entry is committed
before anything follows from the draw: the close, or the wait for the operator. A crash between the
draw and the commit decides nothing. A held period has a second cut, at the operator's marker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stream_dp.privacy.ledger import Ledger
from stream_dp.privacy.noise import NoiseSource
from stream_dp.study import Study
from stream_dp.study.period_gate import gate_charges, period_gate

from ..process.events import Event, outstanding
from ..process.heartbeats import Pulse
from ..storage.snapshots import Snapshots
from . import decision
from .batch_jobs import Jobs
from .closing import OpenPeriod
from .decision import ReleaseState
from .journal_heads import GateHead
from .manifests import keep_files
from .ownership import Lookout, OwnedJournal
from .publishing import Publisher
from .releaser_facts import Context


@dataclass
class Recovered:
    """The state of the loop: recovered at the start, and updated at each step.

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


POLL, SOON = 0.5, 0.1  # seconds between checks, in general and while only jobs are waited for


@dataclass
class PeriodReading:
    """Reads the input to the close of each period.

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
        gate, at = period_gate(self.study), self.context.at
        assert gate is not None
        run.journal.require_decidable()
        run.ledger = run.ledger.charge(*gate_charges(self.study, run.ledger, number))
        draw = self.source.draw(gate.demand)
        at("gate-drawn")
        end = decision.decide_gate(
            *(self.study, run.journal.end, number),
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
                if until_idle and (
                    run.period.parts.busy or (run.jobs is not None and run.jobs.busy)
                ):
                    stop.wait(SOON)
                elif until_idle:
                    if run.jobs is not None and (jobs := run.jobs.left()):
                        self.context.tell(outstanding(f"batch jobs that are outstanding: {jobs}"))
                    return False
        return False
