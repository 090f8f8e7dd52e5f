"""How far a job is, as its worker tells."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

_UNKNOWN = ("error", "left")  # where they are nan


@dataclass(frozen=True)
class Progress:
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

    @classmethod
    def of(cls, held: dict[str, Any]) -> Progress:
        """From what JSON holds. Raises KeyError, TypeError, ValueError for anything else."""
        error, left = (math.nan if held[name] is None else float(held[name]) for name in _UNKNOWN)
        return cls(str(held["job"]), int(held["done"]), int(held["rounds"]), error, left)

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
