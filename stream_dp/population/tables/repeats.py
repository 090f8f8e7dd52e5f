"""Finds repeated cells of a table: only the last counts, and only this notice tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass
class Occurrences:
    """Cells of a column with the same fault: the number of cells, and the first row, from 1."""

    cells: int
    first_row: int


class Repeats:
    """Finds cells of the same person and period in a column, at 16 bytes a cell.

    Cells are compared by a hash of 64 bits that holds for this process; the result is a notice
    and decides nothing.
    """

    def __init__(self) -> None:
        self._cells: dict[str, list[tuple[NDArray[np.int64], NDArray[np.int64]]]] = {}

    def add(
        self,
        persons: Sequence[str],
        periods: Sequence[str] | None,
        rows: NDArray[np.int64],
        usable: Mapping[str, NDArray[np.bool_]],
    ) -> None:
        """Adds rows of a table.

        periods: None if every column is a period's.
        rows: their numbers.
        usable: by column, which of the rows have a usable cell.
        """
        keys = persons if periods is None else zip(persons, periods, strict=True)
        hashes = np.fromiter(map(hash, keys), np.int64, len(rows))
        for column, mask in usable.items():
            self._cells.setdefault(column, []).append((hashes[mask], rows[mask]))

    def places(self) -> dict[str, Occurrences]:
        """Counts, by column, cells that repeat an earlier cell, and finds the first row."""
        repeated_cells = {}
        for column, chunks in self._cells.items():
            hashes, rows = (np.concatenate(arrays) for arrays in zip(*chunks, strict=True))
            _, first = np.unique(hashes, return_index=True)
            repeated = np.ones(len(hashes), bool)
            repeated[first] = False
            if repeated.any():
                repeated_cells[column] = Occurrences(int(repeated.sum()), int(rows[repeated].min()))
        return repeated_cells
