"""The cumulative synthesizer: Bun, Gaboardi, Neunhoeffer, Zhang 2024, Algorithm 2.

For every b a stream counter follows S_b, the number of people with the event in at least b
periods so far. The noisy sums are made monotone in time and in b, and that many synthetic rows
of running total b - 1 get the event.

Privacy. Counter b's stream gets a 1 when a person's total reaches b. Under add_remove one path
of entry times changes, under replace_one and replace_in_place an old and a new one; the exact
worst cost is a dynamic programme (`counters.path_costs`). The noise is scaled so that it is rho.
Under replacement the number of people is public. Under add_remove the number of rows is
declared, or measured at t = 1 with `size_share` of rho (sensitivity 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..panel import Panel
from ..privacy.noise import Draw, exact_variance
from ..study import Cumulative as Declared
from ..study import Neighbours, Study
from .base import Counts, Demand, Estimates, Measurements, Step, fits, pack, shuffled, unpack
from .counters import Counter, shares, tree, tree_costs

STATE_VERSION = 1


@dataclass(frozen=True)
class State:
    """What the next period needs.

    streams: (T, T) true entries of counter b at t (confidential); noisy: (T, T) measured nodes;
    sums: (T + 1,) monotone S_0..S_T; totals: (rows,) each row's running total.
    """

    period: int
    streams: NDArray[np.int64]
    noisy: NDArray[np.int64]
    sums: NDArray[np.int64]
    totals: NDArray[np.int64]


@dataclass(frozen=True)
class Cumulative:
    """Algorithm 2 for one event.

    horizon T; rho: cost of all periods under `neighbours`; rows: the public or declared number
    of synthetic people, None where it is measured with size_share of rho.
    """

    horizon: int
    rho: Fraction
    neighbours: Neighbours
    rows: int | None
    size_share: Fraction = Fraction(0)
    failure: Fraction = Fraction(1, 20)

    title: ClassVar[str] = "cumulative, binary tree counters (Bun et al. 2024, Algorithms 2 and 3)"
    values: ClassVar[tuple[int | str, ...]] = (0, 1)  # of the panel: the event, or not
    padding: ClassVar[int] = 0

    @classmethod
    def of(cls, study: Study, release: Declared) -> Cumulative:
        rows = release.rows if study.neighbours == "add_remove" else study.size
        share = release.size_share or Fraction(0)
        horizon = study.periods.count
        return cls(horizon, release.rho, study.neighbours, rows, share, release.failure)

    @cached_property
    def counters(self) -> tuple[Counter, ...]:
        return tuple(tree(self.horizon - b) for b in range(self.horizon))

    @cached_property
    def variances(self) -> tuple[Fraction, ...]:
        """Noise variance of counter b's nodes, b = 1..T."""
        cost = tree_costs(self.horizon, self.neighbours)[-1]
        share = self.rho * (1 - self.size_share) / cost
        return tuple(1 / (2 * weight * share) for weight in shares(self.counters))

    @property
    def size_variance(self) -> Fraction:
        """Noise variance of the measured n: 1 / (2 rho size_share)."""
        return 1 / (2 * self.rho * self.size_share)

    @cached_property
    def charges(self) -> tuple[Fraction, ...]:
        """Increments of the exact worst cost, period by period; all at once where T is large."""
        size = self.rho * self.size_share
        costs = tree_costs(self.horizon, self.neighbours)
        if len(costs) < self.horizon:
            return (self.rho,) + (Fraction(0),) * (self.horizon - 1)
        scale = (self.rho - size) / costs[-1]
        steps = [b - a for a, b in zip([0, *costs[:-1]], costs, strict=True)]
        return (size + steps[0] * scale, *(s * scale for s in steps[1:]))

    def variance(self, b: int, t: int) -> Fraction:
        """Variance of the noisy S_b at t; 0 for b > t, where S_b is 0 for certain."""
        if b > t:
            return Fraction(0)
        row = self.counters[b - 1].decode[t - b]
        return self.variances[b - 1] * int((row**2).sum())

    @property
    def worst_variance(self) -> Fraction:
        """The largest noise variance of a released number: a sum's, or that of n."""
        return max(self._worst_sum, self.size_variance if self.size_share else Fraction(0))

    @property
    def _worst_sum(self) -> Fraction:
        return max(v * c.worst_gain for v, c in zip(self.variances, self.counters, strict=True))

    @property
    def error_bound(self) -> float:
        """No noisy S_b at any t is off by more, with probability 1 - beta, b = 1..t, t = 1..T.

        A union bound over T (T + 1) / 2 subgaussian sums; making them monotone never raises the
        largest error (Lemma 4.2 of the paper) as long as the number of rows is not too small.
        """
        cells = self.horizon * (self.horizon + 1) // 2
        return math.sqrt(2 * self._worst_sum * math.log(2 * cells / self.failure))

    def demand(self, t: int) -> Demand:
        nodes = tuple((self.variances[b], 1) for b in range(t))
        return (*nodes, (self.size_variance, 1)) if t == 1 and self.size_share else nodes

    def init(self) -> State:
        square = (self.horizon, self.horizon)
        zeros = np.zeros(square, np.int64)
        return State(0, zeros, zeros, np.zeros(self.horizon + 1, np.int64), np.zeros(0, np.int64))

    def measure(
        self, streams: NDArray[np.int64], t: int, counts: Counts
    ) -> tuple[NDArray[np.int64], Counts]:
        """The streams with period t's entries, and the true nodes that are measured at t.

        counts: (T + 1,) int64, people whose total went from b - 1 to b at t, for b = 1..T, then
        the number of people. The nodes of counters 1..t come first, then n where it is measured.
        """
        streams = streams.copy()
        streams[:, t - 1] = counts[:-1]
        nodes = [
            int(self.counters[b].encode[t - 1 - b, : t - b] @ streams[b, b:t]) for b in range(t)
        ]
        if t == 1 and self.size_share:
            nodes.append(int(counts[-1]))
        return streams, np.array(nodes, np.int64)

    def step(self, state: State, counts: Counts, draw: Draw) -> tuple[State, Step]:
        """One period. counts as in `measure`."""
        t = state.period + 1
        streams, nodes = self.measure(state.streams, t, counts)
        answers = nodes + np.concatenate(draw.noise)
        noisy = state.noisy.copy()
        noisy[:t, t - 1] = answers[:t]
        estimates = self._decode(noisy, t)
        before, totals = state.sums, state.totals
        measured = self._measurements(t, answers)
        told = self._estimates(estimates, t, answers)
        if t == 1:
            rows = self.rows if self.rows is not None else max(0, int(answers[-1]))
            before, totals = np.append([rows], before[1:]), np.zeros(rows, np.int64)
        sums = monotone(estimates, before)
        moved = int(np.abs(sums[1 : t + 1] - estimates).sum())
        column = _append(totals, sums[1:] - before[1:], draw.coins)
        after = State(t, streams, noisy, sums, totals + column)
        notes = {"moved_by_monotonization": moved}
        return after, Step(column[:, None].astype(np.uint8), measured, told, notes)

    def _decode(self, noisy: NDArray[np.int64], t: int) -> Counts:
        """Noisy S_1..S_t at t, unbiased."""
        sums = [self.counters[b].decode[t - 1 - b, : t - b] @ noisy[b, b:t] for b in range(t)]
        return np.array(sums, np.int64)

    def _measurements(self, t: int, answers: Counts) -> Measurements:
        queries = [f"counter {b} node {t}" for b in range(1, t + 1)]
        variances = list(self.variances[:t])
        if t == 1 and self.size_share:
            queries, variances = [*queries, "people"], [*variances, self.size_variance]
        return Measurements(tuple(queries), answers, tuple(variances))

    def _estimates(self, sums: Counts, t: int, answers: Counts) -> Estimates:
        queries = [f"total at-least {b}" for b in range(1, t + 1)]
        values = sums.astype(float)
        gains = [(self.counters[b].decode[t - 1 - b] ** 2).sum() for b in range(t)]
        errors = np.sqrt([g * exact_variance(self.variances[b]) for b, g in enumerate(gains)])
        if t == 1 and self.size_share:
            size_error = exact_variance(self.size_variance) ** 0.5
            queries, values = [*queries, "people"], answers.astype(float)
            errors = np.append(errors, size_error)
        return Estimates(tuple(queries), values, errors)

    def dump(self, state: State) -> bytes:
        return pack(
            STATE_VERSION, state.period, streams=state.streams, noisy=state.noisy, sums=state.sums
        )

    def load(self, data: bytes, panel: Panel | None) -> State:
        """Raises Inconsistent for bytes or a panel that are not this mechanism's."""
        square = (self.horizon, self.horizon)
        period, held = unpack(
            data, STATE_VERSION, streams=square, noisy=square, sums=(self.horizon + 1,)
        )
        fits(panel, period, int(held["sums"][0]))
        totals = np.zeros(0, np.int64) if panel is None else panel.symbols.sum(1, dtype=np.int64)
        return State(period, held["streams"], held["noisy"], held["sums"], totals)


def monotone(estimates: Counts, before: Counts) -> Counts:
    """S_0..S_T at t: each noisy sum clamped between its own last value and S_{b-1}'s last value.

    estimates: noisy S_1..S_t; before: S_0..S_T at t - 1. (Algorithm 2, line 7; Lemma 4.2.)
    """
    after = before.copy()
    t = estimates.shape[0]
    after[1 : t + 1] = np.clip(estimates, before[1 : t + 1], before[:t])
    return after


def _append(
    totals: NDArray[np.int64], rises: Counts, coins: np.random.Generator
) -> NDArray[np.int64]:
    """A 1 for `rises[b - 1]` uniformly random rows of total b - 1, a 0 for all others."""
    order, starts = shuffled(totals, rises.shape[0] + 1, coins)
    group = totals[order]
    place = np.arange(order.shape[0]) - starts[group]
    column = np.zeros(totals.shape[0], np.int64)
    column[order] = place < np.append(rises, 0)[group]
    return column
