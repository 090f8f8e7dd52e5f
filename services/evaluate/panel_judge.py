"""Judges of panels: compare the panel's and the estimates' answers with the truth.

raw: the release's unbiased estimates. panel: rows of the panel that answer the query, less
the rows of the padding, if any. undebiased: the panel's plain share times the people.

The padding fills every pattern of k symbols evenly, and is assumed to fill wider patterns evenly.
In an open population nothing is published of people who are absent throughout the window: that
pattern is not judged, and shares are of the people present.

Queries about patterns are written in the syntax of `stream_dp.answers.query` and parsed there. A
query of width w is a mask over the q^w patterns of the last w periods, the newest symbol the lowest
digit, as in `stream_dp.panel.window_codes`. The judge of totals compares the number of periods with
the event so far. A panel that begins later than its first period gives the earlier periods' answers
when they are released.
"""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from stream_dp.answers.query import WindowQuery, parse_query
from stream_dp.continual.cumulative.cumulative import Cumulative
from stream_dp.continual.window.window import FixedWindow
from stream_dp.panel import Symbols
from stream_dp.study import Strategy

from .trial import Floats, Ints, QueryLabel, Steps, Trial, single_trial

Kind = Literal["bin", "named", "narrower", "wider"]

# Up to this number bins are reported singly; "every pattern" always counts all of them.
MOST_LINES = 4096
# Wider queries need a histogram of q^w patterns of the panel at every period: stop here.
MOST_CODES = 1 << 16


@dataclass(frozen=True, eq=False)
class JudgedQuery(WindowQuery):
    """A query to a window release; `kind` is its relation to the release's width k."""

    kind: Kind

    @property
    def patterns(self) -> int:
        """The number of patterns that the query counts."""
        return int(self.mask.sum())


def judged_queries(
    mechanism: FixedWindow, attribute: str, code: int, *, bins: NDArray[np.int64], longest: int
) -> tuple[JudgedQuery, ...]:
    """Makes every bin, the named queries of width k, narrower and wider queries.

    The named queries are those of Bun et al. 2024, Section 5: at least 1, at least 2, 2 consecutive
    and all of the last k. Narrower queries ask for all of the last w. Wider queries, which only the
    panel answers, ask for at least 1 and for all of the last w, w up to `longest`.

    attribute: the name of the release's attribute, or of several joined by &.
    code: the symbol of the named queries.
    bins: the codes of the patterns to ask for.
    """
    k = mechanism.width
    value = str(mechanism.values[code])  # a product's value names its attributes by itself
    condition = shlex.quote(value if "=" in value else f"{attribute}={value}")

    def ask(form: str, need: int, width: int, kind: Kind) -> JudgedQuery:
        text = f"{form} {need} of last {width} {condition}"
        query = parse_query(text, attribute, mechanism.values)
        assert isinstance(query, WindowQuery)
        return JudgedQuery(text, width, query.mask, kind)

    queries: list[JudgedQuery] = []
    if bins.size <= MOST_LINES:
        codes = np.arange(mechanism.bins)
        queries += [JudgedQuery(mechanism.query(c), k, codes == c, "bin") for c in bins.tolist()]
    forms = [("at-least", 1), ("at-least", 2), ("consecutive", 2), ("at-least", k)]
    queries += _distinct([ask(form, need, k, "named") for form, need in forms if need <= k])
    queries += [ask("at-least", w, w, "narrower") for w in range(1, k)]
    for w in range(k + 1, longest + 1):
        queries += [ask("at-least", need, w, "wider") for need in (1, w)]
    return tuple(queries)


def widest(mechanism: FixedWindow) -> int:
    """Returns the width of the widest query: min(T, 2 k), or less if patterns are many."""
    width = mechanism.width
    while width < min(mechanism.horizon, 2 * mechanism.width):
        if mechanism.q ** (width + 1) > MOST_CODES:
            break
        width += 1
    return width


def narrowed(histogram: NDArray[np.int64], q: int, width: int) -> NDArray[np.int64]:
    """Sums a histogram of patterns to the histogram of their last `width` symbols."""
    summed: NDArray[np.int64] = histogram.reshape(-1, q**width).sum(axis=0)
    return summed


