"""Counts of the cells of reports, by outcome. Confidential.

A reason for rejecting a report or a cell, like lateness, never quotes the report.
`report_judging.py` decides on each report alone, and `population.py` on cells that the close
rejects.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Reason = Literal[
    "unreadable",
    "deleted",
    "before",
    "person",
    "period",
    "zone",
    "late",
    "attribute",
    "value",
    "range",
    "step",
    "full",
    "closed",
    "fixed",
]

REASONS: dict[Reason, str] = {
    "unreadable": "not a JSON report with person, period and values, or over 64 kB, or with headers"
    " that are not text, or with a schema that is unknown or beyond a limit, or a row of a file"
    " that does not fit its header",
    "deleted": "a record without a value, or with a mark of deletion that is neither true nor"
    " false: see tombstone and deleted in [run.input]",
    "before": "a change that does not say which person and period its row had: see before in"
    " [run.input]; on PostgreSQL ALTER TABLE ... REPLICA IDENTITY FULL writes it",
    "person": "the person's id is empty, damaged, a word for nobody, too long or not text (see"
    " [study.ids])",
    "period": "the period is not one of the study's",
    "zone": "the period is a time in UTC near the border of two periods, and no zone is declared:"
    " see zone in [run.input]",
    "late": "the period is closed",
    "attribute": "no such attribute is declared",
    "value": "not one of the attribute's values",
    "range": "the number is below the attribute's least or above its most",
    "step": "the number is no multiple of the attribute's step",
    "full": "no place in the population: its declared size, or the table of members, is full",
    "closed": "the cohort is closed, and the person has no answer in the periods of entry",
    "fixed": "the person has another value of a fixed attribute, for good",
}


class RejectedRecord(NamedTuple):
    """A record with rejected cells.

    row: its index in the batch.
    cells: by reason, the number of rejected cells.
    """

    row: int
    cells: dict[Reason, int]


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
            rejected=dict(+Tally(self.rejected) + Tally(further.rejected)),
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
