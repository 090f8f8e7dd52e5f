"""Writes an evaluation and a sweep as text.

CONFIDENTIAL like their numbers; the first line says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from ..text_tables import WARNING, plain_table
from .agreement import disagreements
from .evaluation_rows import SummaryRow, summary_rows
from .panel_report import Evaluation, ReleaseErrors, Sweep

# A window's bins are listed one by one up to this number.
MOST_BINS = 48


def panels_text(result: Evaluation | Sweep) -> str:
    return sweep_text(result) if isinstance(result, Sweep) else evaluation_text(result)


def evaluation_text(evaluation: Evaluation) -> str:
    """Writes a table for each release, then whether raw answers have the theoretical errors."""
    blocks = [
        f"{WARNING}\nstudy {evaluation.study}: {evaluation.people} people, "
        f"{len(evaluation.periods)} periods, {evaluation.neighbours}, "
        f"{evaluation.repetitions} repetitions, seed {evaluation.seed}\n"
        "errors in people, root mean square over repetitions and periods; bias and worst: the "
        "largest of any period"
    ]
    summary = summary_rows(evaluation)
    for errors in evaluation.releases:
        rows = [row for row in summary if row.release == errors.release]
        if sum(row.kind == "bin" for row in rows) > MOST_BINS:
            rows = [row for row in rows if row.kind != "bin"]
        blocks.append(f"{_heading(errors)}\n{text_table(rows)}")
    faults = disagreements(evaluation)
    note = "raw answers agree with theory, cell by cell, as far as these repetitions can tell"
    blocks.append("\n".join(["raw answers DISAGREE with theory:", *faults]) if faults else note)
    return "\n\n".join(blocks)


def _heading(errors: ReleaseErrors) -> str:
    head = f"{errors.release} ({errors.kind}"
    head += f", width {errors.width}" if errors.width else ""
    head += f", padding {errors.padding}" if errors.padding else ""
    coverage = ", ".join(
        f"{c.answer} {c.within:.1%}" for c in errors.cells if c.answer != "undebiased"
    )
    return (
        f"{head}, rho {errors.rho}): error bound {errors.bound:.1f} in every cell with probability "
        f"{1 - errors.failure:g}; kept in: {coverage} of the repetitions; "
        f"some count had to be repaired in {errors.repaired:.1%}"
    )


def text_table(rows: Sequence[SummaryRow]) -> str:
    """Writes the rows of a release as a table: a line for each query, its answers side by side."""
    has_plain_share = any(row.answer == "undebiased" for row in rows)
    head = ["query", "mean truth", "theory", "raw RMSE", "ratio", "panel RMSE", "panel bias"]
    head += ["undebiased RMSE"] if has_plain_share else []
    head += ["worst raw", "worst panel"]
    lines = []
    answers: dict[tuple[str, str], dict[str, SummaryRow]] = {}
    for row in rows:
        answers.setdefault((row.query, row.kind), {})[row.answer] = row
    for (query, _), by_answer in answers.items():
        raw, panel = by_answer.get("raw"), by_answer["panel"]
        rmse, ratio, worst = (raw.rmse, raw.ratio, raw.worst) if raw else (None, None, None)
        line = [query, _number(panel.truth), _number(panel.theory)]
        line += [_number(rmse), _number(ratio, 3)]
        line += [_number(panel.rmse), _number(panel.bias, signed=True)]
        if has_plain_share:
            line.append(_number(by_answer["undebiased"].rmse))
        lines.append([*line, _number(worst), _number(panel.worst)])
    return plain_table(head, lines)


def sweep_text(sweep: Sweep) -> str:
    """Writes a line for each release and rho."""
    head = ["release", "rho", "theory", "raw RMSE", "panel RMSE", "undebiased RMSE"]
    lines = []
    for at_one_scale in zip(
        *(evaluation.releases for evaluation in sweep.evaluations), strict=True
    ):
        for errors in at_one_scale:
            rmse = {cells.answer: f"{cells.rmse:.1f}" for cells in errors.cells}
            line = [errors.release, f"{float(Fraction(errors.rho)):g}"]
            line += [f"{errors.cells[0].theory:.1f}", rmse["raw"], rmse["panel"]]
            lines.append([*line, rmse.get("undebiased", "-")])
    return f"{WARNING}\nRMSE over all cells, in people\n\n{plain_table(head, lines)}"


def _number(value: float | None, digits: int = 1, signed: bool = False) -> str:
    if value is None:
        return "-"
    return f"{value:+.{digits}f}" if signed else f"{value:.{digits}f}"
