"""Finds the people of a table who may come too late for a closed cohort.

A table alone cannot tell whether an earlier one has a value of theirs: the result is a notice and
decides nothing. People are compared by a hash of 64 bits that holds for this process.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


@dataclass(frozen=True)
class LatePeople:
    """The people of a table without a usable value in the periods of entry.

    people: how many they are.
    first_row: of them, from 1.
    all_late: whether nobody in the table has a value in the periods of entry.
    """

    people: int
    first_row: int
    all_late: bool


class CohortEntries:
    """The people of a table by when they have values, at 16 bytes a cell.

    last_entry: the number of the last period in which people may enter.
    """

    def __init__(self, last_entry: int) -> None:
        self._last_entry = last_entry
        self._entering: list[NDArray[np.int64]] = []
        self._later: list[NDArray[np.int64]] = []
        self._later_rows: list[NDArray[np.int64]] = []

    def add(
        self,
        persons: pa.Array,
        rows: NDArray[np.int64],
        periods: NDArray[np.int64],
        *,
        usable: NDArray[np.bool_],
    ) -> None:
        """Adds the cells of a column: persons, rows and numbers of periods, (n,) each."""
        hashes = np.fromiter(map(hash, persons.to_pylist()), np.int64, len(rows))
        entering = usable & (periods <= self._last_entry)
        self._entering.append(np.unique(hashes[entering]))
        later = usable & ~entering
        self._later.append(hashes[later])
        self._later_rows.append(rows[later])

    def late(self) -> LatePeople | None:
        """The people with a first value after the periods of entry. None without such people."""
        entering = np.concatenate([np.zeros(0, np.int64), *self._entering])
        later = np.concatenate([np.zeros(0, np.int64), *self._later])
        late = ~np.isin(later, entering)
        if not late.any():
            return None
        rows = np.concatenate(self._later_rows)[late]
        return LatePeople(np.unique(later[late]).size, int(rows.min()), not entering.size)
