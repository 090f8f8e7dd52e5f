"""What is published of one data set, as its answers need it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_dp.study import DataSetRelease, Study
from stream_dp.study.scale import Numbers

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Value = int | str


# Whether a query is measured again depends on its first answer, so the two together are off by more
# than independent noise would be: with this factor on their errors, 95 % intervals hold in at least
# 95 % whatever the signal is. tests/answers/test_repeated.py computes it.
REPEATED = 1.2
_LEAST = 1e-300  # of a variance that is 0 as a float, where rho is very large: it has an inverse


@dataclass(frozen=True, eq=False)
class PublishedTables:
    """A data set and the noisy answers that it was fitted to.

    study, declared: what is declared
    period: the label of the period whose close began it
    columns: by table, then by column, the value of each code
    tables: the synthetic records as codes: `people`, or `groups` and `people`
    measurements: query, value, variance, standard_error
    numbers, number_codes: by column of people that is a number, its scale and bins, and (rows,)
        the codes of the synthetic people's numbers; in `columns` and `tables` are their bins
    """

    study: Study
    declared: DataSetRelease
    period: str
    columns: Mapping[str, Mapping[str, Sequence[Value]]]
    tables: Mapping[str, pa.Table]
    measurements: pa.Table
    numbers: Mapping[str, Numbers] = field(default_factory=dict)
    number_codes: Mapping[str, Ints] = field(default_factory=dict)

    @cached_property
    def names(self) -> dict[str, list[str]]:
        """The columns of each table, in the study's order."""
        return {
            which: [name for name in table.column_names if name in self.columns[which]]
            for which, table in self.tables.items()
        }

    @cached_property
    def places(self) -> dict[str, list[int]]:
        """Where the measurements of each query are."""
        places: dict[str, list[int]] = {}
        for place, query in enumerate(self.measurements["query"].to_pylist()):
            places.setdefault(query, []).append(place)
        return places

    @cached_property
    def measured_columns(self) -> list[tuple[str, frozenset[str]]]:
        """The table and the columns of every measured marginal, in the order of measurement."""
        measured: dict[tuple[str, frozenset[str]], None] = {}
        for query in self.places:
            table, _, cell = query.partition(": ")
            terms = (term.partition("=") for term in cell.split(", "))
            measured[table, frozenset(name for name, equals, _ in terms if equals)] = None
        return list(measured)

    @cached_property
    def projections(self) -> dict[str, tuple[str, ...]]:
        """By sum of numbers that is measured, such as 2*age-3*income, its cells in order."""
        cells: dict[str, list[str]] = {}
        for query in self.places:
            name, _, cell = query.partition("=")
            if "*" in name:  # in no column's own name
                cells.setdefault(name, []).append(cell)
        return {name: tuple(own) for name, own in cells.items()}

    @cached_property
    def residual_columns(self) -> dict[str, Sequence[Value]]:
        """The columns of people whose residuals may be measured: sums of numbers follow them."""
        own = {name: self.columns["people"][name] for name in self.names["people"]}
        return {**own, **self.projections}

    @cached_property
    def values(self) -> Floats:
        """Of the measurements, (rows,)."""
        values: Floats = self.measurements["value"].to_numpy().astype(np.float64)
        return values

    @cached_property
    def variances(self) -> Floats:
        """Of the measurements, (rows,); larger by REPEATED squared where a query has several."""
        errors: Floats = self.measurements["standard_error"].to_numpy()
        variances: Floats = np.maximum(errors**2, _LEAST)
        for places in self.places.values():
            if len(places) > 1:
                variances[places] *= REPEATED**2
        return variances


@dataclass(frozen=True, eq=False)
class Weights:
    """An unbiased answer: weights @ the measurements at these places + a constant.

    places, weights: (n,); no place stands twice
    """

    places: Ints
    weights: Floats
    constant: float = 0.0

    def value(self, published: PublishedTables) -> float:
        return float(self.weights @ published.values[self.places]) + self.constant

    def covariance(self, other: Weights, published: PublishedTables) -> float:
        """Of two answers from the same data set. Noise is independent."""
        _, own, theirs = np.intersect1d(
            self.places, other.places, assume_unique=True, return_indices=True
        )
        variances = published.variances[self.places[own]]
        return float((self.weights[own] * other.weights[theirs]) @ variances)
