"""Whether a scheduled moment has come: no clock is believed alone.

The wall clock can be set to any time, and a period that closes too early is lost for its reports,
with its part of the budget. It is believed where the monotonic clock says that as much time has
passed since they agreed last, and where the log's own append time, by which reports are judged,
has come there too. A process that starts while the wall clock is wrong has only the log to ask:
that is another clock where brokers run on other machines, and the same one for a file.
"""

from __future__ import annotations

import time as time_module
from collections.abc import Callable
from dataclasses import dataclass, field

from stream_dp.log.message import rfc3339_utc

TOLERANCE = 60.0  # seconds
_AGAIN = 10.0  # seconds at most between two questions to a log that does not agree


def steady() -> float:
    """Seconds that nobody sets and that go on in a suspended machine."""
    clock = getattr(time_module, "CLOCK_BOOTTIME", time_module.CLOCK_MONOTONIC)
    return time_module.clock_gettime(clock)


@dataclass
class Clocks:
    """wall: Unix seconds; steady: seconds since any moment. Both agree when this is made."""

    wall: Callable[[], float]
    steady: Callable[[], float] = steady
    _lead: float = field(init=False)
    _refused: tuple[float, str] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._lead = self.wall() - self.steady()

    def before(self, moment: float, log: Callable[[], float] | None = None) -> str:
        """When or why not yet, in words; empty where the moment has come.

        log: the append time that a record would get now.
        """
        now = self.wall()
        if now < moment:
            return f"at {rfc3339_utc(moment)}"
        passed = self.steady()
        jump = now - passed - self._lead
        if abs(jump) > TOLERANCE:
            return (
                f"once the clocks agree: this machine's clock was set {_far(jump)} since this"
                " process began; set it right, or start again once it is right"
            )
        if log is not None and (reason := self._asked(log, moment, now, passed)):
            return reason
        self._lead = now - passed
        return ""

    def _asked(self, log: Callable[[], float], moment: float, now: float, passed: float) -> str:
        if self._refused is not None and passed < self._refused[0]:
            return self._refused[1]
        there, reason = log(), ""
        if there < moment:
            far = f", and it is {_far(there - now)} of this machine's" * (now - there > TOLERANCE)
            reason = f"once the log's clock says {rfc3339_utc(moment)}{far}"
        self._refused = (passed + min(_AGAIN, moment - there), reason) if reason else None
        return reason


def _far(seconds: float) -> str:
    """A difference in words that do not change from look to look."""
    units = ((86_400, "days"), (3600, "hours"), (60, "minutes"))
    size, name = next((u for u in units if abs(seconds) >= 2 * u[0]), units[-1])
    return f"{abs(seconds) / size:.0f} {name} {'ahead' if seconds > 0 else 'back'}"
