"""Tests, cell by cell, whether raw answers of an evaluation have the theoretical variance.

Confidential like the evaluation.
"""

from __future__ import annotations

import math

from scipy.stats import chi2, norm

from .panel_report import Evaluation

# Cells of smaller variance are not tested: the discrete Gaussian then has heavier tails than the
# chi-square test below allows for.
LEAST_VARIANCE = 1.0


def disagreements(evaluation: Evaluation, chance: float = 1e-4) -> list[str]:
    """Lists biases of raw answers and deviations from the theoretical variance; normally none.

    Each cell's mean is compared with its normal law and its mean square with its chi-square law.
    So is the mean square of all bins of a window whose noise is independent.

    chance: about the largest probability that a correct mechanism is blamed at all (union bound).
    """
    tested = [
        (errors, line, i)
        for errors in evaluation.releases
        for line in errors.lines
        if line.answer == "raw" and line.theory is not None
        for i in range(len(line.periods))
        if line.theory[i] ** 2 >= LEAST_VARIANCE
    ]
    windows = [
        (errors, cells)
        for errors in evaluation.releases
        for cells in errors.cells
        if errors.independent and cells.answer == "raw" and cells.theory**2 >= LEAST_VARIANCE
    ]
    if not tested and not windows:
        return []
    tail, n = chance / (4 * len(tested) + 2 * len(windows)), evaluation.repetitions
    low, high = _square_limits(tail, n)
    reach = float(norm.isf(tail)) / math.sqrt(n)
    faults = []
    for errors, cells in windows:
        square = (cells.rmse / cells.theory) ** 2
        low_windows, high_windows = _square_limits(tail, n * cells.number)
        if not low_windows <= square <= high_windows:
            cell = f"{errors.release}, every pattern"
            faults.append(_wrong_size(cell, square))
    for errors, line, i in tested:
        assert line.theory is not None
        cell = f"{errors.release}, {line.query}, period {evaluation.periods[line.periods[i] - 1]}"
        square, bias = (line.rmse[i] / line.theory[i]) ** 2, line.bias[i] / line.theory[i]
        if not low <= square <= high:
            faults.append(_wrong_size(cell, square))
        if abs(bias) > reach:
            faults.append(f"{cell}: biased by {bias:+.3f} standard deviations")
    return faults


def _wrong_size(cell: str, square: float) -> str:
    return f"{cell}: RMSE is {math.sqrt(square):.3f} times the theory"


def _square_limits(tail: float, freedom: int) -> tuple[float, float]:
    """Returns quantiles of the mean of `freedom` squared standard normals, `tail` on each side."""
    return chi2.ppf(tail, freedom) / freedom, chi2.isf(tail, freedom) / freedom
