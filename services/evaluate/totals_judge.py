"""Judge of totals: compares the number of periods with the event so far with the truth.

raw: the release's unbiased estimates of S_b. panel: rows whose total is at least b. A panel
that begins later than its first period gives the earlier periods' answers when they are released.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from stream_dp.answers.estimator import StreamEstimator
from stream_dp.answers.linear_system import Answers
from stream_dp.continual.cumulative.cumulative import Cumulative
from stream_dp.panel import Symbols

from .trial import Floats, Ints, QueryLabel, Steps, Trial, single_trial


@dataclass(frozen=True, eq=False)
class TotalsJudge:
    """The judge of a cumulative mechanism on a known panel of T periods.

    independent: whether the estimates of cells are independent and have equal variances.
    """

    mechanism: Cumulative
    # Whether each symbol of the panel is the event, (symbols,).
    is_event: NDArray[np.bool_]
    # S_b at t, (T, T); NaN for b > t.
    truth: Floats
    # The number of estimates before the estimates of the sums.
    skip: int = 0
    # Of the release's name, for a release with several judges.
    suffix: str = ""

    kind: ClassVar[str] = "cumulative"
    answers: ClassVar[tuple[str, ...]] = ("raw", "panel")
    first: ClassVar[int] = 1
    width: ClassVar[None] = None
    padding: ClassVar[None] = None
    independent: ClassVar[bool] = False

    @property
    def bound(self) -> float:
        """The published error bound, simultaneous for all cells."""
        return self.mechanism.error_bound

    @property
    def labels(self) -> tuple[QueryLabel, ...]:
        thresholds = range(1, self.mechanism.horizon + 1)
        return tuple(QueryLabel(f"total at-least {b}", "total", b) for b in thresholds)

    @property
    def cell_theory(self) -> float:
        """The root mean square of the standard deviations of all cells."""
        return math.sqrt(float(np.nanmean(self.theory**2)))

    @cached_property
    def theory(self) -> Floats:
        """The standard deviation of the unbiased S_b at t; NaN for b > t."""
        deviations = np.full(self.truth.shape, np.nan)
        for t in range(1, self.mechanism.horizon + 1):
            for b in range(1, t + 1):
                deviations[b - 1, t - 1] = math.sqrt(self.mechanism.variance(b, t))
        return deviations

    def best_answer(self, estimator: StreamEstimator, query: int, number: int) -> Answers | None:
        """The best linear unbiased answer to a query at a period of the study."""
        return estimator.total(query + 1, number)

    def judge(self, steps: Steps) -> Trial:
        """Computes the errors of a repetition."""
        errors = np.full((len(self.answers), *self.truth.shape), np.nan)
        raw, of_panel = errors  # (T, T) each: S_b at t
        totals = np.zeros(steps[0][1].columns.shape[0], np.int64)
        for last, step in steps:
            for t, column in enumerate(step.columns.T, last - step.columns.shape[1] + 1):
                totals = totals + self.is_event[column]
                of_panel[:t, t - 1] = at_least(totals, t)
            raw[:last, last - 1] = step.estimates.values[self.skip : self.skip + last]
        errors -= self.truth
        return single_trial(
            errors,
            cells=(~np.isnan(errors)).sum(axis=(1, 2)),
            cell_squares=np.nansum(errors**2, axis=(1, 2)),
            cell_worst=np.nanmax(np.abs(errors), axis=(1, 2)),
            steps=steps,
        )


def at_least(totals: Ints, t: int) -> Ints:
    """Computes S_1..S_t of running totals of at most t."""
    sums: Ints = np.bincount(totals, minlength=t + 1)[::-1].cumsum()[::-1][1 : t + 1]
    return sums


def totals_judge(
    mechanism: Cumulative,
    symbols: Symbols,
    *,
    events: tuple[int, ...],
    q: int,
    own_panel: bool = True,
    skip: int = 0,
    suffix: str = "",
) -> TotalsJudge:
    """Makes the judge of a cumulative mechanism on a known panel.

    symbols: the panel, (people, T), with codes below q.
    events: the codes of the event.
    own_panel: whether the synthetic panel is the mechanism's own: 1 for the event, 0 without it, 2
        for a row that has not entered. Otherwise its symbols are those of the known panel.
    skip: the number of estimates before the estimates of the sums.
    suffix: of the release's name, for a release with several judges.
    """
    totals = np.isin(symbols, events).cumsum(axis=1)
    truth = np.full((mechanism.horizon, mechanism.horizon), np.nan)
    for t in range(1, mechanism.horizon + 1):
        truth[:t, t - 1] = at_least(totals[:, t - 1], t)
    is_event = np.array([False, True, False]) if own_panel else np.isin(np.arange(q), events)
    return TotalsJudge(mechanism, is_event, truth, skip=skip, suffix=suffix)
