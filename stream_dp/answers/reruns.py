"""Reruns of a release's mechanism on its published panel, with fresh seeded noise.

In a rerun the published panel is the truth, so the errors of its own panel and of its unbiased
estimates are known. They are post-processing: only the published panel and simulated noise go in.

A series is a count of the release in all periods: the people with one of its patterns, or with the
event in at least b periods. Any query is a sum of series. The errors of all series are integers
times a step, so that every reader has the same numbers.

Of a query in all periods let p be the panel's counts and x the unbiased estimates. The features F
of a period (`features`) say how far the panel is from the estimates and from its own neighbours:

- d = p - x, which is 0 on the truth of a rerun;
- for the past and the future, the mean over the nearest 1 and the nearest 3 periods of their p less
  the p of the period itself, and of their d; 0 without such periods.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_dp.continual.cumulative.cumulative import Cumulative, total_increments
from stream_dp.continual.joint.joint import Joint
from stream_dp.continual.mechanism_interface import Counts, Mechanism
from stream_dp.continual.mechanisms import patterns_part, totals_part
from stream_dp.panel import Panel, Symbols, window_codes, window_symbols
from stream_dp.privacy.noise import SeededNoise
from stream_dp.release.published_panels import SeriesFamily

from .estimator import Question, StreamEstimator, StreamMeasurements
from .measured_rows import ReleaseMeasurements
from .measurement_blocks import Floats, Ints

RERUNS = 100
SEED = 1 << 40  # of the first rerun: no study is simulated with it
_NEXT_RELEASE = 1 << 20  # between the seeds of a stream's releases
_LARGEST = (1 << 15) - 1  # of an error in steps
_FINEST = -8  # binary digits of a step of an unbiased error


@dataclass(frozen=True, eq=False)
class SeriesLayout:
    """The series of a release: its measured patterns, then its totals.

    release: its measurements so far
    """

    release: ReleaseMeasurements

    @property
    def periods(self) -> int:
        """The number of periods of the release so far."""
        return self.release.time(self.release.last)

    @cached_property
    def patterns(self) -> Ints:
        """The codes of the measured patterns, (patterns,)."""
        window = self.release.window
        return np.zeros(0, np.int64) if window is None else np.asarray(window.measured)

    @property
    def thresholds(self) -> int:
        """The number of totals: b = 1, 2, .."""
        return 0 if self.release.totals is None else self.periods

    @property
    def width(self) -> int:
        return 1 if self.release.window is None else self.release.window.width

    @cached_property
    def first(self) -> Ints:
        """The first period of every series, from 1: (series,)."""
        patterns = np.full(self.patterns.size, self.width, np.int64)
        return np.concatenate([patterns, np.arange(1, self.thresholds + 1)])

    @cached_property
    def live(self) -> NDArray[np.bool_]:
        """Whether a series has a count at a period: (series, periods)."""
        return np.arange(1, self.periods + 1) >= self.first[:, None]

    def pattern_weights(self, mask: NDArray[np.bool_]) -> Floats:
        """The weights of the series in a sum of patterns, (series,).

        mask: over the measured width, (q^k,)
        """
        return np.concatenate([mask[self.patterns].astype(float), np.zeros(self.thresholds)])

    def total_weights(self, b: int) -> Floats:
        """The weights of the series in the total b, (series,)."""
        weights = np.zeros(self.first.size)
        weights[self.patterns.size + b - 1] = 1
        return weights

    def spread(self, values: NDArray[Any]) -> Floats:
        """Values of the live cells, (.., cells), as (.., series, periods) with 0 elsewhere."""
        full = np.zeros((*values.shape[:-1], *self.live.shape))
        full[..., self.live] = values
        return full

    def questions(self, stream: StreamMeasurements) -> list[Question]:
        """The live cells as questions to the stream's measurements."""
        best, start = StreamEstimator(stream, self.release), self.release.first
        window, questions = self.release.window, list[Question | None]()
        for series, live in enumerate(self.live):
            numbers = [start + int(t) for t in np.flatnonzero(live)]
            if series < self.patterns.size:
                assert window is not None
                weights = np.zeros(window.bins)
                weights[self.patterns[series]] = 1
                questions += best.pattern_questions(numbers, weights)
            else:
                b = series - self.patterns.size + 1
                questions += [best.total_question(b, number) for number in numbers]
        # The release itself measures all of them.
        return [question for question in questions if question is not None]

    def counts(self, symbols: Symbols) -> Counts:
        """The live cells of a panel of this release, without its padding: (cells,)."""
        release, parts = self.release, list[Any]()
        if (window := release.window) is not None:
            histograms = np.zeros((window.bins, self.periods), np.int64)
            for t in range(self.width, self.periods + 1):
                codes = window_codes(symbols[:, t - self.width : t], window.q)
                histograms[:, t - 1] = np.bincount(codes, minlength=window.bins) - window.padding
            parts.append(histograms[self.patterns])
        if self.thresholds:
            totals = np.isin(symbols, panel_codes(release)).cumsum(axis=1)
            reached = [np.bincount(column, minlength=self.periods + 1) for column in totals.T]
            parts.append(np.array(reached)[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:].T)
        counts: Counts = np.concatenate(parts)[self.live]
        return counts


