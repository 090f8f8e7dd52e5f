"""What the months of a schedule say of the interactions of sets of columns, month after month.

Sets of the same number of columns learn together how fast interactions drift
(`kalman_mixture.py`). Order matters to the last bit, so months come in order of time, and sets in a
fixed order: who fits a table and who reads the published answers compute the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NamedTuple, TypeVar

from .kalman_mixture import EVEN, Filters, Floats, drift_prior

K = TypeVar("K", bound=tuple[Any, ...])  # a set of columns


class Measured(NamedTuple):
    """A noisy interaction as shares: its values, centred, and the variance before centring."""

    values: Floats
    variance: float


@dataclass(frozen=True, eq=False)
class MonthFilters(Generic[K]):
    """The estimates of several months about the last month, or about a later month.

    number: of the month that is spoken of.
    filters: by set of columns.
    priors: the weights of the filters by number of columns, after the last measured month.
    """

    number: int
    filters: Mapping[K, Filters] = field(default_factory=dict)
    priors: Mapping[int, Floats] = field(default_factory=dict)

    def at(self, number: int) -> MonthFilters[K]:
        """The estimates about a later month."""
        months = number - self.number
        filters = {a: interaction.passed(months) for a, interaction in self.filters.items()}
        return replace(self, number=number, filters=filters if months else self.filters)

    def learnt(self, interactions: Mapping[K, Measured]) -> MonthFilters[K]:
        """The estimates with the measurements of month `number`."""
        filters = dict(self.filters)
        for a in sorted(interactions, key=lambda a: (len(a), a)):
            values, variance = interactions[a]
            interaction = filters.get(a) or Filters.of(values.shape, variance)
            prior = self.priors.get(len(a), EVEN)
            filters[a] = interaction.learnt(values.reshape(-1), variance, prior)
        of_order: dict[int, list[Filters]] = {}
        for a in sorted(filters, key=lambda a: (len(a), a)):
            of_order.setdefault(len(a), []).append(filters[a])
        priors = {ways: drift_prior(several) for ways, several in of_order.items()}
        return replace(self, filters=filters, priors=priors)

    def remembering(self, sets: Collection[K]) -> MonthFilters[K]:
        """The filters of the given sets with the present level in a further state."""
        filters = {
            a: interaction.remembering() if a in sets else interaction
            for a, interaction in self.filters.items()
        }
        return replace(self, filters=filters)

    def posterior(self, a: K, states: Floats | None = None) -> tuple[Floats, Floats]:
        """Mean and variance of a set's cells; see `Filters.posterior`."""
        return self.filters[a].posterior(self.priors[len(a)], states)
