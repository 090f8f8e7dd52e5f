"""The cells that prevail when a period closes, attribute by attribute."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .cells import CLEARED, Cells, rows_by_kind
from .hash_order import sorted_rows

_SPARSE = 16  # a table of offsets has at most so many places for each cell


@dataclass(frozen=True)
class FinalColumn:
    """The last cells of people for an attribute.

    people: ascending, in `FinalCells`.
    rows: by person, the row of the cell.
    code: by person.
    """

    people: NDArray[np.int64]
    rows: NDArray[np.int64]
    code: NDArray[np.signedinteger]

    @property
    def coded(self) -> NDArray[np.bool_]:
        """Marks cells with an answer, in contrast to cells that clear the answer."""
        coded: NDArray[np.bool_] = self.code != CLEARED
        return coded


@dataclass(frozen=True)
class FinalCells:
    """The last cells of a period.

    hi, lo: the hashes of all people with cells: distinct, and sorted.
    columns: by index of an attribute with cells.
    """

    hi: NDArray[np.uint64]
    lo: NDArray[np.uint64]
    columns: dict[int, FinalColumn]

    @classmethod
    def of(cls, cells: Cells) -> FinalCells:
        """Finds the last cell of each person and attribute.

        People are sorted once for all attributes, by their reports.

        cells: of one period, in order of precedence, the prevailing cell last.
        """
        report, count = _report_numbers(cells)
        hi, lo = np.zeros(count, np.uint64), np.zeros(count, np.uint64)
        hi[report], lo[report] = cells.hi, cells.lo
        # A record may have reports of two people: cells of the other one are numbered apart.
        others = np.flatnonzero((hi[report] != cells.hi) | (lo[report] != cells.lo))
        report[others] = count + np.arange(len(others))
        hi = np.concatenate([hi, cells.hi[others]])
        lo = np.concatenate([lo, cells.lo[others]])
        order, begins = sorted_rows(hi, lo)
        person_of_report = np.empty(len(hi), np.int64)
        person_of_report[order] = np.cumsum(begins) - 1
        person = person_of_report[report]
        first = order[begins]
        columns = {}
        for rows in rows_by_kind(cells):
            row_of = np.full(len(first), -1)
            row_of[person[rows]] = rows  # of several rows the last prevails
            people = np.flatnonzero(row_of >= 0)
            rows = row_of[people]
            columns[int(cells.attribute[rows[0]])] = FinalColumn(people, rows, cells.code[rows])
        return cls(hi[first], lo[first], columns)

    def coded(self) -> NDArray[np.bool_]:
        """Marks people with a cell that does not clear an answer."""
        coded = np.zeros(len(self.hi), bool)
        for column in self.columns.values():
            coded[column.people[column.coded]] = True
        return coded


def _report_numbers(cells: Cells) -> tuple[NDArray[np.int64], int]:
    """Numbers the reports of cells from 0. Returns each cell's report and the number of reports."""
    if not len(cells):
        return np.zeros(0, np.int64), 0
    place = cells.offset - cells.offset.min()
    if (partitions := int(cells.partition.max()) + 1) > 1:
        place = place * partitions + cells.partition
    if (places := int(place.max()) + 1) > _SPARSE * len(cells):
        numbers, report = np.unique(place, return_inverse=True)
        return report, len(numbers)
    used = np.zeros(places, bool)
    used[place] = True
    number = np.cumsum(used) - 1
    return number[place], int(number[-1]) + 1
