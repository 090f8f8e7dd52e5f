"""Blocks: consecutive records of a partition in a single row of an SQLite file.

A row for each report would take most of the time of writing and reading it. The row of a block has
the offset of the block's last record, and in place of a key the number of records. A block begins
with the number of its columns. The lengths of their strings follow, column by column, as 32-bit
little-endian integers with -1 for a null, and then the strings in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from .records import Texts, string_bounds

# SQL: the offset of the first record of a row.
FIRST_OFFSET = "offset - CASE typeof(key) WHEN 'integer' THEN key - 1 ELSE 0 END"
_BLOCK = 1 << 16  # bytes after which the next record begins another block
_LENGTH = np.dtype("<i4")


def encode_blocks(columns: Sequence[Sequence[bytes | None]]) -> Iterator[tuple[int, bytes]]:
    """Yields the blocks of records with the number of records in each.

    columns: keys, values and, if the records' headers differ, encoded headers.
    """
    arrays = [Texts.of(column).array() for column in columns]
    bounds = [string_bounds(array) for array in arrays]
    lengths = np.stack([np.diff(ranges) for ranges in bounds])
    sizes = lengths.sum(axis=0) + len(columns) * _LENGTH.itemsize
    starts = np.cumsum(sizes) - sizes
    begins = np.flatnonzero(np.diff(starts // _BLOCK, prepend=-1))
    for row, array in zip(lengths, arrays, strict=True):
        if array.null_count:
            row[array.is_null().to_numpy(zero_copy_only=False)] = -1
    lengths = lengths.astype(_LENGTH)
    contents = [memoryview(array.buffers()[2] or b"") for array in arrays]
    for start, end in pairwise([*begins.tolist(), len(sizes)]):
        strings = [
            content[ranges[start] : ranges[end]]
            for content, ranges in zip(contents, bounds, strict=True)
        ]
        yield (
            end - start,
            b"".join((bytes([len(columns)]), lengths[:, start:end].tobytes(), *strings)),
        )


def decode_block(count: object, block: object) -> list[Texts] | None:
    """Returns the columns of a block; None if it is damaged.

    count: the number of its records.
    """
    if not isinstance(count, int) or not isinstance(block, bytes):
        return None
    width = block[0] if block else 0
    if count <= 0 or width not in (2, 3):
        return None
    begin = 1 + width * count * _LENGTH.itemsize
    if begin > min(len(block), _BLOCK + width * _LENGTH.itemsize):
        return None
    lengths = np.frombuffer(block, _LENGTH, width * count, 1).astype(np.int64)
    present = lengths >= 0
    bounds = np.cumsum(np.append(begin, np.where(present, lengths, 0)))
    if lengths.min() < -1 or bounds[-1] != len(block):
        return None
    columns, content = [], pa.py_buffer(block)
    for first in range(0, width * count, count):
        mask = present[first : first + count]
        nulls = None if mask.all() else pa.py_buffer(np.packbits(mask, bitorder="little"))
        buffers = [nulls, pa.py_buffer(bounds[first : first + count + 1]), content]
        columns.append(Texts.of(pa.Array.from_buffers(pa.large_binary(), count, buffers)))
    return columns
