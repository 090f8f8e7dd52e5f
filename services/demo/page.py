"""The demo's page: one HTML file without links, for light and dark, wide and narrow screens.

Every estimate comes from the public log through the analysts' client. The truth, which only a
simulation knows, is counted here from the simulated months.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from string import Template

import numpy as np

from stream_dp.client import PublicLog
from stream_dp.panel import Symbols

from ..output import printable
from . import charts
from .charts import Point

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
_PARAMETERS = {"failure": "the stated error bound fails with probability at most"}
_KEY = """<ul class="key" aria-label="Key">
<li><svg viewBox="0 0 22 14" aria-hidden="true"><path d="M11 0V14" style="stroke: var(--estimate)"
stroke-width="1.8"/><circle cx="11" cy="7" r="3" style="fill: var(--estimate)"/></svg>estimate, 95%
interval of the noise</li>
<li><svg viewBox="0 0 22 14" aria-hidden="true"><path d="M2 7H20" style="stroke: var(--ink)"
stroke-width="1.8"/></svg>simulated truth</li>
<li><svg viewBox="0 0 22 14" aria-hidden="true"><rect x="8" y="4" width="6" height="6" fill="none"
style="stroke: var(--panel)" stroke-width="1.1"/></svg>answer of the synthetic panel</li>
</ul>"""


def page(public: PublicLog, months: Symbols) -> str:
    """The page's HTML. months: the simulated truth, (households, 12), 1 where poor."""
    by_statistic, by_threshold = quarter_shares(public, months), cumulative_counts(public, months)
    study, last = public.study, public.releases[-1]
    certificate = last.certificate
    words = {
        "title": "A year of poverty, published month by month",
        "size": f"{study.size:,}",
        "unit": study.unit,
        "reach_shares": f"{max(100 * p.reach for p in _all(by_statistic)):.1f}",
        "reach_totals": f"{math.ceil(max(p.reach for p in _all(by_threshold)) / 10) * 10:,}",
        "covered_shares": _covered(_all(by_statistic)),
        "covered_totals": _covered(_all(by_threshold)),
        "total": f"{float(certificate.rho_total):g}",
        "guarantee": certificate.guarantee,
        "epsilon": f"{float(certificate.epsilon_spent):.3f}",
        "delta": _power(float(certificate.delta)),
        "releases": str(len(public.releases)),
        "invariants": certificate.invariants,
        "version": certificate.code_version,
        "study_hash": study.hash,
        "head": public.head,
    }
    parts = {
        "style": _resource("page.css"),
        "key": _KEY,
        "facts": _facts(public),
        "shares": _shares(by_statistic),
        "totals": _totals(by_threshold, study.periods.labels),
        "differences": _differences(by_threshold, study.periods.labels),
        "budget": _budget(public),
        "certificate": _certificate(public),
        "numbers_shares": _numbers(by_statistic, "{:.2%}"),
        "numbers_totals": _numbers(
            {f"Poor in {THRESHOLDS[b]}": points for b, points in by_threshold.items()}, "{:,.0f}"
        ),
    }
    escaped = {name: _escaped(word) for name, word in words.items()}
    return Template(_resource("page.html")).substitute(escaped, **parts)


def _escaped(text: str) -> str:
    return html.escape(printable(text))


def quarter_shares(public: PublicLog, months: Symbols) -> dict[str, list[Point]]:
    """By statistic, its share of households in each quarter.

    months: the simulated truth, (households, 12), 1 where poor.
    """
    labels = public.study.periods.labels
    points: dict[str, list[Point]] = {name: [] for name in STATISTICS}
    for end in range(3, len(labels) + 1, 3):
        a, b, c = (months[:, i].astype(bool) for i in range(end - 3, end))
        count = months[:, end - 3 : end].sum(axis=1)
        truths = (count >= 1, count >= 2, (a & b) | (b & c), count == 3)
        for (name, query), true in zip(STATISTICS.items(), truths, strict=True):
            answer = public.estimate(QUARTERS, query, labels[end - 1])
            points[name].append(Point(f"Q{end // 3} {labels[end - 1][:4]}", answer, true.mean()))
    return points


