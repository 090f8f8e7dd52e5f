"""The quality of data sets as text. CONFIDENTIAL; the first line says so."""

from __future__ import annotations

from collections.abc import Iterable

from ..text_tables import WARNING, decimal, plain_table
from .table_report import MEASURED, DataSetReports, Quality, Score, averaged


def reports_text(reports: DataSetReports) -> str:
    texts = []
    for report in reports.releases:
        texts += [quality_text(report.qualities, report.about), *score_texts(report.scores)]
    return "\n\n".join(texts)


def score_texts(scores: Iterable[Score]) -> list[str]:
    """Tables by budget: lines for measures, columns for methods."""
    means = averaged(scores)
    methods = list(dict.fromkeys(s.method for s in means))
    texts = []
    for budget in dict.fromkeys(s.budget for s in means):
        values = {(s.measure, s.method): s.value for s in means if s.budget == budget}
        lines = [
            [name, *(decimal(values.get((name, method)), 4) for method in methods)]
            for name in dict.fromkeys(name for name, _ in values)
        ]
        texts.append(plain_table([budget, *methods], lines))
    return texts


def quality_text(qualities: Iterable[Quality], about: str = "") -> str:
    """Lines for methods and answers, by class and budget; errors in percentage points.

    Behind the errors of measurements stands the number of measured queries of the class.

    about: a line above the tables.
    """
    means = averaged(qualities)
    budgets = list(dict.fromkeys(q.budget for q in means))
    head = [WARNING, about, "errors in percentage points: largest / mean (queries measured)"]
    blocks = ["\n".join(line for line in head if line)]
    for name in dict.fromkeys(q.queries for q in means):
        rows = {(q.method, q.answer, q.budget): q for q in means if q.queries == name}
        lines = [
            [
                f"{method}: {answer}",
                *(_cell(rows.get((method, answer, budget)), answer) for budget in budgets),
            ]
            for method, answer in dict.fromkeys(
                (q.method, q.answer) for q in means if q.queries == name or q.answer == MEASURED
            )
        ]
        # A fit may measure more or fewer queries than the class has.
        numbers = [q.number for q in rows.values() if q.answer != MEASURED]
        number = max(numbers or [q.number for q in rows.values()])
        blocks.append(plain_table([f"{name}, {number:,} queries", *budgets], lines))
    return "\n\n".join(blocks)


def _cell(q: Quality | None, answer: str) -> str:
    if q is None:
        return "none measured" if answer == MEASURED else "-"
    errors = f"{100 * q.greatest:.2f} / {100 * q.mean:.4f}"
    return f"{errors} ({q.number:,})" if answer == MEASURED else errors
