"""The fixed-window synthesizer: Bun, Gaboardi, Neunhoeffer, Zhang 2024, Algorithm 1, any alphabet.

At each period t = k..T the histogram of everybody's last k symbols is measured; the panel's own
histogram follows it, subject to the histories that its rows already have.

Privacy. Each of the R = T - k + 1 histograms has squared L2 sensitivity 1 under add_remove (a
person is in one bin) and 2 under replace_one and replace_in_place (a person leaves one bin and
enters another; two histories that always differ reach 2 every time, so the sum is exact). With
noise variance s2 = R D2 / (2 rho) the R releases cost exactly rho. The paper states sensitivity 1
while it defines neighbours by replacement: at its noise the replace_one cost is 2 rho.
"""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..panel import Panel, window_codes, window_symbols
from ..privacy.noise import Draw
from ..privacy.zcdp import gaussian_rho
from ..study import Neighbours, Study, Window
from .base import Counts, Demand, Estimates, Measurements, Step, fits, pack, shuffled, unpack

STATE_VERSION = 1


@dataclass(frozen=True)
class State:
    """period: the last one stepped; tails: (rows,) each row's last k-1 symbols, None before k."""

    period: int
    tails: NDArray[np.int64] | None


@dataclass(frozen=True)
class FixedWindow:
    """Algorithm 1 for one attribute.

    values: the q symbols; width k; horizon T; rho: cost of all releases together under
    `neighbours`; failure: the probability beta that the bounds below leave open.
    """

    values: tuple[int | str, ...]
    width: int
    horizon: int
    rho: Fraction
    neighbours: Neighbours
    failure: Fraction = Fraction(1, 20)

    title: ClassVar[str] = "fixed window (Bun et al. 2024, Algorithm 1)"

    @classmethod
    def of(cls, study: Study, release: Window) -> FixedWindow:
        symbols = study.attributes[release.attribute].symbols
        horizon = study.periods.count
        return cls(symbols, release.width, horizon, release.rho, study.neighbours, release.failure)

    @property
    def q(self) -> int:
        return len(self.values)

    @property
    def bins(self) -> int:
        return int(self.q**self.width)

    @property
    def releases(self) -> int:
        """R = T - k + 1."""
        return self.horizon - self.width + 1

    @property
    def sensitivity2(self) -> int:
        """Squared L2 sensitivity of one histogram: 1 under add_remove, otherwise 2."""
        return 1 if self.neighbours == "add_remove" else 2

    @property
    def variance(self) -> Fraction:
        """s2 = R D2 / (2 rho), the variance of every bin's noise."""
        return self.releases * Fraction(self.sensitivity2) / (2 * self.rho)

    @property
    def worst_variance(self) -> Fraction:
        """The largest noise variance of a released number: every bin has the same."""
        return self.variance

    @property
    def charges(self) -> tuple[Fraction, ...]:
        each = gaussian_rho(self.sensitivity2, self.variance)
        return (Fraction(0),) * (self.width - 1) + (each,) * self.releases

    @property
    def padding(self) -> int:
        """n_pad, rows added to every bin: no count falls below 0, with probability 1 - beta.

        Theorem 3.2 of the paper, one-sided: the error of a bin, rounding included, is
        subgaussian with parameter sqrt(s2) + 1/sqrt(2), and there are q^k R bins. (The rounding
        of q siblings has proxy at most 1/4 a step and a q-th of it is carried on, so its total
        proxy is at most q / (4 (q - 1)), at most 1/2 for every q.)
        """
        spread = math.sqrt(self.variance) + math.sqrt(0.5)
        return math.ceil(spread * math.sqrt(2 * self._log(self.bins * self.releases)))

    @property
    def error_bound(self) -> float:
        """lambda of Theorem 3.2: no bin at any t is off by more, with probability 1 - beta."""
        spread = math.sqrt(self.variance) + math.sqrt(0.5)
        return spread * math.sqrt(2 * self._log(2 * self.bins * self.releases))

    def _log(self, events: int) -> float:
        return math.log(events / self.failure)

    def demand(self, t: int) -> Demand:
        return ((self.variance, self.bins),) if t >= self.width else ()

    def init(self) -> State:
        return State(0, None)

    def measure(self, t: int, counts: Counts) -> Counts:
        """What is measured at t: the histogram of the last k symbols, (q^k,) int64."""
        return counts if t >= self.width else np.zeros(0, np.int64)

    def step(self, state: State, counts: Counts, draw: Draw) -> tuple[State, Step | None]:
        """One period. counts: the true histogram, (q^k,) int64; ignored before t = k."""
        t = state.period + 1
        if t < self.width:
            return State(t, None), None
        noisy = self.measure(t, counts) + draw.noise[0]
        if state.tails is None:
            columns, notes = self._first(noisy, draw.coins)
            codes = window_codes(columns, self.q)
        else:
            column, notes = self._extend(state.tails, noisy, draw.coins)
            columns = column[:, None].astype(np.uint8)
            codes = state.tails * self.q + column
        queries = tuple(self.query(code) for code in range(self.bins))
        measured = Measurements(queries, noisy, (self.variance,) * self.bins)
        told = Estimates(queries, noisy.astype(float), measured.standard_errors())
        return State(t, codes % self.q ** (self.width - 1)), Step(columns, measured, told, notes)

    def query(self, code: int) -> str:
        """The pattern of a bin, in the words of a query."""
        (digits,) = window_symbols(np.array([code]), self.q, self.width)
        return "pattern " + shlex.join(str(self.values[d]) for d in digits)

    def dump(self, state: State) -> bytes:
        """The rows are in the released panel: only their number and the period are kept."""
        rows = 0 if state.tails is None else state.tails.shape[0]
        return pack(STATE_VERSION, state.period, rows=np.array(rows))

    def load(self, data: bytes, panel: Panel | None) -> State:
        """Raises Inconsistent for bytes or a panel that are not this mechanism's."""
        period, held = unpack(data, STATE_VERSION, rows=())
        fits(panel, period if period >= self.width else 0, int(held["rows"]))
        return State(period, None if panel is None else panel.codes(self.width - 1))

    def _first(
        self, noisy: Counts, coins: np.random.Generator
    ) -> tuple[NDArray[np.uint8], dict[str, int]]:
        """t = k: rows whose histogram is the padded noisy one, in random order."""
        wanted = noisy + self.padding
        targets = np.maximum(wanted, 0)
        codes = coins.permutation(np.repeat(np.arange(self.bins), targets))
        return window_symbols(codes, self.q, self.width), _notes(wanted, targets)

    def _extend(
        self, tails: NDArray[np.int64], noisy: Counts, coins: np.random.Generator
    ) -> tuple[NDArray[np.int64], dict[str, int]]:
        """t > k: steps 3 and 4 of the algorithm; one new symbol for every row."""
        overlaps = self.q ** (self.width - 1)
        order, starts = shuffled(tails, overlaps, coins)
        wanted = consistent(noisy.reshape(overlaps, self.q), np.diff(starts), coins)
        targets = nonnegative(wanted, coins)
        column = np.empty(tails.shape[0], np.int64)
        column[order] = np.repeat(np.tile(np.arange(self.q), overlaps), targets.ravel())
        return column, _notes(wanted, targets)


