"""Errors of thresholds of people's numbers, against the true table. CONFIDENTIAL.

The query classes of Vietri et al. 2022 (RAP++): a listed value and a number up to a threshold
(mixed marginals), and a label and a sum of numbers up to a threshold (class-conditional linear
thresholds), as shares of people. A threshold at an edge of bins is a sum of cells of a pair, and
measured if the pair is; one in the middle of a bin is held out. So are HELD_OUT sums whose weights
follow from a seed that the release does not have, beside those that it declares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stream_dp.batch.people.compress.projections import Projection, declared_projections
from stream_dp.batch.people.measure.residual_counts import Columns
from stream_dp.batch.people.people_table import People
from stream_dp.errors import UserError
from stream_dp.study import PeopleRelease
from stream_dp.study.thresholds import MOST_SUM, Linear

from .table_report import DATA_SET, MEASURED, Quality, class_qualities

HELD_OUT = 16
EDGES, WITHIN = "thresholds at edges of bins", "thresholds within bins, held out"
SUMS, OTHER_SUMS = "linear thresholds, measured", "linear thresholds, held out"
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ThresholdJudge:
    """The true answers. Confidential. Without numbers there are none.

    people: the true table.
    release: whose labels and sums of numbers are asked for.
    """

    people: People
    release: PeopleRelease

    @cached_property
    def listed(self) -> list[int]:
        """The columns of listed values."""
        domain = self.people.domain
        return [c for c in range(len(domain.columns)) if c not in domain.numbers]

    @cached_property
    def given(self) -> list[Columns]:
        """What goes with a sum: each label; without labels a sum stands alone."""
        labels = self.release.labels or ()
        return [(self.release.names.index(name),) for name in labels] or [()]

    @cached_property
    def _declared(self) -> tuple[Projection, ...]:
        return declared_projections(self.people.domain, self.release)

    @cached_property
    def _others(self) -> tuple[Projection, ...]:
        seeded = (Linear(random=HELD_OUT, seed=MOST_SUM),)
        other = self.release.model_copy(update={"linear": seeded})
        with suppress(UserError):  # scales that differ too much have none
            return declared_projections(self.people.domain, other)
        return ()

    @cached_property
    def _true(self) -> dict[str, dict[Columns, Floats]]:
        return self._shares(self.people)

    def data_set(
        self, synthetic: People, measured: frozenset[Columns], *, method: str, budget: str
    ) -> Iterator[Quality]:
        """The errors of a table; measured: the sets of columns that the release measured."""
        classes: dict[str, list[Floats]] = {}
        for name, shares in self._shares(synthetic).items():
            for columns, own in shares.items():
                error = own - self._true[name][columns]
                classes.setdefault(_class(name, columns, measured), []).append(error)
        return class_qualities(classes, method=method, budget=budget, answer=DATA_SET)

    def measurements(
        self,
        noisy: Callable[[Columns], Floats],
        measured: frozenset[Columns],
        *,
        method: str,
        budget: str,
    ) -> Iterator[Quality]:
        """The noise floor: errors of sums of noisy cells; noisy: the shares of a marginal."""
        classes: dict[str, list[Floats]] = {}
        for name in (EDGES, SUMS):
            for columns, true in self._true.get(name, {}).items():
                own = tuple(sorted(columns))
                if own in measured:
                    cells = noisy(own) if own == columns else noisy(own).T
                    cells = cells.reshape(len(true), -1)
                    error = cells.cumsum(axis=1)[:, : true.shape[1]] - true
                    classes.setdefault(_class(name, columns, measured), []).append(error)
        return class_qualities(classes, method=method, budget=budget, answer=MEASURED)

    def _shares(self, people: People) -> dict[str, dict[Columns, Floats]]:
        """By class, and by listed column and number or sum, (values, thresholds) shares."""
        numbers = people.domain.numbers
        result: dict[str, dict[Columns, Floats]] = {}
        for number, of in numbers.items():
            starts = np.array(of.starts)
            middles = ((starts[:-1] + starts[1:]) // 2)[np.diff(starts) > 1]
            for name, ends in ((EDGES, starts[1:-1]), (WITHIN, middles)):
                cells = np.searchsorted(ends, people.numbers[number], side="right")
                if len(ends):
                    for c in self.listed:
                        own = _below(people, (c,), cells, len(ends))
                        result.setdefault(name, {})[c, number] = own
        if not numbers:
            return result
        first = len(people.domain.columns)
        for name, sums in ((SUMS, self._declared), (OTHER_SUMS, self._others)):
            for place, one in enumerate(sums, first):
                cells, most = one.cells(people.domain, people.numbers), len(one.thresholds)
                for given in self.given:
                    own = _below(people, given, cells, most)
                    result.setdefault(name, {})[*given, place] = own
        return result


def _below(people: People, given: Columns, cells: NDArray[np.int64], thresholds: int) -> Floats:
    """(values, thresholds) the shares with a value and one of the cells up to a threshold.

    given: the column of the values; none has one value, everybody's.
    """
    values, place = 1, np.minimum(cells, thresholds)
    for column in given:
        values = people.domain.sizes[column]
        # Whoever is beyond the last threshold, or absent, is in a cell that none counts.
        place = place + people.codes[:, column].astype(np.int64) * (thresholds + 1)
    counts = np.bincount(place, minlength=values * (thresholds + 1))
    shares: Floats = counts.reshape(values, -1)[:, :thresholds].cumsum(axis=1) / max(people.N, 1)
    return shares


def _class(name: str, columns: Columns, measured: frozenset[Columns]) -> str:
    if name != EDGES:
        return name
    return f"{name}, {'measured' if tuple(sorted(columns)) in measured else 'held out'}"
