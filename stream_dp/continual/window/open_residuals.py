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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import NDArray

from stream_dp.privacy.noise import exact_variance

from ..mechanism_interface import Counts, Demand
from ..repeatable_products import product
from .measurement_strategy import HistogramRows, NoisyWindow
from .presence import BITS, Presence
from .residuals import Residuals

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class OpenResiduals:
    """What a window release of an open population measures, and the way back.

    The counts are the histogram (q^k,), and then the people by when they were present in the last
    2k - 1 periods, as `Presence.measure` has it.

    inside: the entries; its `absent` symbol is the one that is left out, its `scale` the common one
    presence: the sets of periods
    direct: whether the pattern of k absences is measured by itself
    """

    inside: Residuals
    presence: Presence
    direct: bool

    exponent = Fraction(1)

    @property
    def unseen(self) -> int | None:
        return None if self.direct else self.nobody

    @property
    def counts_size(self) -> int:
        return self.inside.bins + int(2**self.presence.reach)

    @cached_property
    def pattern_presence(self) -> Counts:
        """Of every pattern: when a person with it was present, bit g for g periods ago: (q^k,)."""
        inside = self.inside
        digits = np.arange(inside.bins)[:, None] // inside.q ** np.arange(inside.width) % inside.q
        bits: Counts = (digits != inside.absent) @ (1 << np.arange(inside.width))
        return bits

    @cached_property
    def nobody(self) -> int:
        """The pattern of k absences."""
        return int(np.flatnonzero(self.pattern_presence == 0)[0])

    @cached_property
    def _part_of_presence(self) -> Floats:
        """1 / (q - 1)^|c| of every pattern, |c| its periods of presence: (q^k,).

        It is the pattern's part of all people with the same presence, who have (q - 1)^|c| patterns
        of symbols; 0 for k absences.
        """
        present = np.bitwise_count(self.pattern_presence)  # |c|, (q^k,)
        share: Floats = 1 / (self.inside.q - 1.0) ** present
        share[self.nobody] = 0
        return share

    def _sizes(self, t: int) -> tuple[int, int]:
        """The number of entries that are measured at t, and the number of sets of periods."""
        sets = sum(self.presence.size(i) for i in self.presence.measured_periods(t))
        return self.inside.entries(t).size, sets

    def demand(self, t: int) -> Demand:
        """The noise of the measurements at t >= k, (variance, size) each."""
        scale = self.inside.scale
        sets = (scale * 4**BITS, self._sizes(t)[1])
        demand = (*self.inside.demand(t), sets, *([(scale, 1)] if self.direct else []))
        return tuple((variance, size) for variance, size in demand if size)

    def measure(self, t: int, counts: Counts) -> Counts:
        """The measured integers at t >= k: int64 (n,)."""
        histogram, patterns = np.split(counts, [self.inside.bins])
        measured = [self.inside.measure(t, histogram), self.presence.measure(t, patterns)]
        return np.concatenate([*measured, histogram[[self.nobody]] if self.direct else counts[:0]])

    def init(self) -> NoisyWindow:
        return self.inside.init()

    def known_sets(self, t: int) -> int:
        return len(self.presence.seen(t)) if t >= self.inside.width else 0

    def updated(self, t: int, last_window: NoisyWindow, answers: Counts) -> NoisyWindow:
        """The state at t >= k from that at t - 1 and the noisy answers at t."""
        entries, sets = self._sizes(t)
        return NoisyWindow(
            self.inside.updated(t, last_window, answers[:entries]).entries,
            self.presence.solved(t, last_window.solved, answers[entries : entries + sets]),
            int(answers[-1]) if self.direct else 0,
        )

    def histogram(self, t: int, state: NoisyWindow) -> Floats:
        """The unbiased histogram (q^k,) at t; 0 for k absences where they are not measured.

        H[c] = (what the entries add to c) + N[presence of c] / (q - 1)^|c|, N (2^k,) the people by
        their presence.
        """
        people = self.presence.patterns(t, state.solved)
        histogram = self.inside.histogram(t, state)
        histogram += people[self.pattern_presence] * self._part_of_presence
        histogram[self.nobody] = state.direct
        return histogram

    def answers_of(self, t: int, weights: Floats) -> Iterator[tuple[int, Floats]]:
        """The coefficients of weights @ histogram at t on every period's measurements up to t."""
        inside = dict(self.inside.answers_of(t, weights))
        sets = self.presence.adjoint(t, self._on_presence(weights))
        starts = self.presence.starts
        for period in range(t, self.inside.width - 1, -1):
            first = self.presence.measured_periods(period).start
            coefficients = [inside[period], sets[starts[first - 1] : starts[period]]]
            if self.direct:
                coefficients.append(np.array([weights[self.nobody] if period == t else 0.0]))
            yield period, np.concatenate(coefficients)

    def variance(self, t: int, weights: Floats) -> float:
        """Of the estimate weights @ histogram at t >= k.

        It is Var(entries) + s v' P v + Var(direct): v (2^k,) the weights on the people by presence,
        and s P their covariance.
        """
        v = self._on_presence(weights)
        variance = self.inside.variance(t, weights) + self._set_noise * float(
            product(v, product(self.presence.covariance(t), v))
        )
        direct = self._direct_noise * weights[self.nobody] ** 2
        return variance + float(direct)

    def bin_variances(self, t: int) -> Floats:
        """Of every pattern's estimate at t >= k: (q^k,)."""
        people = np.diag(self.presence.covariance(t))[self.pattern_presence]
        of_presence = people * self._part_of_presence**2 * self._set_noise
        variances = self.inside.bin_variances(t) + of_presence
        variances[self.nobody] = self._direct_noise
        return variances

    def words(self, t: int, symbols: Sequence[str]) -> tuple[str, ...]:
        """The query of every measurement at t. symbols: quoted."""
        inside, presence = self.inside, self.presence
        entries = inside.entry_words(symbols)
        sets = [
            " ".join(
                [
                    "presence",
                    *("present" if bits >> g & 1 else "?" for g in range(inside.width - 1, -1, -1)),
                ]
            )
            for i in presence.measured_periods(t)
            for bits in ((2 * np.arange(presence.size(i)) + 1) << (t - i)).tolist()
        ]
        unseen = [" ".join(["pattern", *[symbols[inside.absent or 0]] * inside.width])]
        return (
            *(entries[i] for i in inside.entries(t)),
            *sets,
            *(unseen if self.direct else []),
        )

    def rows(self, t: int) -> Iterator[HistogramRows]:
        """The measurements at t as rows on the histograms of periods up to t."""
        inside, presence = self.inside, self.presence
        ((_, entry_rows),) = inside.rows(t)
        sets = sum(presence.size(i) for i in presence.measured_periods(t))
        count = entry_rows.shape[0] + sets + self.direct
        rows_of_period: dict[int, scipy.sparse.csr_array] = {t: _placed(entry_rows, 0, count)}
        at = entry_rows.shape[0]
        for i in presence.measured_periods(t):
            matrix, masks = presence.matrix(i), presence.masks(i)
            greatest = i - np.frexp((masks & -masks).astype(float))[1] + 1
            for seen in np.unique(np.maximum(greatest, inside.width)).tolist():
                # The first histogram that covers these sets.
                chosen = np.maximum(greatest, inside.width) == seen
                bits = masks[chosen] >> (i - seen) if seen <= i else masks[chosen] << (seen - i)
                covers = (self.pattern_presence[None] & bits[:, None]) == bits[:, None]
                rows = _placed(
                    scipy.sparse.csr_array(matrix[:, chosen] @ covers.astype(np.int64)), at, count
                )
                rows_of_period[seen] = (
                    rows_of_period[seen] + rows if seen in rows_of_period else rows
                )
            at += matrix.shape[0]
        if self.direct:
            last = scipy.sparse.csr_array(
                (np.ones(1, np.int64), ([count - 1], [self.nobody])),
                shape=(count, inside.bins),
            )
            rows_of_period[t] = rows_of_period[t] + last
        yield from rows_of_period.items()

    def _on_presence(self, weights: Floats) -> Floats:
        """weights @ histogram as coefficients on the numbers of people by presence: (2^k,)."""
        pattern_weights, presences = weights * self._part_of_presence, 2**self.inside.width
        return np.bincount(self.pattern_presence, pattern_weights, minlength=presences).astype(
            np.float64
        )

    @property
    def _set_noise(self) -> float:
        """s, by the variance of the noise itself."""
        return exact_variance(self.inside.scale * 4**BITS) / 4.0**BITS

    @property
    def _direct_noise(self) -> float:
        return exact_variance(self.inside.scale) if self.direct else 0.0


def _placed(rows: scipy.sparse.csr_array, at: int, count: int) -> scipy.sparse.csr_array:
    """A matrix of `count` rows: the given rows from a position on, and 0 elsewhere."""
    rows = rows.tocoo()
    return scipy.sparse.csr_array(
        (rows.data, (rows.row + at, rows.col)), shape=(count, rows.shape[1])
    )
