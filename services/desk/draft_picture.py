"""The price of a draft: the fan of one answer at three budgets, and eps in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

from stream_dp.answers.query import example_queries
from stream_dp.figures.marks import Chart, Frame, Mark, Path, Text, number_axis, period_ticks, px
from stream_dp.planning.expected_errors import expected_errors
from stream_dp.planning.study_summary import planned_data_set
from stream_dp.privacy.zcdp import best_guess, epsilon
from stream_dp.study import Study

_QUANTILE = NormalDist().inv_cdf(0.975)
_FACTORS = (Fraction(1, 4), Fraction(1), Fraction(4))  # of rho; eps about halves and doubles
_BANDS = ("band-95", "band-80", "band-50")
_TABLE = "share of one value of a column"


@dataclass(frozen=True)
class Budget:
    """A price, and the half-widths of 95 % intervals of a share that it buys, by period."""

    rho: Fraction
    delta: Fraction
    halves: tuple[float, ...]

    @property
    def eps(self) -> str:
        return f"{float(epsilon(self.rho, self.delta)):.2g}"

    @property
    def guess(self) -> str:
        """The best guess about one person, in cases of 100."""
        return f"{best_guess(float(self.rho)):.0f}"

    @property
    def points(self) -> str:
        """The half-widths in percentage points."""
        low, high = (
            f"{points:.0f}" if points >= 10 else f"{points:.2g}"
            for points in (100 * min(self.halves), 100 * max(self.halves))
        )
        return f"±{low}" if low == high else f"±{low} to ±{high}"


@dataclass(frozen=True)
class Fan:
    """The errors of an answer at three budgets, of which the study has the middle one.

    labels: the periods with an answer.
    """

    title: str
    labels: tuple[str, ...]
    budgets: tuple[Budget, ...]

    @property
    def words(self) -> str:
        """The study's eps in words."""
        chosen = self.budgets[1]
        return (
            f"eps {chosen.eps}: the best guess about one person is right at most {chosen.guess}"
            " times in 100, and a tossed coin 50 times"
        )

    def chart(self, width: float) -> Chart:
        """Draws the intervals around the answer, the cheapest budget's outermost."""
        top = max(100 * max(budget.halves) for budget in self.budgets)
        frame = Frame(width, 260, number_axis(-top, top), len(self.labels), right=58)
        unit = "percentage points around the true share, 95 of 100 cases"
        marks: list[Mark] = list(frame.axes(period_ticks(self.labels, width - 102), unit))
        for style, budget in zip(_BANDS, self.budgets, strict=True):
            marks.append(Path(style, _band(frame, budget.halves)))
        for budget in self.budgets:
            y = frame.y(100 * budget.halves[-1])
            x = px(width - frame.right + 4)
            marks.append(Text("tick", x, px(y + 4), f"eps {budget.eps}"))
        rows = "; ".join(f"eps {b.eps}: {b.points}" for b in self.budgets)
        return Chart(width, 260, f"{self.title}, in percentage points. {rows}", tuple(marks))


def _band(frame: Frame, halves: Sequence[float]) -> str:
    """The outline of a band around 0; of a lone period it has the whole width."""
    half = frame.period_width / 2
    shifts = (-half, half) if len(halves) == 1 else (0.0,)
    upper = [(px(frame.x(i) + s), 100 * h) for i, h in enumerate(halves) for s in shifts]
    corners = [*upper, *((x, -value) for x, value in reversed(upper))]
    return f"M{'L'.join(f'{x} {frame.y(value)}' for x, value in corners)}Z"


def queries(study: Study) -> list[str]:
    """The answers whose errors can be drawn."""
    if not study.releases:
        return [_TABLE]
    return [f"{r.name}: {query}" for r in study.releases for query in example_queries(study, r)]


def telling_query(study: Study) -> str:
    """The answer to draw first."""
    return queries(study)[2 if study.releases else 0]


def fan(study: Study, query: str, people: int) -> Fan:
    """The fan of an answer of `queries`. people: that shares are of.

    Variances of the noise fall as 1 / rho. Raises UserError.
    """
    labels, halves = _half_widths(study.canonical(), query, people)
    return Fan(
        query,
        labels,
        tuple(
            Budget(f * study.rho, study.delta, tuple(float(f) ** -0.5 * h for h in halves))
            for f in _FACTORS
        ),
    )


@lru_cache(256)
def _half_widths(
    declared: bytes, query: str, people: int
) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """The periods with an answer, and the half-widths of its share there."""
    study = Study.model_validate_json(declared)
    if query == _TABLE:
        (batch,) = study.batches or ()
        data_sets = [planned_data_set(study, r) for r in study.schedule(batch).values()]
        labels = [study.periods.labels[number - 1] for number in study.due_periods(batch)]
        errors = [
            next(p for p in data_set.phases if p.title.startswith("single columns")).most / people
            for data_set in data_sets
        ]
        return tuple(labels), tuple(_QUANTILE * error for error in errors)
    name, _, text = query.partition(": ")
    rows = expected_errors(study, name, text, people=people)
    shares = [row.count / people if row.share is None else row.share for row in rows]
    return tuple(row.period for row in rows), tuple(_QUANTILE * share for share in shares)
