"""The fixed-window synthesizer: after Bun, Gaboardi, Neunhoeffer, Zhang 2024, Algorithm 1.

Of what is measured (`window_form.py`) it makes a panel: at t = k rows whose histogram is the noisy
one, later one new symbol for every row, so that the panel's histogram follows the measurements as
far as the histories that its rows already have allow.

Padded counts seldom fall below 0, and debiased answers of the panel are unbiased then. Without
padding the noisy counts are projected onto what is possible: less error, but a bias of single
answers where counts are near 0. Estimates are unbiased always: they are made of noisy answers
alone, never of what was projected or rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stream_dp.panel import Panel, window_symbols
from stream_dp.privacy.measurements import Measurements
from stream_dp.privacy.noise import Draw
from stream_dp.study import Study, WindowRelease

from .base import (
    Counts,
    Estimates,
    Step,
    check_panel_fits,
    pack_state,
    shuffled_groups,
    unpack_state,
)
from .contrasts import Floats, backward
from .splits import (
    project_nonnegative,
    project_present,
    project_to_most,
    project_to_total,
    round_to_sums,
    shift_to_totals,
)
from .window_form import WindowForm

STATE_VERSION = 1


@dataclass(frozen=True)
class WindowState:
    """period: the last one stepped; tails: (rows,) each row's last k-1 symbols, None before k;
    estimates: (q^k,) the unbiased histogram where later ones are built on it, else None."""

    period: int
    tails: NDArray[np.int64] | None
    estimates: Floats | None


@dataclass(frozen=True)
class WindowObservation:
    """A period's noisy answers (n,), as measurements, and what they say of every pattern."""

    answers: Counts
    measured: Measurements
    estimates: Estimates


