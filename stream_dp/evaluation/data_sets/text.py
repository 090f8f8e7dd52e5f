"""The quality of data sets as text. CONFIDENTIAL like its numbers; the first line says so."""

from __future__ import annotations

from collections.abc import Iterable

from ..table import WARNING, plain_table
from .report import MEASURED, DataSetReports, Quality, averaged


def reports_text(reports: DataSetReports) -> str:
    return "\n\n".join(quality_text(report.qualities, report.about) for report in reports.releases)


def quality_text(qualities: Iterable[Quality], about: str = "") -> str:
    """One line for each method and answer, by class and budget; errors in percentage points.

    about: a line above the tables.
    """
    means = averaged(list(qualities))
    budgets = list(dict.fromkeys(q.budget for q in means))
    head = [WARNING, about, "errors in percentage points: largest / mean"]
    blocks = ["\n".join(line for line in head if line)]
    for name in dict.fromkeys(q.queries for q in means):
        own = {(q.method, q.answer, q.budget): q for q in means if q.queries == name}
        lines = [
            [
                f"{method}: {answer}",
                *(_cell(own.get((method, answer, budget))) for budget in budgets),
            ]
            for method, answer in dict.fromkeys((q.method, q.answer) for q in own.values())
        ]
        # A fit may measure more or fewer queries than are asked.
        asked = [q.number for q in own.values() if q.answer != MEASURED]
        number = max(asked or [q.number for q in own.values()])
        blocks.append(plain_table([f"{name}, {number:,} queries", *budgets], lines))
    return "\n\n".join(blocks)


def _cell(q: Quality | None) -> str:
    return "-" if q is None else f"{100 * q.greatest:.2f} / {100 * q.mean:.4f}"