def panel_codes(release: ReleaseMeasurements) -> tuple[int, ...]:
    """The codes of a panel's symbols that are the event of its totals."""
    chosen = release.mechanism
    return chosen.events if isinstance(chosen, Joint) else (1,)


@dataclass(frozen=True, eq=False)
class Reruns:
    """The counts of a published panel, and the errors of its reruns, cell by cell.

    counts: (cells,) of the panel without its padding
    panel, unbiased: (reruns, cells) errors of the reruns' panels and of their estimates, in steps
    panel_step, unbiased_step: powers of two, in people
    """

    counts: Counts
    panel: NDArray[np.int16]
    unbiased: NDArray[np.int16]
    panel_step: float
    unbiased_step: float


def rerun(
    layout: SeriesLayout,
    stream: StreamMeasurements,
    panel: Panel,
    *,
    reruns: int = RERUNS,
    seed: int = SEED,
) -> Reruns:
    """The errors of a release's mechanism, run `reruns` times on its own published panel.

    A rerun takes the published panel as the true data, and draws new noise for this release and
    for every other release of the stream. So both errors of a rerun, of its panel and of the
    unbiased estimates, come from the same noise.

    stream: all measurements of the release's people, which the unbiased estimates use
    seed: of the first rerun; the following ones count up from it
    """
    release, symbols = layout.release, panel.symbols[:, : layout.periods]
    inputs, counts = _inputs(release, symbols), layout.counts(symbols)
    panel_errors = np.empty((reruns, counts.size))
    noise_by_rerun = list[list[list[Floats]]]()  # [rerun][release of the stream][message]
    for number in range(reruns):
        noise_by_release = list[list[Floats]]()
        for place, measured in enumerate(stream.releases):
            if measured is release:
                rerun_symbols, noise = _rerun_once(release, inputs, SeededNoise(seed + number))
                panel_errors[number] = layout.counts(rerun_symbols) - counts
            else:
                source = SeededNoise(seed + number + _NEXT_RELEASE * place)
                times = [measured.time(message.number) for message in measured.messages]
                demands = (measured.mechanism.demand(t) for t in times)
                noise = [_joined(source.draw(demand).noise) for demand in demands]
            noise_by_release.append(noise)
        noise_by_rerun.append(noise_by_release)
    answers = stream.answers(layout.questions(stream))
    in_steps, panel_step = _in_steps(panel_errors, 0)
    unbiased, unbiased_step = _in_steps(stream.errors(answers, noise_by_rerun), _FINEST)
    return Reruns(counts, in_steps, unbiased, panel_step, unbiased_step)


