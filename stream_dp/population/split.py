"""Splits people into parts by the top bits of the keyed hash of the id, and cells by part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .cells import EMPTY, Cells

_CODE = 4  # the column of cells whose type depends on the study


@dataclass(frozen=True)
class Part:
    """A part of the people: hashes whose top bits are `index`. count: of parts, a power of two."""

    index: int
    count: int


def part_of(hi: NDArray[np.uint64], count: int) -> NDArray[np.intp]:
    """Returns everybody's part, of `count` parts. hi: the first halves of hashes."""
    bits = count.bit_length() - 1
    if bits == 0:
        return np.zeros(hi.shape[0], np.intp)
    return (hi >> np.uint64(64 - bits)).astype(np.intp)


def split(cells: Cells, count: int) -> list[Cells]:
    """Splits cells by part, in unchanged order. count: of parts."""
    part_indices = part_of(cells.hi, count)
    ends = np.cumsum(np.bincount(part_indices, minlength=count))
    sorted_cells = cells.take(np.argsort(part_indices, kind="stable"))
    return [
        sorted_cells.take(np.arange(start, end))
        for start, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)
    ]


def ordered(cells: Cells) -> Cells:
    """Sorts cells by partition, offset and attribute, which together are unique.

    So the state after them does not depend on how the input was cut into tasks.
    """
    return cells.take(np.lexsort((cells.attribute, cells.offset, cells.partition)))


def packed(cells: Cells) -> bytes:
    """Writes cells as bytes: the width of a code, then column after column, little-endian."""
    little = [column.astype(column.dtype.newbyteorder("<")) for column in cells.columns()]
    return bytes([cells.code.itemsize]) + b"".join(column.tobytes() for column in little)


def unpacked(blobs: Sequence[bytes]) -> Cells:
    """Reads the cells of all blobs from `packed`."""

    def columns(blob: bytes) -> Iterator[NDArray[Any]]:
        kinds = [f"{column.dtype.kind}{column.dtype.itemsize}" for column in EMPTY.columns()]
        kinds[_CODE] = f"i{blob[0]}"
        width, at = sum(int(kind[1:]) for kind in kinds), 1
        count = (len(blob) - 1) // width
        for kind in kinds:
            yield np.frombuffer(blob, f"<{kind}", count, at).astype(kind)
            at += count * int(kind[1:])

    return Cells.joined([Cells(*columns(blob)) for blob in blobs])
