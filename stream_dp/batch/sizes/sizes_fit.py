"""Measures the sizes of all levels, in recorded rounds, and makes them consistent.

Each level has a round, which holds the method, chosen or declared, and what was measured: the
noisy values, or, of a level with too many of them to be published, the estimates that they gave.
A round is recorded before it is used; all that follows is post-processing without any randomness.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import msgspec
import numpy as np

from stream_dp.errors import UserError
from stream_dp.privacy.noise import NoiseSource

from ..synthesizer import FitContext
from .histogram import Estimate, Int64Array, Sizes, earth_movers_distance
from .merging import LevelEstimate, consistent
from .methods import FRACTIONS, METHODS
from .posterior import LevelMeasurements, posterior_sizes
from .sizes_plan import LevelPlan, SizesPlan

FORMAT = 1  # of a recorded round
MOST_PUBLISHED = 1 << 20  # noisy values of a level
_AT_ONCE = 1 << 20  # numbers of noise for several regions


@dataclass(frozen=True)
class MeasuredLevel:
    """What was measured of a level.

    method: its name.
    estimates: of each region.
    values: the noisy values of each region; None where they are too many to be published.
    """

    method: str
    estimates: tuple[Estimate, ...]
    values: tuple[Int64Array, ...] | None


@dataclass(frozen=True)
class FittedLevels:
    """The result of `fit_levels`.

    levels: what was measured, from the root down.
    """

    plan: SizesPlan
    levels: tuple[MeasuredLevel, ...]

    @cached_property
    def sizes(self) -> tuple[tuple[Sizes, ...], ...]:
        """The sizes of every region of every level, consistent."""
        if self.plan.merge == "spread":
            likeliest = self._likeliest()
            if likeliest is not None:
                return likeliest
        estimates = [
            LevelEstimate(
                cumulative=level.method.startswith("cumulative"),
                variance=plan.variance(level.method),
                regions=level.estimates,
            )
            for plan, level in zip(self.plan.levels, self.levels, strict=True)
        ]
        return consistent(self.plan.regions, estimates, self.plan.merge)

    def _likeliest(self) -> tuple[tuple[Sizes, ...], ...] | None:
        """The likeliest sizes; None where they cannot be computed from what was recorded."""
        measured = []
        for plan, level in zip(self.plan.levels, self.levels, strict=True):
            if level.values is None or level.method == "histogram":
                return None
            measured.append(
                LevelMeasurements(
                    cumulative=level.method.startswith("cumulative"),
                    deviation=plan.variance(level.method) ** 0.5,
                    penalty=plan.penalty(level.method),
                    estimates=level.estimates,
                    values=level.values,
                )
            )
        return posterior_sizes(self.plan.regions, measured, self.plan.largest)


def fit_levels(leaves: Sequence[Sizes], plan: SizesPlan, context: FitContext) -> FittedLevels:
    """Measures the groups of the smallest regions, in the order of the plan's, and all above.

    It is `plan.rho`-zCDP under the relation of its levels. Raises UserError where the transcript
    holds rounds of something else.
    """
    true = plan.regions.sums([sizes.capped(plan.largest) for sizes in leaves])
    rounds, levels = context.transcript.rounds(), []
    for depth, level in enumerate(plan.levels):
        data = _Level(plan, depth, level, context.source)
        if depth == len(rounds):
            rounds.append(context.transcript.record(depth, data.measured(true[depth])))
        levels.append(data.decoded(rounds[depth]))
        context.progress(depth + 1, len(plan.levels), float("nan"))
    return FittedLevels(plan, tuple(levels))


@dataclass(frozen=True)
class _Level:
    """One level's rounds: the only code that sees true sizes is `measured`."""

    plan: SizesPlan
    depth: int
    level: LevelPlan
    source: NoiseSource

    @property
    def counts(self) -> list[int]:
        """The public number of groups of each region."""
        counts: list[int] = self.plan.regions.counts[self.depth].tolist()
        return counts

    def measured(self, true: Sequence[Sizes]) -> bytes:
        """The level's round."""
        method = self.level.methods[0]
        if len(self.level.methods) > 1:
            method = self._chosen(true)
        parameter = self.level.parameter(method)
        if self.plan.entries(self.depth, method) <= MOST_PUBLISHED:
            values = list(self._noisy(true, method, parameter))
            return _encoded(method, True, values)
        estimates = self._estimated(true, method, parameter)
        runs = [
            np.stack([np.rint(e.value * 2 * FRACTIONS).astype(np.int64), e.groups]).ravel()
            for e in estimates
        ]
        return _encoded(method, False, runs)

    def _chosen(self, true: Sequence[Sizes]) -> str:
        """The method that the exponential mechanism picks; see `plan`."""
        scores = np.zeros(len(self.level.methods), np.int64)
        for i, method in enumerate(self.level.methods):
            parameter = self.level.parameter(method, tried=True)
            for estimate, sizes in zip(self._estimated(true, method, parameter), true, strict=True):
                scores[i] -= earth_movers_distance(estimate.sizes, sizes)
        return self.level.methods[int(self.source.top(scores, 1, self.level.choice_variance)[0])]

    def _estimated(
        self, true: Sequence[Sizes], method: str, parameter: Fraction
    ) -> Iterator[Estimate]:
        """An estimate of each region, from noise that nothing else is made of."""
        for values, sizes in zip(self._noisy(true, method, parameter), true, strict=True):
            yield self._estimate(values, method, sizes.total)

    def _noisy(
        self, true: Sequence[Sizes], method: str, parameter: Fraction
    ) -> Iterator[Int64Array]:
        """The noisy values of each region, whose noise is drawn before its counts are computed."""
        exact = METHODS[method].exact
        for sizes, noise in zip(true, self._noise(method, parameter), strict=True):
            yield noise + exact(sizes, self.plan.largest) if sizes.total else noise

    def _noise(self, method: str, parameter: Fraction) -> Iterator[Int64Array]:
        """The noise of each region; that of many small ones is drawn at once."""
        count = METHODS[method].entries
        sizes = [count(groups, self.plan.largest) if groups else 0 for groups in self.counts]
        first = 0
        while first < len(sizes):
            end, together = first + 1, sizes[first]
            while end < len(sizes) and together + sizes[end] <= _AT_ONCE:
                together += sizes[end]
                end += 1
            if self.level.pure:
                noise = self.source.geometric(parameter, together)
            else:
                (noise,) = self.source.draw([(parameter, together)]).noise
            yield from np.split(noise, np.cumsum(sizes[first : end - 1]))
            first = end

    def _estimate(self, values: Int64Array, method: str, groups: int) -> Estimate:
        if not groups:
            return Estimate(np.zeros(0), np.zeros(0, np.int64))
        return METHODS[method].fit(values, groups, self.plan.largest)

    def decoded(self, data: bytes) -> MeasuredLevel:
        """The level that a round holds. Raises UserError unless it is one of this level."""
        try:
            stated, method, published, parts = msgspec.msgpack.decode(data, type=Round)
            values = tuple(np.frombuffer(part, "<i8").astype(np.int64) for part in parts)
            if stated != FORMAT:
                raise ValueError
            if method not in self.level.methods or len(values) != len(self.counts):
                raise ValueError
            if not published:
                runs = [part.reshape(2, -1) for part in values]
                estimates = tuple(Estimate(r[0] / (2 * FRACTIONS), r[1]) for r in runs)
                return MeasuredLevel(method, estimates, None)
            entries = METHODS[method].entries
            for part, groups in zip(values, self.counts, strict=True):
                if len(part) != (entries(groups, self.plan.largest) if groups else 0):
                    raise ValueError
        except (msgspec.MsgspecError, ValueError):
            raise UserError("the job's transcript is not of what its release declares") from None
        estimates = tuple(
            self._estimate(part, method, groups)
            for part, groups in zip(values, self.counts, strict=True)
        )
        return MeasuredLevel(method, estimates, values)


Round = tuple[int, str, bool, list[bytes]]  # FORMAT, method, whether values are published, parts


def _encoded(method: str, published: bool, parts: Sequence[Int64Array]) -> bytes:
    encoded = [part.astype("<i8").tobytes() for part in parts]
    return msgspec.msgpack.encode((FORMAT, method, published, encoded))
