"""An evaluation as rows of a table, pooled over periods. CONFIDENTIAL like the evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .report import Evaluation, ReleaseErrors


def summary_rows(evaluation: Evaluation) -> list[dict[str, Any]]:
    """One row for each release, query and answer, pooled over periods; confidential.

    rmse and theory are root mean squares over periods, bias the largest in size with its sign,
    worst the largest. The first rows of a release are over all of its cells.
    """
    rows: list[dict[str, Any]] = []
    for errors in evaluation.releases:
        name = "every pattern" if errors.kind == "window" else "every cell"
        rows += [
            _row(errors, name, "cells", c.answer, None, c.rmse, None, c.worst, c.theory)
            for c in errors.cells
        ]
        for line in errors.lines:
            theory = None if line.theory is None else _rms(line.theory)
            truth = sum(line.truth) / len(line.truth)
            bias, worst = max(line.bias, key=abs), max(line.worst)
            rmse = _rms(line.rmse)
            rows.append(
                _row(errors, line.query, line.kind, line.answer, truth, rmse, bias, worst, theory)
            )
    return rows


def _row(
    errors: ReleaseErrors,
    query: str,
    kind: str,
    answer: str,
    truth: float | None,
    rmse: float,
    bias: float | None,
    worst: float,
    theory: float | None,
) -> dict[str, Any]:
    return {
        "confidential": True,
        "release": errors.release,
        "query": query,
        "kind": kind,
        "answer": answer,
        "truth": truth,
        "rmse": rmse,
        "theory": theory,
        "ratio": None if theory is None else rmse / theory,
        "bias": bias,
        "worst": worst,
    }


def _rms(numbers: Sequence[float]) -> float:
    return float(np.sqrt(np.mean(np.square(numbers))))
