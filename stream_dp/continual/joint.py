"""One panel for both query classes: window patterns and running totals of one event.

A window mechanism and a cumulative one measure as they would alone, each with its part of rho.
At each step their targets are combined in one panel:

- t = k: the first histogram is moved by least squares towards the sums S_1..S_k; patterns with
  the same number of events form a class.
- t > k: a row's cell is (last k - 1 symbols z, total b). The window mechanism gives how many rows
  of each z get the event, the cumulative one how many of each b. `reconcile.py` finds integers for
  all cells that are as near as possible to both. How far the targets moved is published.

The panel begins at t = k with k columns; the sums of earlier periods are measured then, too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stream_dp.panel import Columns, window_symbols
from stream_dp.privacy.measurements import Measurements
from stream_dp.privacy.noise import Draw
from stream_dp.study import JointRelease, Study

from .base import Counts, Demand, Estimates, Step, event_totals, shuffled_groups
from .cumulative import Cumulative, CumulativeState
from .reconcile import Margins, reconcile
from .splits import (
    project_nonnegative,
    project_present,
    project_to_total,
    round_to_sums,
    shift_to_totals,
)
from .window import FixedWindow, WindowObservation
from .window_state import WindowState

Floats = NDArray[np.float64]
_WINDOW_SHARE = Fraction(11, 20)
_LEAST = 1e-2  # the least variance used as a weight, so that no weight is infinite


@dataclass(frozen=True)
class JointState:
    """The two mechanisms' states.

    windows: with the rows' last symbols
    totals: with the rows' running totals and the panel's own sums
    """

    windows: WindowState
    totals: CumulativeState

    @property
    def period(self) -> int:
        return self.windows.period


@dataclass(frozen=True)
class Joint:
    """A window release and a cumulative release in one panel.

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
    def of(cls, study: Study, release: JointRelease) -> Joint:
        """The two mechanisms of a release, with their parts of rho.

        Where no part is declared patterns get a little over half: in one panel the sums gain from
        precise patterns, while patterns lose from the noise of the sums.
        """
        alphabet = study.alphabet(release)
        first, last = study.span(release)
        share = release.window_share or _WINDOW_SHARE
        rows = study.size if release.rows is None else release.rows
        window = FixedWindow.best(
            values=alphabet.values,
            width=release.width,
            horizon=last - first + 1,
            rho=release.rho * share,
            neighbours=study.neighbours,
            failure=release.failure,
            rows=rows,
            absent=None if release.rows is None else alphabet.absent,
            strategy=study.strategy(release),
            padded=False,
            blank=study.blank(release) if study.admits_late_entry(release) else None,
            moves=release.where is not None,
        )
        totals = Cumulative.best(
            horizon=last - first + 1,
            rho=release.rho * (1 - share),
            neighbours=study.neighbours,
            rows=rows,
            failure=release.failure,
            counter=release.counter,
            moves=release.where is not None,
        )
        return cls(window, totals, study.event_codes(release))

    @property
    def title(self) -> str:
        return f"one panel for two: {self.window.title}; {self.totals.title}"

    @property
    def values(self) -> tuple[int | str, ...]:
        return self.window.values

    @property
    def rho(self) -> Fraction:
        return self.window.rho + self.totals.rho

    @property
    def horizon(self) -> int:
        return self.window.horizon

    @property
    def failure(self) -> Fraction:
        return self.window.failure

    @property
    def padding(self) -> int:
        return 0

    @property
    def worst_variance(self) -> Fraction:
        return max(self.window.worst_variance, self.totals.worst_variance)

    @property
    def error_bound(self) -> float:
        """The larger of both mechanisms' bounds, each of which holds with probability 1 - beta."""
        return max(self.window.error_bound, self.totals.error_bound)

    @property
    def bias(self) -> str:
        """How the panel's own answers are biased, in words."""
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

    def demand(self, t: int) -> Demand:
        sums = [vector for period in self._measured_at(t) for vector in self.totals.demand(period)]
        return (*self.window.demand(t), *sums)

    def _measured_at(self, t: int) -> range:
        """The periods whose sums are measured at t: none before k, 1..k at k, then t's own."""
        k = self.window.width
        return range(0) if t < k else range(1, k + 1) if t == k else range(t, t + 1)

    def init(self) -> JointState:
        return JointState(self.window.init(), self.totals.init())

    def step(self, state: JointState, counts: Counts, draw: Draw) -> tuple[JointState, Step | None]:
        """Measures one period and adds its columns to the panel.

        counts: those of the window mechanism, then those of `Cumulative.measure`
        """
        t, bins = state.period + 1, self.window.counts_size
        own = len(self.window.demand(t))
        windows, observation = self.window.observe(state.windows, counts[:bins], draw.noise[:own])
        observed = self.totals.recorded(state.totals, counts[bins:])
        if observation is None:
            return JointState(windows, observed), None
        at = own
        for period in self._measured_at(t):
            size = len(self.totals.demand(period))
            observed = self.totals.answered(observed, period, draw.noise[at : at + size])
            at += size
        sums = self.totals.sums(observed)
        if t == self.window.width:
            column, codes, moved = self._first(observation, sums, t, draw.coins)
            totals = np.isin(column, self.events).sum(axis=1)
        else:
            column, codes, moved = self._extend(state, observation, sums, draw.coins)
            totals = state.totals.totals + np.isin(column, self.events).sum(axis=1)
        after = JointState(
            self.window.extended(windows, observation, codes),
            replace(observed, totals=totals, sums=self._sums(totals)),
        )
        raw = [
            observation.measured,
            *(self.totals.measured(observed, s) for s in self._measured_at(t)),
        ]
        estimates = [observation.estimates, self.totals.estimates(observed)]
        return after, Step(column, Measurements.joined(raw), Estimates.joined(estimates), moved)

    def _sums(self, totals: NDArray[np.int64]) -> Counts:
        """The panel's own S_0..S_T."""
        by_total = np.bincount(totals, minlength=self.horizon + 1)
        sums: Counts = by_total[::-1].cumsum()[::-1].astype(np.int64)
        return sums

    def _first(
        self, observation: WindowObservation, sums: Floats, t: int, coins: np.random.Generator
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64], dict[str, int]]:
        """The panel at t = k from the estimated histogram and the noisy sums S_1..S_k.

        Returns the rows' first k symbols, their codes, and how far the targets moved.
        """
        window = self.window
        cells = observation.histogram[window.measured]
        if window.rows is not None and window.absent is None:
            cells += (window.rows - cells.sum()) / cells.size
        moved_cells = self._towards(cells, sums, t)
        targets = self._integer_targets(moved_cells, coins)
        codes = coins.permutation(np.repeat(np.arange(window.bins), targets))
        panel_sums = self._sums(self._inside[codes])[1 : t + 1]
        moved = {
            "rows_moved_in_patterns": int(np.abs(targets[window.measured] - cells).sum()),
            "rows_moved_in_totals": int(np.abs(panel_sums - sums).sum()),
        }
        columns = window_symbols(codes, window.q, window.width)
        return columns, codes, moved

    def _towards(self, cells: Floats, sums: Floats, t: int) -> Floats:
        """The noisy patterns moved so that their classes fit S_1..S_k (weighted least squares).

        Patterns of one class (the same number of events) move by the same amount. Where the number
        of rows is public the sum of all patterns stays.
        """
        inside = self._inside[self.window.measured]
        size = np.bincount(inside, minlength=t + 1).astype(float)
        above = np.triu(np.ones((t + 1, t + 1)))[1:] * size  # S_b from the move of each class
        noise = np.array([self.totals.design.variance(b, t) for b in range(1, t + 1)])
        precision = 1 / np.maximum(noise, _LEAST)
        class_sums = np.array([cells[inside >= b].sum() for b in range(1, t + 1)])
        own = self.window.design.bin_variances(t)[self.window.measured]
        a = max(float(own.mean()), _LEAST)
        matrix = np.diag(size / a) + above.T @ (precision[:, None] * above)
        right = above.T @ (precision * (sums - class_sums))
        kept = size > 0
        matrix, right = matrix[np.ix_(kept, kept)], right[kept]
        if self.window.rows is not None and self.window.absent is None:
            edge = size[kept]
            matrix = np.block([[matrix, edge[:, None]], [edge[None, :], np.zeros((1, 1))]])
            right = np.append(right, 0.0)
        move = np.zeros(t + 1)
        move[kept] = np.linalg.lstsq(matrix, right)[0][: int(kept.sum())]
        moved_cells: Floats = cells + move[inside]
        return moved_cells

    def _integer_targets(self, real_targets: Floats, coins: np.random.Generator) -> Counts:
        """Numbers of rows (q^k,) for the patterns: integers at or above 0, within the rows."""
        window = self.window
        total = window.rows
        if total is None or window.absent is not None:
            total = int(np.floor(real_targets.sum() + coins.random()))
        cells = real_targets + (total - real_targets.sum()) / real_targets.size
        near = round_to_sums(cells[None], np.array([total]), coins)[0]
        if window.absent is None:
            near = near if total >= 0 else np.zeros_like(near)
            closed_targets: Counts = project_nonnegative(near[None], coins)[0]
            return closed_targets
        assert window.rows is not None
        assert window.absent_pattern is not None
        targets = np.zeros(window.bins, np.int64)
        targets[window.measured] = project_to_total(near, min(max(total, 0), window.rows), coins)
        targets[window.absent_pattern] = window.rows - targets.sum()
        return targets

    def _extend(
        self,
        state: JointState,
        observation: WindowObservation,
        sums: Floats,
        coins: np.random.Generator,
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64], dict[str, int]]:
        """The panel's column at t > k.

        Returns the new symbols, the codes of the rows' last k, and how far the targets moved.
        """
        window, t, events = self.window, state.period + 1, list(self.events)
        tails, totals = state.windows.tails, state.totals.totals
        assert tails is not None
        overlaps, levels = window.overlaps, t
        cells = tails * levels + totals
        room = np.bincount(cells, minlength=overlaps * levels).reshape(overlaps, levels)
        wanted, _ = window.rows_wanted(state.windows, observation, coins)
        targets = wanted.reshape(overlaps, window.q)
        rows = targets[:, events].sum(axis=1)
        before = state.totals.sums
        aims = Margins(rows.astype(float), sums - before[1 : t + 1])
        reconciled = reconcile(room, aims, self._spreads(t), coins)
        order, starts = shuffled_groups(cells, overlaps * levels, coins)
        happens = np.empty(cells.shape[0], np.int64)
        place = np.arange(cells.shape[0]) - starts[cells[order]]
        happens[order] = place < reconciled.moves.ravel()[cells[order]]
        column = self._symbols(tails, happens, targets, coins)
        moved = {
            "rows_moved_in_patterns": reconciled.row_moved,
            "rows_moved_in_totals": reconciled.column_moved,
        }
        codes = tails * window.q + column
        return column[:, None].astype(np.uint8), codes, moved

    def _spreads(self, t: int) -> Margins:
        """Standard deviations of both kinds of targets, the weights of the least squares.

        A row that misses its pattern affects k releases, a miss of a sum is corrected at the next
        step: so the variance of a sum counts k times.
        """
        q, k = self.window.q, self.window.width
        bins = self.window.design.bin_variances(t).reshape(-1, q)[:, list(self.events)].sum(axis=1)
        sums = np.array([self.totals.design.variance(b, t) for b in range(1, t + 1)])
        return Margins(np.sqrt(bins), np.sqrt(k * sums))

    def _symbols(
        self,
        tails: NDArray[np.int64],
        happens: NDArray[np.int64],
        targets: Counts,
        coins: np.random.Generator,
    ) -> NDArray[np.int64]:
        """The new symbol of each row, (rows,).

        tails: (rows,) codes of the last k - 1 symbols
        happens: (rows,) 1 where the row gets the event
        targets: (overlaps, q) rows of each overlap by new symbol
        coins: for the choice of rows

        Symbols inside the event, and outside it, are shared out as the targets have them.
        """
        overlaps, q = targets.shape
        others = [x for x in range(q) if x not in self.events]
        groups = tails * 2 + happens
        sizes = np.bincount(groups, minlength=2 * overlaps).reshape(overlaps, 2)
        parts = [
            project_nonnegative(shift_to_totals(targets[:, own], sizes[:, i], coins), coins)
            for i, own in enumerate((others, list(self.events)))
        ]
        absent = self.window.absent
        if absent is not None and len(others) > 1:
            # The number of absences follows the targets; other symbols balance the event.
            unrepaired = targets[:, others]
            here = [i for i, x in enumerate(others) if x != absent]
            sums = sizes[:, 0] - targets[:, absent]
            unrepaired[:, here] = shift_to_totals(unrepaired[:, here], sums, coins)
            parts[0] = project_present(unrepaired, others.index(absent), int(sums.sum()), coins)
        order, _ = shuffled_groups(groups, 2 * overlaps, coins)
        column = np.empty(tails.shape[0], np.int64)
        symbols = np.tile(np.array([*others, *self.events]), overlaps)
        column[order] = np.repeat(symbols, np.concatenate(parts, axis=1).ravel())
        return column

    def dump(self, state: JointState) -> bytes:
        windows = self.window.dump(state.windows)
        head = len(windows).to_bytes(8, "big")
        return head + windows + self.totals.dump(state.totals)

    def load(self, data: bytes, panel: Columns | None) -> JointState:
        """Raises Inconsistent for bytes or a panel that are not this mechanism's."""
        end = 8 + int.from_bytes(data[:8], "big")
        windows = self.window.load(data[8:end], panel)
        totals = event_totals(panel, self.events)
        return JointState(windows, self.totals.restored(data[end:], totals))
