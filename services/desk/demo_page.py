"""The demo's page: the figures of `stream-dp page`, with the simulated truth.

Every estimate comes from the public log through the analysts' client. The truth, which only a
simulation knows, is counted here from the simulated months.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from stream_dp.client import PublicLog
from stream_dp.panel import Symbols

from ..monitor import record_rows
from ..monitor.curves import Line, Look, Point, curves, extent
from ..monitor.fan import pointwise
from ..monitor.questions import Question
from ..monitor.release_figures import SMALL, Figure, answers, lines_figure, look_of, numbers_of
from ..monitor.render import power, render, resource

QUARTERS, TOTALS = "quarters", "months-in-poverty"
STATISTICS = {
    "Poor in at least 1 month": "at-least 1 of last 3 poverty=1",
    "Poor in at least 2 months": "at-least 2 of last 3 poverty=1",
    "Poor in at least 2 months in a row": "consecutive 2 of last 3 poverty=1",
    "Poor in all 3 months": "at-least 3 of last 3 poverty=1",
}
THRESHOLDS = {
    1: "at least 1 month",
    3: "at least 3 months",
    6: "at least 6 months",
    9: "at least 9 months",
    12: "all 12 months",
}


def page(public: PublicLog, months: Symbols) -> str:
    """Renders the page's HTML. months: the simulated truth, (households, 12), 1 for poor."""
    shares, totals = quarter_shares(public, months), cumulative_counts(public, months)
    study, last = public.study, public.releases[-1]
    certificate, labels = last.certificate, study.periods.labels
    shown = [Line(f"Poor in {THRESHOLDS[b]}", line.points) for b, line in totals.items()]
    return render(
        "demo.html",
        style=resource("style.css"),
        title="A year of poverty, published month by month",
        size=f"{study.size:,}",
        unit=study.unit,
        reach_shares=f"{max(100 * p.reach for p in _points(shares)):.1f}",
        reach_totals=f"{math.ceil(max(p.reach for p in _points(shown)) / 10) * 10:,}",
        covered_shares=_covered(shares),
        covered_totals=_covered(shown),
        total=f"{float(certificate.rho_total):g}",
        guarantee=certificate.guarantee,
        epsilon=f"{float(certificate.epsilon_spent):.3f}",
        delta=power(certificate.delta),
        releases=str(len(public.releases)),
        invariants=certificate.invariants,
        version=certificate.code_version,
        study_hash=study.hash,
        head=public.head,
        facts=record_rows.facts(public),
        shares=_share_figures(public, shares),
        share_numbers=[numbers_of(line, look_of(public, count=False)) for line in shares],
        totals=lines_figure(
            [line for b, line in totals.items() if b != 9],
            labels,
            Look("households", ends=True, panel=True),
            "Months in poverty",
        ),
        differences=_differences(shown, labels),
        total_numbers=[numbers_of(line, Look("households")) for line in shown],
        budget=record_rows.budget_charts(public),
        certificate=record_rows.certificate_rows(public, last),
        hashes=record_rows.HASHES,
    )


def quarter_shares(public: PublicLog, months: Symbols) -> list[Line]:
    """The share of households by quarter, a line for each statistic.

    months: the simulated truth, (households, 12), 1 for poor.
    """
    labels = public.study.periods.labels
    points: dict[str, list[Point]] = {name: [] for name in STATISTICS}
    for index, end in enumerate(range(3, len(labels) + 1, 3)):
        a, b, c = (months[:, i].astype(bool) for i in range(end - 3, end))
        count = months[:, end - 3 : end].sum(axis=1)
        truths = (count >= 1, count >= 2, (a & b) | (b & c), count == 3)
        for (name, query), true in zip(STATISTICS.items(), truths, strict=True):
            answer = public.answer(QUARTERS, query, labels[end - 1])
            quarter = f"Q{end // 3} {labels[end - 1][:4]}"
            points[name].append(
                Point(index, quarter, answer, float(true.mean()), pointwise(answer))
            )
    return [Line(name, tuple(by_quarter)) for name, by_quarter in points.items()]


def cumulative_counts(public: PublicLog, months: Symbols) -> dict[int, Line]:
    """By threshold, the number of households at or above the threshold, month by month."""
    labels, so_far = public.study.periods.labels, months.cumsum(axis=1, dtype=np.int64)
    lines = {}
    for b, title in THRESHOLDS.items():
        truth = {label: float((so_far[:, t] >= b).sum()) for t, label in enumerate(labels)}
        line = answers(public, TOTALS, Question(title, f"total at-least {b}", count=True), truth)
        lines[b] = Line(title, tuple(p for p in line.points if p.position >= b - 1))
    return lines


def _share_figures(public: PublicLog, lines: Sequence[Line]) -> list[Figure]:
    look = Look("% of households", 100, values=True, panel=True)
    low, high = extent(lines, look)
    look = replace(look, limits=(math.floor(low) - 1.0, float(math.ceil(high))))
    quarters = [point.label for point in lines[0].points]
    return [Figure(line.title, "", (curves([line], quarters, look, SMALL),), ()) for line in lines]


def _differences(lines: Sequence[Line], labels: Sequence[str]) -> list[Figure]:
    """Figures of the answers' errors: the answers less the simulated truth."""
    shown = [line for line in lines if len(line.points) > 1]
    look = Look("households off the truth", as_errors=True, panel=True)
    limit = max(map(abs, extent(shown, look)))
    look = replace(look, limits=(-limit, limit))
    return [
        Figure(line.title, "", (curves([line], labels, look, (360, 214)),), ()) for line in shown
    ]


def _covered(lines: Sequence[Line]) -> str:
    covered = [point.covered for point in _points(lines)]
    return f"{sum(covered)} of {len(covered)}"


def _points(lines: Sequence[Line]) -> Iterator[Point]:
    return (point for line in lines for point in line.points)
