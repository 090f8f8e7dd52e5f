"""The simplest batch synthesizer: attributes are drawn independently from noisy counts.

One round measures the one-way marginal of every group attribute, of the size and of every person
attribute, each with independent discrete Gaussian noise (Canonne, Kamath, Steinke 2020). Replacing
one person's attributes in place changes a marginal of people by at most 2 in squared L2 norm, and
does not change the marginals of groups (`workload/sensitivity.py`). Those are free, and measured
with the noise of the others, so that no number in the result is exact. Each of the m marginals of
people costs rho / m, so the variance is m / rho.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dp.privacy.noise import Measurements
from stream_dp.study.group_releases import HierarchyRelease

from ..data.domain import Domain, Hierarchy
from ..rounds.phases import CHARGES
from ..synthesizer import FitContext, begun_rounds
from .workload.candidates import one_way_marginals
from .workload.groups_plan import independent_phase

Counts = NDArray[np.int64]


def noise_variance(domain: Domain, rho: Fraction) -> Fraction:
    """The variance of the noise in every count."""
    workload, phase = independent_phase(domain, rho)
    return phase.variances(workload)[0]


@dataclass(frozen=True)
class Independent:
    """The fitted model.

    title: the method in words.
    domain: of the data.
    groups: the number of groups, which is public.
    counts: noisy counts by marginal, in the order of `one_way_marginals`.
    variance: of the noise in every count.
    """

    title: str
    domain: Domain
    groups: int
    counts: tuple[Counts, ...]
    variance: Fraction

    @property
    def notes(self) -> Mapping[str, int | float | str]:
        """What is published beside the data.

        charge: whether the charged cost is the exact maximum over all neighbours.
        negative_counts: how many of the noisy counts are below 0.
        """
        return {
            "charge": CHARGES[independent_phase(self.domain, Fraction(1))[1].exact],
            "negative_counts": int(sum((c < 0).sum() for c in self.counts)),
        }

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
        group_of = np.repeat(np.arange(self.groups), groups[:, -1] + self.domain.least)
        of_people = self.counts[len(of_groups) :]
        people = np.stack([systematic_draw(rng, c, len(group_of)) for c in of_people], axis=1)
        return Hierarchy(self.domain, groups, people, group_of)


def fit_independent(
    hierarchy: Hierarchy, release: HierarchyRelease, context: FitContext
) -> Independent:
    """See `synthesizer.Synthesizer`. Round 0 is the seed, round 1 holds the noisy counts."""
    domain, source, transcript = hierarchy.domain, context.source, context.transcript
    rounds = begun_rounds(context)
    variance = noise_variance(domain, release.rho)
    if len(rounds) < 2:
        shapes = [m.size for m in one_way_marginals(domain)]
        # Noise is drawn before the counts are computed.
        draws = source.draw([(variance, size) for size in shapes]).noise
        noisy = [
            exact + noise for exact, noise in zip(_exact_counts(hierarchy), draws, strict=True)
        ]
        data = msgspec.msgpack.encode([c.astype("<i8").tobytes() for c in noisy])
        rounds.append(transcript.record(1, data))
    arrays = msgspec.msgpack.decode(rounds[1], type=list[bytes])
    counts = tuple(np.frombuffer(c, "<i8").astype(np.int64) for c in arrays)
    context.progress(1, 1, float("nan"))
    return Independent(release.data_set.mechanism, domain, hierarchy.G, counts, variance)


def _exact_counts(hierarchy: Hierarchy) -> list[Counts]:
    """Exact counts, in the order of `one_way_marginals`."""
    values = (*hierarchy.domain.group_values, *hierarchy.domain.person_values)
    columns = (*hierarchy.groups.T, *hierarchy.people.T)
    return [np.bincount(c, minlength=v) for c, v in zip(columns, values, strict=True)]


def systematic_draw(
    rng: np.random.Generator, counts: Counts | NDArray[np.float64], size: int
) -> Counts:
    """(size,) codes in proportion to the positive counts; uniform if no count is positive.

    Systematic sampling, in random order: the number of each code differs from its exact share by
    less than 1.
    """
    weight = np.maximum(counts, 0).astype(float)
    ends = np.cumsum(weight if weight.any() else np.ones(len(counts)))
    positions = rng.permutation((np.arange(size) + rng.random()) / size)
    return np.searchsorted(ends / ends[-1], positions, side="right")
