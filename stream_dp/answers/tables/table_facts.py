"""The published facts of a data set from which answers are computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_dp.study import DataSetRelease, Study
from stream_dp.study.column_rules import column_cells
from stream_dp.study.group_releases import Link, linked
from stream_dp.study.scale import Numbers

from .possible_rows import PossibleRows

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Value = int | str


# Whether a query is measured again depends on its first answer, so the mean of both has a larger
# error than with independent noise. With this factor on the errors, 95 % intervals cover in at
# least 95 % of cases for every signal, as tests/answers/test_repeated.py computes.
REPEATED = 1.2
_LEAST = 1e-300  # of a variance that is 0 as a float, where rho is very large: it has an inverse


@dataclass(frozen=True, eq=False)
class PublishedTables:
    """A data set and the noisy answers of its fit.

    study, declared: what is declared
    period: the label of the period whose close began it
    columns: by table, then by column, the value of each code
    tables: the synthetic records as codes: `people`, or `groups` and `people`, or `people` and
        `events`
    measurements: query, value, variance, standard_error
    fused_with: the labels of the earlier periods whose measurements its fit used, in order
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
    fused_with: tuple[str, ...] = ()

    @cached_property
    def link(self) -> Link | None:
        """The link of two tables; None for people alone."""
        return linked(self.tables)

    @property
    def rows_asked(self) -> str:
        """The table that a query is about unless it says otherwise: people, or members."""
        return "people" if self.link is None else self.link.members

    def noun(self, table: str) -> str:
        """What the rows of a table are called, in the plural."""
        groups, units = self.study.groups, self.declared.row_units
        if table == "groups":
            return "groups" if groups is None else f"{groups.unit}s"
        return f"{units[table]}s" if table in units else table

    @cached_property
    def names(self) -> dict[str, list[str]]:
        """The columns of every table, in the study's order."""
        return {
            which: [name for name in table.column_names if name in self.columns[which]]
            for which, table in self.tables.items()
        }

    @cached_property
    def possible_rows(self) -> PossibleRows:
        """The rows of people that the declared rules leave possible."""
        rules = self.declared.column_rules
        ruled = {name for rule in rules for name in rule.columns}
        columns = self.columns["people"]
        cells = {name: column_cells(columns[name], self.numbers.get(name)) for name in ruled}
        return PossibleRows(rules, cells)

    @cached_property
    def rows_of(self) -> dict[str, list[int]]:
        """The rows of the measurements by query."""
        rows: dict[str, list[int]] = {}
        for row, query in enumerate(self.measurements["query"].to_pylist()):
            rows.setdefault(query, []).append(row)
        return rows

    @cached_property
    def measured_columns(self) -> list[tuple[str, frozenset[str]]]:
        """The table and the columns of every measured marginal, in the order of measurement."""
        measured: dict[tuple[str, frozenset[str]], None] = {}
        for query in self.rows_of:
            table, _, cell = query.partition(": ")
            terms = (term.partition("=") for term in cell.split(", "))
            measured[table, frozenset(name for name, equals, _ in terms if equals)] = None
        return list(measured)

    @cached_property
    def projections(self) -> dict[str, tuple[str, ...]]:
        """The cells of every measured sum of numbers, like 2*age-3*income, in order."""
        cells: dict[str, list[str]] = {}
        for query in self.rows_of:
            name, _, cell = query.partition("=")
            if "*" in name:  # in no column's own name
                cells.setdefault(name, []).append(cell)
        return {name: tuple(cells_of_sum) for name, cells_of_sum in cells.items()}

    @cached_property
    def residual_columns(self) -> dict[str, Sequence[Value]]:
        """The columns of people with possible residuals, and then the measured sums of numbers."""
        columns = {name: self.columns["people"][name] for name in self.names["people"]}
        return {**columns, **self.projections}

    @cached_property
    def values(self) -> Floats:
        """The values of the measurements, (rows,)."""
        values: Floats = self.measurements["value"].to_numpy().astype(np.float64)
        return values

    @cached_property
    def variances(self) -> Floats:
        """The variances of the measurements, (rows,).

        Whether a set of columns is measured again depends on its first answer, so such variances
        are REPEATED squared as large.
        """
        errors: Floats = self.measurements["standard_error"].to_numpy()
        variances: Floats = np.maximum(errors**2, _LEAST)
        for rows in self.rows_of.values():
            if len(rows) > 1:
                variances[rows] *= REPEATED**2
        return variances


@dataclass(frozen=True, eq=False)
class Weights:
    """An unbiased answer: weights @ the measurements at these rows + a constant.

    rows, weights: (n,); rows are distinct
    ruled: whether cells that rules of the table exclude count as empty
    """

    rows: Ints
    weights: Floats
    constant: float = 0.0
    ruled: bool = False

    def value(self, published: PublishedTables) -> float:
        return float(self.weights @ published.values[self.rows]) + self.constant

    def covariance(self, second: Weights, published: PublishedTables) -> float:
        """The covariance with an answer from the same data set. Noise is independent."""
        _, first_rows, second_rows = np.intersect1d(
            self.rows, second.rows, assume_unique=True, return_indices=True
        )
        variances = published.variances[self.rows[first_rows]]
        return float((self.weights[first_rows] * second.weights[second_rows]) @ variances)


def weighted_sum(terms: Sequence[tuple[float, Weights]]) -> Weights:
    """The sum of answers times their factors; at least one term."""
    rows, position = np.unique(np.concatenate([a.rows for _, a in terms]), return_inverse=True)
    weights: Floats = np.zeros(rows.size)
    np.add.at(weights, position, np.concatenate([factor * a.weights for factor, a in terms]))
    return Weights(rows, weights, sum(factor * a.constant for factor, a in terms))
