"""The phases of a fit: their candidates, their parts of rho, and the noise.

A phase measures all of its candidates at once, with declared weights (`Everything`), or in rounds
that each pick the candidates that the model answers worst (`Rounds`). A later phase may depend on
the noisy answers of earlier ones: costs add up under zCDP even then (Bun and Steinke 2016, Lemma
2.3). A filter adds costs up for each pair of neighbours by itself (`people/pair_filter.py`,
`groups/workload/candidates.py`). Everything here is public.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import lcm
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from stream_dp.privacy.noise import exact_variance
from stream_dp.privacy.zcdp import selection_rho

from ..data.domain import Int64Array

K = TypeVar("K")

_BITS = 256  # of a scale that is not rounded; a longer one keeps 96


def total(precisions: Mapping[K, Fraction], changes: Mapping[K, Fraction]) -> Fraction:
    """The sum of precision times squared change, over a common denominator."""
    numerator, denominator = 0, 1
    for key, precision in precisions.items():
        if change := changes.get(key):
            top = precision.numerator * change.numerator
            bottom = precision.denominator * change.denominator
            if bottom != denominator:
                common = lcm(bottom, denominator)
                top *= common // bottom
                numerator *= common // denominator
                denominator = common
            numerator += top
    return Fraction(numerator, denominator)


def with_precisions(
    precisions: Mapping[K, Fraction], keys: Sequence[K], variances: Sequence[Fraction]
) -> dict[K, Fraction]:
    """The precisions with those of more measurements."""
    result = {**precisions}
    for key, variance in zip(keys, variances, strict=True):
        result[key] = result.get(key, Fraction(0)) + 1 / variance
    return result


def least_scale(
    worst: Callable[[Mapping[K, Fraction]], Mapping[K, Fraction]],
    before: Mapping[K, Fraction],
    added: Mapping[K, Fraction],
    rest: Fraction,
) -> Fraction:
    """The least s for which precisions `before` + `added` / s cost at most `rest`.

    worst: from precisions to the squared changes of the pair of neighbours that costs most. Half of
        the sum of precision times change is its cost.

    The cost is a convex function of 1 / s, in finitely many straight pieces. From an 1 / s at which
    it exceeds the limit, Newton's steps along the pieces fall to the largest that the limit allows.
    """
    changes = worst(added)
    factor = 2 * rest / total(added, changes)
    while True:
        together = {k: before.get(k, Fraction(0)) for k in {**before, **added}}
        for key, precision in added.items():
            together[key] += factor * precision
        changes = worst(together)
        if total(together, changes) <= 2 * rest:
            return _short(1 / factor)
        factor = (2 * rest - total(before, changes)) / total(added, changes)


def _short(scale: Fraction) -> Fraction:
    """The scale, rounded up slightly to an inverse with a power of 2 in the denominator."""
    if max(scale.numerator.bit_length(), scale.denominator.bit_length()) <= _BITS:
        return scale
    inverse = 1 / scale
    shift = 96 - inverse.numerator.bit_length() + inverse.denominator.bit_length()
    unit = Fraction(2) ** shift
    return unit / (inverse * unit).__floor__()


SELECTION = Fraction(1, 10)
# Of the cost over all pairs of neighbours, by whether the charge is exact.
CHARGES = {True: "exact maximum", False: "upper bound"}


class Candidates(Protocol):
    """Candidates for measurement, of one or several integer counts.

    starts: (candidates + 1,) candidate i has the counts of rows starts[i] to starts[i + 1].
    domain: what the counts are about.
    """

    @property
    def starts(self) -> Int64Array: ...
    @property
    def domain(self) -> Any: ...

    @property
    def candidates(self) -> int:
        """The number of candidates."""

    def rows(self, candidates: Sequence[int]) -> Int64Array:
        """The rows of the counts of some candidates, in their order."""

    @property
    def squared(self) -> Sequence[int]:
        """By candidate, the squared L2 sensitivity of its counts alone."""

    def counter(self, data: Any) -> Callable[[Sequence[int]], Int64Array]:
        """A function from candidates to their exact counts, in this order. Confidential."""

    def texts(self, rows: Int64Array) -> tuple[str, ...]:
        """The counts in words."""


def candidate_rows(starts: Int64Array, candidates: Sequence[int]) -> Int64Array:
    """The rows of the candidates, in order: candidate i has starts[i] to starts[i + 1]."""
    numbers = np.asarray(candidates, np.int64)
    sizes = np.diff(starts)[numbers]
    ends = np.cumsum(sizes)
    return np.repeat(starts[numbers] - (ends - sizes), sizes) + np.arange(int(sizes.sum()))


class Ranked(Candidates, Protocol):
    """Candidates that can be picked by how badly a model answers them."""

    @property
    def sensitivity(self) -> int:
        """The largest change of any score by one person."""

    def score_counter(self, data: Any) -> Callable[[Sequence[int]], Int64Array]:
        """A function from candidates to the exact counts that models answer. Confidential."""

    def scores(
        self,
        candidates: Sequence[int],
        true: Int64Array,
        model: NDArray[np.float64],
        deviations: Sequence[float],
    ) -> Int64Array:
        """(candidates,) integer scores, high where the model answers badly.

        true, model: the exact counts of these candidates and the model's answers, in their order.
        deviations: by candidate, the standard deviation of the noise in a measured count.
        """


@dataclass(frozen=True)
class NoisyAnswers:
    """Everything measured so far.

    candidates: what was measured, in order; one that is measured again stands there again.
    rows: (n,) rows of the counts.
    values: (n,) their noisy answers.
    variances: (n,) parameters of the discrete Gaussian noise in each.
    ends: for each measured candidate, the position after its last count.
    """

    candidates: tuple[int, ...]
    rows: Int64Array
    values: Int64Array
    variances: tuple[Fraction, ...]
    ends: tuple[int, ...]

    @staticmethod
    def none() -> NoisyAnswers:
        return NoisyAnswers(
            (), rows=np.zeros(0, np.int64), values=np.zeros(0, np.int64), variances=(), ends=()
        )

    def joined(
        self,
        workload: Candidates,
        candidates: Sequence[int],
        values: Int64Array,
        variances: Mapping[int, Fraction],
    ) -> NoisyAnswers:
        """Returns all answers with the answers of a further round."""
        sizes = np.diff(workload.starts)[list(candidates)].tolist()
        added = tuple(
            variances[i] for i, n in zip(candidates, sizes, strict=True) for _ in range(n)
        )
        ends = (len(self.rows) + np.cumsum(sizes, dtype=np.int64)).tolist()
        return NoisyAnswers(
            (*self.candidates, *candidates),
            rows=np.concatenate([self.rows, workload.rows(candidates)]),
            values=np.concatenate([self.values, values]),
            variances=self.variances + added,
            ends=(*self.ends, *ends),
        )

    @property
    def noise(self) -> NDArray[np.float64]:
        """(n,) exact variances of the noise, below the parameters `variances`."""
        exact = {v: exact_variance(v) for v in set(self.variances)}
        return np.array([exact[v] for v in self.variances], np.float64)


class PrivacyFilter(Protocol):
    """The costs of a fit's measurements so far, added up for each pair of neighbours by itself.

    spent: the cost for the worst pair.
    left: what the limit leaves for it.
    exact: whether these costs are the maximum over all pairs; otherwise an upper bound.
    """

    @property
    def spent(self) -> Fraction: ...
    @property
    def left(self) -> Fraction: ...
    @property
    def exact(self) -> bool: ...

    def allowing(self, rho: Fraction) -> PrivacyFilter:
        """The filter with a limit higher by rho."""

    def scale(self, candidates: Sequence[int], weights: Sequence[Fraction]) -> Fraction:
        """The least factor of weights that makes variances with which no pair exceeds the limit."""

    def charged(
        self,
        candidates: Sequence[int],
        variances: Sequence[Fraction],
        selection: Fraction = Fraction(0),
    ) -> PrivacyFilter:
        """The filter after these measurements. selection: the rho of what selected them."""


@dataclass(frozen=True)
class Everything:
    """A phase that measures all of its candidates at once.

    rho: its part of the budget.
    candidates: their numbers.
    weights: by candidate, the variance of its noise, up to a common factor.
    before: the filter that earlier phases leave.
    Raises ValueError unless all are positive.
    """

    rho: Fraction
    candidates: tuple[int, ...]
    weights: tuple[Fraction, ...]
    before: PrivacyFilter

    def __post_init__(self) -> None:
        if self.rho <= 0 or not self.candidates or min(self.weights) <= 0:
            raise ValueError("a phase needs a budget, candidates and positive weights")

    @property
    def rounds(self) -> int:
        return 1

    def variances(self, workload: Candidates) -> dict[int, Fraction]:
        """By candidate, the variance of its noise: all together add rho to what the worst pair of
        neighbours costs."""
        return {i: w * self._scale for i, w in zip(self.candidates, self.weights, strict=True)}

    @cached_property
    def _scale(self) -> Fraction:
        """The factor of the weights."""
        return self.before.allowing(self.rho).scale(self.candidates, self.weights)

    def measured(self, workload: Candidates, picked: Sequence[int]) -> dict[int, Fraction]:
        """By candidate, the variance of its noise in the round that measures `picked`."""
        return self.variances(workload)

    @cached_property
    def charged(self) -> PrivacyFilter:
        """The filter after the phase."""
        variances = [weight * self._scale for weight in self.weights]
        return self.before.allowing(self.rho).charged(self.candidates, variances)

    @property
    def exact(self) -> bool:
        """Whether the charges up to this phase are proved to be the maximum over all pairs."""
        return self.charged.exact

    def after(self, workload: Candidates, picked: Sequence[int]) -> None:
        """The phase after this round: none."""

    def allows(self, picked: Sequence[int], measured: Sequence[int]) -> bool:
        """Whether a round may measure `picked` after `measured`."""
        return tuple(picked) == self.candidates


@dataclass(frozen=True)
class Weighed(Everything):
    """A phase whose candidates and precisions floats have computed from noisy answers.

    Its round states them, so that a fit that goes on measures the same, and with the same noise.
    Whatever the round says, the filter charges no more than rho. The weights are 1 / whole number.
    """

    @property
    def stated(self) -> list[int]:
        """By candidate, 1 / weight."""
        return [weight.denominator for weight in self.weights]

    def at(self, candidates: Sequence[int], stated: Sequence[int]) -> Weighed:
        """The phase stated by a round. Raises ValueError for an invalid phase."""
        if len({*candidates}) != len(candidates) or len(stated) != len(candidates):
            raise ValueError("a candidate stands there twice, or has no weight")
        weights = tuple(Fraction(1, precision) for precision in stated if precision > 0)
        if len(weights) < len(stated):
            raise ValueError("a precision is not positive")
        return replace(self, candidates=tuple(candidates), weights=weights)


class Picking:
    """Rounds of picks; a pick and its measurement cost `self.each`.

    rho: the rounds' part of the budget.
    candidates: the numbers of those to pick from.
    picks: candidates that a round picks.
    selection: the part of rho that pays for picking.
    """

    rho: Fraction
    candidates: tuple[int, ...]
    picks: int
    selection: Fraction

    @property
    def each(self) -> Fraction:
        raise NotImplementedError

    @property
    def exact(self) -> bool:
        """Whether its charge is the maximum: a selection's is an upper bound."""
        return False

    def variances(self, workload: Candidates) -> dict[int, Fraction]:
        """By candidate, the variance of its noise in the next round, at equal costs."""
        measuring = (1 - self.selection) * self.each
        squared = workload.squared
        variances = {s: Fraction(s) / (2 * measuring) for s in set(squared)}
        return {i: variances[squared[i]] for i in self.candidates}

    def measured(self, workload: Candidates, picked: Sequence[int]) -> dict[int, Fraction]:
        """By pick, the variance of its noise in the next round."""
        raise NotImplementedError

    def scale(self, workload: Ranked) -> Fraction:
        """The squared scale of a pick's Gumbel noise."""
        return workload.sensitivity**2 / (2 * self.selection * self.each)

    def filled(
        self, before: PrivacyFilter, workload: Candidates, picked: Sequence[int]
    ) -> dict[int, Fraction]:
        """By pick, the least variance with which the round spends all that a filter has left."""
        variances = self.variances(workload)
        selected = before.charged((), (), self.selection_cost(workload, picked))
        scale = selected.scale(picked, [variances[i] for i in picked])
        return {i: scale * variances[i] for i in picked}

    def selection_cost(self, workload: Any, picked: Sequence[int]) -> Fraction:
        """The rho of picking so many candidates."""
        return selection_rho(workload.sensitivity, self.scale(workload), len(picked))

    @property
    def _allowed(self) -> PrivacyFilter:
        """What the next round may cost."""
        raise NotImplementedError

    def charged(self, workload: Candidates, picked: Sequence[int]) -> PrivacyFilter:
        """The filter after the next round with these picks."""
        variances = self.measured(workload, picked)
        selection = self.selection_cost(workload, picked)
        return self._allowed.charged(picked, [variances[i] for i in picked], selection)


