"""Finds repeated cells of a table: only the last counts, and only this notice tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..kept_hashes import LONGEST, Fingerprints

_SPREAD = np.int64(0x1E3779B97F4A7C15)  # odd, for multiplicative hashing


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
        key = str(hash("repeats")).encode()  # of this process
        self._fingerprints = Fingerprints(key)
        self._cells: dict[str, list[tuple[NDArray[np.int64], NDArray[np.int64]]]] = {}

    def add(
        self,
        persons: pa.Array,
        periods: pa.Array | None,
        rows: NDArray[np.int64],
        usable: Mapping[str, NDArray[np.bool_]],
    ) -> None:
        """Adds rows of a table.

        persons: ids without nulls.
        periods: None if every column is a period's.
        rows: their numbers.
        usable: by column, which of the rows have a usable cell.
        """
        hashes = self._ids(persons.cast(pa.large_binary()))
        if periods is not None:
            coded = pc.fill_null(periods, "").dictionary_encode()
            of_periods = [hash(period) for period in coded.dictionary.to_pylist()]
            hashes += np.array(of_periods, np.int64)[coded.indices.to_numpy()] * _SPREAD
        for column, mask in usable.items():
            self._cells.setdefault(column, []).append((hashes[mask], rows[mask]))

    def _ids(self, ids: pa.Array) -> NDArray[np.int64]:
        """Returns a hash of each id. The length of an id alone decides the method."""
        short = pc.binary_length(ids).to_numpy() <= LONGEST
        if short.all():
            return self._fingerprints.of(ids)[:, 0].view(np.int64).copy()
        hashes = np.empty(len(ids), np.int64)
        hashes[short] = self._fingerprints.of(ids.filter(pa.array(short)))[:, 0].view(np.int64)
        hashes[~short] = [hash(text) for text in ids.filter(pa.array(~short)).to_pylist()]
        return hashes

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
