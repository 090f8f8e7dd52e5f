"""Answers from everything that was measured of a stream so far, each with its standard error.

`StreamEstimator` uses the measurements of all releases of a stream together: its answers are best
linear unbiased estimates (`least_squares.py`, `unknowns.py`). Later periods and other releases say
something about earlier answers too, so an answer may change, and its error falls, with every
publication; it is a function of what is published, the same for everybody. `ReleaseEstimator` is
for streams with too many unknowns and uses a release's own unbiased estimates.

Both assume that the true counts satisfy the equalities, and that the noise is independent and has
the published variances. Weights are fixed numbers, so standard errors are exact, and intervals of
counts are normal ones. A share of a noisy number of people is a ratio: its standard error is that
of the first order, its interval that of Fieller 1954, which covers as a normal interval does
however noisy the number is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_dp.errors import UserError

from .least_squares import LeastSquares, Weighted
from .measurements import DesignRows, ReleaseMeasurements
from .unknowns import EntryUnknowns, HistogramUnknowns, Key, Unknowns

Floats = NDArray[np.float64]

MOST_UNKNOWNS = 20_000
_CERTAIN = 1e-7  # of the smallest standard error of a measurement: below it, a rounding of floats


class Estimator(Protocol):
    """Answers to questions about a release at a period number; None where nothing is known."""

    @property
    def method(self) -> str:
        """How the answers are computed, in words."""

    def patterns(self, number: int, weights: Floats) -> Weighted | None:
        """The histogram of the last j symbols times weights, (q^j,)."""

    def total(self, b: int, number: int) -> Weighted | None:
        """The people with the event in at least b periods so far."""

    def entered(self, number: int) -> tuple[Weighted | None, int]:
        """Those who have been there by a period, and the period.

        It is the given one or, where people are counted once only, the first.
        """

    def covariance(self, answer: Weighted, other: Weighted) -> float: ...


@dataclass(frozen=True, eq=False)
class StreamMeasurements:
    """The releases of one stream as one system of measurements."""

    releases: tuple[ReleaseMeasurements, ...]

    @cached_property
    def unknowns(self) -> Unknowns:
        study, declared = self.releases[0].study, self.releases[0].declared
        alphabet = study.alphabet(declared)
        histograms, start = _histograms(self.releases, len(alphabet.values))
        return Unknowns(
            q=len(alphabet.values),
            absent=alphabet.absent,
            blank=study.blank(declared),
            size=study.size if declared.where is None else None,
            histograms=histograms,
            entries=_entries(self.releases, start),
        )

    @cached_property
    def system(self) -> LeastSquares | None:
        """None where there are too many unknowns."""
        unknowns = self.unknowns
        if unknowns.count > MOST_UNKNOWNS:
            return None
        values, variances = (
            np.concatenate([getattr(r, name) for r in self.releases])
            for name in ("values", "variances")
        )
        equalities, right_side = unknowns.equalities()
        return LeastSquares(
            design=self._design(values.shape[0]),
            values=values,
            variances=variances,
            equalities=equalities,
            right_side=right_side,
        )

    def _design(self, count: int) -> csr_array:
        """The rows of all releases, in their order, on the unknowns: (count, unknowns)."""
        blocks, above = [], 0
        for release in self.releases:
            for rows in release.rows():
                start, free = self._place(release, rows)
                cells = start + rows.cell[None] + rows.cells * np.arange(free)[:, None]
                blocks.append(
                    (
                        np.tile(rows.row + above + rows.place.at, free),
                        cells.ravel(),
                        np.tile(rows.value, free),
                    )
                )
            above += release.values.shape[0]
        row, column, value = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
        return csr_array((value, (row, column)), shape=(count, self.unknowns.count))

    def _place(self, release: ReleaseMeasurements, rows: DesignRows) -> tuple[int, int]:
        """Where the rows' unknowns begin, and how many unknown patterns each cell sums up."""
        unknowns, place = self.unknowns, rows.place
        if place.b is not None:
            return unknowns.entries[_key(release)][place.b].start, 1
        histogram = unknowns.histograms[rows.number]
        return histogram.start, unknowns.q**histogram.width // rows.cells


