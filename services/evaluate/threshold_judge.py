"""Errors of thresholds of people's numbers, against the true table. CONFIDENTIAL.

The query classes of Vietri et al. 2022 (RAP++): a listed value and a number up to a threshold
(mixed marginals), and a label and a sum of numbers up to a threshold (class-conditional linear
thresholds), as shares of people. A threshold at an edge of bins is a sum of cells of a pair, and
measured if the pair is; one in the middle of a bin is held out. So are HELD_OUT sums whose weights
follow from a seed that the release does not have, beside those that it declares.
"""

from __future__ import annotations

from collections.abc import Callable
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

from .table_report import ClassErrors, Floats

HELD_OUT = 16
EDGES, WITHIN = "thresholds at edges of bins", "thresholds within bins, held out"
SUMS, OTHER_SUMS = "linear thresholds, measured", "linear thresholds, held out"


@dataclass(frozen=True, eq=False)
class ThresholdJudge:
    """Compares thresholds with the true table of people; none without numbers. Confidential.

    release: declares the labels and the sums of numbers.
    """

    people: People
    release: PeopleRelease

    @cached_property
    def _listed(self) -> list[int]:
        """The columns of listed values."""
        domain = self.people.domain
        return [c for c in range(len(domain.columns)) if c not in domain.numbers]

    @cached_property
    def _conditions(self) -> list[Columns]:
        """The labels within which sums are judged; a single empty condition without labels."""
        labels = self.release.labels or ()
        return [(self.release.names.index(name),) for name in labels] or [()]

    @cached_property
    def _declared(self) -> tuple[Projection, ...]:
        return declared_projections(self.people.domain, self.release)

    @cached_property
    def _others(self) -> tuple[Projection, ...]:
        seeded = (Linear(random=HELD_OUT, seed=MOST_SUM),)
        held_out = self.release.model_copy(update={"linear": seeded})
        with suppress(UserError):  # scales that differ too much have none
            return declared_projections(self.people.domain, held_out)
        return ()

    @cached_property
    def _true(self) -> dict[str, dict[Columns, Floats]]:
        return self._shares(self.people)

    def data_set(self, synthetic: People, measured: frozenset[Columns]) -> ClassErrors:
        """The errors of a table.

        measured: the sets of columns that the release measured.
        """
        classes: dict[str, list[Floats]] = {}
        for name, shares_by_columns in self._shares(synthetic).items():
            for columns, shares in shares_by_columns.items():
                error = shares - self._true[name][columns]
                classes.setdefault(_class(name, columns, measured), []).append(error)
        return classes

    def measurements(
        self, noisy: Callable[[Columns], Floats], measured: frozenset[Columns]
    ) -> ClassErrors:
        """The noise floor: the errors of sums of noisy cells.

        noisy: gives the noisy shares of a marginal.
        """
        classes: dict[str, list[Floats]] = {}
        for name in (EDGES, SUMS):
            for columns, true in self._true.get(name, {}).items():
                marginal = tuple(sorted(columns))
                if marginal in measured:
                    cells = noisy(marginal) if marginal == columns else noisy(marginal).T
                    cells = cells.reshape(len(true), -1)
                    error = cells.cumsum(axis=1)[:, : true.shape[1]] - true
                    classes.setdefault(_class(name, columns, measured), []).append(error)
        return classes

    def _shares(self, people: People) -> dict[str, dict[Columns, Floats]]:
        """By class, and by listed column and number or sum, (values, thresholds) shares."""
        numbers = people.domain.numbers
        result: dict[str, dict[Columns, Floats]] = {}
        for number, declared in numbers.items():
            starts = np.array(declared.starts)
            middles = ((starts[:-1] + starts[1:]) // 2)[np.diff(starts) > 1]
            for name, ends in ((EDGES, starts[1:-1]), (WITHIN, middles)):
                cells = np.searchsorted(ends, people.numbers[number], side="right")
                if len(ends):
                    for c in self._listed:
                        shares = _below(people, (c,), cells, len(ends))
                        result.setdefault(name, {})[c, number] = shares
        if not numbers:
            return result
        first = len(people.domain.columns)
        for name, sums in ((SUMS, self._declared), (OTHER_SUMS, self._others)):
            for column, projection in enumerate(sums, first):
                cells = projection.cells(people.domain, people.numbers)
                for condition in self._conditions:
                    shares = _below(people, condition, cells, len(projection.thresholds))
                    result.setdefault(name, {})[*condition, column] = shares
        return result


def _below(people: People, condition: Columns, cells: NDArray[np.int64], thresholds: int) -> Floats:
    """The shares of people with a value and with a cell up to a threshold, (values, thresholds).

    condition: the column of the values; without a column there is a single value.
    """
    values, index = 1, np.minimum(cells, thresholds)
    for column in condition:
        values = people.domain.sizes[column]
        # A person beyond the last threshold, or absent, is in a cell that is not counted.
        index = index + people.codes[:, column].astype(np.int64) * (thresholds + 1)
    counts = np.bincount(index, minlength=values * (thresholds + 1))
    shares: Floats = counts.reshape(values, -1)[:, :thresholds].cumsum(axis=1) / max(people.N, 1)
    return shares


def _class(name: str, columns: Columns, measured: frozenset[Columns]) -> str:
    if name != EDGES:
        return name
    return f"{name}, {'measured' if tuple(sorted(columns)) in measured else 'held out'}"
