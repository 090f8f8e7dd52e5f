"""A panel for both query classes: window patterns and running totals of an event.

A window mechanism and a cumulative one measure as they would alone, each with its part of rho.
At each step their targets are combined in one panel:

- t = k: the panel's histogram is the nearest possible one to the estimates of patterns and to the
  sums S_1..S_k at once, each in the metric of its noise.
- t > k: a row's cell is (last k - 1 symbols z, total b), and its new symbol moves both a pattern
  and a sum: what all cells get is the nearest possible again (`joint_fit.py`). How far the panel is
  from both is published.

The panel begins at t = k with k columns; the sums of earlier periods are measured then, too.

The part of rho for the windows is from theory. With a part s of rho the mean square errors of
patterns and of totals are W / s and C / (1 - s). W and C are those with all of rho, over those of
the paper's forms of the same rho and relation: histograms of all windows, and a binary tree for
each threshold with an equal part of rho. The sum of both ratios is least for s = sqrt(W) / (sqrt(W)
+ sqrt(C)). Where people enter late windows gain less over histograms, so W is larger and windows
get more. The part follows from the study alone. It does not depend on rho: both errors are those of
a small rho, whose noise is nearly continuous.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from stream_dp.panel import Columns, window_symbols
from stream_dp.privacy.noise import Draw, Measurements
from stream_dp.study import JointRelease, Neighbours, Strategy, Study

from ..cumulative.cumulative import (
    Cumulative,
    CumulativeState,
    packed_totals,
    panel_sums,
    unpacked_totals,
)
from ..mechanism_interface import (
    NONE,
    Counts,
    Demand,
    Estimates,
    Step,
    StoredDesign,
    event_totals,
    pack_state,
    shuffled_groups,
    unpack_state,
)
from ..repeatable_products import product
from ..window.fitted_targets import LEAST, round_to_sums
from ..window.panel_fit import nearest_on_simplex
from ..window.window import FixedWindow, WindowObservation, WindowState
from .joint_fit import Sums, nearest_first, nearest_later, rounded_moves, rounded_to_total
from .reconciliation import Reconciliation

_STEP = 100  # parts are whole percents
_SMALL = Fraction(1, 10**6)  # rho


def best_window_share(window: FixedWindow, totals: Cumulative) -> Fraction:
    """The windows' part of rho: s = sqrt(W) / (sqrt(W) + sqrt(C)), a multiple of 1 / _STEP.

    s makes the sum of both relative errors, W / s + C / (1 - s), least. W is the mean square error
    of the window patterns over that of histograms of all windows. C is the mean square error of
    totals over that of a tree for each threshold. Each has all of rho; see the module.

    window, totals: of any rho; the part is computed at `_SMALL`.
    """
    window, totals = replace(window, rho=_SMALL), replace(totals, rho=_SMALL)
    histograms = replace(window, strategy=Strategy.HISTOGRAM).mean_variance
    root_w = math.sqrt(window.mean_variance / histograms)
    root_c = totals.rmse / rmse_of_trees(totals.horizon, totals.rho, totals.neighbours)
    return Fraction(round(_STEP * root_w / (root_w + root_c)), _STEP)


def rmse_of_trees(horizon: int, rho: Fraction, neighbours: Neighbours) -> float:
    """The root mean square error of all S_b(t) with a tree for each b and equal parts of rho.

    The tree of n steps has L levels, so its noise has the variance L T / (2 rho), twice that under
    replacement. The sum of i steps adds as many nodes as i has digits 1 in binary.
    """
    pairs = 1 if neighbours == "add_remove" else 2
    nodes = total = 0
    for steps in range(1, horizon + 1):
        nodes += steps.bit_count()
        total += nodes * steps.bit_length()
    cells = horizon * (horizon + 1) // 2
    return math.sqrt(pairs * horizon * total / (2 * rho * cells))


Floats = NDArray[np.float64]

STATE_VERSION = 1


@dataclass(frozen=True)
class JointState:
    """The two mechanisms' states.

    windows: with the rows' last symbols
    totals: with the rows' running totals and the panel's own sums
    gaps: (T,) by which the two tell different numbers of events at a period; 0 for later periods
    """

    windows: WindowState
    totals: CumulativeState
    gaps: Floats

    @property
    def period(self) -> int:
        return self.windows.period


class _NewColumns(NamedTuple):
    """What a step adds to a panel.

    columns: (rows, k) symbols at t = k, later (rows, 1).
    codes: (rows,) of the rows' last k symbols.
    histogram: (q^k,) rows of each code.
    sums_off: (t,) the panel's S_1..S_t less their estimates.
    """

    columns: NDArray[np.uint8]
    codes: NDArray[np.int64]
    histogram: Counts
    sums_off: Floats


@dataclass(frozen=True)
class Joint:
    """A window release and a cumulative release with the same panel.

    window: the window mechanism, not padded
    totals: the cumulative mechanism, of the same horizon and relation
    events: the codes of the symbols that are the event

    Cost: the sum of the costs of both mechanisms, which state their own (composition of zCDP, Bun
    and Steinke 2016). In a closed population the sum is exact under add_remove, where every history
    costs the window mechanism the same at every step if it is present. Under replacement
    (replace_one, replace_in_place) it is an upper bound, as different pairs of histories may be
    the worst for the two mechanisms.
    """

    window: FixedWindow
    totals: Cumulative
    events: tuple[int, ...]

    @classmethod
    def of(cls, study: Study, release: JointRelease, stored: StoredDesign = NONE) -> Joint:
        """The two mechanisms of a release, with their parts of rho.

        stored: what was computed when the study began

        Where no part is declared it is the best in theory.
        """
        window = FixedWindow.declared(study, release, release.rho, stored)
        window = window.best(strategy=study.strategy(release), padded=False)
        totals = Cumulative.declared(study, release, release.rho, stored)
        share = release.window_share
        if share is None and stored.window_share is not None:
            share = Fraction(stored.window_share)
        if share is None:
            share = best_window_share(window, totals)
        return cls(
            replace(window, rho=release.rho * share),
            replace(totals, rho=release.rho * (1 - share)),
            study.event_codes(release),
        )

    def as_stored(self) -> StoredDesign:
        """Numbers computed in floats, with possible differences between machines."""
        window, totals = self.window.as_stored(), self.totals.as_stored()
        share = str(self.window.rho / self.rho)
        return structs.replace(totals, presence=window.presence, window_share=share)

    @property
    def title(self) -> str:
        return f"one panel for two: {self.window.title}; {self.totals.title}"

    @property
    def values(self) -> tuple[int | str, ...]:
        return self.window.values

    @property
    def rho(self) -> Fraction:
        """The cost of both mechanisms together."""
        return self.window.rho + self.totals.rho

    @property
    def horizon(self) -> int:
        return self.window.horizon

    @property
    def failure(self) -> Fraction:
        """beta, the probability with which `error_bound` may be exceeded."""
        return self.window.failure

    @property
    def padding(self) -> int:
        return 0

    @property
    def worst_variance(self) -> Fraction:
        return max(self.window.worst_variance, self.totals.worst_variance)

    @property
    def error_bound(self) -> float:
        """The larger bound of both mechanisms. Each bound holds with probability 1 - beta."""
        return max(self.window.error_bound, self.totals.error_bound)

    @property
    def bounded(self) -> str:
        return "for every pattern and sum, as estimated"

    @property
    def bias(self) -> str:
        """The bias of the panel's answers, in words."""
        return f"patterns and sums are reconciled; {self.window.bias}"

    @cached_property
    def charges(self) -> tuple[Fraction, ...]:
        k, sums = self.window.width, self.totals.charges
        late = (*[Fraction(0)] * (k - 1), sum(sums[:k], Fraction(0)), *sums[k:])
        return tuple(a + b for a, b in zip(self.window.charges, late, strict=True))

    @cached_property
    def _inside(self) -> NDArray[np.int64]:
        """(q^k,): how many of a pattern's symbols are the event."""
        symbols = window_symbols(np.arange(self.window.bins), self.window.q, self.window.width)
        events: NDArray[np.int64] = np.isin(symbols, self.events).sum(axis=1)
        return events

    @property
    def _reconciliation(self) -> Reconciliation:
        return Reconciliation(self.window, self.totals, self.events)

    @property
    def _coarse(self) -> bool:
        """Whether coarse sums are measured. Under late entry or absence they gain nothing."""
        return self.window.strategy == Strategy.RESIDUALS and self.window.left_out is None

    def demand(self, t: int) -> Demand:
        sums = [vector for period in self._measured_at(t) for vector in self.totals.demand(period)]
        return (*self.window.demand(t), *sums)

    def _measured_at(self, t: int) -> range:
        """The periods with sums measured at t: none before k, 1..k at k, then period t."""
        k = self.window.width
        return range(0) if t < k else range(1, k + 1) if t == k else range(t, t + 1)

    def init(self) -> JointState:
        return JointState(self.window.init(), self.totals.init(), np.zeros(self.horizon))

    def step(self, state: JointState, counts: Counts, draw: Draw) -> tuple[JointState, Step | None]:
        """Measures a period and adds the period's columns to the panel.

        counts: those of the window mechanism, then those of `Cumulative.measure`
        """
        t, bins = state.period + 1, self.window.measurement.counts_size
        window_integers = len(self.window.demand(t))
        windows, observation = self.window.observe(
            state.windows, counts[:bins], draw.noise[:window_integers]
        )
        observed = self.totals.recorded(state.totals, counts[bins:])
        if observation is None:
            return JointState(windows, observed, state.gaps), None
        at, raw = window_integers, [observation.measured]
        for period in self._measured_at(t):
            noise = draw.noise[at : at + len(self.totals.demand(period))]
            observed, answers = self.totals.answered(observed, period, noise)
            raw.append(self.totals.measured(answers, period))
            at += len(noise)
        gaps, reconciled, sums = self._reconciled(state, observation, observed)
        if t == self.window.width:
            new = self._first(reconciled, sums, draw.coins)
            totals = np.isin(new.columns, self.events).sum(axis=1)
        else:
            new = self._extend(state, reconciled, sums, draw.coins)
            totals = state.totals.totals + np.isin(new.columns, self.events).sum(axis=1)
        new_state = JointState(
            self.window.extended(windows, reconciled, new.codes, new.histogram),
            replace(observed, totals=totals, sums=panel_sums(totals, self.horizon)),
            gaps,
        )
        estimates = [observation.estimates, self.totals.estimates(observed)]
        notes = self._moved(reconciled, new)
        return new_state, Step(
            new.columns, Measurements.joined(raw), Estimates.joined(estimates), notes
        )

    def _reconciled(
        self, state: JointState, observation: WindowObservation, observed: CumulativeState
    ) -> tuple[Floats, WindowObservation, Sums]:
        """The gaps up to this period, and the reconciled estimates of patterns and S_1..S_t.

        state: after the period before
        """
        t, reconciliation = observed.period, self._reconciliation
        sums = self.totals.sums(observed)
        variances = np.array([self.totals.variance(b, t) for b in range(1, t + 1)])
        if not reconciliation.possible:
            return state.gaps, observation, Sums(sums, np.maximum(variances, LEAST))
        new_gaps = reconciliation.gaps(t, observation.histogram, observed.known)
        gaps = state.gaps.copy()
        gaps[t - new_gaps.size : t] = new_gaps
        gains = reconciliation.gains(t)
        histogram = observation.histogram - product(gains.patterns, gaps[:t])
        variances = np.maximum(variances * gains.variances, LEAST)
        sums = sums - product(gains.sums, gaps[:t])
        return gaps, replace(observation, histogram=histogram), Sums(sums, variances)

    def _first(
        self, observation: WindowObservation, sums: Sums, coins: np.random.Generator
    ) -> _NewColumns:
        """The panel at t = k from the estimated histogram and the noisy sums S_1..S_k."""
        window, t, inside = self.window, self.window.width, self._inside
        target, rows = observation.histogram, window.fit.size(observation.histogram)
        fitted = nearest_first(
            target,
            rows,
            window.fit.metric(t),
            sums,
            events=inside,
            absences=window.fit.absences(target, np.array([rows]), coins),
            coarse=self._coarse,
        )
        # Patterns with as many events in a row, so that the sums are rounded by less than 1.
        order = np.lexsort((coins.random(window.bins), inside))
        counts = np.empty(window.bins, np.int64)
        counts[order] = rounded_to_total(fitted[order], np.full(window.bins, rows), rows, coins)
        codes = coins.permutation(np.repeat(np.arange(window.bins), counts))
        reached = panel_sums(inside[codes], self.horizon)[1 : t + 1]
        columns = window_symbols(codes, window.q, window.width)
        return _NewColumns(columns, codes, counts, reached - sums.values)

    def _moved(self, observation: WindowObservation, new: _NewColumns) -> dict[str, int]:
        """How many rows the panel is from the reconciled estimates of patterns and of sums."""
        patterns = (new.histogram - observation.histogram)[self.window.measured]
        return {
            "rows_moved_in_patterns": round(float(np.abs(patterns).sum())),
            "rows_moved_in_totals": round(float(np.abs(new.sums_off).sum())),
        }

    def _extend(
        self,
        state: JointState,
        observation: WindowObservation,
        sums: Sums,
        coins: np.random.Generator,
    ) -> _NewColumns:
        """The panel's column at t > k."""
        window, t, events = self.window, state.period + 1, np.array(self.events)
        tails, totals = state.windows.tails, state.totals.totals
        assert tails is not None
        shape = window.overlaps, t
        cells = tails * t + totals
        room = np.bincount(cells, minlength=window.overlaps * t).reshape(shape)
        windows = state.windows
        target = window.fit.target(t, observation.histogram, windows.carry, windows.mean)
        rises = sums.values - state.totals.sums[1 : t + 1]
        fitted = nearest_later(
            room,
            target,
            window.fit.metric(t),
            Sums(rises, sums.variances),
            events=events,
            absences=window.fit.absences(target, room.sum(axis=1), coins),
            coarse=self._coarse,
        )
        moves = rounded_moves(fitted[:, :, events].sum(axis=2), room, coins)
        order, starts = shuffled_groups(cells, room.size, coins)
        happens = np.empty(cells.shape[0], np.int64)
        rank = np.arange(cells.shape[0]) - starts[cells[order]]
        happens[order] = rank < moves.ravel()[cells[order]]
        column = self._symbols(tails, happens, fitted.sum(axis=1), coins)
        codes = tails * window.q + column
        counts = np.bincount(codes, minlength=window.bins)
        sums_off = moves.sum(axis=0) - rises
        return _NewColumns(column[:, None].astype(np.uint8), codes, counts, sums_off)

    def _symbols(
        self,
        tails: NDArray[np.int64],
        happens: NDArray[np.int64],
        targets: Floats,
        coins: np.random.Generator,
    ) -> NDArray[np.int64]:
        """The new symbol of every row, (rows,).

        tails: (rows,) codes of the last k - 1 symbols
        happens: (rows,) 1 where the row gets the event
        targets: (overlaps, q) rows of each overlap by new symbol
        coins: for the choice of rows

        Symbols inside the event, and outside it, are shared out as the targets have them.
        """
        overlaps, q = targets.shape
        outside = [x for x in range(q) if x not in self.events]
        groups = tails * 2 + happens
        sizes = np.bincount(groups, minlength=2 * overlaps).reshape(overlaps, 2)
        shares = [
            round_to_sums(
                nearest_on_simplex(targets[:, side], sizes[:, i].astype(np.float64)),
                sizes[:, i],
                coins,
            )
            for i, side in enumerate((outside, list(self.events)))
        ]
        order, _ = shuffled_groups(groups, 2 * overlaps, coins)
        column = np.empty(tails.shape[0], np.int64)
        symbols = np.tile(np.array([*outside, *self.events]), overlaps)
        column[order] = np.repeat(symbols, np.concatenate(shares, axis=1).ravel())
        return column

    def dump(self, state: JointState) -> bytes:
        windows = self.window.dump(state.windows)
        gaps = pack_state(STATE_VERSION, state.period, gaps=state.gaps.view(np.int64))
        totals = packed_totals(state.totals, self.totals, self._measured_at(state.period))
        sizes = [len(dumped).to_bytes(8, "big") for dumped in (windows, gaps)]
        return sizes[0] + windows + sizes[1] + gaps + totals

    def load(self, dumps: Sequence[bytes], panel: Columns | None) -> JointState:
        """Raises Inconsistent for bytes or a panel that are not this mechanism's."""
        divided = [_divided(data) for data in dumps]
        of_windows, of_gaps, of_totals = zip(*divided, strict=True) if divided else ((), (), ())
        windows = self.window.load(of_windows, panel)
        counted = event_totals(panel, self.events)
        totals, _ = unpacked_totals(of_totals, self.totals, counted, self._measured_at)
        gaps = self.init().gaps
        if of_gaps:
            _, arrays = unpack_state(of_gaps[-1], STATE_VERSION, gaps=gaps.shape)
            gaps = arrays["gaps"].view(np.float64)
        return JointState(windows, totals, gaps)


def _divided(data: bytes) -> tuple[bytes, bytes, bytes]:
    """A dump's windows, gaps and totals."""
    first = 8 + int.from_bytes(data[:8], "big")
    second = first + 8 + int.from_bytes(data[first : first + 8], "big")
    return data[8:first], data[first + 8 : second], data[second:]
