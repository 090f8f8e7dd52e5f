"""Converts columns of tables to text.

The text of a cell depends on that cell alone, and whether a column can be read on its type alone:
no row changes how another row is read. Columns are arrays or chunked arrays.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stream_dp.errors import UserError

DAMAGED = "\ufdd0"  # replaces an unreadable cell; Unicode keeps it out of every text
# By the bits of a float: it represents every integer below this limit exactly.
_EXACT = {16: 2.0**11, 32: 2.0**24, 64: 2.0**53}


def cell_text(column: pa.Array, name: str, damaged: str | None = None) -> pa.Array:
    """Converts text, numbers, booleans, dates and times to text; null for empty cells and for NaN.

    Integers that are stored as floats lose their '.0', which pandas adds to a column with an
    empty cell; those that are stored as decimals lose their zeros behind the point.

    damaged: replaces a cell that cannot be read, such as bad UTF-8.

    Raises UserError, which names the column, for any other type, and without `damaged` for a cell
    that cannot be read.
    """
    column = _plain(column, name)
    kind = column.type
    if not (
        _is_text(kind)
        or pa.types.is_null(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_temporal(kind)
    ):
        raise UserError(
            f"column '{name}': holds neither text nor numbers, but {kind}; write it as text"
        )
    try:
        return _as_text(column)
    except pa.ArrowException:
        if damaged is not None:
            return _cell_by_cell(column, damaged)
        contents = "text that is not UTF-8" if _is_text(kind) else "neither text nor numbers"
        raise UserError(f"column '{name}': holds {contents}") from None


def id_text(column: pa.Array, name: str, damaged: str | None = None) -> pa.Array:
    """Converts ids to text: text unchanged, leading zeros included, and the digits of integers.

    A missing or fractional id makes a column of floats in pandas, and large ids lose digits in
    it. So floats are ids only if `damaged` can replace floats that are no exact integers.

    damaged: see `cell_text`.

    Raises UserError for every other type.
    """
    plain = _plain(column, name)
    kind = plain.type
    if pa.types.is_floating(kind) and damaged is not None:
        digits = _digits(plain, _EXACT[kind.bit_width])
        lost = pc.and_(pc.is_null(digits), pc.is_valid(_float_text(plain)))
        return pc.if_else(lost, damaged, digits)
    if pa.types.is_floating(kind):
        raise UserError(
            f"column '{name}': holds floats ({kind}), as pandas makes of whole numbers where one is"
            " missing or has a fraction; ids are text or whole numbers: mend that one and write"
            f""" the column as such, in pandas with .astype("Int64"), or read it as text (str)"""
        )
    if not (
        _is_text(kind)
        or pa.types.is_null(kind)
        or pa.types.is_integer(kind)
        or (pa.types.is_decimal(kind) and kind.scale == 0)
    ):
        raise UserError(
            f"column '{name}': holds {kind}; ids are text or whole numbers: write the column as one"
            " of these"
        )
    return cell_text(column, name, damaged)


def paired_ids(groups: pa.Array, numbers: pa.Array) -> pa.Array:
    """Joins groups' keys and members' numbers to ids, GROUP/NUMBER; null where one is empty.

    A number with a '/' gives null, so that two pairs never share an id.

    >>> paired_ids(pa.array(["h1", "h/1", None]), pa.array(["1", "2", "3"])).to_pylist()
    ['h1/1', 'h/1/2', None]
    """
    ids = pc.binary_join_element_wise(groups, numbers, "/")
    return pc.if_else(pc.match_substring(numbers, "/"), pa.scalar(None, pa.string()), ids)


def _as_text(column: pa.Array) -> pa.Array:
    """Converts a column of a readable type to text. Raises ArrowException."""
    if pa.types.is_floating(column.type):
        return _float_text(column)
    text = column.cast(pa.string())
    if pa.types.is_decimal(column.type):
        return pc.replace_substring_regex(text, r"\.0+$", "")
    if _is_text(column.type):
        text.validate(full=True)
    return text


def _cell_by_cell(column: pa.Array, damaged: str) -> pa.Array:
    """Converts a column cell by cell, unreadable cells to `damaged`."""
    texts: list[str | None] = []
    for i in range(len(column)):
        try:
            texts.append(_as_text(column.slice(i, 1))[0].as_py())
        except pa.ArrowException:
            texts.append(damaged)
    return pa.array(texts, pa.string())


def _plain(column: pa.Array, name: str) -> pa.Array:
    """Decodes a dictionary-encoded column. Raises UserError for a column that is too large."""
    kind = column.type
    if not pa.types.is_dictionary(kind):
        return column
    try:
        return column.cast(kind.value_type)
    except pa.ArrowException:
        if not _is_text(kind.value_type):
            raise UserError(
                f"column '{name}': holds neither text nor numbers, but {kind.value_type}; write it"
                " as text"
            ) from None
        raise UserError(
            f"column '{name}': its texts have over 2 GB; divide the table, or write shorter texts"
        ) from None


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _float_text(column: pa.Array) -> pa.Array:
    """Converts floats to text; integers among them without '.0', null for NaN."""
    text = pc.coalesce(_digits(column, _EXACT[64]), column.cast(pa.string()))
    return pc.if_else(pc.is_nan(column.cast(pa.float64())), pa.scalar(None, pa.string()), text)


def _digits(column: pa.Array, limit: float) -> pa.Array:
    """Returns the digits of integral floats below a limit; null for the rest."""
    doubles = column.cast(pa.float64())
    integral = pc.and_(pc.equal(pc.floor(doubles), doubles), pc.less(pc.abs(doubles), limit))
    texts = pc.if_else(integral, doubles, 0.0).cast(pa.int64()).cast(pa.string())
    return pc.if_else(integral, texts, pa.scalar(None, pa.string()))


def text_bytes(texts: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes of all texts in UTF-8, one text behind the other, and the bounds of the texts.

    texts: (n,) strings; a null has no bytes that count.

    Returns (bytes,) and (n + 1,) bounds, of which the first is 0.
    """
    _, bounds, content = texts.buffers()
    if content is None or not len(texts):
        return np.zeros(0, np.uint8), np.zeros(len(texts) + 1, np.int64)
    ends = np.frombuffer(bounds, np.int32, len(texts) + 1, 4 * texts.offset).astype(np.int64)
    data = np.frombuffer(content, np.uint8, int(ends[-1] - ends[0]), int(ends[0]))
    return data, ends - ends[0]


def has_byte(texts: pa.Array, among: NDArray[np.bool_]) -> bool:
    """Whether any text contains a byte of the set. among: (256,) by byte."""
    return bool(among[text_bytes(texts)[0]].any())


def bytes_of(text: str, *, beyond_ascii: bool = False) -> NDArray[np.bool_]:
    """Marks the bytes of a text's characters, (256,). beyond_ascii: those of all others, too."""
    marked = np.zeros(256, bool)
    marked[list(text.encode())] = True
    marked[128:] |= beyond_ascii
    return marked
