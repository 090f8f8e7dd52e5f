"""Normal forms of a column of ids, without a look at every id."""

from __future__ import annotations

import string

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_dp.log.records import binary_array, string_bounds
from stream_dp.study.declared_sections import Ids

_DIGIT, _LETTER, _MARK, _POINT, _ODD = 1, 2, 4, 8, 16  # kinds of characters in ids
_KINDS = np.full(256, _ODD, np.uint8)
for _characters, _kind in (
    (string.digits, _DIGIT),
    (string.ascii_letters, _LETTER),
    ("-_/:@", _MARK),
    (".,", _POINT),
):
    _KINDS[list(_characters.encode())] = _kind
_KEPT_DIGITS = 15  # by a spreadsheet
_LONGEST_WORD = 12  # characters, at least those of the longest word for nobody
_MONTH = 3  # letters of a month's name


def normal_ids(ids: pa.Array, rule: Ids) -> pa.Array:
    """Returns the normal form of every id by a study's rule.

    ids: in UTF-8; an array of `large_binary` without nulls.
    """
    rows = unusual_rows(ids) if rule.leaves_usual else np.arange(len(ids))
    if not rows.size:
        return ids
    before = ids.take(pa.array(rows))
    after = rule.normals([person.decode() for person in before.to_pylist()])
    normal = binary_array([person.encode() for person in after])
    if normal.equals(before):
        return ids
    if len(rows) == len(ids):
        return normal
    from pyarrow import compute as pc  # takes long, and most commands read no ids

    needs_look = np.zeros(len(ids), bool)
    needs_look[rows] = True
    return pc.replace_with_mask(ids, pa.array(needs_look), normal)


def unusual_rows(ids: pa.Array) -> NDArray[np.int64]:
    """Returns the rows of ids that may have a form that needs a look, see `id_forms.py`.

    A quick look: every other id is certainly as it is written, and ASCII.
    """
    bounds, content = string_bounds(ids), ids.buffers()[2]
    # Of a slice of a large table the content has the whole column.
    data = np.frombuffer(content or b"", np.uint8)[bounds[0] : bounds[-1]]
    bounds = bounds - bounds[0]
    lengths = np.diff(bounds)
    rows = np.flatnonzero(lengths)
    if not rows.size:
        return np.arange(len(ids))
    kinds, begins, length = _KINDS[data], bounds[rows], lengths[rows]
    kind = np.bitwise_or.reduceat(kinds, begins)
    usual = (kind == _DIGIT | _LETTER) | ((kind == _DIGIT) & (length <= _KEPT_DIGITS))
    if not usual.all():
        ends = bounds[rows + 1] - 1
        framed = (kinds[begins] | kinds[ends]) <= _DIGIT | _LETTER
        usual |= (kind == _DIGIT) & (data[ends] != ord("0"))
        usual |= (kind == _DIGIT | _MARK) & framed
        long = length > _LONGEST_WORD
        usual |= ((kind & _LETTER) > 0) & (kind < _ODD) & framed & long
    if not usual.all():
        letters = np.add.reduceat(kinds == _LETTER, begins, dtype=np.int64)
        usual |= (kind == _DIGIT | _LETTER | _MARK) & framed & (letters != _MONTH)
    odd = np.ones(len(ids), bool)
    odd[rows] = ~usual
    return np.flatnonzero(odd)
