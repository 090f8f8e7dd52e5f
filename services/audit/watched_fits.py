"""Fits of data sets whose every look at the data is watched: noisy values, noise and choices.

A fit records each round before it uses it. The records are the only results that depend on the
data, so everything that is published follows from them. A fit on another world's data that is given
the records of a first fit repeats the first fit's rounds: its own records, without noise, are then
what the other world would have answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import scipy
from numpy.typing import NDArray

from stream_dp.batch.synthesizer import FitContext
from stream_dp.privacy.noise import Draw, NoiseSource, geometric_variance

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Fit = Callable[[FitContext], object]  # fits the tables of a world


def noiseless_draw(demand: Sequence[tuple[Fraction, int]]) -> Draw:
    """The draw of zeros for a demand."""
    zeros = tuple(np.zeros(size, np.int64) for _, size in demand)
    return Draw(zeros, np.random.default_rng(0))


@dataclass(frozen=True)
class Choice:
    """A choice by the exponential mechanism.

    scores: of all candidates.
    chosen: the indices that were chosen, in their order.
    variance: the squared scale of the Gumbel noise.
    """

    scores: Ints
    chosen: Ints
    variance: Fraction

    @property
    def log_probability(self) -> float:
        """The logarithm of the probability of this choice."""
        logits = self.scores / float(self.variance) ** 0.5
        total, left = 0.0, np.ones(len(logits), bool)
        for index in self.chosen.tolist():
            total += logits[index] - float(scipy.special.logsumexp(logits[left]))
            left[index] = False
        return total


@dataclass(frozen=True)
class WatchedRound:
    """A recorded round.

    data: the record.
    noise: of each noisy value.
    variances: of the noise, as declared.
    choices: the choices before the measurement.
    """

    data: bytes
    noise: Ints
    variances: Floats
    choices: tuple[Choice, ...]

    @property
    def exact(self) -> Floats:
        """The values without noise; none for a round that measures nothing."""
        if not len(self.noise):
            return np.zeros(0)
        values = np.concatenate([np.frombuffer(raw, "<i8") for raw in _arrays(self.data)])
        if len(values) != len(self.noise):
            raise ValueError("a round has other values than noise was drawn for")
        return (values - self.noise).astype(np.float64)


def _arrays(data: bytes) -> Iterator[bytes]:
    """The arrays in a record."""

    def leaves(value: Any) -> Iterator[bytes]:
        if isinstance(value, bytes):
            yield value
        elif isinstance(value, list):
            for item in value:
                yield from leaves(item)

    yield from leaves(msgspec.msgpack.decode(data))


class _Measured(Exception):
    """All rounds are recorded; what follows is post-processing."""


@dataclass
class _Watch:
    """The noise source and the transcript of a fit.

    source: None for no noise.
    repeated: the rounds of an earlier fit, which are repeated; None for a fit of its own.
    rounds_to_watch: the fit ends after so many rounds; None for its end.
    """

    source: NoiseSource | None
    repeated: Sequence[WatchedRound] | None = None
    rounds_to_watch: int | None = None
    simulated: bool = True
    watched: list[WatchedRound] = field(default_factory=list)
    _kept: list[bytes] = field(default_factory=list)
    _noise: list[Ints] = field(default_factory=list)
    _variances: list[Floats] = field(default_factory=list)
    _choices: list[Choice] = field(default_factory=list)

    def draw(self, demand: Sequence[tuple[Fraction, int]]) -> Draw:
        """Draws and notes the noise; zeros without a source."""
        draw = noiseless_draw(demand) if self.source is None else self.source.draw(demand)
        for (variance, size), noise in zip(demand, draw.noise, strict=True):
            self._noise.append(noise)
            self._variances.append(np.full(size, float(variance)))
        return draw

    def geometric(self, decay: Fraction, size: int) -> Ints:
        """Draws and notes the noise; zeros without a source."""
        noise = np.zeros(size, np.int64)
        if self.source is not None:
            noise = self.source.geometric(decay, size)
        self._noise.append(noise)
        self._variances.append(np.full(size, geometric_variance(decay)))
        return noise

    def top(self, scores: Ints, picks: int, variance: Fraction) -> Ints:
        """Selects and notes indices: as the repeated fit, at random, or the largest scores."""
        if self.repeated is not None:
            earlier = self.repeated[len(self.watched)].choices[len(self._choices)]
            chosen = earlier.chosen
        elif self.source is not None:
            chosen = self.source.top(scores, picks, variance)
        else:
            chosen = np.argsort(-scores, kind="stable")[:picks]
        self._choices.append(Choice(scores.copy(), np.asarray(chosen), variance))
        return chosen

    def rounds(self) -> list[bytes]:
        return list(self._kept)

    def record(self, number: int, data: bytes) -> bytes:
        """Notes a round, and gives the fit that round of the repeated fit, if one is repeated."""
        none = np.zeros(0, np.int64)
        watched = WatchedRound(
            data,
            np.concatenate([none, *self._noise]),
            np.concatenate([np.zeros(0), *self._variances]),
            tuple(self._choices),
        )
        self._noise, self._variances, self._choices = [], [], []
        self.watched.append(watched)
        kept = data if self.repeated is None else self.repeated[number].data
        self._kept.append(kept)
        if len(self.watched) == self.rounds_to_watch:
            raise _Measured
        return kept


def watched_fit(
    fit: Fit, source: NoiseSource | None, rounds: int | None = None
) -> tuple[WatchedRound, ...]:
    """The rounds of a fit.

    source: None for no noise.
    rounds: the fit ends after so many; None for its end.
    """
    return _run(fit, _Watch(source, rounds_to_watch=rounds))


def repeated_fit(fit: Fit, rounds: Sequence[WatchedRound]) -> tuple[WatchedRound, ...]:
    """The rounds, without noise, of a fit that repeats the rounds of another world's fit."""
    return _run(fit, _Watch(None, rounds, rounds_to_watch=len(rounds)))


def _run(fit: Fit, watch: _Watch) -> tuple[WatchedRound, ...]:
    with suppress(_Measured):
        fit(FitContext(watch, watch))
    return tuple(watch.watched)


def log_ratio(
    rounds: Sequence[WatchedRound], first: Sequence[WatchedRound], second: Sequence[WatchedRound]
) -> float:
    """The log likelihood ratio of the second world to the first, for normal noise as declared.

    rounds: of a run.
    first, second: the rounds in each world, that repeat those of the run without noise.
    """
    total = 0.0
    for run, a, b in zip(rounds, first, second, strict=True):
        if len(run.noise):
            values, before, after = run.exact + run.noise, a.exact, b.exact
            squares = (values - before) ** 2 - (values - after) ** 2
            total += float((squares / (2 * run.variances)).sum())
    return total + choice_log_ratio(first, second)


def choice_log_ratio(first: Sequence[WatchedRound], second: Sequence[WatchedRound]) -> float:
    """The part of `log_ratio` that is of choices."""
    return sum(
        y.log_probability - x.log_probability
        for a, b in zip(first, second, strict=True)
        for x, y in zip(a.choices, b.choices, strict=True)
    )


def without_noise(rounds: Sequence[WatchedRound]) -> tuple[WatchedRound, ...]:
    """The rounds of a run in its own world, without their noise."""
    return tuple(replace(run, data=_record(run.exact), noise=0 * run.noise) for run in rounds)


def _record(values: Floats) -> bytes:
    return msgspec.msgpack.encode([values.astype("<i8").tobytes()])