def _rerun_once(
    release: ReleaseMeasurements, inputs: Sequence[Any], source: SeededNoise
) -> tuple[Symbols, list[Floats]]:
    """The symbols of one rerun, (rows, periods), and the noise of each published message.

    inputs: the mechanism's true input of each period, from the published panel
    """
    mechanism: Mechanism[Any] = release.mechanism
    state, columns, noise_at = mechanism.init(), [], {}
    for t, true in enumerate(inputs, 1):
        draw = source.draw(mechanism.demand(t))
        state, step = mechanism.step(state, true, draw)
        if step is not None:
            noise_at[t] = _joined(draw.noise)
            columns.append(step.columns)
    noise = [noise_at[release.time(message.number)] for message in release.messages]
    return np.hstack(columns), noise


def _joined(noise: Sequence[Counts]) -> Floats:
    return np.concatenate(noise).astype(float)


def _in_steps(errors: Floats, finest: int) -> tuple[NDArray[np.int16], float]:
    """Errors in steps of a power of two, at least 2^finest, and the step."""
    step = 2.0**finest
    while np.abs(errors).max(initial=0.0) > _LARGEST * step:
        step *= 2
    return np.rint(errors / step).astype(np.int16), step


def _inputs(release: ReleaseMeasurements, symbols: Symbols) -> list[Counts]:
    """What the mechanism takes at every period, if the panel's rows without padding are people."""
    chosen, periods = release.mechanism, symbols.shape[1]
    window, totals = patterns_part(chosen), totals_part(chosen)
    parts = list[list[Counts]]()
    if window is not None:
        counts = [window.counts(symbols, t) for t in range(1, periods + 1)]
        for padded in counts[window.width - 1 :]:
            padded[: window.bins] -= window.padding
        parts.append(counts)
    if totals is not None:
        absent = release.study.alphabet(release.declared).absent
        if isinstance(chosen, Cumulative):
            absent = 2 if totals.present else None
        increments = total_increments(symbols, panel_codes(release), absent)
        # A mechanism takes a number for each total of its horizon.
        short = totals.horizon - periods
        parts.append(
            [np.concatenate([c[:-1], np.zeros(short, np.int64), c[-1:]]) for c in increments]
        )
    return [np.concatenate(of_period) for of_period in zip(*parts, strict=True)]


LAGS = (1, 3)  # periods whose mean is a feature
ROUNDING = 0.3  # people squared: of the rounding to rows
LARGE = 0.5  # of the estimate's error


@dataclass(frozen=True, eq=False)
class QuerySeries:
    """A query in all periods of a release.

    counts, estimates: (periods,) of the panel and of the unbiased answers
    panel, unbiased: (reruns, periods) their errors in reruns
    live: (periods,) whether there is an answer; all else is 0 where there is none
    """

    family: SeriesFamily
    counts: Floats
    estimates: Floats
    panel: Floats
    unbiased: Floats
    live: NDArray[np.bool_]

    @cached_property
    def scale(self) -> Floats:
        """s, (periods,)."""
        squares: Floats = (self.panel**2).mean(axis=0)
        return np.sqrt(squares + ROUNDING)

    @cached_property
    def deviation(self) -> float:
        """The root mean square error of the estimates in reruns."""
        return float(np.sqrt((self.unbiased[:, self.live] ** 2).mean()))

    @cached_property
    def large(self) -> bool:
        """Whether the panel's errors are not small beside those of the estimates."""
        return float(np.sqrt((self.scale[self.live] ** 2).mean())) > LARGE * self.deviation

    @cached_property
    def neighbours(self) -> NDArray[np.int64]:
        """The number of periods before and after each, at most 2: (2, periods)."""
        place = np.arange(self.live.size)
        first = int(np.argmax(self.live))
        before, after = place - first, self.live.size - 1 - place
        neighbours: NDArray[np.int64] = np.clip(np.array([before, after]), 0, 2)
        return neighbours

    @cached_property
    def observed(self) -> Floats:
        """The features of the published panel, (features, periods)."""
        return features(self.counts, self.counts - self.estimates, self.live)

    @cached_property
    def noise(self) -> Floats:
        """The features' noise in reruns, (features, reruns, periods)."""
        return features(self.panel, self.panel - self.unbiased, self.live)

    @cached_property
    def truth(self) -> Floats:
        """The features of the truth of reruns, (features, periods)."""
        return features(self.counts, np.zeros(self.counts.shape), self.live)