def cumulative_counts(public: PublicLog, months: Symbols) -> dict[int, list[Point]]:
    """By threshold, how many households have reached it by each month, from the first possible."""
    labels, so_far = public.study.periods.labels, months.cumsum(axis=1, dtype=np.int64)
    return {
        b: [
            Point(
                labels[t],
                public.estimate(TOTALS, f"total at-least {b}", labels[t], count=True),
                float((so_far[:, t] >= b).sum()),
            )
            for t in range(b - 1, len(labels))
        ]
        for b in THRESHOLDS
    }


def _shares(by_statistic: dict[str, list[Point]]) -> str:
    values = [100 * v for p in _all(by_statistic) for v in (p.truth, p.answer.panel)]
    ends = [100 * end for p in _all(by_statistic) for end in p.answer.interval]
    limits = (math.floor(min(values + ends)) - 1.0, float(math.ceil(max(values + ends))))
    return "\n".join(
        f"<div><h3>{name}</h3>{charts.shares(points, limits, f'share{i}')}</div>"
        for i, (name, points) in enumerate(by_statistic.items())
    )


def _totals(by_threshold: dict[int, list[Point]], labels: Sequence[str]) -> str:
    named = {THRESHOLDS[b]: points for b, points in by_threshold.items() if b != 9}
    return _twice(lambda name, size: charts.totals(named, labels, name, size), "totals", 410)


def _differences(by_threshold: dict[int, list[Point]], labels: Sequence[str]) -> str:
    shown = {b: points for b, points in by_threshold.items() if len(points) > 1}
    far = [abs(p.answer.value - p.truth) + p.reach for p in _all(shown)]
    far += [abs(p.answer.panel - p.truth) for p in _all(shown)]
    limit = math.ceil(max(far) / 50) * 50.0 + 50
    return "\n".join(
        f"<div><h3>Poor in {THRESHOLDS[b]}</h3>"
        f"{charts.differences(points, labels, limit, f'off{b}')}</div>"
        for b, points in shown.items()
    )


def _budget(public: PublicLog) -> str:
    """The chart of charges by month and release, from the certificates."""
    labels = public.study.periods.labels
    spent: dict[str, Sequence[float]] = {}
    epsilons = dict.fromkeys(labels, "")
    for declared in public.study.releases:
        charged = {
            r.certificate.period: r.certificate.rho for r in public.releases_of(declared.name)
        }
        spent[declared.name] = [float(charged.get(label, 0)) for label in labels]
    for release in public.releases:
        certificate = release.certificate
        epsilons[certificate.period] = f"{float(certificate.epsilon_spent):.2f}"
    words = (
        f"total budget: rho {float(certificate.rho_total):g},"
        f" eps {float(certificate.epsilon_total):.3f} at delta {_power(float(certificate.delta))}"
    )
    total, by_month = float(certificate.rho_total), list(epsilons.values())
    return _twice(
        lambda name, size: charts.budget(
            spent, by_month, months=labels, total=total, words=words, name=name, size=size
        ),
        "budget",
        300,
    )


def _twice(draw: Callable[[str, tuple[float, float]], str], name: str, height: float) -> str:
    """A chart for wide screens and one for narrow, where its letters would shrink."""
    wide, narrow = draw(f"{name}-wide", (780, height)), draw(f"{name}-narrow", (340, height))
    return f'<div class="wide">{wide}</div>\n<div class="narrow">{narrow}</div>'


def _facts(public: PublicLog) -> str:
    study, certificate = public.study, public.releases[-1].certificate
    facts = {
        f"{study.unit}s, each reporting every month": f"{study.size:,}",
        "months, closed one by one": str(study.periods.count),
        "releases, each with noise drawn once": str(len(public.releases)),
        f"eps at delta {_power(float(certificate.delta))}, for each {study.unit}'s whole year": (
            f"{float(certificate.epsilon_spent):.3f}"
        ),
    }
    return "\n".join(
        f"<div><dt>{_escaped(word)}</dt><dd>{fact}</dd></div>" for word, fact in facts.items()
    )


