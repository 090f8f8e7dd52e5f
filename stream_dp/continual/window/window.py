"""The fixed-window synthesizer: after Bun, Gaboardi, Neunhoeffer, Zhang 2024, Algorithm 1.

It builds a panel from the measurements of `window_design.py`: at t = k rows with the noisy
histogram, later one new symbol for every row (`fitted_targets.py`), so that the panel's histogram
is as near to the noisy one as the released histories of its rows allow.

Estimates are always unbiased: they are linear in the noisy answers, before any projection or
rounding.

The error bounds are those of Bun et al. 2024, Theorem 3.2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stream_dp.panel import Columns, Symbols, last_codes, window_codes, window_symbols
from stream_dp.privacy.exact_numbers import exact_field
from stream_dp.privacy.ledger import crossed_strata
from stream_dp.privacy.noise import Draw, Measurements
from stream_dp.study import JointRelease, Strategy, Study, WindowRelease

from ..mechanism_interface import (
    NONE,
    Counts,
    Estimates,
    Step,
    StoredDesign,
    check_arguments,
    check_panel_fits,
    check_whole,
    pack_state,
    shuffled_groups,
    unpack_state,
)
from .fitted_targets import NEAR, FittedTargets
from .measurement_strategy import NoisyWindow
from .presence import presence_counts
from .window_design import WindowDesign

Floats = NDArray[np.float64]

STATE_VERSION = 1

_NOTHING = np.zeros(0), np.zeros(0)  # the carry and the mean of histograms


@dataclass(frozen=True)
class WindowState:
    """What the next period needs.

    period: the last completed period
    tails: (rows,) the code of each row's last k - 1 symbols, None before t = k
    panel: (q^k,) how many rows have which last k symbols, None before t = k
    known: what the answers so far say; empty where every period measures a histogram
    carry: (q^k,) what the panel's patterns did not get (`fitted_targets.py`); empty for histograms
    mean: (q^k,) of the estimates so far (`fitted_targets.py`); empty for histograms
    """

    period: int
    tails: NDArray[np.int64] | None
    panel: Counts | None
    known: NoisyWindow
    carry: Floats
    mean: Floats


def packed_window(state: WindowState, design: WindowDesign) -> bytes:
    """The state as bytes, without its rows, which are in the released panel.

    They hold the period, the number of rows and, with residuals, the noisy entries, the estimates
    of who is present, the carry and the mean, bit by bit.
    """
    known = state.known
    arrays = {"rows": np.array(0 if state.tails is None else state.tails.shape[0])}
    if design.strategy == Strategy.RESIDUALS:
        # As many estimates at every period: 0 behind those that are there.
        missing = design.measurement.known_sets(design.horizon) - known.solved.size
        arrays |= {
            "entries": known.entries,
            "solved": np.append(known.solved, np.zeros(missing)).view(np.int64),
            "direct": np.array(known.direct),
            "carry": state.carry.view(np.int64),
            "mean": state.mean.view(np.int64),
        }
    return pack_state(STATE_VERSION, state.period, **arrays)


def unpacked_window(data: bytes, design: WindowDesign, panel: Columns | None) -> WindowState:
    """The state from its bytes and the released panel.

    Raises Inconsistent for bytes or a panel that are not this release's.
    """
    measurement, fitted = design.measurement, design.strategy == Strategy.RESIDUALS
    shapes: dict[str, tuple[int, ...]] = {}
    if fitted:
        shapes = {
            "entries": (design.bins,),
            "solved": (measurement.known_sets(design.horizon),),
            "direct": (),
            "carry": (design.bins,),
            "mean": (design.bins,),
        }
    period, arrays = unpack_state(data, STATE_VERSION, rows=(), **shapes)
    check_panel_fits(panel, period if period >= design.width else 0, int(arrays["rows"]))
    tails = counts = None
    if panel is not None:
        codes = last_codes(panel, design.width, design.q)
        tails = codes % design.overlaps
        counts = np.bincount(codes, minlength=design.bins)
    if not fitted:
        return WindowState(period, tails, counts, measurement.init(), *_NOTHING)
    solved = arrays["solved"].view(np.float64)[: measurement.known_sets(period)]
    known = NoisyWindow(arrays["entries"], solved, int(arrays["direct"]))
    carry, mean = (arrays[name].view(np.float64) for name in ("carry", "mean"))
    return WindowState(period, tails, counts, known, carry, mean)


@dataclass(frozen=True, kw_only=True)
class BoundedWindow(WindowDesign):
    """A design with its padding, the bounds on its errors and the panel's bias.

    failure: beta, the probability with which the error bounds may be exceeded
    padded: n_pad rows are added to every bin, so that counts seldom fall below 0; otherwise noisy
        counts are projected onto possible ones
    """

    failure: Fraction = exact_field(Fraction(1, 20))
    padded: bool = True

    @property
    def _spread(self) -> float:
        """Subgaussian parameter of the worst bin, for estimates and a padded panel.

        As in Theorem 3.2: a sum of independent discrete Gaussians is subgaussian with its variance
        parameter as proxy. A padded panel follows the estimates alone (`fitted_targets.py`), so
        it is off by roundings. Rounding to a fixed sum moves each of q siblings by less than 1, and
        by 0 on average whatever happened before: its proxy is at most 1/4. A bin inherits
        roundings of different overlaps, each shared equally among q symbols: with weights whose
        squares sum to at most q / (q - 1) <= 2. All roundings together have a proxy of at most 1/2,
        and they are independent of the noise.
        """
        return math.sqrt(self.worst_variance) + math.sqrt(0.5)

    @property
    def padding(self) -> int:
        """n_pad: with probability 1 - beta no measured bin falls below 0.

        Theorem 3.2, one-sided, for q^k R bins. 0 where noisy counts are projected.
        """
        if not self.padded:
            return 0
        return math.ceil(self._spread * math.sqrt(2 * self._log(self.bins * self.releases)))

    @property
    def raised(self) -> float:
        """About how many rows on average go to a pattern that nobody has, if counts are projected.

        The mean of the positive part of the noise (Gaussian); less where other patterns are
        lowered at the same time.
        """
        return math.sqrt(float(self.worst_variance) / (2 * math.pi))

    @property
    def bias(self) -> str:
        """The bias of the panel's answers, in words."""
        if not self.padded:
            leaning = (
                "; each count of few people also moves towards its earlier estimates, by up to"
                f" {NEAR * math.sqrt(self.worst_variance):.1f} rows"
            )
            leans = self.strategy == Strategy.RESIDUALS and self.absent is None
            return (
                "counts below 0 are raised to 0 and other counts are lowered, so small counts are"
                " too large (a pattern that nobody has gets up to about"
                f" {self.raised:.0f} rows on average) and large counts are too small"
                f"{leaning * leans}"
            )
        bins = self.bins
        added = self.padding * bins
        share = "" if self.rows is None else f", {added / (self.rows + added):.0%} of all"
        return (
            f"the panel has {self.padding} padding rows for each of {bins} patterns ({added}"
            f" rows{share}), so shares of its rows are biased towards uniform"
        )

    @property
    def error_bound(self) -> float:
        """lambda of Theorem 3.2: with probability 1 - beta no bin at any t has a larger error.

        It holds for the estimates, and for a padded panel's measured bins if no count fell below 0.
        """
        cells = self.bins * self.releases
        return self._spread * math.sqrt(2 * self._log(2 * cells))

    @property
    def bounded(self) -> str:
        """The queries within the bound, in words."""
        panel = ", and in the panel where no count fell below 0" if self.padded else ""
        return f"for every pattern, as estimated{panel}"

    def _log(self, events: int) -> float:
        return math.log(events / self.failure)