def pattern_histograms(
    symbols: Symbols, q: int, first: int, widest: int
) -> list[NDArray[np.int64]]:
    """Counts, at every period t >= `first`, the patterns of the last min(t, widest) symbols."""
    codes = np.zeros(symbols.shape[0], np.int64)
    histograms = []
    for t in range(1, symbols.shape[1] + 1):
        codes = (codes * q + symbols[:, t - 1]) % q ** min(t, widest)
        if t >= first:
            histograms.append(np.bincount(codes, minlength=q ** min(t, widest)))
    return histograms


def _distinct(queries: list[JudgedQuery]) -> list[JudgedQuery]:
    """Drops queries with the mask of an earlier query."""
    return list({query.mask.tobytes(): query for query in reversed(queries)}.values())[::-1]


@dataclass(frozen=True, eq=False)
class PatternsJudge:
    """The judge of a window mechanism of width k on a known panel with R = T - k + 1 releases."""

    mechanism: FixedWindow
    # Bins first, if there are few enough to list.
    queries: tuple[JudgedQuery, ...]
    # The code of the pattern that is not judged, if any.
    left_out: int | None
    # The true histograms, (q^k,), at t = k..T.
    histograms: tuple[Ints, ...]
    # (queries, R); NaN before a query's first period.
    truth: Floats
    people: int
    # The width of the widest query, in periods.
    widest: int
    # Of the release's name, for a release with several judges.
    suffix: str = ""

    kind: ClassVar[str] = "window"

    @property
    def width(self) -> int:
        """The width of the window, and the first period of `truth`."""
        return self.mechanism.width

    @property
    def first(self) -> int:
        return self.width

    @property
    def padding(self) -> int:
        return self.mechanism.padding

    @property
    def bound(self) -> float:
        """The published error bound, simultaneous for all cells."""
        return self.mechanism.error_bound

    @property
    def answers(self) -> tuple[str, ...]:
        """The names of the answers.

        Without padding, and with as many rows as people, plain shares are the panel's counts.
        """
        shares_differ = (
            self.mechanism.padded or self.left_out is not None or self.mechanism.rows != self.people
        )
        return ("raw", "panel", "undebiased") if shares_differ else ("raw", "panel")

    @property
    def labels(self) -> tuple[QueryLabel, ...]:
        return tuple(QueryLabel(query.text, query.kind, query.width) for query in self.queries)

    @cached_property
    def judged(self) -> Ints:
        """The codes of the judged patterns."""
        measured = self.mechanism.measured
        codes: Ints = measured[measured != self.left_out]
        return codes

    @cached_property
    def _variances(self) -> Floats:
        """The variances of bins, (R, judged patterns)."""
        periods = range(self.first, self.mechanism.horizon + 1)
        return np.array([self.mechanism.bin_variances(t)[self.judged] for t in periods])

    @property
    def cell_theory(self) -> float:
        """The root mean square of the standard deviations of all cells."""
        return math.sqrt(self._variances.mean())

    @property
    def independent(self) -> bool:
        return self.mechanism.strategy == Strategy.HISTOGRAM

    @property
    def theory(self) -> Floats:
        """Standard deviations; NaN for queries wider than k and for the unmeasured pattern."""
        mechanism, deviations = self.mechanism, np.full(self.truth.shape, np.nan)
        unmeasured = mechanism.absent_pattern
        for i, query in enumerate(self.queries):
            if query.kind == "bin":
                deviations[i] = np.sqrt(self._variances[:, i])
            elif query.width <= mechanism.width:
                weights = query.over(mechanism.bins).astype(float)
                if unmeasured is None or not weights[unmeasured]:
                    periods = range(self.first, mechanism.horizon + 1)
                    variances = [mechanism.functional(t, weights)[1] for t in periods]
                    deviations[i] = np.sqrt(variances)
        return np.where(np.isnan(self.truth), np.nan, deviations)

    def judge(self, steps: Steps) -> Trial:
        """Computes the errors of a repetition."""
        mechanism, q = self.mechanism, self.mechanism.q
        errors = np.full((len(self.answers), *self.truth.shape), np.nan)
        squares, worst = np.zeros(len(self.answers)), np.zeros(len(self.answers))
        codes = np.zeros(0, np.int64)
        for t, step in steps:
            codes = codes if codes.size else np.zeros(step.columns.shape[0], np.int64)
            for column in step.columns.T:
                codes = (codes * q + column) % q**self.widest
            histogram = np.bincount(codes, minlength=min(q**t, q**self.widest))
            estimates = np.full(mechanism.bins, np.nan)
            estimates[mechanism.measured] = step.estimates.values[: mechanism.measured.size]
            index = t - self.first
            bins = self._bins(estimates, narrowed(histogram, q, mechanism.width), index)
            bin_errors = (bins - self.histograms[index])[:, self.judged]
            squares += (bin_errors**2).sum(axis=1)
            worst = np.maximum(worst, np.abs(bin_errors).max(axis=1))
            errors[:, :, index] = self._query_answers(bins, histogram, t) - self.truth[:, index]
        return single_trial(
            errors,
            cells=np.full(len(self.answers), self.judged.size * len(steps)),
            cell_squares=squares,
            cell_worst=worst,
            steps=steps,
        )

    def _bins(self, estimates: Floats, rows: Ints, index: int) -> Floats:
        """Returns the answers for every pattern, (answers, q^k).

        estimates: the unbiased estimates, (q^k,), NaN for a pattern that is not measured.
        rows: the panel's rows with each pattern, (q^k,).
        index: of the period among the periods with a release.
        """
        padding = np.zeros(self.mechanism.bins)
        padding[self.mechanism.measured] = self.mechanism.padding
        answers: list[Floats] = [estimates, rows - padding]
        if len(self.answers) > 2:
            answers.append(np.asarray(rows * self._scale(rows, index), np.float64))
        return np.stack(answers)

    def _scale(self, rows: Ints, index: int) -> float:
        """Returns the number of people a row; in an open population, of people present."""
        if self.left_out is None:
            return self.people / max(int(rows.sum()), 1)
        true = self.histograms[index]
        present = true.sum() - true[self.left_out]
        return float(present / max(int(rows.sum() - rows[self.left_out]), 1))

    def _query_answers(self, bins: Floats, histogram: Ints, t: int) -> Floats:
        """Returns the answers to every query at t, (answers, queries).

        bins: the answers for every pattern.
        histogram: the panel's rows with each pattern of as many symbols as the widest query has.
        """
        mechanism = self.mechanism
        answers = np.full((len(self.answers), len(self.queries)), np.nan)
        listed = sum(query.kind == "bin" for query in self.queries)
        answers[:, :listed] = bins[:, self.judged[:listed]]
        for i, query in enumerate(self.queries[listed:], listed):
            if query.width <= mechanism.width:
                answers[:, i] = bins[:, query.over(mechanism.bins)].sum(axis=1)
            elif query.width <= t:
                rows = int(narrowed(histogram, mechanism.q, query.width)[query.mask].sum())
                padding = mechanism.padding * mechanism.bins * query.patterns
                answers[1, i] = rows - padding / mechanism.q**query.width
                if len(self.answers) > 2:
                    window_rows = narrowed(histogram, mechanism.q, mechanism.width)
                    answers[2, i] = rows * self._scale(window_rows, t - self.first)
        return answers


