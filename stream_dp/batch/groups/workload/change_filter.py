"""The privacy filter of groups and of events: the costs of all measurements add up for one change.

Every variance follows from public numbers and earlier noisy answers. So all measurements together
cost a change of one person what `worst_changes.py` bounds, and a measurement gets the least noise
with which no change costs more than the limit: `docs/proofs/filter.md`. What selects marginals
costs every change the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

from ...rounds.precision_scale import least_scale, total, with_precisions
from .worst_changes import Worst


@dataclass(frozen=True)
class ChangeFilter:
    """What measurements have cost the worst change of one person; see `phases.PrivacyFilter`.

    worst: from precisions to the squared changes of the costliest case.
    exact: whether one pair of neighbours attains these changes.
    limit: the rho that all measurements so far may cost.
    precisions: by candidate, the sum of 1 / variance.
    of_all: what selections have cost.
    """

    worst: Worst = field(repr=False)
    exact: bool
    limit: Fraction = Fraction(0)
    precisions: Mapping[int, Fraction] = field(default_factory=dict)
    of_all: Fraction = Fraction(0)

    @cached_property
    def spent(self) -> Fraction:
        """What the measurements cost the worst change."""
        if not self.precisions:
            return self.of_all
        return self.of_all + total(self.precisions, self.worst(self.precisions)) / 2

    @property
    def left(self) -> Fraction:
        return self.limit - self.spent

    def allowing(self, rho: Fraction) -> ChangeFilter:
        """The filter with so much more rho."""
        return replace(self, limit=self.limit + rho)

    def scale(self, candidates: Sequence[int], weights: Sequence[Fraction]) -> Fraction:
        """The least factor of weights that makes variances with which nothing exceeds the limit.

        Raises ValueError if nothing is left.
        """
        if self.left <= 0:
            raise ValueError("nothing is left of rho")
        added = with_precisions({}, candidates, weights)
        return least_scale(self.worst, self.precisions, added, self.limit - self.of_all)

    def charged(
        self,
        candidates: Sequence[int],
        variances: Sequence[Fraction],
        selection: Fraction = Fraction(0),
    ) -> ChangeFilter:
        """The filter after candidates are measured with these variances.

        selection: the rho of what selected them.
        """
        precisions = with_precisions(self.precisions, candidates, variances)
        return replace(self, precisions=precisions, of_all=self.of_all + selection)
