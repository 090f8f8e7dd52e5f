"""Tells when the lease of a job lapses, by the heartbeats of its holder.

Heartbeats are written by a thread of their own, which no draw and no fit holds up. So a lease
lapses because its holder has ended or cannot be heard, and not because of what it drew.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from stream_dp.log.log import Log

from ..process.heartbeats import HEARTBEAT_TIMEOUT, Heartbeats
from .leases import Lease


@dataclass
class LeaseWatch:
    """The holders of leases, and when each was heard last."""

    log: Log
    _heartbeats: Heartbeats = field(init=False)
    _heard: dict[str, float] = field(default_factory=dict)  # by instance, monotonic seconds

    def __post_init__(self) -> None:
        self._heartbeats = Heartbeats(self.log)

    def lapsed(self, lease: Lease | None) -> bool:
        """Whether a worker may take the next lease.

        A holder of unknown end counts as dead after HEARTBEAT_TIMEOUT seconds without a heartbeat,
        from the first call on.
        """
        if lease is None or lease.released or lease.holder.surely_dead:
            return True
        now, instance = time.monotonic(), lease.holder.instance
        heard = self._heartbeats.refresh()
        self._heard |= dict.fromkeys((beat.instance for beat in heard), now)
        if any(beat.instance == instance and beat.ended is not None for beat in heard):
            return True
        return now - self._heard.setdefault(instance, now) > HEARTBEAT_TIMEOUT
