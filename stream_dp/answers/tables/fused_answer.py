"""Answers about a table of people with earlier months, recomputed from published measurements.

The tables of a schedule are measured separately. An answer of one month alone is unbiased. The
filters of `answers/month_filters.py` combine the months up to it, as the fit of the synthetic
people does: more precise as long as interactions drift as they have in the past, and late where
they do not. So such an answer stands beside the month's own. Its interval has REACH standard errors
to each side, more than normal noise needs.

A residual of a set of columns is people * cells times its interaction as shares. So the weights of
the month's own answer are weights of fused interactions, too. The number of people is each month's
own, and its noise adds to the error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import prod

import numpy as np

from stream_dp.release.answer import Answer, Fused
from stream_dp.study.families import Measured as MeasuredForm

from ..month_filters import Measured, MonthFilters
from .people_counts import people_weights, rows_of_cells, value_texts
from .table_facts import Floats, Ints, PublishedTables, Weights

REACH = 2.5  # standard errors to each side
_MOST_COLUMNS = 3  # of a measured set
Columns = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class MeasuredTable:
    """The measured sets of columns of a published table.

    number: of the table in its schedule, from 1.
    """

    number: int
    published: PublishedTables

    @cached_property
    def people(self) -> tuple[float, float]:
        """Their number, public or noisy, and the variance of its noise."""
        weights = people_weights(self.published)
        value = max(1.0, weights.value(self.published))
        return value, weights.covariance(weights, self.published)

    @cached_property
    def rows(self) -> dict[Columns, list[Ints]]:
        """The rows of the cells of every measured set in C order, for each time of measurement."""
        return {a: rows for a in self._first_cells() if (rows := self._rows(a))}

    @cached_property
    def texts(self) -> list[tuple[str, Sequence[str], Sequence[str]]]:
        """The columns: their names, and their values, alone and beside other columns."""
        if self.published.declared.data_set.measured is MeasuredForm.TWO_PHASES:
            return value_texts(self.published)
        columns = self.published.residual_columns.items()
        return [(name, texts, texts) for name, v in columns for texts in [[*map(str, v)]]]

    def _first_cells(self) -> Iterator[Columns]:
        """The sets with a measured first cell."""
        for ways in range(1, _MOST_COLUMNS + 1):
            values = ((name, alone if ways == 1 else beside) for name, alone, beside in self.texts)
            first = [f"{name}={texts[0]}" for name, texts in values]
            for a in combinations(range(len(first)), ways):
                if ", ".join(first[c] for c in a) in self.published.rows_of:
                    yield a

    def _values(self, a: Columns) -> list[Sequence[str]]:
        return [self.texts[c][1 if len(a) == 1 else 2] for c in a]

    def _rows(self, a: Columns) -> list[Ints]:
        names = [self.texts[c][0] for c in a]
        return rows_of_cells(names, self._values(a), self.published)

    def shape(self, a: Columns) -> tuple[int, ...]:
        return tuple(map(len, self._values(a)))

    @cached_property
    def interactions(self) -> dict[Columns, Measured]:
        """The measured interactions in shares."""
        people, _ = self.people
        return {a: self._interaction(a, rows, people) for a, rows in self.rows.items()}

    def _interaction(self, a: Columns, repeated: Sequence[Ints], people: float) -> Measured:
        """The interaction of a set of columns as shares, by the precisions of its measurements.

        repeated: by measurement, the rows of its cells.
        """
        shape = self.shape(a)
        precisions = [1 / self.published.variances[rows[0]] for rows in repeated]
        values = sum(
            p * self.published.values[rows] for rows, p in zip(repeated, precisions, strict=True)
        )
        scale = people * prod(shape)
        shares = np.reshape(values, shape) / sum(precisions) / scale
        for axis in range(shares.ndim):
            shares = shares - shares.mean(axis, keepdims=True)
        return Measured(shares, 1 / sum(precisions) / scale**2)

    def interaction_weights(self, weights: Weights) -> tuple[dict[Columns, Floats], float]:
        """An answer as a weighted sum of interactions and a rest, both as shares of people.

        weights: of the answer, on published values.

        Returns by measured set (cells,) the weights of its interaction, and the rest. The rest
        follows from the number of people alone. Sets without a weight are left out.
        """
        by_row = dict(zip(weights.rows.tolist(), weights.weights.tolist(), strict=True))
        of_sets: dict[Columns, Floats] = {}
        for a, repeated in self.rows.items():
            cells: Floats = np.zeros(len(repeated[0]))
            for rows in repeated:
                cells += [by_row.pop(row, 0.0) for row in rows.tolist()]
            if cells.any():
                of_sets[a] = cells * float(prod(self.shape(a)))
        rest = sum(w * self.published.values[row] for row, w in by_row.items()) + weights.constant
        return of_sets, float(rest) / self.people[0]


@dataclass(frozen=True, eq=False)
class FusedTables:
    """Tables of a schedule up to a month, in order. Each table's fit used the tables before."""

    tables: tuple[MeasuredTable, ...]

    @cached_property
    def filters(self) -> MonthFilters[Columns]:
        return self._filters()

    def _filters(self, remembered: int = 0, sets: Sequence[Columns] = ()) -> MonthFilters[Columns]:
        """What all months say of the last. remembered: the number of a month to remember."""
        filters = MonthFilters[Columns](self.tables[0].number)
        for table in self.tables:
            filters = filters.at(table.number).learnt(table.interactions)
            if table.number == remembered:
                filters = filters.remembering(sets)
        return filters

    def answer(self, own: Answer, weights: Weights, base: Weights | None) -> Fused | None:
        """The fused answer beside a month's own answer. None if the fused answer is less precise.

        With the fused share p of variance v, and N people of variance n, a count is N p with the
        variance N^2 v + p^2 n.

        weights: of the own answer. base: of the rows of which it is a share; None for all rows.
        """
        table = self.tables[-1]
        of_sets, rest = table.interaction_weights(weights)
        share, variance = _sum(self.filters, of_sets)
        people, of_people = table.people
        if base is not None:
            ratio, of_ratio = _ratio(self.filters, table, weights, base)
            return self._stated(own, ratio, _sum(self.filters, of_ratio)[1])
        if own.measure == "count":
            total = people * (rest + share)
            return self._stated(own, total, people**2 * variance + (rest + share) ** 2 * of_people)
        return self._stated(own, rest + share, variance + (share / people) ** 2 * of_people)

    def change(
        self,
        own: Answer,
        last_weights: tuple[Weights, Weights | None],
        earlier_weights: tuple[Weights, Weights | None],
        number: int,
    ) -> Fused | None:
        """The fused change of an answer since an earlier month, by the joint posterior of both.

        own: the difference of both months' own answers.
        last_weights, earlier_weights: of the last month's answer and of the earlier month's, each
            with those of its base.
        number: of the earlier month.
        Returns None if a set of columns was not measured by then, or if the difference of the own
        answers is more precise.
        """
        (weights, base), (earlier, base_then) = last_weights, earlier_weights
        # The states of a filter: the level, its slope, the remembered level of the earlier month.
        last = self.tables[-1]
        first = next(table for table in self.tables if table.number == number)
        now, rest_now = last.interaction_weights(weights)
        then, rest_then = first.interaction_weights(earlier)
        if base is not None and base_then is not None:
            return self._change_of_ratios(own, (last, weights, base), (first, earlier, base_then))
        if now.keys() != then.keys():
            return None
        filters = self._filters(number, [*now])
        (people, of_people), (before, of_before) = last.people, first.people
        if own.measure == "count":
            counts, variance = _sum(filters, now, np.array([people, 0, -before]))
            share = rest_now + _sum(filters, now)[0]
            old = rest_then + _sum(filters, now, np.array([0.0, 0, 1]))[0]
            variance += share**2 * of_people + old**2 * of_before
            return self._stated(own, counts + rest_now * people - rest_then * before, variance)
        change, variance = _sum(filters, now, np.array([1.0, 0, -1]))
        variance += (change / people) ** 2 * of_people
        return self._stated(own, change + rest_now - rest_then, variance)

    def _change_of_ratios(self, own: Answer, now: _Share, then: _Share) -> Fused | None:
        """The change of a share of a base. None if a set of columns was not measured by then."""
        tables = now[0], then[0]
        sets = [
            {a for weights in share[1:] for a in table.interaction_weights(weights)[0]}
            for table, share in zip(tables, (now, then), strict=True)
        ]
        if sets[0] != sets[1]:
            return None
        filters = self._filters(then[0].number, [*sets[0]])
        share, of_share = _ratio(filters, *now, states=_NOW)
        old, of_old = _ratio(filters, *then, states=_THEN)
        variance = 0.0
        for a in sets[0]:
            here, before, apart = (
                filters.posterior(a, states)[1] for states in (_NOW, _THEN, _NOW - _THEN)
            )
            together = (here + before - apart) / 2
            u, v = of_share[a], of_old[a]
            variance += float(u**2 @ here + v**2 @ before - 2 * (u * v) @ together)
        return self._stated(own, share - old, variance)

    def _stated(self, own: Answer, value: float, variance: float) -> Fused | None:
        """The fused answer with its error; None if the own answer is as precise."""
        error, own_error = math.sqrt(variance), own.standard_error
        assert own_error is not None
        if error >= own_error:  # by the noise in the number of people, which is not fused
            return None
        return Fused(
            value=value,
            standard_error=error,
            interval=(value - REACH * error, value + REACH * error),
            periods=tuple(table.published.period for table in self.tables),
            apart=abs(value - own.value) / own_error,
        )


