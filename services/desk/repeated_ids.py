"""Counts ids of a table that repeat, for a question to the operator. CONFIDENTIAL.

An id that repeats within a period is often a number within a household, a clinic or a school. The
counts decide nothing: the operator says which columns identify a person.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from stream_dp.population.celltext import cell_text
from stream_dp.population.table_bounds import readable
from stream_dp.population.tables import FileForm
from stream_dp.population.tables.table_files import read_rows

_SPREAD = np.int64(0x1E3779B97F4A7C15)  # odd, for multiplicative hashing
_EMPTY = np.int64(0)
Hashes = NDArray[np.int64]


@dataclass(frozen=True)
class RepeatedIds:
    """Rows whose id and period stand in an earlier row.

    rows: how many.
    beside: the column that makes an id of its own of each, together with the id; empty if none
        does.
    """

    rows: int
    beside: str


NO_REPEATED_IDS = RepeatedIds(0, "")


def repeated_ids(
    path: Path, form: FileForm, person: str, period: str | None, others: Sequence[str]
) -> RepeatedIds:
    """Counts the rows of a file that repeat an id, and looks for the column beside it.

    period: the column of periods; None if all rows are of one, or each column is.
    others: the columns that may stand beside the id, in order.

    Raises UserError.
    """
    columns = dict.fromkeys([person, *([] if period is None else [period]), *others])
    cells = _hashes(path.resolve(), form, tuple(columns))
    told = cells[person] != _EMPTY
    within = [] if period is None else [cells[period][told]]
    ids, rows = cells[person][told], int(told.sum())
    repeated = rows - _distinct(ids, *within)
    beside = dict[str, int]()
    for name in others if repeated else ():
        further = cells[name][told]
        pairs = _distinct(further, ids)
        # An answer tells rows apart, too. Ids of people come again in other periods, or, where
        # there are none, are fewer than the rows in one of their parts.
        sound = pairs < rows if within and _distinct(*within) > 1 else _distinct(further) < rows
        if sound and _distinct(further, ids, *within) == rows and (further != _EMPTY).all():
            beside[name] = pairs
    return RepeatedIds(repeated, min(beside, key=beside.__getitem__, default=""))


def _distinct(*columns: Hashes) -> int:
    """The number of different rows."""
    joined = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        joined = joined * _SPREAD + column
    return int(np.unique(joined).size)


@lru_cache(maxsize=1)  # a page repeats the interview with every answer
def _hashes(path: Path, form: FileForm, columns: tuple[str, ...]) -> Mapping[str, Hashes]:
    """By column, a hash of every cell that holds for this process; `_EMPTY` of an empty cell."""
    chunks: dict[str, list[Hashes]] = {column: [] for column in columns}
    with readable(path):
        for rows in read_rows(path, form):
            for column, hashes in chunks.items():
                cells = rows.batch.column(rows.batch.schema.get_field_index(column))
                coded = pc.fill_null(cell_text(cells, column, ""), "").dictionary_encode()
                texts = coded.dictionary.to_pylist()
                of_text = np.array([hash(text) if text else _EMPTY for text in texts], np.int64)
                hashes.append(of_text[coded.indices.to_numpy()])
    return {column: np.concatenate(hashes) for column, hashes in chunks.items()}
