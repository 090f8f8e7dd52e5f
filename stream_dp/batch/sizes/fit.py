"""Measures the sizes of all levels, in recorded rounds, and makes them consistent.

Each level has a round, which holds the method, chosen or declared, and what was measured: the
noisy values, or, of a level with too many of them to be published, the estimates that they gave.
A round is recorded before it is used; all that follows is post-processing without any randomness.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np

from stream_dp.errors import UserError
from stream_dp.privacy.noise import NoiseSource

from ..base import FitContext
from .histogram import Estimate, Int64Array, Sizes, earth_movers_distance
from .merging import LevelEstimate, consistent
from .methods import FRACTIONS, METHODS
from .plan import LevelPlan, SizesPlan

MOST_PUBLISHED = 1 << 20  # noisy values of a level


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
class FittedSizes:
    """The result of `fit_sizes`. levels: what was measured, from the root down."""

    plan: SizesPlan
    levels: tuple[MeasuredLevel, ...]

    @cached_property
    def sizes(self) -> tuple[tuple[Sizes, ...], ...]:
        """The sizes of every region of every level, consistent."""
        estimates = [
            LevelEstimate(
                cumulative=level.method.startswith("cumulative"),
                variance=plan.variance(level.method),
                regions=level.estimates,
            )
            for plan, level in zip(self.plan.levels, self.levels, strict=True)
        ]
        return consistent(self.plan.regions, estimates, self.plan.merge)


def fit_sizes(leaves: Sequence[Sizes], plan: SizesPlan, context: FitContext) -> FittedSizes:
    """Measures the groups of the smallest regions, in the order of the plan's, and all above.

    It is `plan.rho`-zCDP under the relation of its levels. Raises UserError where the transcript
    holds rounds of something else.
    """
    true = plan.regions.sums([sizes.capped(plan.largest) for sizes in leaves])
    rounds = context.transcript.rounds()
    levels = []
    for depth, level in enumerate(plan.levels):
        data = _Level(plan, depth, level, context.source)
        if depth == len(rounds):
            rounds.append(context.transcript.record(depth, data.measured(true[depth])))
        levels.append(data.decoded(rounds[depth]))
        context.progress(depth + 1, len(plan.levels), float("nan"))
    return FittedSizes(plan, tuple(levels))


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
        if self.plan.entries(self.depth, method) <= MOST_PUBLISHED:
            values = [self._noisy(sizes, method) for sizes in true]
            return _encoded(method, values, True)
        estimates = [self._estimate(self._noisy(s, method), method, s.total) for s in true]
        runs = [
            np.stack([np.rint(e.value * 2 * FRACTIONS).astype(np.int64), e.groups]).ravel()
            for e in estimates
        ]
        return _encoded(method, runs, False)

    def _chosen(self, true: Sequence[Sizes]) -> str:
        """The method that the exponential mechanism picks; see `plan`."""
        scores = np.zeros(len(self.level.methods), np.int64)
        for i, method in enumerate(self.level.methods):
            for sizes in true:
                noisy = self._noisy(sizes, method, tried=True)
                estimate = self._estimate(noisy, method, sizes.total)
                scores[i] -= earth_movers_distance(estimate.sizes, sizes)
        return self.level.methods[int(self.source.top(scores, 1, self.level.choice_variance)[0])]

    def _noisy(self, sizes: Sizes, method: str, *, tried: bool = False) -> Int64Array:
        """The noisy values of one region. Noise is drawn before the counts are computed."""
        declared = METHODS[method]
        count = declared.entries(sizes.total, self.plan.largest) if sizes.total else 0
        parameter = self.level.parameter(method, tried=tried)
        if self.level.pure:
            noise = self.source.geometric(parameter, count)
        else:
            (noise,) = self.source.draw([(parameter, count)]).noise
        if count:
            noise += declared.exact(sizes, self.plan.largest)
        return noise

    def _estimate(self, values: Int64Array, method: str, groups: int) -> Estimate:
        if not groups:
            return Estimate(np.zeros(0), np.zeros(0, np.int64))
        return METHODS[method].fit(values, groups, self.plan.largest)

    def decoded(self, data: bytes) -> MeasuredLevel:
        """The level that a round holds. Raises UserError unless it is one of this level."""
        try:
            method, published, parts = msgspec.msgpack.decode(
                data, type=tuple[str, bool, list[bytes]]
            )
            values = tuple(np.frombuffer(part, "<i8").astype(np.int64) for part in parts)
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


def _encoded(method: str, parts: Sequence[Int64Array], published: bool) -> bytes:
    return msgspec.msgpack.encode(
        (method, published, [part.astype("<i8").tobytes() for part in parts])
    )
