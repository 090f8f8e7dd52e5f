"""One panel for both query classes: window patterns and running totals of one event.

A window mechanism and a cumulative one measure as they would alone, each with its part of rho;
the costs add up. Their targets are brought together in one panel at each step:

- t = k: the first histogram, moved by least squares towards the sums S_1..S_k, its patterns
  classed by how many events they hold.
- t > k: a row's cell is (last k - 1 symbols z, total b). The window says how many rows of each z
  get the event, the sums how many of each b. First both get the same number of events in all, the
  gap shared out in proportion to the variances; then a bounded transportation problem gives whole
  rows of each cell (`reconcile.py`). How far the targets had to move is published.

The panel begins at t = k, with k columns; the sums of earlier periods are measured then, too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stream_dp.panel import Panel, window_symbols
from stream_dp.privacy.measurements import Measurements
from stream_dp.privacy.noise import Draw
from stream_dp.study import JointRelease, Study

from .base import Counts, Demand, Estimates, Step, shuffled_groups
from .cumulative import Cumulative, CumulativeState
from .reconcile import reconcile
from .splits import (
    project_nonnegative,
    project_present,
    project_to_total,
    round_to_sums,
    shift_to_totals,
)
from .window import FixedWindow, WindowState

Floats = NDArray[np.float64]
_WINDOW_SHARE = Fraction(11, 20)
_LEAST = 1e-2  # of a variance: a hundredth of a row is as good as exact


@dataclass(frozen=True)
class JointState:
    """The two mechanisms' states: `windows` with the rows' last symbols, `totals` with the rows'
    totals and the panel's own sums."""

    windows: WindowState
    totals: CumulativeState

    @property
    def period(self) -> int:
        return self.windows.period