_Share = tuple[MeasuredTable, Weights, Weights]  # of a table, with the weights of its base
_NOW, _THEN = np.array([1.0, 0, 0]), np.array([0.0, 0, 1])  # states of filters that remember


def _ratio(
    filters: MonthFilters[Columns],
    table: MeasuredTable,
    weights: Weights,
    base: Weights,
    states: Floats | None = None,
) -> tuple[float, dict[Columns, Floats]]:
    """A share s = v / n of a base, and the weights of its error (v - s n) / n to the first order.

    Both v and n are shares of the same noisy number of people, which cancels.
    """
    of_sets, rest = table.interaction_weights(weights)
    of_base, rest_of_base = table.interaction_weights(base)
    n = rest_of_base + _sum(filters, of_base, states)[0]
    share = (rest + _sum(filters, of_sets, states)[0]) / n
    none: Floats = np.zeros(1)
    return share, {
        a: (of_sets.get(a, none) - share * of_base.get(a, none)) / n
        for a in of_sets.keys() | of_base.keys()
    }


def _sum(
    filters: MonthFilters[Columns], weights: Mapping[Columns, Floats], states: Floats | None = None
) -> tuple[float, float]:
    """A weighted sum of levels, and its variance. Sets and cells have independent noise.

    states: weights of the states of the filters, of another sum of them.
    """
    value = variance = 0.0
    for a, of_cells in weights.items():
        mean, spread = filters.posterior(a, states)
        value += float(of_cells @ mean)
        variance += float(of_cells**2 @ spread)
    return value, variance
