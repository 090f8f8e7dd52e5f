"""The least noise with which a convex bound of costs does not exceed a limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TypeVar

K = TypeVar("K")

_BITS = 256  # of a scale that is not rounded; a longer one keeps 96


def total(precisions: Mapping[K, Fraction], changes: Mapping[K, Fraction]) -> Fraction:
    """The sum of precision times squared change."""
    return sum((p * changes.get(k, Fraction(0)) for k, p in precisions.items()), Fraction(0))


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
