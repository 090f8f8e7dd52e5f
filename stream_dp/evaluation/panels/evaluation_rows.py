"""Summarises an evaluation as rows of a table, pooled over periods. CONFIDENTIAL like it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .panel_report import Evaluation
from .trial import Floats


@dataclass(frozen=True)
class SummaryRow:
    """The errors of an answer to a query of a release, pooled over periods."""

    release: str
    query: str
    # "cells" for all cells of the release together, else as in `report.QueryErrors`.
    kind: str
    answer: str
    # The mean over periods; None for all cells.
    truth: float | None
    # Root mean squares over periods.
    rmse: float
    theory: float | None
    # The largest in size, with its sign; None for all cells.
    bias: float | None
    # The largest.
    worst: float
    confidential: bool = True

    @property
    def ratio(self) -> float | None:
        """RMSE over theory."""
        return None if self.theory is None else self.rmse / self.theory


def summary_rows(evaluation: Evaluation) -> list[SummaryRow]:
    """Returns a row for each release, query and answer; rows over all cells of a release first."""
    rows: list[SummaryRow] = []
    for errors in evaluation.releases:
        name = "every pattern" if errors.kind == "window" else "every cell"
        rows += [
            SummaryRow(
                release=errors.release,
                query=name,
                kind="cells",
                answer=cells.answer,
                truth=None,
                rmse=cells.rmse,
                theory=cells.theory,
                bias=None,
                worst=cells.worst,
            )
            for cells in errors.cells
        ]
        rows += [
            SummaryRow(
                release=errors.release,
                query=line.query,
                kind=line.kind,
                answer=line.answer,
                truth=sum(line.truth) / len(line.truth),
                rmse=root_mean_square(line.rmse),
                theory=None if line.theory is None else root_mean_square(line.theory),
                bias=max(line.bias, key=abs),
                worst=max(line.worst),
            )
            for line in errors.lines
        ]
    return rows


def root_mean_square(numbers: Sequence[float] | Floats) -> float:
    return float(np.sqrt(np.mean(np.square(numbers))))
