"""The input of a closed period, for the decision and the journal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stream_dp.log.log import Positions
from stream_dp.population import CellCounts
from stream_dp.population.report_decoding import ReadAs

from ..jobs.job_records import Job


class Counted(Protocol):
    """The counts of a closed period, to be read after the noise is drawn."""

    @property
    def counts(self) -> dict[str, NDArray[np.int64]]:
        """By release, the counts that its mechanism measures."""


@dataclass(frozen=True)
class ClosedInput:
    """The input of a closed period in its journal entry.

    number: the period's number.
    cut: by partition, the position where the period's input ends.
    marks: by partition, the last period that a marker below the cut closes.
    closed: the counts.
    accounting: the outcome of all cells since the study began.
    snapshot: name and SHA-256 of the population's snapshot.
    jobs: the batch jobs that the close begins; their snapshots are written.
    marked: by partition, when the marker was appended, in milliseconds.
    read_as: how the records were read; None for plain reports.
    """

    number: int
    cut: Positions
    marks: dict[int, int]
    closed: Counted
    accounting: CellCounts
    snapshot: tuple[str, str]
    jobs: tuple[Job, ...] = ()
    marked: dict[int, int] = field(default_factory=dict)
    read_as: ReadAs | None = None
