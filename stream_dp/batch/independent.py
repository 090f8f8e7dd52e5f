"""The plainest batch synthesizer: every attribute from its own noisy counts, all independent.

One round: the one-way marginal of every group attribute, of the size, and of every attribute of
people, each with independent discrete Gaussian noise. Replacing one person's attributes in place
changes the squared L2 of a marginal of people by at most 2 and leaves those of groups as they are
(`sensitivity.py`); the latter are measured, and charged, like the others, so that no number in
the result is exact. With m marginals of squared sensitivity 2 at rho / m each: variance m / rho.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dp.privacy.measurements import Measurements
from stream_dp.privacy.noise import NoiseSource
from stream_dp.study.groups import BatchRelease

from .base import FitTranscript, ProgressCallback
from .data.domain import Domain, Hierarchy
from .kinds import kind_title
from .workload.candidates import one_way_marginals
from .workload.sensitivity import squared_sensitivity

Counts = NDArray[np.int64]


def noise_variance(domain: Domain, rho: Fraction) -> Fraction:
    """Of the noise in every count."""
    marginals = one_way_marginals(domain)
    return max(squared_sensitivity(m) for m in marginals) * len(marginals) / (2 * rho)


@dataclass(frozen=True)
class Independent:
    """Noisy counts by marginal, and the number of groups, which is public."""

    domain: Domain
    groups: int
    counts: tuple[Counts, ...]
    variance: Fraction

    @property
    def title(self) -> str:
        return kind_title("independent")

    @property
    def notes(self) -> Mapping[str, int | float | str]:
        return {"negative_counts": int(sum((c < 0).sum() for c in self.counts))}

    @property
    def measurements(self) -> Measurements:
        texts = [
            queries.text(i, self.domain)
            for marginal in one_way_marginals(self.domain)
            for queries in [marginal.queries()]
            for i in range(len(queries))
        ]
        values = np.concatenate(self.counts)
        return Measurements(tuple(texts), values, (self.variance,) * len(values))

    def sample(self, seed: int) -> Hierarchy:
        rng = np.random.default_rng(seed)
        of_groups = self.counts[: len(self.domain.group_values)]
        groups = np.stack([systematic_draw(rng, c, self.groups) for c in of_groups], axis=1)
        group_of = np.repeat(np.arange(self.groups), groups[:, -1] + 1)
        of_people = self.counts[len(of_groups) :]
        people = np.stack([systematic_draw(rng, c, len(group_of)) for c in of_people], axis=1)
        return Hierarchy(self.domain, groups, people, group_of)


def fit_independent(
    hierarchy: Hierarchy,
    release: BatchRelease,
    source: NoiseSource,
    transcript: FitTranscript,
    progress: ProgressCallback,
) -> Independent:
    """See `base.Synthesizer`. Round 0: the seed; round 1: the noisy counts."""
    domain = hierarchy.domain
    done = transcript.rounds()
    if not done:
        # From the source's coins: so a simulation repeats itself.
        done.append(transcript.record(0, source.draw([]).coins.bytes(32)))
    noise = noise_variance(domain, release.rho)
    if len(done) < 2:
        shapes = [m.size for m in one_way_marginals(domain)]
        # Drawn before the counts are looked at.
        draws = source.draw([(noise, size) for size in shapes]).noise
        noisy = [true + drawn for true, drawn in zip(_true(hierarchy), draws, strict=True)]
        data = msgspec.msgpack.encode([c.astype("<i8").tobytes() for c in noisy])
        done.append(transcript.record(1, data))
    arrays = msgspec.msgpack.decode(done[1], type=list[bytes])
    counts = tuple(np.frombuffer(c, "<i8").astype(np.int64) for c in arrays)
    progress(1, 1, float("nan"))
    return Independent(domain, hierarchy.G, counts, noise)


def _true(hierarchy: Hierarchy) -> list[Counts]:
    """In the order of `marginals`."""
    values = (*hierarchy.domain.group_values, *hierarchy.domain.person_values)
    columns = (*hierarchy.groups.T, *hierarchy.people.T)
    return [np.bincount(c, minlength=v) for c, v in zip(columns, values, strict=True)]


def systematic_draw(rng: np.random.Generator, counts: Counts, size: int) -> Counts:
    """`size` codes in proportion to the counts that are above 0; uniform where none is.

    Systematic, and in any order: of each code as many as its share, but for a fraction.
    """
    weight = np.maximum(counts, 0).astype(float)
    ends = np.cumsum(weight if weight.any() else np.ones(len(counts)))
    at = rng.permutation((np.arange(size) + rng.random()) / size)
    return np.searchsorted(ends / ends[-1], at, side="right")
