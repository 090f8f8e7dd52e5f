"""Declarations of linear thresholds: w1 x1 + w2 x2 + ... <= t of numbers with whole weights.

Vietri et al. 2022, "Private synthetic data for multitask learning and marginal queries" (RAP++),
class-conditional linear threshold queries.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import Field

from .attribute import Attribute
from .field_types import Declaration, Name

MOST_PROJECTIONS = 64
MOST_SUM = 1 << 53  # of a projection's value, either way
_Whole = Annotated[int, Field(ge=-MOST_SUM, le=MOST_SUM, strict=True)]


class Linear(Declaration):
    """Linear thresholds of a declared sum of numbers, or of several seeded sums."""

    weights: Annotated[dict[Name, _Whole], Field(min_length=1, max_length=64)] | None = None
    """A whole weight for each number in the sum, such as `{ income = 1, rent = -12 }`. Either this
    or `random`."""
    thresholds: Annotated[tuple[_Whole, ...], Field(min_length=1, max_length=255)] | None = None
    """Only with `weights`: people with a sum up to a threshold are counted. By default 15
    thresholds, which divide the sum into 16 equally likely parts if all bins of all numbers are
    equally likely and independent."""
    random: Annotated[int, Field(ge=1, le=MOST_PROJECTIONS, strict=True)] | None = None
    """The number of random sums of all numbers. A random weight is an approximately normal draw,
    divided by the number's standard deviation over its bins. `seed` and the declarations determine
    all weights."""
    seed: Annotated[int, Field(ge=0, le=MOST_SUM, strict=True)] | None = None
    """The public seed of the sums that `random` declares: any number, 0 by default."""

    @property
    def projections(self) -> int:
        """The number of declared sums."""
        return self.random or 1


def linear_faults(
    linear: tuple[Linear, ...], columns: Mapping[str, Attribute | None]
) -> Iterator[str]:
    """Faults of a release's linear thresholds, to be put after the release's key in the file.

    columns: the release's columns by name; None for an attribute with a fault.
    """
    numbers = {name: a.numbers for name, a in columns.items() if a is not None and a.numbers}
    if not numbers and None not in columns.values():
        yield ".linear: none of the release's attributes is a number"
    if sum(declared.projections for declared in linear) > MOST_PROJECTIONS:
        yield f".linear: over {MOST_PROJECTIONS} sums of numbers together"
    for index, declared in enumerate(linear):
        key = f".linear.{index}"
        if (declared.weights is None) == (declared.random is None):
            yield f"{key}: declare weights = {{ NUMBER = WEIGHT }}, or random = N: one of both"
        if declared.thresholds is not None and declared.weights is None:
            yield f"{key}.thresholds: go with weights; those of random sums follow from the bins"
        if declared.seed is not None and declared.random is None:
            yield f"{key}.seed: goes with random; declared weights need none"
        low = high = 0
        for name, weight in (declared.weights or {}).items():
            if name not in columns:
                yield f"{key}.weights: '{name}' is none of the release's attributes"
            elif weight == 0:
                yield f"{key}.weights: '{name}' has the weight 0; leave it out"
            elif name in numbers:
                points = numbers[name].scale.points
                ends = weight * points[0], weight * points[-1]
                low, high = low + min(ends), high + max(ends)
            elif columns[name] is not None:
                yield f"{key}.weights: '{name}' is no number"
        if max(-low, high) > MOST_SUM:
            yield f"{key}.weights: the sum may be over {MOST_SUM:,}; take smaller weights"
        sums = declared.thresholds or ()
        if any(a >= b for a, b in itertools.pairwise(sums)):
            yield f"{key}.thresholds: must increase"
        elif sums and low < high and not low <= sums[0] <= sums[-1] < high:
            yield (
                f"{key}.thresholds: must lie from {low} to below {high}, the least and the most"
                " that the sum can be"
            )
