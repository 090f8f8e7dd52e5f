"""Writes an evaluation and a sweep as text.

CONFIDENTIAL like their numbers; the first line says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from ..text_tables import WARNING, decimal, plain_table
from .agreement import disagreements
from .panel_report import Evaluation, ReleaseErrors, Sweep, root_mean_square

# A window's bins are listed one by one up to this number.
MOST_BINS = 48


@dataclass(frozen=True)
class SummaryRow:
    """The errors of an answer to a query of a release, pooled over periods."""

    release: str
    query: str
    # "cells" for all cells of the release together, else as in `QueryErrors`.
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
    """Writes the rows of a release as a table: lines of queries with answers side by side."""
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
        line = [query, decimal(panel.truth), decimal(panel.theory)]
        line += [decimal(rmse), decimal(ratio, 3)]
        line += [decimal(panel.rmse), decimal(panel.bias, signed=True)]
        if has_plain_share:
            line.append(decimal(by_answer["undebiased"].rmse))
        lines.append([*line, decimal(worst), decimal(panel.worst)])
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
