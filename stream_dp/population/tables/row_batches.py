"""Rows of a file: rows in columns of cells, and rows that do not fit the columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from .text_records import MOST_TEXT


class UnreadableRow(NamedTuple):
    """A row with more or fewer cells than the header.

    row: its number, from 1 below the header.
    text: as in the file; it may be cut short.
    """

    row: int
    text: str


@dataclass(frozen=True)
class TableRows:
    """A batch of rows of a file.

    batch: the cells of the rows that fit the header.
    numbers: the row numbers of the batch, from 1 below the header.
    unreadable: the rows that do not fit the header, numbered in the same sequence.
    over_lines: the numbers of rows that have line ends in a cell.
    """

    batch: pa.RecordBatch
    numbers: NDArray[np.int64]
    unreadable: Sequence[UnreadableRow] = ()
    over_lines: Sequence[int] = ()


def numbered(batches: Iterable[pa.RecordBatch]) -> Iterator[TableRows]:
    """Numbers the rows of batches in which every row fits the header."""
    row = 1
    for batch in batches:
        yield TableRows(batch, np.arange(row, row + len(batch)))
        row += len(batch)


def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """Makes a batch without rows, for checking the header of an empty table."""
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


def text_rows(
    schema: pa.Schema,
    rows: Sequence[Sequence[str | None] | None],
    numbers: Sequence[int],
    unreadable: Sequence[UnreadableRow] = (),
    over_lines: Sequence[int] = (),
) -> TableRows:
    """Makes a batch from rows of texts. An empty text is no cell. schema: of columns of text."""
    columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
    arrays = [_without_empty(pa.array(column, pa.string())) for column in columns]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    return TableRows(batch, np.array(numbers, np.int64), unreadable, over_lines)


_BATCH_CELLS, _BATCH_CHARACTERS = 1 << 21, 1 << 23


def text_batches_of(
    names: Sequence[str], rows: Iterable[tuple[int, Sequence[str | None] | str]]
) -> Iterator[TableRows]:
    """Makes batches of rows of texts, after a batch without rows for the header.

    rows: by number, from 1 below the header: the cells, or the text of an unreadable row.
    """
    schema = pa.schema([(name, pa.string()) for name in names])
    yield TableRows(no_rows(schema), np.zeros(0, np.int64))
    fitting, unreadable = dict[int, Sequence[str | None]](), list[UnreadableRow]()
    cells = characters = 0
    for number, row in rows:
        if isinstance(row, str):
            unreadable.append(UnreadableRow(number, row[:MOST_TEXT]))
            characters += MOST_TEXT
        else:
            fitting[number] = row
            characters += sum(len(cell) for cell in row if cell)
        cells += len(names)
        if cells >= _BATCH_CELLS or characters >= _BATCH_CHARACTERS:
            yield text_rows(schema, list(fitting.values()), list(fitting), unreadable)
            fitting, unreadable, cells, characters = {}, [], 0, 0
    yield text_rows(schema, list(fitting.values()), list(fitting), unreadable)


def column_rows(schema: pa.Schema, columns: Sequence[pa.Array], first: int) -> TableRows:
    """Makes a batch from columns of texts. An empty text is no cell. first: the first row."""
    arrays = [_without_empty(column) for column in columns]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    return TableRows(batch, np.arange(first, first + len(batch)))


def _without_empty(column: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