def features(counts: Floats, differences: Floats, live: NDArray[np.bool_]) -> Floats:
    """The features of every period: (features, .., periods) for (.., periods).

    In this order: d, and then for the past and for the future the features of p with both lags, and
    those of d with both lags.
    """
    result, size = [np.where(live, differences, 0.0)], live.size
    for past in (True, False):
        for values, subtrahend in ((counts, counts), (differences, np.zeros(()))):
            total, number = np.zeros(values.shape), np.zeros(size)  # over 1..lag periods away
            for lag in range(1, max(LAGS) + 1):
                if lag < size:
                    later, earlier = slice(lag, None), slice(None, -lag)
                    at, neighbour = (later, earlier) if past else (earlier, later)
                    total[..., at] += np.where(live[neighbour], values[..., neighbour], 0.0)
                    number[at] += live[neighbour]
                if lag in LAGS:
                    mean = total / np.maximum(number, 1) - subtrahend
                    result.append(np.where(live & (number > 0), mean, 0.0))
    return np.array(result)


@dataclass(frozen=True, eq=False)
class ReleaseSeries:
    """The series of a release: what any query about it is a sum of.

    counts, estimates: (series, periods)
    panel, unbiased: (reruns, series, periods) errors in people
    """

    layout: SeriesLayout
    counts: Floats
    estimates: Floats
    panel: Floats
    unbiased: Floats

    @classmethod
    def of(cls, layout: SeriesLayout, reruns: Reruns, estimates: Floats) -> ReleaseSeries:
        """estimates: (cells,) the unbiased answers"""
        return cls(
            layout,
            layout.spread(reruns.counts.astype(float)),
            layout.spread(estimates),
            layout.spread(reruns.panel * reruns.panel_step),
            layout.spread(reruns.unbiased * reruns.unbiased_step),
        )

    def pattern(self, mask: NDArray[np.bool_]) -> QuerySeries:
        """The series of a sum of patterns. mask: over the measured width, (q^k,)"""
        chosen = np.flatnonzero(self.layout.pattern_weights(mask))
        live = np.arange(1, self.layout.periods + 1) >= self.layout.width
        return self._sum("pattern" if chosen.size == 1 else "union", chosen, live)

    def total(self, b: int) -> QuerySeries:
        """The series of the people with the event in at least b periods."""
        chosen = np.flatnonzero(self.layout.total_weights(b))
        return self._sum("total", chosen, np.arange(1, self.layout.periods + 1) >= b)

    def _sum(
        self, family: SeriesFamily, chosen: NDArray[np.int64], live: NDArray[np.bool_]
    ) -> QuerySeries:
        return QuerySeries(
            family,
            self.counts[chosen].sum(axis=0),
            self.estimates[chosen].sum(axis=0),
            self.panel[:, chosen].sum(axis=1),
            self.unbiased[:, chosen].sum(axis=1),
            live,
        )

    def workload(self) -> Iterator[QuerySeries]:
        """What weights are learned from: patterns, times of a value, and totals."""
        layout, window = self.layout, self.layout.release.window
        if window is not None:
            unseen, q, width = window.absent_pattern, window.q, window.width
            symbols = window_symbols(np.arange(window.bins), q, width)
            masks = [np.arange(window.bins) == code for code in layout.patterns]
            for value in range(q - (window.absent is not None)):
                hits = symbols == value
                masks += [hits[:, -1], *(hits.sum(axis=1) >= j for j in range(1, width + 1))]
                if width > 2:
                    masks.append((hits[:, :-1] & hits[:, 1:]).any(axis=1))
            yield from (self.pattern(m) for m in masks if unseen is None or not m[unseen])
        yield from (self.total(b) for b in range(1, layout.thresholds + 1))
