"""The quality of data sets as text. CONFIDENTIAL like its numbers; the first line says so."""

from __future__ import annotations

from collections.abc import Iterable

from ..table import WARNING, plain_table
from .report import MEASURED, DataSetReports, Quality, averaged


def reports_text(reports: DataSetReports) -> str:
    return "\n\n".join(quality_text(one.found, one.about) for one in reports.releases)


def quality_text(found: Iterable[Quality], about: str = "") -> str:
    """One line a method and answer, for each class and budget; errors in percent."""
    held = averaged(list(found))
    budgets = list(dict.fromkeys(q.budget for q in held))
    head = [WARNING, about, "errors in percentage points: largest / mean"]
    blocks = ["\n".join(line for line in head if line)]
    for name in dict.fromkeys(q.queries for q in held):
        of = {(q.method, q.answer, q.budget): q for q in held if q.queries == name}
        lines = [
            [
                f"{method}: {answer}",
                *(_cell(of.get((method, answer, budget))) for budget in budgets),
            ]
            for method, answer in dict.fromkeys((q.method, q.answer) for q in of.values())
        ]
        # What is measured may be more or less than what is asked.
        asked = [q.number for q in of.values() if q.answer != MEASURED]
        number = max(asked or [q.number for q in of.values()])
        blocks.append(plain_table([f"{name}, {number:,} queries", *budgets], lines))
    return "\n\n".join(blocks)


def _cell(q: Quality | None) -> str:
    return "-" if q is None else f"{100 * q.greatest:.2f} / {100 * q.mean:.4f}"
