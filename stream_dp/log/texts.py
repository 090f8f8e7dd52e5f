"""A column of byte strings in pieces, as they came: lists, or arrays of Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray


class Texts(Sequence[bytes | None]):
    """A sequence of byte strings and None, to which more is added behind.

    Arrays take a third of the memory of as many small objects, and memory is what many records
    cost. Whoever needs the objects gets them, once.
    """

    def __init__(self) -> None:
        self._pieces: list[Any] = []
        self._objects: list[bytes | None] | None = None

    def extend(self, more: Iterable[bytes | None]) -> None:
        """Adds byte strings; an array of `large_binary`, or other Texts, as they are."""
        self._objects = None
        if isinstance(more, Texts):
            self._pieces += [p if isinstance(p, pa.Array) else list(p) for p in more._pieces]
        elif isinstance(more, pa.Array):
            self._pieces.append(more)
        elif self._pieces and isinstance(self._pieces[-1], list):
            self._pieces[-1].extend(more)
        else:
            self._pieces.append(list(more))

    def array(self) -> Any:
        """All of them as an array of `large_binary`."""
        pieces = [p if isinstance(p, pa.Array) else _array(p) for p in self._pieces]
        if len(pieces) == 1:
            return pieces[0]
        return pa.concat_arrays(pieces) if pieces else _array([])

    def objects(self) -> list[bytes | None]:
        """All of them as a list, which is kept until more are added. Not to be changed."""
        if self._objects is None:
            lists = [p.to_pylist() if isinstance(p, pa.Array) else p for p in self._pieces]
            self._objects = lists[0] if len(lists) == 1 else list(chain.from_iterable(lists))
        return self._objects

    def lengths(self) -> NDArray[np.int64]:
        """The length of each; 0 of None."""
        parts = [np.zeros(0, np.int64)]
        for piece in self._pieces:
            if isinstance(piece, pa.Array):
                parts.append(pc.fill_null(pc.binary_length(piece), 0).to_numpy())
            else:
                parts.append(np.fromiter([len(one or b"") for one in piece], np.int64, len(piece)))
        return np.concatenate(parts)

    def nulls(self) -> list[int]:
        """The places of None."""
        places, start = list[int](), 0
        for piece in self._pieces:
            if isinstance(piece, pa.Array):
                if piece.null_count:
                    rows = piece.is_null().to_numpy(zero_copy_only=False).nonzero()[0]
                    places += (start + rows).tolist()
            elif not all(piece):  # quicker than comparisons with None
                places += [start + row for row, one in enumerate(piece) if one is None]
            start += len(piece)
        return places

    def __len__(self) -> int:
        return sum(map(len, self._pieces))

    def __iter__(self) -> Iterator[bytes | None]:
        return iter(self.objects())

    @overload
    def __getitem__(self, place: int) -> bytes | None: ...
    @overload
    def __getitem__(self, place: slice) -> list[bytes | None]: ...
    def __getitem__(self, place: int | slice) -> bytes | list[bytes | None] | None:
        return self.objects()[place]


def _array(column: list[bytes | None]) -> Any:
    return pa.array(column, pa.large_binary())


def packed(column: list[bytes | None]) -> tuple[Any, int]:
    """A column as an array, and how many bytes it has."""
    array = _array(column)
    return array, sum(buffer.size for buffer in array.buffers()[2:] if buffer is not None)
