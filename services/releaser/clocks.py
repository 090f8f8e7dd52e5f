"""Whether a scheduled moment has come, by several clocks.

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
import time as time_module
from collections.abc import Callable
from dataclasses import dataclass, field

from stream_dp.log.message import rfc3339_utc

TOLERANCE = 60.0  # seconds
_RECHECK = 10.0  # seconds at most between two reads of a log's clock that is behind
_LOOK = 3600.0  # seconds between two reads of the log's clock before a close


def steady() -> float:
    """Seconds of a clock that cannot be set and that runs while the machine is suspended."""
    clock = getattr(time_module, "CLOCK_BOOTTIME", time_module.CLOCK_MONOTONIC)
    return time_module.clock_gettime(clock)


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
