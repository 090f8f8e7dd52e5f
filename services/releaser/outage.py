"""The wait for brokers that do not answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic

from stream_dp.log.log import Unavailable

from ..process.events import Event
from .releaser_facts import Context

_PATIENCE = 300.0  # seconds without an answer, after which the process ends
_PAUSE = 1.0  # seconds between two attempts, each of which is patient itself


@dataclass
class Outage:
    """Attempts to go on after a log did not answer, where no transaction's outcome is unknown."""

    context: Context
    _begun: float | None = field(default=None, init=False)  # on the monotonic clock

    def lasts(self, error: Unavailable) -> bool:
        """Waits before the next attempt. False if none has succeeded for too long."""
        now = monotonic()
        if self._begun is None or self.context.facts.recovered:
            self._begun = now
            event = Event("log-awaited", f"waits for the log: {error}")
            self.context.tell(event)
            self.context.facts.wait(event)
        self.context.stop.wait(_PAUSE)
        return now - self._begun < _PATIENCE
