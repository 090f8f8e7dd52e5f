"""Measures the sizes of all levels, in recorded rounds, and makes them consistent.

Each level has a round, which holds the method, declared or chosen, and the noisy values. Of a level
with too many values to be published it holds their estimates. A round is recorded before it is
used.
The rest is post-processing without any randomness.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np

from stream_dp.errors import UserError
from stream_dp.privacy.noise import NoiseSource

from ..synthesizer import FitContext
from .histogram import Estimate, Int64Array, LevelSizes, Sizes, earth_movers_distance
from .merging import Merge, consistent
from .posterior import posterior_sizes
from .size_estimates import FRACTIONS, METHODS
from .sizes_plan import LevelChoice, LevelPlan, MeasuredLevel, SizesPlan

FORMAT = 1  # of a recorded round
MOST_PUBLISHED = 1 << 20  # noisy values of a level
_AT_ONCE = 1 << 20  # numbers of noise for several regions


@dataclass(frozen=True)
class FittedLevels:
    """The result of `fit_levels`.

    levels: the measurements, from the root down.
    """

    plan: SizesPlan
    levels: tuple[MeasuredLevel, ...]

    @cached_property
    def sizes(self) -> LevelSizes:
        """The consistent sizes of every region of every level: the likeliest, or else merged."""
        return self._likeliest() or self.merged()

    def merged(self, merge: Merge = Merge.SPREAD) -> LevelSizes:
        """The sizes of every region of every level, made consistent by a merge."""
        return consistent(self.plan.regions, self.levels, merge)

    def _likeliest(self) -> LevelSizes | None:
        """The likeliest sizes; None if values are not published or too many."""
        return posterior_sizes(self.plan.regions, self.levels, self.plan.largest)


def fit_levels(leaves: Sequence[Sizes], plan: SizesPlan, context: FitContext) -> FittedLevels:
    """Measures the groups of the smallest regions, in the plan's order, and of all larger regions.

    It is `plan.rho`-zCDP under the relation of its levels. Raises UserError where the transcript
    holds rounds of another plan.
    """
    true = plan.regions.sums([sizes.capped(plan.largest) for sizes in leaves])
    rounds, levels = context.transcript.rounds(), []
    for depth in range(len(plan.levels)):
        data = _Level(plan, depth, context.source)
        if depth == len(rounds):
            rounds.append(context.transcript.record(depth, data.measured(true[depth])))
        levels.append(data.decoded(rounds[depth]))
        context.progress(depth + 1, len(plan.levels), float("nan"))
    return FittedLevels(plan, tuple(levels))


@dataclass(frozen=True)
class _Level:
    """A level's rounds: only `measured` sees true sizes."""

    plan: SizesPlan
    depth: int
    source: NoiseSource

    @property
    def counts(self) -> list[int]:
        """The public numbers of groups of the regions."""
        counts: list[int] = self.plan.regions.counts[self.depth].tolist()
        return counts

    def measured(self, true: Sequence[Sizes]) -> bytes:
        """The level's round.

        true: the confidential sizes of the level's regions.
        """
        declared = self.plan.levels[self.depth]
        level = declared if isinstance(declared, LevelPlan) else self._chosen(declared, true)
        if self.plan.entries(self.depth, level.method) <= MOST_PUBLISHED:
            return _encoded(level.method, True, list(self._noisy(level, true)))
        runs = [
            np.stack([np.rint(e.value * 2 * FRACTIONS).astype(np.int64), e.groups]).ravel()
            for e in self._estimated(level, true)
        ]
        return _encoded(level.method, False, runs)

    def _chosen(self, choice: LevelChoice, true: Sequence[Sizes]) -> LevelPlan:
        """The plan of the method that the exponential mechanism selects."""
        scores = np.zeros(len(choice.methods), np.int64)
        for i, trial in enumerate(choice.trials):
            for estimate, sizes in zip(self._estimated(trial, true), true, strict=True):
                scores[i] -= earth_movers_distance(estimate.sizes, sizes)
        selected = self.source.top(scores, 1, choice.selection_variance)
        return choice.candidates[int(selected[0])]

    def _estimated(self, level: LevelPlan, true: Sequence[Sizes]) -> Iterator[Estimate]:
        """Yields the estimate of every region from new noise."""
        for values, groups in zip(self._noisy(level, true), self.counts, strict=True):
            yield self._estimate(level.method, values, groups)

    def _noisy(self, level: LevelPlan, true: Sequence[Sizes]) -> Iterator[Int64Array]:
        """Yields the noisy values of every region: int64 (n,) with n as in `_entries`.

        The noise of a region is drawn before its exact values are computed. A region without
        groups has no values.
        """
        exact = METHODS[level.method].exact
        for sizes, noise in zip(true, self._noise(level), strict=True):
            yield noise + exact(sizes, self.plan.largest) if sizes.total else noise

    def _entries(self, method: str) -> list[int]:
        """The numbers of values that a method measures in the regions."""
        entries = METHODS[method].entries
        return [entries(groups, self.plan.largest) if groups else 0 for groups in self.counts]

    def _noise(self, level: LevelPlan) -> Iterator[Int64Array]:
        """The noise of every region. Many small regions' noise is drawn at once."""
        sizes, first, parameter = self._entries(level.method), 0, level.parameter
        while first < len(sizes):
            end, together = first + 1, sizes[first]
            while end < len(sizes) and together + sizes[end] <= _AT_ONCE:
                together += sizes[end]
                end += 1
            if level.pure:
                noise = self.source.geometric(parameter, together)
            else:
                (noise,) = self.source.draw([(parameter, together)]).noise
            yield from np.split(noise, np.cumsum(sizes[first : end - 1]))
            first = end

    def _estimate(self, method: str, values: Int64Array, groups: int) -> Estimate:
        if not groups:
            return Estimate(np.zeros(0), np.zeros(0, np.int64))
        return METHODS[method].fit(values, groups, self.plan.largest)

    def decoded(self, data: bytes) -> MeasuredLevel:
        """Decodes a round. Raises UserError unless the round belongs to this level."""
        try:
            stated, method, published, encoded = msgspec.msgpack.decode(data, type=Round)
            arrays = tuple(np.frombuffer(array, "<i8").astype(np.int64) for array in encoded)
            plans = {level.method: level for level in self.plan.levels[self.depth].candidates}
            if stated != FORMAT or method not in plans or len(arrays) != len(self.counts):
                raise ValueError
            if not published:
                runs = [array.reshape(2, -1) for array in arrays]
                estimates = tuple(Estimate(r[0] / (2 * FRACTIONS), r[1]) for r in runs)
                return MeasuredLevel(plans[method], estimates, None)
            if [len(array) for array in arrays] != self._entries(method):
                raise ValueError
        except (msgspec.MsgspecError, ValueError):
            raise UserError("the job's transcript is not of what its release declares") from None
        estimates = tuple(
            self._estimate(method, values, groups)
            for values, groups in zip(arrays, self.counts, strict=True)
        )
        return MeasuredLevel(plans[method], estimates, arrays)


# FORMAT, method, whether values are published, the regions' arrays
Round = tuple[int, str, bool, list[bytes]]


def _encoded(method: str, published: bool, arrays: Sequence[Int64Array]) -> bytes:
    encoded = [array.astype("<i8").tobytes() for array in arrays]
    return msgspec.msgpack.encode((FORMAT, method, published, encoded))
