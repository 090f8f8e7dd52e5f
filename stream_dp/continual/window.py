"""The fixed-window synthesizer: after Bun, Gaboardi, Neunhoeffer, Zhang 2024, Algorithm 1.

Of what is measured (`window_design.py`) it makes a panel: at t = k rows whose histogram is the
noisy one, later one new symbol for every row (`window_targets.py`), so that the panel's histogram
follows the measurements as far as the histories that its rows already have allow.

Estimates are unbiased always: they are made of noisy answers alone, never of what was projected or
rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stream_dp.errors import UserError
from stream_dp.panel import Panel, window_symbols
from stream_dp.privacy.measurements import Measurements
from stream_dp.privacy.noise import Draw, exact_variance
from stream_dp.study import Neighbours, Strategy, Study, WindowRelease
from stream_dp.study.model import NO_CONTRASTS

from .base import (
    Counts,
    Demand,
    Estimates,
    Step,
    check_panel_fits,
    pack_state,
    shuffled_groups,
    unpack_state,
)
from .contrasts import Contrasts, Floats
from .window_design import WindowDesign
from .window_errors import WindowErrors
from .window_targets import WindowTargets, repair_notes

STATE_VERSION = 1


@dataclass(frozen=True)
class WindowState:
    """What the next period needs.

    period: the last one stepped
    tails: (rows,) each row's last k - 1 symbols, None before k
    estimates: (q^k,) the unbiased histogram where later ones are built on it, else None
    """

    period: int
    tails: NDArray[np.int64] | None
    estimates: Floats | None


@dataclass(frozen=True)
class WindowObservation:
    """A period's noisy answers (n,), as measurements, and the estimates of every pattern."""

    answers: Counts
    measured: Measurements
    estimates: Estimates


