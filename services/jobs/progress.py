"""How far a job is, as its worker reports."""

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
        fields = asdict(self)
        for name in _UNKNOWN:
            fields[name] = float(fields[name]) if math.isfinite(fields[name]) else None
        return fields

    @classmethod
    def of(cls, fields: dict[str, Any]) -> Progress:
        """From what JSON holds. Raises KeyError, TypeError, ValueError for anything else."""
        error, left = (
            math.nan if fields[name] is None else float(fields[name]) for name in _UNKNOWN
        )
        return cls(str(fields["job"]), int(fields["done"]), int(fields["rounds"]), error, left)

    @property
    def words(self) -> str:
        """All on one line: the round, the error, the time left."""
        words = f"round {self.done} of {self.rounds}"
        if math.isfinite(self.error):
            words += f", error {self.error:.3g}"
        if math.isfinite(self.left):
            words += f", {duration(self.left)} left"
        return words


def duration(seconds: float) -> str:
    """Such as 40s, 7m 30s, 2h 05m."""
    minutes, rest = divmod(max(0, math.ceil(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h {minutes:02d}m"
    return f"{minutes}m {rest:02d}s" if minutes else f"{rest}s"
