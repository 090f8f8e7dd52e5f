"""Tables of one schedule: the noisy interactions of earlier months sharpen those of this month.

Each table is measured by itself, so its cost and its noise are as if there were no other. What
`answers/month_filters.py` says of several months replaces what was measured, before the model is
fitted: post-processing. A set of columns that an earlier month measured and this one did not, such
as a pair that was not picked, has its last level and a larger variance.

Only sets whose columns have the values that they have now go on. A column whose rare values were
merged otherwise begins anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from stream_dp.answers.month_filters import MonthFilters

from ...data.domain import Column
from .residual_counts import Columns
from .targets import Interaction, Targets

Past: TypeAlias = MonthFilters[Columns]


class Month(NamedTuple):
    """What a month's table measured.

    number: of the table in its schedule, from 1; tables may be missing.
    columns: of the table.
    interactions: by set of columns.
    """

    number: int
    columns: tuple[Column, ...]
    interactions: Mapping[Columns, Interaction]


def past_months(months: Sequence[Month], columns: Sequence[Column], number: int) -> Past | None:
    """What earlier months say of month `number` and its columns; None if they say nothing.

    months: in order.
    """
    past = Past(months[0].number if months else number)
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


def fused(targets: Targets, past: Past | None) -> Targets:
    """The shares of a month by its own noisy answers and by earlier months.

    A variance is the mean over the cells of a set.
    """
    if past is None:
        return targets
    now, interactions = past.learnt(targets.interactions), dict[Columns, Interaction]()
    for a in sorted(now.filters, key=lambda a: (len(a), a)):
        mean, variance = now.posterior(a)
        shape = [targets.sizes[c] for c in a]
        interactions[a] = Interaction(mean.reshape(shape), float(variance.mean()))
    return replace(targets, interactions=interactions)