def _key(release: ReleaseMeasurements) -> Key:
    return release.events, release.first


def _histograms(
    releases: Sequence[ReleaseMeasurements], q: int
) -> tuple[dict[int, HistogramUnknowns], int]:
    """Histograms by period number, as wide as the widest release there, and how many unknowns
    they have together."""
    widths: dict[int, int] = {}
    for release in releases:
        window = release.window
        if window is None:
            continue
        for number in (message.number for message in release.messages):
            widths[number] = max(widths.get(number, 0), window.width)
    histograms, start = {}, 0
    for number in sorted(widths):
        width = widths[number]
        histograms[number] = HistogramUnknowns(start, width)
        start += q**width
    return histograms, start


def _entries(
    releases: Sequence[ReleaseMeasurements], start: int
) -> dict[Key, dict[int, EntryUnknowns]]:
    lengths: dict[Key, dict[int, int]] = {}
    for release in releases:
        for placed in () if release.totals is None else release.totals.design.placed_counters:
            steps = min(placed.counter.length, release.time(release.last) - placed.start + 1)
            if steps > 0:
                own = lengths.setdefault(_key(release), {})
                own[placed.threshold] = max(own.get(placed.threshold, 0), steps)
    entries: dict[Key, dict[int, EntryUnknowns]] = {}
    for key, own in lengths.items():
        entries[key] = {}
        for b in sorted(own):
            entries[key][b] = EntryUnknowns(start, key[1] + max(b, 1) - 1, own[b])
            start += own[b]
    return entries


@dataclass(frozen=True, eq=False)
class StreamEstimator:
    """Answers about a release of a stream from the measurements of all its releases.

    Where these are windows measured as residuals, and nothing else, the release's own estimates
    are the best: as many numbers are measured as there are unknown ones, so no other answer is
    unbiased. No system is solved then.
    """

    stream: StreamMeasurements
    release: ReleaseMeasurements

    method = "best linear unbiased"

    @cached_property
    def _own(self) -> ReleaseEstimator | None:
        """The release's own estimator where nothing is better."""
        window = self.release.window
        alone = len(self.stream.releases) == 1 and self.release.totals is None
        residuals = window is not None and window.strategy == "residuals"
        return ReleaseEstimator(self.release) if alone and residuals else None

    def patterns(self, number: int, weights: Floats) -> Weighted | None:
        if self._own is not None:
            return self._own.patterns(number, weights)
        if self.stream.system is None or number not in self.stream.unknowns.histograms:
            return None
        return self._answer(self.stream.unknowns.patterns(number, weights))

    def total(self, b: int, number: int) -> Weighted | None:
        return self._answer(self.stream.unknowns.total(_key(self.release), b, number))

    def entered(self, number: int) -> tuple[Weighted | None, int]:
        own = self.stream.unknowns.entries[_key(self.release)].get(0)
        if own is None:
            return None, number
        at = number if own.until(number) == number - own.first + 1 else own.first
        return self.total(0, at), at

    def _answer(self, coefficients: Floats) -> Weighted | None:
        """The best answer; one without error is rounded to the integer that it must be."""
        system = self.stream.system
        answer = None if system is None else system.answer(coefficients)
        if system is None or answer is None:
            return None
        if system.covariance(answer, answer) > _CERTAIN**2 * float(system.variances.min()):
            return answer
        certain = float(round(answer.value))
        return Weighted(np.zeros_like(answer.weights), certain, certain)

    def covariance(self, answer: Weighted, other: Weighted) -> float:
        if self._own is not None:
            return self._own.covariance(answer, other)
        assert self.stream.system is not None
        return self.stream.system.covariance(answer, other)