@dataclass(frozen=True)
class FixedWindow(WindowForm):
    """A window release as a continual mechanism; its fields are those of its form."""

    @classmethod
    def of(cls, study: Study, release: WindowRelease) -> FixedWindow:
        """The form that the release declares, and the best in theory where it is silent."""
        alphabet = study.alphabet(release)
        first, last = study.span(release)
        return cls.best(
            alphabet.values,
            release.width,
            last - first + 1,
            release.rho,
            study.neighbours,
            release.failure,
            rows=study.size if release.rows is None else release.rows,
            absent=None if release.rows is None else alphabet.absent,
            strategy=release.strategy,
            padded=release.padded,
            moves=release.where is not None,
            grows=study.grows(release),
        )

    def init(self) -> WindowState:
        return WindowState(0, None, np.zeros(self.bins) if self.strategy == "contrasts" else None)

    def observe(
        self, state: WindowState, counts: Counts, noise: Sequence[Counts]
    ) -> tuple[WindowState, WindowObservation | None]:
        """Measure one period, without rows: the next state but for the tails, and what is seen.

        counts: the true histogram, (q^k,) int64; ignored before t = k.
        """
        t = state.period + 1
        if t < self.width:
            return replace(state, period=t), None
        answers = self.measure(t, counts) + np.concatenate(noise)
        told = self._told(state, t, answers)
        held = None if state.estimates is None else told
        seen = WindowObservation(answers, self._measured(t, answers), self._estimates(t, told))
        return WindowState(t, state.tails, held), seen

    def step(
        self, state: WindowState, counts: Counts, draw: Draw
    ) -> tuple[WindowState, Step | None]:
        """One period. counts as in `observe`."""
        after, seen = self.observe(state, counts, draw.noise)
        if seen is None:
            return after, None
        if state.tails is None:
            wanted, targets = self.first_targets(seen.answers, draw.coins)
            codes = draw.coins.permutation(np.repeat(np.arange(self.bins), targets))
            columns = window_symbols(codes, self.q, self.width)
        else:
            order, starts = shuffled_groups(state.tails, self.contrasts.overlaps, draw.coins)
            wanted, targets = self.later_targets(
                np.diff(starts), seen.answers, draw.coins, self.drifting(seen.estimates)
            )
            column = np.empty(state.tails.shape[0], np.int64)
            symbols = np.tile(np.arange(self.q), self.contrasts.overlaps)
            column[order] = np.repeat(symbols, targets.ravel())
            columns = column[:, None].astype(np.uint8)
            codes = state.tails * self.q + column
        step = Step(columns, seen.measured, seen.estimates, _notes(wanted, targets))
        return replace(after, tails=codes % self.contrasts.overlaps), step

    def first_targets(self, answers: Counts, coins: np.random.Generator) -> tuple[Counts, Counts]:
        """t = k: the histogram that is wanted and the one that the panel gets, (q^k,) each.

        Where the number of people is public, both sum to it; a cap is kept by projection.
        """
        cells = answers + self.padding
        cap = None if self.rows is None else self.rows + self.padding * self.bins
        unseen = self.contrasts.unseen
        if unseen is not None and cap is not None:
            return _seen(cells, self.measured, unseen, cap, self.bins, coins)
        if self.neighbours != "add_remove":
            if self.rows is not None and not self.padded:
                cells = shift_to_totals(cells[None], np.array([self.rows]), coins)[0]
                return cells, project_nonnegative(cells[None], coins)[0]
            cap = None  # the noisy total may exceed the number of people
        if self.padded:
            return cells, project_to_most(cells, cap, coins)
        total = max(0, int(cells.sum()))
        return cells, project_to_total(cells, total if cap is None else min(total, cap), coins)

    def later_targets(
        self,
        totals: Counts,
        answers: Counts,
        coins: np.random.Generator,
        people: int | None = None,
    ) -> tuple[Counts, Counts]:
        """t > k: how many rows of each overlap want each symbol, and get it, (overlaps, q) each.

        totals: (overlaps,) the rows that end in it. Step 3 of the algorithm: the nearest numbers
        with these sums, rounded at random. Contrasts leave the sums open to begin with. Where the
        overlap of absences is not measured as a whole, one more absence gets what is left.

        people: how many are present by the estimates, where the panel's number may drift away
        from it. Half of the gap is closed at each step: all of it would follow the noise.
        """
        if self.strategy == "contrasts":
            inside, direct = self.contrasts.parts(answers)
            wanted = round_to_sums(totals[:, None] / self.q + backward(inside), totals, coins)
        else:
            noisy = np.zeros(self.bins, np.int64)
            noisy[self.measured] = answers
            direct = noisy[self.contrasts.direct]
            wanted = shift_to_totals(noisy.reshape(-1, self.q), totals, coins)
        if self.absent is None:
            return wanted, project_nonnegative(wanted, coins)
        gone, places = self.contrasts.gone, self.contrasts.direct % self.q
        wanted[gone] = 0
        wanted[gone, places] = direct + self.padding
        wanted[gone, self.absent] = totals[gone] - wanted[gone].sum()
        here = int(totals.sum() - wanted[:, self.absent].sum())
        here = here if people is None else (here + people) // 2
        return wanted, project_present(wanted, self.absent, here, coins)

    def drifting(self, estimates: Estimates) -> int | None:
        """How many rows are to be present by the estimates, in an open population of contrasts.

        These take the rows of an overlap as they are, so what an earlier step let in too many goes
        on, but for a part 1/q. Histograms measure the number anew, and need no estimates.
        """
        if self.absent is None or self.strategy != "contrasts":
            return None
        here = self.measured % self.q != self.absent
        return round(float(estimates.values[here].sum())) + self.padding * int(here.sum())

    def _told(self, state: WindowState, t: int, answers: Counts) -> Floats:
        """The unbiased histogram at t, (q^k,); 0 for the pattern that is not measured."""
        if self.is_later(t):
            assert state.estimates is not None
            return self.contrasts.carry(state.estimates, answers)
        found = np.zeros(self.bins)
        found[self.measured] = answers
        return found

    def _measured(self, t: int, answers: Counts) -> Measurements:
        words = self.contrast_words if self.is_later(t) else self.bin_words
        variances = tuple(v for v, size in self.demand(t) for _ in range(size))
        return Measurements(words, answers, variances)

    def _estimates(self, t: int, told: Floats) -> Estimates:
        errors = np.sqrt(self.bin_variances(t)[self.measured])
        return Estimates(self.bin_words, told[self.measured], errors)

    def dump(self, state: WindowState) -> bytes:
        """The rows are in the released panel: only their number and the period are kept, and the
        estimates, bit by bit, where the next ones need them."""
        held = {"rows": np.array(0 if state.tails is None else state.tails.shape[0])}
        if state.estimates is not None:
            held["estimates"] = state.estimates.view(np.int64)
        return pack_state(STATE_VERSION, state.period, **held)

    def load(self, data: bytes, panel: Panel | None) -> WindowState:
        """Raises Inconsistent for bytes or a panel that are not this mechanism's."""
        later = {"estimates": (self.bins,)} if self.strategy == "contrasts" else {}
        period, held = unpack_state(data, STATE_VERSION, rows=(), **later)
        check_panel_fits(panel, period if period >= self.width else 0, int(held["rows"]))
        tails = None if panel is None else panel.codes(self.width - 1)
        return WindowState(period, tails, held["estimates"].view(np.float64) if later else None)


def _seen(
    cells: Counts, places: Counts, rest: int, most: int, size: int, coins: np.random.Generator
) -> tuple[Counts, Counts]:
    """`size` counts that sum to `most`: cells at places, and what they leave at `rest`.

    As they are wanted, and with nothing below 0: the cells are projected to their own noisy sum,
    as far as there are rows, so that those raised to 0 are paid by other cells, not by the rest.
    """
    wanted, targets = np.zeros((2, size), np.int64)
    wanted[places], wanted[rest] = cells, most - cells.sum()
    total = min(max(int(cells.sum()), 0), most)
    targets[places], targets[rest] = project_to_total(cells, total, coins), most - total
    return wanted, targets


def _notes(wanted: Counts, targets: Counts) -> dict[str, int]:
    return {
        "cells_below_zero": int((wanted < 0).sum()),
        "rows_moved_by_repair": int(np.abs(targets - wanted).sum()),
    }
