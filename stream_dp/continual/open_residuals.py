"""Windows as residuals in an open population: k absences are never measured.

Entries that tell present symbols from one another are those of `residuals.py`; who is present is
measured as `presence.py` says. A pattern of present symbols and absences c gets the number of
people with that pattern of presence, shared equally among its (q - 1)^|c| patterns of symbols, and
what the entries add. Both parts are best linear unbiased, and their noise is independent.

Where people who enter late have earlier periods filled in with a value, that value takes the part
of absence, and the pattern of k such values is measured by itself in every window (`direct`): it
alone also counts people who were in no earlier window.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stream_dp.privacy.noise import exact_variance

from .base import Counts, Demand
from .presence import BITS, Presence
from .products import product
from .residuals import Residuals

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class OpenState:
    """entries: int64 (q^k,), noisy; solved: float64, estimates of the sets of periods that the next
    step looks at (`Presence.solved`); direct: the noisy number of people with k absences, 0 where
    it is not measured."""

    entries: Counts
    solved: Floats
    direct: int


@dataclass(frozen=True)
class OpenResiduals:
    """What a window release of an open population measures, and the way back.

    inside: the entries; its `absent` symbol is the one that is left out, its `scale` the common one
    presence: the sets of periods
    direct: whether the pattern of k absences is measured by itself
    """

    inside: Residuals
    presence: Presence
    direct: bool

    @cached_property
    def pattern_presence(self) -> Counts:
        """Of every pattern: when a person with it was present, bit g for g periods ago: (q^k,)."""
        inside = self.inside
        digits = np.arange(inside.bins)[:, None] // inside.q ** np.arange(inside.width) % inside.q
        bits: Counts = (digits != inside.absent) @ (1 << np.arange(inside.width))
        return bits

    @cached_property
    def unseen(self) -> int:
        """The pattern of k absences."""
        return int(np.flatnonzero(self.pattern_presence == 0)[0])

    @cached_property
    def _shared(self) -> Floats:
        """Of every pattern: 1 over the number of patterns of the same presence: (q^k,)."""
        shared: Floats = 1 / (self.inside.q - 1.0) ** np.bitwise_count(self.pattern_presence)
        shared[self.unseen] = 0
        return shared

    def _sizes(self, t: int) -> tuple[int, int]:
        """How many entries are measured at t, and how many sets of periods."""
        sets = sum(self.presence.size(i) for i in self.presence.measured_periods(t))
        return self.inside.entries(t).size, sets

    def demand(self, t: int) -> Demand:
        """The noise of the measurements at t >= k, (variance, size) each."""
        scale = self.inside.scale
        sets = (scale * 4**BITS, self._sizes(t)[1])
        return (*self.inside.demand(t), sets, *([(scale, 1)] if self.direct else []))

    def measure(self, t: int, counts: Counts, patterns: Counts) -> Counts:
        """What is measured at t >= k: int64 (n,).

        counts: (q^k,) the histogram of the last k symbols
        patterns: (2^(2k - 1),) people by when they were present, as `Presence.measure` has it
        """
        parts = [self.inside.measure(t, counts), self.presence.measure(t, patterns)]
        return np.concatenate([*parts, counts[[self.unseen]] if self.direct else counts[:0]])

    def init(self) -> OpenState:
        return OpenState(np.zeros(self.inside.bins, np.int64), np.zeros(0), 0)

    def updated(self, t: int, before: OpenState, answers: Counts) -> OpenState:
        """The state at t >= k from that at t - 1 and the noisy answers at t."""
        entries, sets = self._sizes(t)
        return OpenState(
            self.inside.updated(t, before.entries, answers[:entries]),
            self.presence.solved(t, before.solved, answers[entries : entries + sets]),
            int(answers[-1]) if self.direct else 0,
        )

    def histogram(self, t: int, state: OpenState) -> Floats:
        """The unbiased histogram (q^k,) at t; 0 for k absences where they are not measured."""
        people = self.presence.patterns(t, state.solved)
        histogram = self.inside.histogram(state.entries)
        histogram += people[self.pattern_presence] * self._shared
        histogram[self.unseen] = state.direct
        return histogram

    def answers_of(self, t: int, weights: Floats) -> Iterator[tuple[int, Floats]]:
        """weights @ histogram at t as coefficients on the measurements of each period up to t."""
        inside = dict(self.inside.answers_of(t, weights))
        sets = self.presence.adjoint(t, self._on_presence(weights))
        starts = self.presence.starts
        for period in range(t, self.inside.width - 1, -1):
            first = self.presence.measured_periods(period).start
            parts = [inside[period], sets[starts[first - 1] : starts[period]]]
            if self.direct:
                parts.append(np.array([weights[self.unseen] if period == t else 0.0]))
            yield period, np.concatenate(parts)

    def variance(self, t: int, weights: Floats) -> float:
        """Of the estimate weights @ histogram at t >= k."""
        own = self._on_presence(weights)
        variance = self.inside.variance(t, weights) + self._set_noise * float(
            product(own, product(self.presence.covariance(t), own))
        )
        direct = self._direct_noise * weights[self.unseen] ** 2
        return variance + float(direct)

    def bin_variances(self, t: int) -> Floats:
        """Of every pattern's estimate at t >= k: (q^k,)."""
        people = np.diag(self.presence.covariance(t))[self.pattern_presence]
        variances = self.inside.bin_variances(t) + people * self._shared**2 * self._set_noise
        variances[self.unseen] = self._direct_noise
        return variances

    def _on_presence(self, weights: Floats) -> Floats:
        """weights @ histogram as coefficients on the numbers of people by presence: (2^k,)."""
        shared, count = weights * self._shared, 2**self.inside.width
        return np.bincount(self.pattern_presence, shared, minlength=count).astype(np.float64)

    @property
    def _set_noise(self) -> float:
        """s, by the variance of the noise itself."""
        return exact_variance(self.inside.scale * 4**BITS) / 4.0**BITS

    @property
    def _direct_noise(self) -> float:
        return exact_variance(self.inside.scale) if self.direct else 0.0
