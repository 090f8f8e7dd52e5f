"""Templates of reports: the bytes around the id, which are the same in many reports.

Reports of one sender differ in little but the id. If the id is plain text, the bytes around it
are decoded once for all of them: in JSON a string's characters change nothing but the string.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stream_dp.log.records import string_bounds

_KEYS = (b'"person":"', b'"person": "')  # without and with a blank
_QUOTE, _ESCAPE = b'"', ord("\\")
_FIRST, _PLAIN = 0x20, 0x5F  # the first plain character, and how many are: ASCII without controls


@dataclass(frozen=True)
class Divided:
    """Values divided at their ids, in columns.

    rows: their indices among all values, ascending.
    ids: of plain ASCII characters; an array of `large_binary`.
    lengths: of the ids.
    template: of each row, the index of its template.
    templates: the bytes before the id, up to its quotation mark, and from its end on.
    """

    rows: NDArray[np.int64]
    ids: pa.Array
    lengths: NDArray[np.int64]
    template: NDArray[np.int64]
    templates: list[tuple[bytes, bytes]]


def divide(values: pa.Array) -> Divided:
    """Divides the values in which an id follows its key and ends at the next quotation mark.

    Whether a value is JSON, and this the id of the report, is found by decoding the templates.
    Values are left out if the id has an escape, a control or anything but ASCII in it.

    values: an array of `large_binary` without nulls.
    """
    bounds = string_bounds(values)
    starts, ends = bounds[:-1], bounds[1:]
    id_start = _id_starts(values, starts, ends)
    length = pc.find_substring(_pieces(values, [starts, id_start]), _QUOTE).to_numpy()[1::2]
    divided = (id_start < ends) & (length >= 0)
    id_end = np.where(divided, id_start + length, ends)
    pieces = _pieces(values, [starts, np.where(divided, id_start, ends), id_end])
    rows = np.flatnonzero(divided)
    ids = pieces.take(pa.array(3 * rows + 1))
    if (odd := _odd(ids)).size:
        rows = np.delete(rows, odd)
        ids = pieces.take(pa.array(3 * rows + 1))
    heads = pieces.take(pa.array(3 * rows)).dictionary_encode()
    tails = pieces.take(pa.array(3 * rows + 2)).dictionary_encode()
    return Divided(rows, ids, np.diff(string_bounds(ids)), *_pairs(heads, tails))


def _pieces(values: pa.Array, begins: list[NDArray[np.int64]]) -> pa.Array:
    """Cuts values into consecutive pieces.

    begins: the offsets of the first pieces of all values, of the second pieces, and so on.
    """
    count = len(begins)
    cuts = np.empty(count * len(values) + 1, np.int64)
    for column, begin in enumerate(begins):
        cuts[column:-1:count] = begin
    _, bounds, content = values.buffers()
    cuts[-1] = np.frombuffer(bounds, np.int64, len(values) + 1)[-1]
    buffers = [None, pa.py_buffer(cuts), content]
    return pa.Array.from_buffers(pa.large_binary(), count * len(values), buffers)


def _id_starts(
    values: pa.Array, starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Returns the offset of every id, or the value's end if no key is found."""
    start = ends
    for key in _KEYS:
        key_offset = pc.find_substring(values, key).to_numpy()
        start = np.where((key_offset >= 0) & (start == ends), starts + key_offset + len(key), start)
        if (start < ends).all():
            break
    return start


def _odd(ids: pa.Array) -> NDArray[np.int64]:
    """Returns the rows of ids with unusual characters."""
    bounds, content = string_bounds(ids), ids.buffers()[2]
    data = np.frombuffer(content or b"", np.uint8, int(bounds[-1]))
    odd = np.flatnonzero((data - np.uint8(_FIRST) >= _PLAIN) | (data == _ESCAPE))
    return np.unique(np.searchsorted(bounds, odd, "right") - 1)


def _pairs(heads: pa.Array, tails: pa.Array) -> tuple[NDArray[np.int64], list[tuple[bytes, bytes]]]:
    """Numbers the pairs of a head and a tail. Returns each row's pair, and the pairs.

    heads, tails: dictionary arrays.
    """
    head_bytes, tail_bytes = heads.dictionary.to_pylist(), tails.dictionary.to_pylist()
    head, tail = (column.indices.to_numpy().astype(np.int64) for column in (heads, tails))
    if len(head_bytes) == 1:
        return tail, [(head_bytes[0], tail_index) for tail_index in tail_bytes]
    pairs, pair = np.unique(head * len(tail_bytes) + tail, return_inverse=True)
    indices = [divmod(number, len(tail_bytes)) for number in pairs.tolist()]
    return pair, [
        (head_bytes[head_index], tail_bytes[tail_index]) for head_index, tail_index in indices
    ]
