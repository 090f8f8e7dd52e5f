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
    """The filters of earlier months' interactions, moved on to month `number`, or None.

    An interaction goes on if each of its columns is in `columns` with the same name and values.

    months: the earlier months, in order.
    columns: of the table of month `number`.
    """
    past = Past(months[0].number if months else number)
    position = {column: c for c, column in enumerate(columns)}
    for month in months:
        # By a column's position in the earlier table, its position in this one.
        moved = {
            c: position[column] for c, column in enumerate(month.columns) if column in position
        }
        interactions = {
            tuple(moved[c] for c in column_set): interaction
            for column_set, interaction in month.interactions.items()
            if all(c in moved for c in column_set)
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
