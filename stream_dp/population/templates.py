"""Templates of reports: the bytes around the id, which are the same in many reports.

Reports of one sender differ in little but the id. Where the id is plain text, what is around it
is decoded once for all of them: in JSON a string's characters change nothing but the string.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_KEYS = (b'"person":"', b'"person": "')  # as programs write it, without and with a blank
_QUOTE, _ESCAPE = b'"', ord("\\")
_FIRST, _PLAIN = 0x20, 0x5F  # the first plain character, and how many are: ASCII without controls


@dataclass(frozen=True)
class Divided:
    """Values that are divided at their ids, a row for each.

    rows: their places among all values, ascending.
    ids: their ids, of plain ASCII characters; an array of `large_binary`.
    lengths: of the ids.
    template: of each, its place among the templates.
    templates: the bytes before the id, up to its quotation mark, and from its end on.
    """

    rows: NDArray[np.int64]
    ids: Any
    lengths: NDArray[np.int64]
    template: NDArray[np.int64]
    templates: list[tuple[bytes, bytes]]


def divide(values: Any) -> Divided:
    """Divides the values in which an id follows its key and ends at the next quotation mark.

    Whether they are JSON, and this the id of the report, whoever decodes the templates finds out.
    Values with an id that has an escape, a control or anything but ASCII in it are left out.

    values: an array of `large_binary` without nulls.
    """
    bounds = _bounds(values)
    first, after = bounds[:-1], bounds[1:]
    start = _id_starts(values, first, after)
    length = pc.find_substring(_pieces(values, [first, start]), _QUOTE).to_numpy()[1::2]
    divided = (start < after) & (length >= 0)
    end = np.where(divided, start + length, after)
    pieces = _pieces(values, [first, np.where(divided, start, after), end])
    rows = np.flatnonzero(divided)
    ids = pieces.take(pa.array(3 * rows + 1))
    if (odd := _odd(ids)).size:
        rows = np.delete(rows, odd)
        ids = pieces.take(pa.array(3 * rows + 1))
    heads = pieces.take(pa.array(3 * rows)).dictionary_encode()
    tails = pieces.take(pa.array(3 * rows + 2)).dictionary_encode()
    return Divided(rows, ids, np.diff(_bounds(ids)), *_pairs(heads, tails))


def _bounds(values: Any) -> NDArray[np.int64]:
    """Where the bytes of each value begin, and where those of the last one end."""
    return np.frombuffer(values.buffers()[1], np.int64, len(values) + 1)


def _pieces(values: Any, begins: list[NDArray[np.int64]]) -> Any:
    """The values cut into pieces that begin at these places, one behind the other."""
    count = len(begins)
    cuts = np.empty(count * len(values) + 1, np.int64)
    for place, begin in enumerate(begins):
        cuts[place:-1:count] = begin
    _, bounds, content = values.buffers()
    cuts[-1] = np.frombuffer(bounds, np.int64, len(values) + 1)[-1]
    buffers = [None, pa.py_buffer(cuts), content]
    return pa.Array.from_buffers(pa.large_binary(), count * len(values), buffers)


def _id_starts(
    values: Any, first: NDArray[np.int64], after: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Where the id of each value begins; its end where no key is found."""
    start = after
    for key in _KEYS:
        place = pc.find_substring(values, key).to_numpy()
        start = np.where((place >= 0) & (start == after), first + place + len(key), start)
        if (start < after).all():
            break
    return start


def _odd(ids: Any) -> NDArray[np.int64]:
    """The rows of ids that are not all plain characters."""
    bounds, content = _bounds(ids), ids.buffers()[2]
    data = np.frombuffer(content or b"", np.uint8, int(bounds[-1]))
    odd = np.flatnonzero((data - np.uint8(_FIRST) >= _PLAIN) | (data == _ESCAPE))
    return np.unique(np.searchsorted(bounds, odd, "right") - 1)


def _pairs(heads: Any, tails: Any) -> tuple[NDArray[np.int64], list[tuple[bytes, bytes]]]:
    """Which pair of a head and a tail each row has, and the pairs; from dictionary arrays."""
    befores, behinds = heads.dictionary.to_pylist(), tails.dictionary.to_pylist()
    head, tail = (part.indices.to_numpy().astype(np.int64) for part in (heads, tails))
    if len(befores) == 1:
        return tail, [(befores[0], behind) for behind in behinds]
    pairs, pair = np.unique(head * len(behinds) + tail, return_inverse=True)
    places = [divmod(number, len(behinds)) for number in pairs.tolist()]
    return pair, [(befores[before], behinds[behind]) for before, behind in places]