def patterns_judge(
    mechanism: FixedWindow,
    symbols: Symbols,
    *,
    attribute: str,
    code: int,
    absent: int | None = None,
    wide: bool = True,
    suffix: str = "",
) -> PatternsJudge:
    """Makes the judge of a window mechanism on a known panel.

    symbols: the panel, (people, T).
    attribute: the name of the release's attribute, or of several joined by &.
    code: the symbol of the named queries.
    absent: the code of the symbol whose pattern of k is left out, also if the mechanism
        measures it; None to judge all patterns.
    wide: whether queries wider than k are asked as well.
    suffix: of the release's name, for a release with several judges.
    """
    q, width = mechanism.q, mechanism.width
    longest = widest(mechanism) if wide else width
    left_out = None if absent is None else absent * (mechanism.bins - 1) // (q - 1)
    bins = mechanism.measured[mechanism.measured != left_out]
    queries = judged_queries(mechanism, attribute, code, bins=bins, longest=longest)
    histograms = pattern_histograms(symbols, q, width, longest)
    truth = np.full((len(queries), mechanism.releases), np.nan)
    for i, query in enumerate(queries):
        for index, histogram in enumerate(histograms):
            if query.width <= index + width:
                truth[i, index] = narrowed(histogram, q, query.width)[query.mask].sum()
    return PatternsJudge(
        mechanism=mechanism,
        queries=queries,
        left_out=left_out,
        histograms=tuple(narrowed(histogram, q, width) for histogram in histograms),
        truth=truth,
        people=symbols.shape[0],
        widest=longest,
        suffix=suffix,
    )


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