def consistent(noisy: Counts, totals: Counts, coins: np.random.Generator) -> Counts:
    """Counts (z, q) moved by the same amount inside each z until they sum to totals (z,).

    The remainder of the division by q goes to that many symbols chosen at random, so that
    every count is unbiased (step 3 of Algorithm 1; for q = 2 a fair coin on the half).
    """
    q = noisy.shape[1]
    gap = totals - noisy.sum(axis=1)
    rank = coins.random(noisy.shape).argsort(axis=1).argsort(axis=1)
    result: Counts = noisy + (gap // q)[:, None] + (rank < (gap % q)[:, None])
    return result


def nonnegative(wanted: Counts, coins: np.random.Generator) -> Counts:
    """The nearest counts at or above 0 with the same row sums (Euclidean, remainders at random).

    Rows without a negative count are untouched. A function of noisy values only.
    """
    result = wanted.copy()
    low = np.flatnonzero((wanted < 0).any(axis=1))
    if low.size == 0:
        return result
    rows = wanted[low]
    total = rows.sum(axis=1)
    falling = -np.sort(-rows, axis=1)
    excess = falling.cumsum(axis=1) - total[:, None]
    size = np.arange(1, rows.shape[1] + 1)
    # The active set of the simplex projection: its shift leaves every member above 0.
    active = np.maximum((falling * size > excess).sum(axis=1), 1)
    over = excess[np.arange(low.size), active - 1]
    floor = rows - -(-over // active)[:, None]
    inside = rows * active[:, None] > over[:, None]
    # Members share the same fractional part; `spare` of them, at random, are rounded up.
    spare = total - np.where(inside, floor, 0).sum(axis=1)
    rank = np.where(inside, coins.random(rows.shape), 2.0).argsort(axis=1).argsort(axis=1)
    result[low] = np.where(inside, floor + (rank < spare[:, None]), 0)
    return result


def _notes(wanted: Counts, targets: Counts) -> dict[str, int]:
    return {
        "cells_below_zero": int((wanted < 0).sum()),
        "rows_moved_by_repair": int(np.abs(targets - wanted).sum()),
    }
