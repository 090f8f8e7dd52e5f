"""Cells that stand in a table more than once: the last one counts, and nothing else says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass
class Place:
    """Cells of a column with the same fault: how many, and the row of the first, from 1."""

    cells: int
    first_row: int


class Repeats:
    """Finds cells of the same person and period in a column, at 16 bytes a cell.

    Cells are compared by a hash of 64 bits that holds for this process; what it finds is a notice
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

        periods: None where every column is a period's.
        rows: their numbers.
        usable: by column, which of the rows have a cell that counts.
        """
        keys = persons if periods is None else zip(persons, periods, strict=True)
        hashes = np.fromiter(map(hash, keys), np.int64, len(rows))
        for column, mask in usable.items():
            self._cells.setdefault(column, []).append((hashes[mask], rows[mask]))

    def places(self) -> dict[str, Place]:
        """By column, how many cells repeat an earlier one, and the row of the first that does."""
        places = {}
        for column, parts in self._cells.items():
            hashes, rows = (np.concatenate(part) for part in zip(*parts, strict=True))
            _, first = np.unique(hashes, return_index=True)
            repeated = np.ones(len(hashes), bool)
            repeated[first] = False
            if repeated.any():
                places[column] = Place(int(repeated.sum()), int(rows[repeated].min()))
        return places