@dataclass(frozen=True)
class FixedWindow:
    """A window release as a continual mechanism.

    values: the q symbols
    width: k, the periods of a pattern
    horizon: T, the number of periods
    rho: the cost of all releases together under `neighbours`
    neighbours: the neighbouring relation
    failure: beta, the probability that the bounds below leave open
    strategy: what is measured after t = k, 'histogram' or 'contrasts'
    padded: n_pad rows are added to every bin, so that counts seldom fall below 0; otherwise noisy
        counts are projected onto what is possible
    rows: the public number of people under replacement, otherwise a declared cap on the rows;
        None: the panel's size is noisy
    absent: the code of the symbol 'absent' where people come and go: k absences are then never
        measured, and the pattern gets what the others leave of `rows`
    moves: as `WindowDesign` has it
    """

    values: tuple[int | str, ...]
    width: int
    horizon: int
    rho: Fraction
    neighbours: Neighbours
    failure: Fraction = Fraction(1, 20)
    strategy: Strategy = "histogram"
    padded: bool = True
    rows: int | None = None
    absent: int | None = None
    moves: bool = False

    def __post_init__(self) -> None:
        if self.absent is not None and self.rows is None:
            raise ValueError("an open population needs a declared cap on its rows")

    @classmethod
    def best(
        cls,
        values: tuple[int | str, ...],
        width: int,
        horizon: int,
        rho: Fraction,
        neighbours: Neighbours,
        failure: Fraction = Fraction(1, 20),
        *,
        rows: int | None = None,
        absent: int | None = None,
        strategy: Strategy | None = None,
        padded: bool | None = None,
        moves: bool = False,
        grows: bool = False,
    ) -> FixedWindow:
        """The mechanism with the smallest error in theory, but for what is declared.

        Parameters are the fields, and
        grows: people may enter late whom no earlier histogram counts. Contrasts take the total of
            every overlap from the period before, so they would be wrong by the newcomers for ever:
            then only histograms are a choice.

        Raises UserError where contrasts are asked for there.

        Strategy: the smaller mean variance of a bin over all releases. Contrasts measure only a
        share 1 - 1/q of each step, the first histogram carries the rest with noise of its own;
        under replacement a step costs more, rarely as much as that gains. Projection where `rows`
        is known: the true histogram is one of those projected onto, so the squared error of the
        first one falls, and where the number of people is public, that of the total vanishes and
        no row is padding. Where it is private, a noisy total is kept, and padding is unbiased.
        """
        padded = rows is None if padded is None else padded
        strategies: tuple[Strategy, ...] = ("contrasts", "histogram")
        if strategy is not None or grows:
            strategies = (strategy or "histogram",)
        if grows and strategy == "contrasts":
            raise UserError(f"strategy: {NO_CONTRASTS}")
        choices = [
            cls(
                values,
                width,
                horizon,
                rho,
                neighbours,
                failure,
                strategy=each,
                padded=padded,
                rows=rows,
                absent=absent,
                moves=moves,
            )
            for each in strategies
        ]
        return min(choices, key=lambda choice: choice.mean_variance)

    @classmethod
    def of(cls, study: Study, release: WindowRelease) -> FixedWindow:
        """The mechanism that the release declares, and the best in theory where it is silent."""
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

    @cached_property
    def design(self) -> WindowDesign:
        """What is measured, with which noise, at which cost."""
        return WindowDesign(
            values=self.values,
            width=self.width,
            horizon=self.horizon,
            rho=self.rho,
            neighbours=self.neighbours,
            strategy=self.strategy,
            absent=self.absent,
            moves=self.moves,
        )

    @cached_property
    def targets(self) -> WindowTargets:
        """How noisy answers become numbers of rows."""
        return WindowTargets(self.design, self.padded, self.padding, self.rows)

    @property
    def title(self) -> str:
        how = ", contrasts" if self.strategy == "contrasts" else ""
        rows = "" if self.padded else ", projected"
        who = "" if self.absent is None else ", open population"
        source = "Bun et al. 2024, Algorithm 1"
        return f"fixed window{how}{rows}{who} ({'after ' if how or rows or who else ''}{source})"

    @property
    def q(self) -> int:
        return self.design.q

    @property
    def bins(self) -> int:
        """q^k, the number of patterns."""
        return self.design.bins

    @property
    def contrasts(self) -> Contrasts:
        return self.design.contrasts

    @property
    def measured(self) -> NDArray[np.int64]:
        """The codes of the patterns that a histogram measures."""
        return self.design.measured

    @property
    def charges(self) -> tuple[Fraction, ...]:
        return self.design.charges

    @property
    def worst_variance(self) -> Fraction:
        return self.design.worst_variance

    @property
    def mean_variance(self) -> float:
        return self.design.mean_variance

    @cached_property
    def errors(self) -> WindowErrors:
        """How far released numbers may be off."""
        return WindowErrors(self.design, self.failure, self.padded, self.rows)

    @property
    def padding(self) -> int:
        return self.errors.padding

    @property
    def bias(self) -> str:
        return self.errors.bias

    @property
    def error_bound(self) -> float:
        return self.errors.error_bound

    def demand(self, t: int) -> Demand:
        return self.design.demand(t)

    def measure(self, t: int, counts: Counts) -> Counts:
        return self.design.measure(t, counts)

    def functional(self, t: int, weights: Floats) -> tuple[list[tuple[int, Floats]], float]:
        """The unbiased estimate of weights @ histogram at t >= k, from measurements up to t.

        weights: (q^k,), 0 on the pattern that is not measured

        Returns periods with the coefficients on their measurements, and the estimate's variance,
        exact. Where the number of people n is public, asking for weights - mean and adding n mean
        has the least variance. Raises ValueError for a weight on the pattern that is not measured.
        """
        unseen = self.contrasts.unseen
        if unseen is not None and weights[unseen]:
            raise ValueError("nothing is known of the pattern that is not measured")
        first = self.width if self.strategy == "contrasts" else t
        rest, parts = weights.astype(float), []
        for period in range(t, first, -1):
            coefficients, rest = self.contrasts.adjoint(rest)
            parts.append((period, coefficients))
        parts = [(first, rest[self.measured]), *reversed(parts)]
        variance = 0.0
        for period, coefficients in parts:
            demand = self.demand(period)
            noise = np.repeat([exact_variance(v) for v, _ in demand], [n for _, n in demand])
            variance += float(coefficients**2 @ noise)
        return parts, variance

    def init(self) -> WindowState:
        return WindowState(0, None, np.zeros(self.bins) if self.strategy == "contrasts" else None)

    def observe(
        self, state: WindowState, counts: Counts, noise: Sequence[Counts]
    ) -> tuple[WindowState, WindowObservation | None]:
        """Measures one period, without rows: the next state but for the tails, and the answers.

        state: after the period before
        counts: the true histogram, (q^k,) int64; ignored before t = k
        noise: as `demand` asks
        """
        t = state.period + 1
        if t < self.width:
            return replace(state, period=t), None
        answers = self.measure(t, counts) + np.concatenate(noise)
        histogram = self._histogram(state, t, answers)
        observation = WindowObservation(
            answers, self._measurements(t, answers), self._estimates(t, histogram)
        )
        kept = None if state.estimates is None else histogram
        return WindowState(t, state.tails, kept), observation

    def step(
        self, state: WindowState, counts: Counts, draw: Draw
    ) -> tuple[WindowState, Step | None]:
        """One period. counts as in `observe`."""
        after, observation = self.observe(state, counts, draw.noise)
        if observation is None:
            return after, None
        if state.tails is None:
            unrepaired, targets = self.targets.first(observation.answers, draw.coins)
            codes = draw.coins.permutation(np.repeat(np.arange(self.bins), targets))
            columns = window_symbols(codes, self.q, self.width)
        else:
            order, starts = shuffled_groups(state.tails, self.contrasts.overlaps, draw.coins)
            unrepaired, targets = self.targets.later(
                np.diff(starts),
                observation.answers,
                draw.coins,
                self.people_present(observation.estimates),
            )
            column = np.empty(state.tails.shape[0], np.int64)
            symbols = np.tile(np.arange(self.q), self.contrasts.overlaps)
            column[order] = np.repeat(symbols, targets.ravel())
            columns = column[:, None].astype(np.uint8)
            codes = state.tails * self.q + column
        notes = repair_notes(unrepaired, targets)
        step = Step(columns, observation.measured, observation.estimates, notes)
        return replace(after, tails=codes % self.contrasts.overlaps), step

    def people_present(self, estimates: Estimates) -> int | None:
        """How many rows are to be present by the estimates, in an open population of contrasts.

        Contrasts take the rows of an overlap as they are, so what an earlier step let in too many
        goes on, but for a part 1/q. Histograms measure the number anew, and need no estimates:
        None.
        """
        if self.absent is None or self.strategy != "contrasts":
            return None
        present = self.measured % self.q != self.absent
        return round(float(estimates.values[present].sum())) + self.padding * int(present.sum())

    def _histogram(self, state: WindowState, t: int, answers: Counts) -> Floats:
        """The unbiased histogram at t, (q^k,); 0 for the pattern that is not measured."""
        if self.design.measures_contrasts(t):
            assert state.estimates is not None
            return self.contrasts.carry(state.estimates, answers)
        histogram = np.zeros(self.bins)
        histogram[self.measured] = answers
        return histogram

    def _measurements(self, t: int, answers: Counts) -> Measurements:
        contrasts = self.design.measures_contrasts(t)
        queries = self.design.contrast_words if contrasts else self.design.bin_words
        variances = tuple(v for v, size in self.demand(t) for _ in range(size))
        return Measurements(queries, answers, variances)

    def _estimates(self, t: int, histogram: Floats) -> Estimates:
        errors = np.sqrt(self.design.bin_variances(t)[self.measured])
        return Estimates(self.design.bin_words, histogram[self.measured], errors)

    def dump(self, state: WindowState) -> bytes:
        """The state but for its rows, which are in the released panel.

        Only the number of rows and the period are kept, and the estimates, bit by bit, where the
        next ones need them.
        """
        arrays = {"rows": np.array(0 if state.tails is None else state.tails.shape[0])}
        if state.estimates is not None:
            arrays["estimates"] = state.estimates.view(np.int64)
        return pack_state(STATE_VERSION, state.period, **arrays)

    def load(self, data: bytes, panel: Panel | None) -> WindowState:
        """The state from its bytes and the released panel.

        Raises Inconsistent for bytes or a panel that are not this mechanism's.
        """
        shapes = {"estimates": (self.bins,)} if self.strategy == "contrasts" else {}
        period, arrays = unpack_state(data, STATE_VERSION, rows=(), **shapes)
        check_panel_fits(panel, period if period >= self.width else 0, int(arrays["rows"]))
        tails = None if panel is None else panel.codes(self.width - 1)
        return WindowState(period, tails, arrays["estimates"].view(np.float64) if shapes else None)
