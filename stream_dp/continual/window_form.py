"""How a window release measures: what each strategy has in common, and the words of measurements.

The strategies are the histograms of Bun, Gaboardi, Neunhoeffer, Zhang 2024, Algorithm 1
(`HistogramForm`), and residuals: in a closed population (`ClosedForm`, `residuals.py`), and where
people come and go or enter late (`OpenForm`, `open_residuals.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, eye_array, kron

from stream_dp.panel import window_symbols
from stream_dp.privacy.noise import exact_variance

from .base import Counts, Demand
from .open_residuals import OpenResiduals, OpenState
from .residuals import Residuals, helmert

Floats = NDArray[np.float64]
HistogramRows = tuple[int, csr_array]  # a period, and int64 rows on the histogram at that period


class WindowForm(Protocol):
    """What is measured of every window, and the way back.

    exponent: p of the weights (`residual_costs.py`), None for histograms
    unseen: the pattern that is never measured, None where all are
    counts_size: how long the true counts are that `measure` takes
    init: the state before t = k
    updated: the state at t >= k from that at t - 1 and the noisy answers at t
    known_sets: how many estimates of sets of periods the state has after t
    histogram: the unbiased histogram (q^k,) at t
    answers_of: weights @ histogram at t as coefficients on the measurements of each period up to t
    variance: of the estimate weights @ histogram at t
    bin_variances: of every pattern's estimate at t, (q^k,)
    words: the query of every measurement at t
    rows: the measurements at t as rows on the histograms of periods up to t; the rows of all parts
        are added
    """

    @property
    def exponent(self) -> Fraction | None: ...
    @property
    def unseen(self) -> int | None: ...
    @property
    def counts_size(self) -> int: ...
    def demand(self, t: int) -> Demand: ...
    def measure(self, t: int, counts: Counts) -> Counts: ...
    def init(self) -> OpenState: ...
    def updated(self, t: int, before: OpenState, answers: Counts) -> OpenState: ...
    def known_sets(self, t: int) -> int: ...
    def histogram(self, t: int, state: OpenState) -> Floats: ...
    def answers_of(self, t: int, weights: Floats) -> Iterator[tuple[int, Floats]]: ...
    def variance(self, t: int, weights: Floats) -> float: ...
    def bin_variances(self, t: int) -> Floats: ...
    def words(self, t: int, symbols: Sequence[str]) -> tuple[str, ...]: ...
    def rows(self, t: int) -> Iterator[HistogramRows]: ...


def pattern_words(codes: Counts, q: int, width: int, symbols: Sequence[str]) -> tuple[str, ...]:
    """The queries of patterns, as `estimate/query.py` parses them. symbols: quoted."""
    rows = window_symbols(codes, q, width)
    return tuple(" ".join(["pattern", *(symbols[d] for d in row)]) for row in rows)


@dataclass(frozen=True)
class HistogramForm:
    """The complete histogram at every t >= k, with noise of one variance.

    unseen: the pattern of k absences where people come and go
    """

    q: int
    width: int
    noise: Fraction
    unseen: int | None

    exponent = None

    @property
    def counts_size(self) -> int:
        return int(self.q**self.width)

    @cached_property
    def _measured(self) -> Counts:
        every = np.arange(self.counts_size)
        return every if self.unseen is None else every[every != self.unseen]

    def demand(self, t: int) -> Demand:
        return ((self.noise, self._measured.size),)

    def measure(self, t: int, counts: Counts) -> Counts:
        measured: Counts = counts[self._measured]
        return measured

    def init(self) -> OpenState:
        return OpenState(np.zeros(0, np.int64), np.zeros(0), 0)

    def updated(self, t: int, before: OpenState, answers: Counts) -> OpenState:
        entries = np.zeros(self.counts_size, np.int64)
        entries[self._measured] = answers
        return OpenState(entries, np.zeros(0), 0)

    def known_sets(self, t: int) -> int:
        return 0

    def histogram(self, t: int, state: OpenState) -> Floats:
        return state.entries.astype(np.float64)

    def answers_of(self, t: int, weights: Floats) -> Iterator[tuple[int, Floats]]:
        yield t, weights[self._measured]

    def variance(self, t: int, weights: Floats) -> float:
        return float((weights[self._measured] ** 2).sum()) * exact_variance(self.noise)

    def bin_variances(self, t: int) -> Floats:
        variances = np.zeros(self.counts_size)
        variances[self._measured] = exact_variance(self.noise)
        return variances

    def words(self, t: int, symbols: Sequence[str]) -> tuple[str, ...]:
        return pattern_words(self._measured, self.q, self.width, symbols)

    def rows(self, t: int) -> Iterator[HistogramRows]:
        every = eye_array(self.counts_size, dtype=np.int64, format="csr")
        yield t, csr_array(every[self._measured])


@dataclass(frozen=True)
class ClosedForm:
    """Residuals of a closed population.

    residuals: what is measured
    people: their public number; None where it is measured
    """

    residuals: Residuals
    people: int | None

    unseen = None

    @property
    def exponent(self) -> Fraction:
        return self.residuals.exponent

    @property
    def counts_size(self) -> int:
        return self.residuals.bins

    def demand(self, t: int) -> Demand:
        return self.residuals.demand(t)

    def measure(self, t: int, counts: Counts) -> Counts:
        return self.residuals.measure(t, counts)

    def init(self) -> OpenState:
        entries = np.zeros(self.residuals.bins, np.int64)
        entries[0] = self.people or 0
        return OpenState(entries, np.zeros(0), 0)

    def updated(self, t: int, before: OpenState, answers: Counts) -> OpenState:
        return OpenState(self.residuals.updated(t, before.entries, answers), np.zeros(0), 0)

    def known_sets(self, t: int) -> int:
        return 0

    def histogram(self, t: int, state: OpenState) -> Floats:
        return self.residuals.histogram(state.entries)

    def answers_of(self, t: int, weights: Floats) -> Iterator[tuple[int, Floats]]:
        return self.residuals.answers_of(t, weights)

    def variance(self, t: int, weights: Floats) -> float:
        return self.residuals.variance(t, weights)

    def bin_variances(self, t: int) -> Floats:
        return self.residuals.bin_variances(t)

    def words(self, t: int, symbols: Sequence[str]) -> tuple[str, ...]:
        words = _entry_words(symbols, self.residuals.width, None)
        return tuple(words[i] for i in self.residuals.entries(t))

    def rows(self, t: int) -> Iterator[HistogramRows]:
        yield t, _entry_rows(self.residuals, t)


@dataclass(frozen=True)
class OpenForm:
    """Residuals of a population whose people come and go, or enter late.

    The counts are the histogram (q^k,), and then the people by when they were present in the last
    2k - 1 periods, as `Presence.measure` has it.
    """

    residuals: OpenResiduals

    exponent = Fraction(1)

    @property
    def unseen(self) -> int | None:
        return None if self.residuals.direct else self.residuals.unseen

    @property
    def counts_size(self) -> int:
        return self.residuals.inside.bins + int(2**self.residuals.presence.reach)

    def demand(self, t: int) -> Demand:
        return tuple((v, n) for v, n in self.residuals.demand(t) if n)

    def measure(self, t: int, counts: Counts) -> Counts:
        bins = self.residuals.inside.bins
        return self.residuals.measure(t, counts[:bins], counts[bins:])

    def init(self) -> OpenState:
        return self.residuals.init()

    def updated(self, t: int, before: OpenState, answers: Counts) -> OpenState:
        return self.residuals.updated(t, before, answers)

    def known_sets(self, t: int) -> int:
        return len(self.residuals.presence.seen(t)) if t >= self.residuals.inside.width else 0

    def histogram(self, t: int, state: OpenState) -> Floats:
        return self.residuals.histogram(t, state)

    def answers_of(self, t: int, weights: Floats) -> Iterator[tuple[int, Floats]]:
        return self.residuals.answers_of(t, weights)

    def variance(self, t: int, weights: Floats) -> float:
        return self.residuals.variance(t, weights)

    def bin_variances(self, t: int) -> Floats:
        return self.residuals.bin_variances(t)

    def words(self, t: int, symbols: Sequence[str]) -> tuple[str, ...]:
        inside, presence = self.residuals.inside, self.residuals.presence
        entries = _entry_words(symbols, inside.width, inside.absent)
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
            *(unseen if self.residuals.direct else []),
        )

    def rows(self, t: int) -> Iterator[HistogramRows]:
        inside, presence = self.residuals.inside, self.residuals.presence
        own = _entry_rows(inside, t)
        sets = sum(presence.size(i) for i in presence.measured_periods(t))
        count = own.shape[0] + sets + self.residuals.direct
        parts: dict[int, csr_array] = {t: _placed(own, 0, count)}
        at = own.shape[0]
        for i in presence.measured_periods(t):
            matrix, masks = presence.matrix(i), presence.masks(i)
            greatest = i - np.frexp((masks & -masks).astype(float))[1] + 1
            for seen in np.unique(np.maximum(greatest, inside.width)).tolist():
                # The first histogram that covers these sets.
                chosen = np.maximum(greatest, inside.width) == seen
                bits = masks[chosen] >> (i - seen) if seen <= i else masks[chosen] << (seen - i)
                covers = (self.residuals.pattern_presence[None] & bits[:, None]) == bits[:, None]
                rows = _placed(csr_array(matrix[:, chosen] @ covers.astype(np.int64)), at, count)
                parts[seen] = parts[seen] + rows if seen in parts else rows
            at += matrix.shape[0]
        if self.residuals.direct:
            last = csr_array(
                (np.ones(1, np.int64), ([count - 1], [self.residuals.unseen])),
                shape=(count, inside.bins),
            )
            parts[t] = parts[t] + last
        yield from parts.items()


def _placed(rows: csr_array, at: int, count: int) -> csr_array:
    """The rows as rows at.. of `count`, the others 0."""
    rows = rows.tocoo()
    return csr_array((rows.data, (rows.row + at, rows.col)), shape=(count, rows.shape[1]))


def _entry_rows(residuals: Residuals, t: int) -> csr_array:
    """The entries measured at t as rows on the histogram."""
    rows = csr_array(np.ones((1, 1), np.int64))
    for _ in range(residuals.width):
        rows = kron(rows, csr_array(helmert(residuals.q, residuals.absent)), format="csr")
    return csr_array(rows)[residuals.entries(t)]


def _entry_words(symbols: Sequence[str], width: int, last: int | None) -> list[str]:
    """In words, every entry of the transformed histogram, in their order.

    A period where people are distinguished reads `a|b - 2 * c`: those with a or b less twice those
    with c; any other is `?`. Periods are joined by commas, the oldest first: their numbers are
    multiplied.
    """
    ordered = [s for i, s in enumerate(symbols) if i != last]
    ordered += [] if last is None else [symbols[last]]
    places = ["?"]
    for j in range(1, len(ordered)):
        times = f"{j} * " if j > 1 else ""
        places.append(f"{'|'.join(ordered[:j])} - {times}{ordered[j]}")
    return [f"residual {', '.join(one)}" for one in product(places, repeat=width)]