@dataclass(frozen=True, eq=False)
class ReleaseEstimator:
    """Answers about a release from its own measurements, as its mechanism estimates them."""

    release: ReleaseMeasurements

    method = "own measurements"

    def patterns(self, number: int, weights: Floats) -> Weighted | None:
        release, window = self.release, self.release.window
        if window is None or number not in self._starts:
            return None
        weights = np.tile(weights, window.bins // weights.shape[0]).astype(float)
        study, mean = release.study, 0.0
        if study.size is not None and window.absent is None:
            mean = float(weights.mean())
        used, _ = window.functional(release.time(number), weights - mean)
        on_values = np.zeros(release.values.shape[0])
        for t, coefficients in used:
            start = self._starts[t + release.first - 1]
            on_values[start : start + coefficients.shape[0]] = coefficients
        return self._weighted(on_values, mean * (study.size or 0))

    def total(self, b: int, number: int) -> Weighted | None:
        release, placed = self.release, self.release.placed_counter(b)
        on_values = np.zeros(release.values.shape[0])
        if placed is None:
            return None
        step = release.time(number) - placed.start + 1
        if step >= 1:
            places = [np.arange(p.count) + p.at for p in release.places if p.b == b]
            measured = np.concatenate(places)[: placed.counter.rows(step)]
            on_values[measured] = (
                placed.counter.decode[step - 1, : measured.shape[0]] / placed.counter.scale
            )
        return self._weighted(on_values, 0.0)

    def entered(self, number: int) -> tuple[Weighted | None, int]:
        placed = self.release.placed_counter(0)
        if placed is None:
            return None, number
        at = number if placed.counter.length > number - self.release.first else self.release.first
        return self.total(0, at), at

    def covariance(self, answer: Weighted, other: Weighted) -> float:
        return float((answer.weights * self.release.variances) @ other.weights)

    @cached_property
    def _starts(self) -> dict[int, int]:
        """Where the measurements of a histogram begin, by period number."""
        return {place.number: place.at for place in self.release.places if place.b is None}

    def _weighted(self, weights: Floats, constant: float) -> Weighted:
        return Weighted(weights, constant, float(weights @ self.release.values) + constant)


def number_of_people(
    stream: StreamMeasurements,
    answers: Estimator,
    release: ReleaseMeasurements,
    number: int,
    *,
    totals: bool,
) -> tuple[Weighted, str] | None:
    """The noisy number of people that a share at a period is of, and who they are, in words."""
    label = release.study.periods.labels
    if totals:
        entered, at = answers.entered(number)
        if entered is not None:
            return entered, f"who have entered by {label[at - 1]}"
    unknowns = stream.unknowns
    open_ = any(r.window is not None and r.window.absent is not None for r in stream.releases)
    weights = np.ones(unknowns.q)
    if open_:
        assert unknowns.absent is not None
        weights[unknowns.absent] = 0
    counted = answers.patterns(number, weights)
    who = "present at" if open_ else "counted at"
    return None if counted is None else (counted, f"{who} {label[number - 1]}")


def fieller_share(
    answers: Estimator, value: Weighted, people: Weighted, z: float
) -> tuple[float, float, tuple[float, float]]:
    """The share value / people, its standard error to the first order, Fieller's interval (1954).

    The interval is of all s for which value - s people lies within z of its standard errors of 0.
    Raises UserError where the number of people is not clearly above 0, so that this is no interval.
    """
    n, v = people.value, value.value
    nn, vn = answers.covariance(people, people), answers.covariance(value, people)
    vv = answers.covariance(value, value)
    if n <= z * math.sqrt(nn):
        raise UserError(
            "share: the noisy number of people is not clearly positive; ask for --count"
        )
    share = v / n
    off = value.minus(people, share)
    error = math.sqrt(answers.covariance(off, off)) / n
    a, b, c = n * n - z * z * nn, n * v - z * z * vn, v * v - z * z * vv
    reach = math.sqrt(max(0.0, b * b - a * c))
    return share, error, ((b - reach) / a, (b + reach) / a)