def _certificate(public: PublicLog) -> str:
    """The last certificate as rows of a table, in words."""
    last, study = public.releases[-1], public.study
    certificate = last.certificate
    parameters = "; ".join(
        f"{_PARAMETERS.get(name, name)} {_plain(value)}"
        for name, value in certificate.parameters.items()
    )
    padding = (
        f"with {certificate.padding} of padding in every pattern"
        if certificate.padding
        else "no padding"
    )
    notes = "; ".join(f"{name.replace('_', ' ')}: {n:,}" for name, n in certificate.notes.items())
    spread = math.sqrt(certificate.noise_variance)
    rows = {
        "Study": f"{certificate.study}: {study.description}",
        "Release": f"{certificate.release}, {certificate.period}"
        f" ({certificate.number} of {certificate.horizon} months)",
        "Mechanism": f"{certificate.mechanism}; {parameters}",
        "Unit of privacy": f"one {certificate.unit}, with its whole history",
        "Neighbours": f"{certificate.neighbours}. {certificate.guarantee}",
        "Not protected": certificate.invariants,
        "rho of this release": f"{float(certificate.rho):.6g}",
        "rho so far": f"{float(certificate.rho_spent):g} of {float(certificate.rho_total):g}",
        "eps so far": f"{certificate.epsilon_spent} of {certificate.epsilon_total}, at delta"
        f" {_power(float(certificate.delta))}",
        "Noise": f"{certificate.noise}; standard deviation {spread:.1f}"
        f" {certificate.unit}s at most",
        "Synthetic rows": f"{certificate.rows:,}, {padding}",
        "Repairs": notes or "none",
        "Code": f"stream-dp {certificate.code_version}",
        "Its hash": last.message.hash,
        "The one before": last.message.previous,
    }
    return "\n".join(
        f'<tr><th scope="row">{name}</th><td{_mono(name)}>{_escaped(text)}</td></tr>'
        for name, text in rows.items()
    )


def _mono(name: str) -> str:
    return ' class="hash"' if name in {"Its hash", "The one before"} else ""


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _numbers(by_name: Mapping[str, Sequence[Point]], form: str) -> str:
    """A folded table of the numbers in a figure. form: how a number is written."""
    head = "<th>estimate</th><th>95% interval</th><th>panel</th><th>truth</th>"
    rows = []
    for name, points in by_name.items():
        rows.append(f'<tr><th scope="col">{name}</th>{head}</tr>')
        for point in points:
            low, high = (form.format(end) for end in point.answer.interval)
            value, panel, truth = (
                form.format(x) for x in (point.answer.value, point.answer.panel, point.truth)
            )
            cells = (value, f"{low} to {high}", panel, truth)
            body = "".join(f"<td>{cell}</td>" for cell in cells)
            rows.append(f"<tr><td>{point.label}</td>{body}</tr>")
    table = f'<table class="numbers">{"".join(rows)}</table>'
    return f"<details><summary>The numbers</summary><div>{table}</div></details>"


def _covered(points: Iterator[Point]) -> str:
    covered = [point.covered for point in points]
    return f"{sum(covered)} of {len(covered)}"


def _all(by_name: Mapping[str, Sequence[Point]] | Mapping[int, Sequence[Point]]) -> Iterator[Point]:
    return (point for points in by_name.values() for point in points)


def _power(value: float) -> str:
    """A power of ten with a superscript, 10⁻⁶; any other number in decimals."""
    exponent = round(math.log10(value))
    if not math.isclose(value, 10.0**exponent):
        return f"{value:g}"
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _resource(name: str) -> str:
    return resources.files("stream_dp.services.demo").joinpath(name).read_text("utf-8")
