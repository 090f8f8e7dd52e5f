"""Columns of tables as text.

The text of a cell depends on that cell alone, and whether a column can be read on its type alone:
no row changes how another is read. Columns are arrays or chunked arrays.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from .errors import UserError

# Every integer below it has a double of its own.
_EXACT = 2.0**53


def cell_text(column: pa.Array, name: str) -> pa.Array:
    """Text, numbers, booleans, dates and times as text; null for empty cells and for NaN.

    Integers that are stored as floats lose their '.0', which pandas adds to a column with an
    empty cell. Raises UserError, which names the column, for any other type and for bad UTF-8.
    """
    column = _plain(column)
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
        raise UserError(f"column '{name}': holds neither text nor numbers")
    try:
        if pa.types.is_floating(kind):
            return _float_text(column)
        text = column.cast(pa.string())
        if _is_text(kind):
            text.validate(full=True)
    except pa.ArrowException:
        what = "text that is not UTF-8" if _is_text(kind) else "neither text nor numbers"
        raise UserError(f"column '{name}': holds {what}") from None
    return text


def id_text(column: pa.Array, name: str) -> pa.Array:
    """Ids as text: text as it is, leading zeros included, and the digits of integers.

    Raises UserError for every other type. Floats are refused even where all are integers: one
    missing or fractional id makes a column of floats, and large ids lose digits in it.
    """
    kind = _plain(column).type
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
    return cell_text(column, name)


def _plain(column: pa.Array) -> pa.Array:
    """The column, decoded where it is dictionary-encoded."""
    kind = column.type
    return column.cast(kind.value_type) if pa.types.is_dictionary(kind) else column


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _float_text(column: pa.Array) -> pa.Array:
    """Floats as text; integers among them without '.0', null for NaN."""
    doubles = column.cast(pa.float64())
    integral = pc.and_(pc.equal(pc.floor(doubles), doubles), pc.less(pc.abs(doubles), _EXACT))
    digits = pc.if_else(integral, doubles, 0.0).cast(pa.int64()).cast(pa.string())
    text = pc.if_else(integral, digits, column.cast(pa.string()))
    return pc.if_else(pc.is_nan(doubles), pa.scalar(None, pa.string()), text)
