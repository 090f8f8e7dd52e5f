"""Counts of the cells of reports, by outcome. Confidential."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Mapping
from dataclasses import dataclass, field

from .rejection_reasons import REASONS, Reason


@dataclass(frozen=True)
class CellCounts:
    """Counts of cells: received = accepted + superseded + rejected + pending.

    accepted: cells held by closed periods.
    superseded: cells of closed periods that a later cell of the same person, period and attribute
        replaced.
    pending: cells that wait for their period's close, superseded cells among them.
    rejected: by reason.
    """

    received: int = 0
    accepted: int = 0
    superseded: int = 0
    pending: int = 0
    rejected: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(REASONS, 0))

    def plus(self, further: CellCounts) -> CellCounts:
        """Adds the counts of two sets of cells."""
        return CellCounts(
            received=self.received + further.received,
            accepted=self.accepted + further.accepted,
            superseded=self.superseded + further.superseded,
            pending=self.pending + further.pending,
            rejected=+Tally(self.rejected) + Tally(further.rejected),
        )

    def as_dict(self) -> dict[str, object]:
        """Returns the counts for JSON, rejected cells in the order of their reasons."""
        return {
            "received": self.received,
            "accepted": self.accepted,
            "superseded": self.superseded,
            "rejected": dict(sorted(self.rejected.items())),
            "pending": self.pending,
        }


@dataclass(frozen=True)
class Answering:
    """Counts of a closed period, before newcomers without a place are refused.

    people: with an answer, admitted or not.
    answers: to the attributes that each period asks for anew.
    """

    people: int = 0
    answers: int = 0

    def plus(self, further: Answering) -> Answering:
        """Adds the counts of two sets of people."""
        return Answering(self.people + further.people, self.answers + further.answers)


@dataclass
class Accounting:
    """The running `CellCounts` of a population."""

    received: int = 0
    accepted: int = 0
    superseded: int = 0
    rejected: Tally[Reason] = field(default_factory=Tally)
    pending: int = 0

    @classmethod
    def of(cls, counts: CellCounts) -> Accounting:
        """Starts from the given counts."""
        return cls(**{**vars(counts), "rejected": Tally(counts.rejected)})

    @property
    def counts(self) -> CellCounts:
        """The present counts."""
        return CellCounts(
            received=self.received,
            accepted=self.accepted,
            superseded=self.superseded,
            pending=self.pending,
            rejected={str(reason): count for reason, count in self.rejected.items()},
        )

    def as_dict(self) -> dict[str, object]:
        return self.counts.as_dict()
