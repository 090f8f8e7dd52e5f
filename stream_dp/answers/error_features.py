"""The features of a panel's errors: how far it is from the estimates, and from its own neighbours.

Of a query in all periods let p be the panel's counts and x the unbiased estimates. The features F
of a period are

- d = p - x, which is 0 on the truth of a rerun;
- for the past and the future, the mean over the nearest 1 and the nearest 3 periods of their p less
  the p of the period itself, and of their d; 0 without such periods.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stream_dp.panel import window_symbols
from stream_dp.release.published_weights import SeriesFamily

from .measurement_blocks import Floats
from .reruns import Reruns, SeriesLayout

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
    """The features of every period: (features, .., periods) for (.., periods)."""
    found, size = [np.where(live, differences, 0.0)], live.size
    for sign in (-1, 1):
        for values, own in ((counts, counts), (differences, np.zeros(()))):
            total, number = np.zeros(values.shape), np.zeros(size)
            for lag in range(1, max(LAGS) + 1):
                if lag < size:
                    to, of = slice(lag, None), slice(None, -lag)
                    to, of = (to, of) if sign < 0 else (of, to)
                    total[..., to] += np.where(live[of], values[..., of], 0.0)
                    number[to] += live[of]
                if lag in LAGS:
                    mean = total / np.maximum(number, 1) - own
                    found.append(np.where(live & (number > 0), mean, 0.0))
    return np.array(found)


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