@dataclass(frozen=True)
class Rounds(Picking):
    """A phase whose rounds have equal parts of rho; no candidate is picked twice.

    A round has the least noise with which the worst pair of neighbours costs no more than the parts
    of all rounds so far. `variances` are the most that this can be.

    before: the filter that earlier measurements leave; None in a plan.
    Raises ValueError where the rounds have nothing to do, or more than there is.
    """

    rho: Fraction
    candidates: tuple[int, ...]
    rounds: int
    picks: int
    selection: Fraction = SELECTION
    before: PrivacyFilter | None = None

    def __post_init__(self) -> None:
        if self.rho <= 0 or not 0 < self.selection < 1:
            raise ValueError("rho must be positive, and parts of it between 0 and 1")
        if self.rounds < 1 or self.picks < 1 or self.rounds * self.picks > len(self.candidates):
            raise ValueError("there must be a round, a pick in it, and a candidate for each pick")

    @property
    def each(self) -> Fraction:
        return self.rho / (self.rounds * self.picks)

    @property
    def _allowed(self) -> PrivacyFilter:
        assert self.before is not None, "the rounds of a plan measure nothing"
        return self.before.allowing(self.each * self.picks)

    def measured(self, workload: Candidates, picked: Sequence[int]) -> dict[int, Fraction]:
        """By pick, the variance of its noise in the next round."""
        return self.filled(self._allowed, workload, picked)

    def after(self, workload: Candidates, picked: Sequence[int]) -> Rounds | None:
        """The remaining rounds, or None."""
        rounds = self.rounds - 1
        if not rounds:
            return None
        rho, before = self.each * self.picks * rounds, self.charged(workload, picked)
        return replace(self, rounds=rounds, rho=rho, before=before)

    def allows(self, picked: Sequence[int], measured: Sequence[int]) -> bool:
        """Whether a round may pick `picked` after `measured`."""
        new = {*picked} & {*self.candidates} - {*measured}
        return len(new) == len(picked) == self.picks
