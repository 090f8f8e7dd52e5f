"""Tables of one schedule: the noisy interactions of earlier months sharpen those of this month.

Each table is measured by itself, so its cost and its noise are as if there were no other. What
`answers/kalman_mixture.py` says of several months replaces what was measured, before the model is
fitted: post-processing. A set of columns that an earlier month measured and this one did not, such
as a pair that was not picked, has its last level and a larger variance.

Only sets whose columns have the values that they have now go on. A column whose rare values were
merged otherwise begins anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from stream_dp.answers.kalman_mixture import EVEN, Filters, Floats, drift_prior

from ...data.domain import Column
from .residual_counts import Columns
from .targets import Interaction, Targets

Interactions = Mapping[Columns, Interaction]


class Month(NamedTuple):
    """What a month's table measured.

    number: of the table in its schedule, from 1; tables may be missing.
    columns: of the table.
    interactions: by set of columns.
    """

    number: int
    columns: tuple[Column, ...]
    interactions: Interactions


@dataclass(frozen=True, eq=False)
class Past:
    """What some months say of the last of them, or of a month after them.

    number: of the month that is spoken of.
    filters: by set of columns.
    priors: the weights of the filters after each month, by its number and the number of columns.
    """

    number: int
    filters: Mapping[Columns, Filters] = field(default_factory=dict)
    priors: Mapping[int, Mapping[int, Floats]] = field(default_factory=dict)

    @staticmethod
    def of(months: Sequence[Month], columns: Sequence[Column], number: int) -> Past | None:
        """What earlier months say of month `number` and its columns; None if they say nothing.

        months: in order.
        """
        past = Past(months[0].number) if months else Past(number)
        place = {column: c for c, column in enumerate(columns)}
        for month in months:
            same = {c: place[column] for c, column in enumerate(month.columns) if column in place}
            interactions = {
                tuple(same[c] for c in a): interaction
                for a, interaction in month.interactions.items()
                if all(c in same for c in a)
            }
            past = past.at(month.number).learnt(interactions)
        return past.at(number) if past.filters else None

    def at(self, number: int) -> Past:
        """What the months say of a later one."""
        months = number - self.number
        filters = {a: one.passed(months) for a, one in self.filters.items()}
        return replace(self, number=number, filters=filters if months else self.filters)

    def learnt(self, interactions: Interactions) -> Past:
        """What they say with the measurements of month `number`."""
        filters, last = dict(self.filters), self.priors[max(self.priors)] if self.priors else {}
        for a, (values, variance) in interactions.items():
            one = filters.get(a) or Filters.of(values.shape, variance)
            filters[a] = one.learnt(values.reshape(-1), variance, last.get(len(a), EVEN))
        orders = sorted({len(a) for a in filters})
        by_order = {w: [one for a, one in filters.items() if len(a) == w] for w in orders}
        priors = {w: drift_prior(several) for w, several in by_order.items()}
        return replace(self, filters=filters, priors={**self.priors, self.number: priors})

    def fused(self, targets: Targets) -> Targets:
        """The shares of month `number` by its own noisy answers and by earlier months.

        A variance is the mean over the cells of a set.
        """
        now, fused = self.learnt(targets.interactions), dict[Columns, Interaction]()
        for a in sorted(now.filters, key=lambda a: (len(a), a)):
            mean, variance = now.filters[a].posterior(now.priors[self.number][len(a)])
            shape = [targets.sizes[c] for c in a]
            fused[a] = Interaction(mean.reshape(shape), float(variance.mean()))
        return replace(targets, interactions=fused)


def fused(targets: Targets, past: Past | None) -> Targets:
    """The shares with what earlier months say, if there are any."""
    return targets if past is None else past.fused(targets)