@dataclass(frozen=True)
class Joint:
    """window: not padded; totals: of the same horizon and relation; events: the symbols' codes."""

    window: FixedWindow
    totals: Cumulative
    events: tuple[int, ...]

    @classmethod
    def of(cls, study: Study, release: JointRelease) -> Joint:
        """The two mechanisms with their parts of rho.

        Where nothing is declared, patterns get a little over half: sums gain from the patterns'
        precision in one panel, patterns lose by the sums' noise.
        """
        alphabet = study.alphabet(release)
        first, last = study.span(release)
        share = release.window_share or _WINDOW_SHARE
        rows = study.size if release.rows is None else release.rows
        window = FixedWindow.best(
            alphabet.values,
            release.width,
            last - first + 1,
            release.rho * share,
            study.neighbours,
            release.failure,
            rows=rows,
            absent=None if release.rows is None else alphabet.absent,
            strategy=release.strategy,
            padded=False,
            moves=release.where is not None,
            grows=study.grows(release),
        )
        totals = Cumulative.best(
            last - first + 1,
            release.rho * (1 - share),
            study.neighbours,
            rows,
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
        """Neither class of estimates is off by more, each with probability 1 - beta."""
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
        sums = [one for period in self._measured_at(t) for one in self.totals.demand(period)]
        return (*self.window.demand(t), *sums)

    def _measured_at(self, t: int) -> range:
        """The periods whose sums are measured at t: none before k, 1..k at k, then t's own."""
        k = self.window.width
        return range(0) if t < k else range(1, k + 1) if t == k else range(t, t + 1)

    def init(self) -> JointState:
        return JointState(self.window.init(), self.totals.init())

    def step(self, state: JointState, counts: Counts, draw: Draw) -> tuple[JointState, Step | None]:
        """One period. counts: the histogram (q^k,), then what the cumulative mechanism takes."""
        t, bins = state.period + 1, self.window.bins
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
            column, tails, moved = self._first(observation.answers, sums, t, draw.coins)
            totals = np.isin(column, self.events).sum(axis=1)
        else:
            column, tails, moved = self._extend(
                state,
                observation.answers,
                sums,
                self.window.people_present(observation.estimates),
                draw.coins,
            )
            totals = state.totals.totals + np.isin(column, self.events).sum(axis=1)
        after = JointState(
            replace(windows, tails=tails),
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
        self, answers: Counts, sums: Floats, t: int, coins: np.random.Generator
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64], dict[str, int]]:
        """The rows' first k symbols, the tails they leave, and how far the targets moved."""
        window = self.window
        cells = answers.astype(float)
        if window.rows is not None and window.absent is None:
            cells += (window.rows - cells.sum()) / cells.size
        moved_cells = self._towards(cells, sums, t)
        targets = self._whole(moved_cells, coins)
        codes = coins.permutation(np.repeat(np.arange(window.bins), targets))
        got = self._sums(self._inside[codes])[1 : t + 1]
        moved = {
            "rows_moved_in_patterns": int(np.abs(targets[window.measured] - cells).sum()),
            "rows_moved_in_totals": int(np.abs(got - sums).sum()),
        }
        columns = window_symbols(codes, window.q, window.width)
        return columns, codes % window.contrasts.overlaps, moved

    def _towards(self, cells: Floats, sums: Floats, t: int) -> Floats:
        """Noisy patterns moved so that their classes fit S_1..S_k best (weighted least squares).

        Patterns of one class move alike; where the number of rows is public the sum stays.
        """
        inside = self._inside[self.window.measured]
        size = np.bincount(inside, minlength=t + 1).astype(float)
        above = np.triu(np.ones((t + 1, t + 1)))[1:] * size  # S_b from the move of each class
        noise = np.array([self.totals.design.variance(b, t) for b in range(1, t + 1)])
        precision = 1 / np.maximum(noise, _LEAST)
        class_sums = np.array([cells[inside >= b].sum() for b in range(1, t + 1)])
        a = max(float(self.window.design.variance), _LEAST)
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

    def _whole(self, real_targets: Floats, coins: np.random.Generator) -> Counts:
        """Numbers of rows (q^k,) for the patterns: whole, at or above 0, within the rows."""
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
        assert window.contrasts.unseen is not None
        targets = np.zeros(window.bins, np.int64)
        targets[window.measured] = project_to_total(near, min(max(total, 0), window.rows), coins)
        targets[window.contrasts.unseen] = window.rows - targets.sum()
        return targets

    def _extend(
        self,
        state: JointState,
        answers: Counts,
        sums: Floats,
        people: int | None,
        coins: np.random.Generator,
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64], dict[str, int]]:
        """One new symbol for every row, the tails after it, and how far the targets moved."""
        window, t, events = self.window, state.period + 1, list(self.events)
        tails, totals = state.windows.tails, state.totals.totals
        assert tails is not None
        overlaps, levels = window.contrasts.overlaps, t
        cells = tails * levels + totals
        room = np.bincount(cells, minlength=overlaps * levels).reshape(overlaps, levels)
        _, targets = window.targets.later(room.sum(axis=1), answers, coins, people)
        rows = targets[:, events].sum(axis=1)
        before = state.totals.sums
        columns = sums - before[1 : t + 1]
        reconciled = reconcile(room, rows.astype(float), columns, self._spreads(t), coins)
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
        return column[:, None].astype(np.uint8), codes % overlaps, moved

    def _spreads(self, t: int) -> tuple[Floats, Floats]:
        """Standard deviations of the two kinds of targets, as they weigh on a miss.

        A row that misses its pattern shows in k releases, a miss of a sum is made good at the next
        step: sums give way k times as easily, in squares.
        """
        q, k = self.window.q, self.window.width
        bins = self.window.design.bin_variances(t).reshape(-1, q)[:, list(self.events)].sum(axis=1)
        sums = np.array([self.totals.design.variance(b, t) for b in range(1, t + 1)])
        return np.sqrt(bins), np.sqrt(k * sums)

    def _symbols(
        self,
        tails: NDArray[np.int64],
        happens: NDArray[np.int64],
        targets: Counts,
        coins: np.random.Generator,
    ) -> NDArray[np.int64]:
        """Which symbol each row gets: of those that are the event or of the others, as the
        targets have them, in random order."""
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
            # Other symbols make up for the event first: as many are present as the targets say.
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

    def load(self, data: bytes, panel: Panel | None) -> JointState:
        """Raises Inconsistent for bytes or a panel that are not this mechanism's."""
        end = 8 + int.from_bytes(data[:8], "big")
        windows = self.window.load(data[8:end], panel)
        happened = None if panel is None else np.isin(panel.symbols, self.events)
        return JointState(windows, self.totals.restored(data[end:], happened))