@dataclass(frozen=True)
class WindowObservation:
    """The measurements of a period.

    answers: (n,) the noisy answers
    measured: the same, with their queries and variances
    histogram: (q^k,) the unbiased estimates; 0 for the pattern that is not measured
    estimates: of every measured pattern
    """

    answers: Counts
    measured: Measurements
    histogram: Floats
    estimates: Estimates


@dataclass(frozen=True, kw_only=True)
class FixedWindow(BoundedWindow):
    """Algorithm 1 of Bun et al. 2024 for windows of k periods, or its variant with residuals.

    The true counts of a period are the histogram (q^k,); with residuals where people come and go
    or enter late, then the people by when they were present (`Presence.measure`).

    Cost. All periods together cost rho, by the exact worst case over pairs of histories; of
    residuals in an open population under replacement by an upper bound. With R = T - k + 1
    releases and s the scale of the noise the worst case is R / (2 s) under add_remove and R / s
    under replacement, for histograms of variance s and for residuals whose weights are the numbers
    of windows (`window_design.py`, `residual_costs.py`, `presence.py`).
    """

    def __post_init__(self) -> None:
        check_arguments(self)
        check_whole("width", self.width)
        if self.width > self.horizon:
            raise ValueError("width: must be at most the horizon")
        if len(self.values) < 2 or len({*map(str, self.values)}) < len(self.values):
            raise ValueError("values: name at least two symbols, each once")
        if self.strategy not in [*Strategy]:
            raise ValueError(f"strategy: must be one of {', '.join(Strategy)}")
        if self.absent is not None and self.rows is None:
            raise ValueError("an open population needs a declared cap on its rows")

    def best(self, *, strategy: Strategy | None = None, padded: bool | None = None) -> FixedWindow:
        """The mechanism with the smallest error in theory, by strategy and padding.

        strategy, padded: as declared, None where the best is chosen

        Residuals have a smaller error than histograms in every shape. Where people come and go or
        enter late they also measure who is present, in 2^(2k - 1) counts: histograms for wider
        windows than `MOST_PRESENCE_WIDTH`. Counts are projected where `rows` is known: the true
        histogram is among those projected onto, so the squared error of the first histogram falls;
        where the number of people is public, the error of the total vanishes and no padding is
        needed. Where it is private the total is noisy, and padding keeps answers unbiased.
        """
        best = Strategy.RESIDUALS if self.allows(Strategy.RESIDUALS) else Strategy.HISTOGRAM
        if padded is None:
            padded = self.rows is None
        return replace(self, strategy=strategy or best, padded=padded)

    @classmethod
    def declared(
        cls,
        study: Study,
        release: WindowRelease | JointRelease,
        rho: Fraction,
        stored: StoredDesign = NONE,
    ) -> FixedWindow:
        """The windows of a release at this cost, with residuals and padding.

        stored: what was computed when the study began
        """
        alphabet = study.alphabet(release)
        first, last = study.span(release)
        return cls(
            values=alphabet.values,
            width=release.width,
            horizon=last - first + 1,
            rho=rho,
            neighbours=study.neighbours,
            failure=release.failure,
            rows=study.size if release.rows is None else release.rows,
            absent=None if release.rows is None else alphabet.absent,
            blank=study.blank(release) if study.admits_late_entry(release) else None,
            crossed=crossed_strata(study.strata, release.name),
            stored=stored.presence,
        )

    @classmethod
    def of(cls, study: Study, release: WindowRelease, stored: StoredDesign = NONE) -> FixedWindow:
        """The mechanism of a release, with the best choices in theory for undeclared parameters."""
        windows = cls.declared(study, release, release.rho, stored)
        return windows.best(strategy=study.strategy(release), padded=release.padded)

    def as_stored(self) -> StoredDesign:
        """Numbers computed in floats, with possible differences between machines."""
        return StoredDesign(presence=self.stored_presence())

    @cached_property
    def fit(self) -> FittedTargets:
        """The numbers of rows, computed from the estimates."""
        return FittedTargets(self, self.padding, self.rows)

    @property
    def title(self) -> str:
        how = ", residuals" if self.strategy == Strategy.RESIDUALS else ""
        rows = "" if self.padded else ", projected"
        who = "" if self.absent is None else ", open population"
        source = "Bun et al. 2024, Algorithm 1"
        return f"fixed window{how}{rows}{who} ({'after ' if how or rows or who else ''}{source})"

    def counts(self, symbols: Symbols, t: int) -> Counts:
        """The true counts of a period, as `step` takes them, of known people.

        symbols: (people, periods) codes, of at least t periods; before t = k all counts are 0
        """
        if t < self.width:
            return np.zeros(self.measurement.counts_size, np.int64)
        codes = window_codes(symbols[:, t - self.width : t], self.q)
        histogram: Counts = np.bincount(codes, minlength=self.bins).astype(np.int64)
        if self.measurement.counts_size == self.bins:
            return histogram
        assert self.left_out is not None
        presence = presence_counts(symbols, t, self.width, self.left_out)
        return np.concatenate([histogram, presence])

    def functional(self, t: int, weights: Floats) -> tuple[list[tuple[int, Floats]], float]:
        """The unbiased estimate of weights @ histogram at t >= k, from measurements up to t.

        weights: (q^k,), 0 on the pattern that is not measured

        Returns the coefficients on the measurements of each period, and the exact variance of the
        estimate. Where the number of people n is public, the variance is least for the weights
        less their mean, with n times the mean added to the estimate. Raises ValueError for a
        weight on the pattern that is not measured.
        """
        absent_pattern = self.absent_pattern
        if absent_pattern is not None and weights[absent_pattern]:
            raise ValueError("nothing is known of the pattern that is not measured")
        measurement, weights = self.measurement, weights.astype(float)
        return list(measurement.answers_of(t, weights))[::-1], measurement.variance(t, weights)

    def init(self) -> WindowState:
        fitted = self.strategy == Strategy.RESIDUALS
        measured, nothing = self.measurement.init(), np.zeros(self.bins if fitted else 0)
        return WindowState(0, None, None, measured, carry=nothing, mean=nothing)

    def observe(
        self, state: WindowState, counts: Counts, noise: Sequence[Counts]
    ) -> tuple[WindowState, WindowObservation | None]:
        """Measures a period without a change to the panel.

        Returns the next state, in which `tails` and `panel` are still those before, and the answers
        (None before t = k).

        state: after the period before
        counts: the true histogram, (q^k,) int64; ignored before t = k
        noise: as `demand` asks
        """
        t = state.period + 1
        if t < self.width:
            return replace(state, period=t), None
        answers = self.measure(t, counts) + np.concatenate(noise)
        measured = self.measurement.updated(t, state.known, answers)
        histogram = self.measurement.histogram(t, measured)
        variances = tuple(v for v, size in self.demand(t) for _ in range(size))
        errors = np.sqrt(self.bin_variances(t)[self.measured])
        observation = WindowObservation(
            answers,
            Measurements(self.words(t), answers, variances),
            histogram,
            Estimates(self.bin_words, histogram[self.measured], errors),
        )
        kept_state = measured if self.strategy == Strategy.RESIDUALS else state.known
        return replace(state, period=t, known=kept_state), observation

    def part_sizes(self, state: WindowState, observation: WindowObservation) -> Counts:
        """The rows that patterns share: (1,) of the panel at t = k, later (overlaps,)."""
        if state.panel is None:
            return np.array([self.fit.size(observation.histogram)])
        sizes: Counts = state.panel.reshape(self.q, -1).sum(axis=0)
        return sizes

    def extended(
        self,
        state: WindowState,
        observation: WindowObservation,
        codes: NDArray[np.int64],
        panel: Counts,
    ) -> WindowState:
        """The state with the panel's rows.

        codes: (rows,) of their last k symbols
        panel: (q^k,) how many rows have each
        """
        carry = self.fit.carried(state.period, observation.histogram, state.carry, panel)
        mean = self.fit.averaged(state.period, observation.histogram, state.mean)
        return replace(state, tails=codes % self.overlaps, panel=panel, carry=carry, mean=mean)

    def step(
        self, state: WindowState, counts: Counts, draw: Draw
    ) -> tuple[WindowState, Step | None]:
        """Measures a period and adds the period's columns to the panel. counts: see `observe`.

        The panel cannot always follow the estimates, because the histories of its rows are
        released. What a pattern did not get is its carry: a part of it is added to the targets of
        the next periods, so that a pattern is not too small, or too large, for good.
        """
        new_state, observation = self.observe(state, counts, draw.noise)
        if observation is None:
            return new_state, None
        target = self.fit.target(new_state.period, observation.histogram, state.carry, state.mean)
        sizes = self.part_sizes(state, observation)
        targets, notes = self.fit.rows_of(new_state.period, target, sizes, draw.coins)
        if state.tails is None:
            codes = draw.coins.permutation(np.repeat(np.arange(self.bins), targets))
            columns = window_symbols(codes, self.q, self.width)
        else:
            order, _ = shuffled_groups(state.tails, self.overlaps, draw.coins)
            column = np.empty(state.tails.shape[0], np.int64)
            column[order] = np.repeat(np.tile(np.arange(self.q), self.overlaps), targets)
            columns = column[:, None].astype(np.uint8)
            codes = state.tails * self.q + column
        step = Step(columns, observation.measured, observation.estimates, notes)
        return self.extended(new_state, observation, codes, targets), step

    def dump(self, state: WindowState) -> bytes:
        """The state in bytes, without rows: the released panel has the rows.

        It has as many numbers at every period, so it is complete.
        """
        return packed_window(state, self)

    def load(self, dumps: Sequence[bytes], panel: Columns | None) -> WindowState:
        """The state from its last dump and the released panel.

        Raises Inconsistent for bytes or a panel that are not this mechanism's.
        """
        return unpacked_window(dumps[-1], self, panel) if dumps else self.init()
