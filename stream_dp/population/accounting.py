"""What becomes of the cells of reports, in numbers. Confidential."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .rejected import REASONS, Reason


@dataclass(frozen=True)
class CellCounts:
    """Counts of cells: received = accepted + superseded + rejected + pending.

    accepted: those that closed periods hold.
    superseded: those of closed periods that a later one of the same person, period and attribute
        replaced.
    pending: those that wait for their period's close, whichever of them will count then.
    rejected: by reason.
    """

    received: int = 0
    accepted: int = 0
    superseded: int = 0
    pending: int = 0
    rejected: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(REASONS, 0))

    def plus(self, other: CellCounts) -> CellCounts:
        """The counts of both."""
        return CellCounts(
            received=self.received + other.received,
            accepted=self.accepted + other.accepted,
            superseded=self.superseded + other.superseded,
            pending=self.pending + other.pending,
            rejected=+Tally(self.rejected) + Tally(other.rejected),
        )

    def as_dict(self) -> dict[str, Any]:
        """For JSON; the rejected cells in the order of their reasons."""
        return {
            "received": self.received,
            "accepted": self.accepted,
            "superseded": self.superseded,
            "rejected": dict(sorted(self.rejected.items())),
            "pending": self.pending,
        }


@dataclass
class Accounting:
    """The same counts of a population, which grow as it reads."""

    received: int = 0
    accepted: int = 0
    superseded: int = 0
    rejected: Tally[Reason] = field(default_factory=Tally)
    pending: int = 0

    @classmethod
    def of(cls, counts: CellCounts) -> Accounting:
        """That goes on from these counts."""
        return cls(**{**vars(counts), "rejected": Tally(counts.rejected)})

    @property
    def counts(self) -> CellCounts:
        """As they are now."""
        return CellCounts(
            received=self.received,
            accepted=self.accepted,
            superseded=self.superseded,
            pending=self.pending,
            rejected={str(reason): count for reason, count in self.rejected.items()},
        )

    def as_dict(self) -> dict[str, Any]:
        return self.counts.as_dict()
