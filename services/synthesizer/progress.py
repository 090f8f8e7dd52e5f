"""How far a job is, as its worker tells: for a terminal, for whoever asks on another machine.

What is told lies among the transcripts, with no key, so that nobody takes it for a round. It
decides nothing and may be lost; the last one told of a job holds.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any

from stream_dp.log.base import Log, Record
from stream_dp.log.message import canonical

from ..joblog import TRANSCRIPTS, following

_PROGRESS = "stream-dp-progress"
_UNKNOWN = ("error", "left")  # where they are nan


@dataclass(frozen=True)
class Told:
    """How far a job is. error: of the model on the noisy answers; left: seconds; nan: unknown."""

    job: str
    done: int
    rounds: int
    error: float
    left: float

    def as_dict(self) -> dict[str, Any]:
        """For JSON, which knows no nan."""
        held = asdict(self)
        for name in _UNKNOWN:
            held[name] = float(held[name]) if math.isfinite(held[name]) else None
        return held

    @property
    def words(self) -> str:
        """All on one line: the round, the error, the time left."""
        found = f"round {self.done} of {self.rounds}"
        if math.isfinite(self.error):
            found += f", error {self.error:.3g}"
        if math.isfinite(self.left):
            found += f", {duration(self.left)} left"
        return found


def duration(seconds: float) -> str:
    """Such as 40s, 7m 30s, 2h 05m."""
    minutes, rest = divmod(max(0, math.ceil(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h {minutes:02d}m"
    return f"{minutes}m {rest:02d}s" if minutes else f"{rest}s"


def told_record(told: Told) -> Record:
    return Record(TRANSCRIPTS, canonical(told.as_dict()), None, ((_PROGRESS, b""),), 0)


def last_told(log: Log) -> dict[str, tuple[Told, int]]:
    """By job, what was told last, and when: milliseconds."""
    found: dict[str, tuple[Told, int]] = {}
    for record in following(log, TRANSCRIPTS, dict(log.describe(TRANSCRIPTS).first)):
        if record.key is not None or _PROGRESS not in dict(record.headers):
            continue
        try:
            held = json.loads(record.value or b"")
            error, left = (math.nan if held[x] is None else float(held[x]) for x in _UNKNOWN)
            told = Told(str(held["job"]), int(held["done"]), int(held["rounds"]), error, left)
        except (ValueError, KeyError, TypeError):
            continue  # a record that nobody of ours wrote says nothing
        found[told.job] = told, record.time
    return found
