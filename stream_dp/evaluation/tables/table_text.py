"""The quality of data sets as text. CONFIDENTIAL like its numbers; the first line says so."""

from __future__ import annotations

from collections.abc import Iterable

from ..text_tables import WARNING, plain_table
from .table_report import MEASURED, DataSetReports, Quality, Score, averaged


def reports_text(reports: DataSetReports) -> str:
    texts = []
    for report in reports.releases:
        texts += [quality_text(report.qualities, report.about), *score_texts(report.scores)]
    return "\n\n".join(texts)


def score_texts(scores: Iterable[Score]) -> list[str]:
    """By budget a table: one line for each measure, one column for each method."""
    means = averaged(scores)
    methods = list(dict.fromkeys(s.method for s in means))
    texts = []
    for budget in dict.fromkeys(s.budget for s in means):
        own = {(s.measure, s.method): s.value for s in means if s.budget == budget}
        lines = [
            [name, *(f"{own[name, m]:.4f}" if (name, m) in own else "-" for m in methods)]
            for name in dict.fromkeys(name for name, _ in own)
        ]
        texts.append(plain_table([budget, *methods], lines))
    return texts


def quality_text(qualities: Iterable[Quality], about: str = "") -> str:
    """One line for each method and answer, by class and budget; errors in percentage points.

    Behind the errors of measurements stands how many queries of the class were measured.

    about: a line above the tables.
    """
    means = averaged(qualities)
    budgets = list(dict.fromkeys(q.budget for q in means))
    head = [WARNING, about, "errors in percentage points: largest / mean (queries measured)"]
    blocks = ["\n".join(line for line in head if line)]
    for name in dict.fromkeys(q.queries for q in means):
        own = {(q.method, q.answer, q.budget): q for q in means if q.queries == name}
        lines = [
            [
                f"{method}: {answer}",
                *(_cell(own.get((method, answer, budget)), answer) for budget in budgets),
            ]
            for method, answer in dict.fromkeys(
                (q.method, q.answer) for q in means if q.queries == name or q.answer == MEASURED
            )
        ]
        # A fit may measure more or fewer queries than are asked.
        asked = [q.number for q in own.values() if q.answer != MEASURED]
        number = max(asked or [q.number for q in own.values()])
        blocks.append(plain_table([f"{name}, {number:,} queries", *budgets], lines))
    return "\n\n".join(blocks)


def _cell(q: Quality | None, answer: str) -> str:
    if q is None:
        return "none measured" if answer == MEASURED else "-"
    errors = f"{100 * q.greatest:.2f} / {100 * q.mean:.4f}"
    return f"{errors} ({q.number:,})" if answer == MEASURED else errors
