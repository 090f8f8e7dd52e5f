"""The progress of a job in its worker's reports."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from stream_dp.json_object import Json

_NULLABLE = ("error", "left")  # nan here is null in JSON


@dataclass(frozen=True)
class Progress:
    """A worker's progress with a job."""

    job: str
    done: int  # rounds
    rounds: int  # of which there will be so many
    error: float  # of the model on the noisy answers, in standard errors squared; nan: unknown
    left: float  # seconds; nan: unknown

    def as_dict(self) -> Json:
        """The fields for JSON, with null for nan."""
        fields = asdict(self)
        for name in _NULLABLE:
            fields[name] = float(fields[name]) if math.isfinite(fields[name]) else None
        return fields

    @classmethod
    def of(cls, fields: Json) -> Progress:
        """Reads the fields of `as_dict`. Raises KeyError, TypeError, ValueError for others."""
        numbers = (math.nan if fields[name] is None else float(fields[name]) for name in _NULLABLE)
        return cls(str(fields["job"]), int(fields["done"]), int(fields["rounds"]), *numbers)

    @property
    def words(self) -> str:
        """The round, the error and the time left, on one line."""
        text = f"round {self.done} of {self.rounds}"
        if math.isfinite(self.error):
            text += f", error {self.error:.3g}"
        if math.isfinite(self.left):
            text += f", {duration(self.left)} left"
        return text


@dataclass(frozen=True)
class ReportedProgress:
    """The last reported progress of a job."""

    progress: Progress
    time: int  # milliseconds, when the record was appended


def duration(seconds: float) -> str:
    """A time span, for instance 40s, 7m 30s or 2h 05m."""
    minutes, rest = divmod(max(0, math.ceil(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h {minutes:02d}m"
    return f"{minutes}m {rest:02d}s" if minutes else f"{rest}s"
