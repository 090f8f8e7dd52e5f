"""Reads the input to the close of a period: to its cut, and past its gate.

The gate of a period is drawn once, at the first cut of the period. Its journal entry is committed
before anything follows from the draw: the close, or the wait for the operator. A crash between the
draw and the commit decides nothing. A held period has a second cut, at the operator's marker.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from stream_dp.privacy.noise import NoiseSource
from stream_dp.study import Study
from stream_dp.study.period_gate import gate_charges, period_gate

from ..process.events import Event, Tell, outstanding
from . import decision
from .recovered import Recovered
from .releaser_facts import Facts

POLL, SOON = 0.5, 0.1  # seconds between checks, in general and while only jobs are waited for


@dataclass
class PeriodReading:
    """Reads the input to the close of each period.

    source, facts, tell, at, stop: as in `Releaser`.
    meanwhile: called again and again while a period waits.
    """

    study: Study
    source: NoiseSource
    facts: Facts
    tell: Tell
    at: Callable[[str], None]
    stop: threading.Event
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
        gate, period_input = period_gate(self.study), run.period_input
        assert gate is not None
        run.journal.require_decidable()
        run.ledger = run.ledger.charge(*gate_charges(self.study, run.ledger, number))
        draw = self.source.draw(gate.demand)
        self.at("gate-drawn")
        end = decision.decide_gate(
            *(self.study, run.journal.end, number),
            people=period_input.returning(),
            draw=draw,
            counted=period_input.counted(),
        )
        run.journal.commit(end, self.at, "gate-")
        run.journal.renew()
        run.gates[number] = end.entry.gate
        period_input.pass_gate(number, held=end.entry.gate.held)

    def _to_cut(self, number: int, run: Recovered, until_idle: bool) -> bool:
        """Reads until the cut of period `number` is reached; False if asked to stop before that."""
        reported: Event | None = None
        while not self.stop.is_set():
            run.watch()
            self.meanwhile(run)
            wait = 0 if until_idle or reported is None else POLL
            waits = run.period_input.advance(number, wait)
            if waits is True:
                self.facts.wait(None)
                return True
            if isinstance(waits, Event):
                self.facts.wait(waits, run.period_input.marked)
                if reported != waits:
                    self.tell(waits)
                    reported = waits
                if until_idle and (
                    run.period_input.busy or (run.jobs is not None and run.jobs.busy)
                ):
                    self.stop.wait(SOON)
                elif until_idle:
                    if run.jobs is not None and (jobs := run.jobs.left()):
                        self.tell(outstanding(f"batch jobs that are outstanding: {jobs}"))
                    return False
        return False
