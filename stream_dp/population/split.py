"""Parts of the people, by the top bits of the keyed hash of the id; cells by part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .cells import EMPTY, Cells

MOST_PARTS = 4096
_CODE = 4  # the column of cells whose type depends on the study


@dataclass(frozen=True)
class Part:
    """One of `count` parts, a power of two; those whose hash begins with the bits of `index`."""

    index: int
    count: int


def part_of(hi: NDArray[np.uint64], count: int) -> NDArray[np.intp]:
    """The index of each person's part, of `count` parts. hi: the first half of the hash."""
    bits = count.bit_length() - 1
    if bits == 0:
        return np.zeros(hi.shape[0], np.intp)
    return (hi >> np.uint64(64 - bits)).astype(np.intp)


def split(cells: Cells, count: int) -> list[Cells]:
    """The cells of each part, in the order in which they come. count: of parts."""
    parts = part_of(cells.hi, count)
    ends = np.cumsum(np.bincount(parts, minlength=count))
    sorted_cells = cells.take(np.argsort(parts, kind="stable"))
    return [
        sorted_cells.take(np.arange(start, end))
        for start, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)
    ]


def ordered(cells: Cells) -> Cells:
    """The cells by partition, offset and attribute, which no two of them share.

    So the state after them does not depend on how the input was cut into tasks.
    """
    return cells.take(np.lexsort((cells.attribute, cells.offset, cells.partition)))


def packed(cells: Cells) -> bytes:
    """The cells as bytes: how wide a code is, then column after column, little-endian."""
    little = [column.astype(column.dtype.newbyteorder("<")) for column in cells.columns()]
    return bytes([cells.code.itemsize]) + b"".join(column.tobytes() for column in little)


def unpacked(blobs: Sequence[bytes]) -> Cells:
    """The cells of all blobs that `packed` made."""

    def columns(blob: bytes) -> Iterator[NDArray[Any]]:
        kinds = [f"{column.dtype.kind}{column.dtype.itemsize}" for column in EMPTY.columns()]
        kinds[_CODE] = f"i{blob[0]}"
        width, at = sum(int(kind[1:]) for kind in kinds), 1
        count = (len(blob) - 1) // width
        for kind in kinds:
            yield np.frombuffer(blob, f"<{kind}", count, at).astype(kind)
            at += count * int(kind[1:])

    return Cells.joined([Cells(*columns(blob)) for blob in blobs])
