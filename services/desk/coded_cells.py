"""The codes of a table's cells by declared columns, and the cells that have none. CONFIDENTIAL.

A cell's code depends on that cell alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from math import floor
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stream_dp.population.celltext import cell_text
from stream_dp.study import Attribute
from stream_dp.study.field_types import ABSENT

from .declared_columns import DeclaredColumn

# The reason why a cell has no code.
Fault = Literal["empty", "undeclared", "outside of the range", "with a fraction"]
_REMEDIES: dict[Fault, str] = {
    "empty": "put None among the values for empty cells",
    "undeclared": "declare their values",
    "outside of the range": "declare a wider range, or codes with special",
    "with a fraction": "round them, or declare a range",
}
_LARGEST = 18  # digits on either side of the point


@dataclass(frozen=True)
class CodedColumn:
    """The codes of a column's cells.

    codes: (rows,) -1 for a cell without a code.
    rounded: how many cells were rounded to a number of the range.
    faults: how many cells have no code, by reason.
    """

    column: DeclaredColumn
    codes: NDArray[np.int64]
    rounded: int
    faults: Counter[Fault]

    @property
    def fault_line(self) -> str | None:
        """A line about the cells without a code; None if all have one."""
        if not self.faults:
            return None
        kinds = ", ".join(f"{count} {fault}" for fault, count in sorted(self.faults.items()))
        remedies = "; ".join(_REMEDIES[fault] for fault in sorted(self.faults))
        return (
            f"table: {self.faults.total()} of the cells of '{self.column.name}' are none of its"
            f" values: {kinds}; {remedies}; or leave these rows out"
        )

    @property
    def notices(self) -> list[str]:
        """Lines about rounded cells, and about numbers of the range that may be codes."""
        lines = [] if self.column.notice is None else [self.column.notice]
        if self.rounded and self.column.points is not None:
            step = self.column.points.step
            lines.append(
                f"table: {self.rounded} cells of '{self.column.name}' lie between two numbers of"
                f" its range, whose step is {step}: each is rounded to the nearest"
            )
        return lines


def coded_column(column: DeclaredColumn, table: pa.Table, attribute: Attribute) -> CodedColumn:
    """Codes a column of a table. attribute: the column's declaration. Raises UserError."""
    cells = cell_text(table[column.name], column.name).combine_chunks()
    coded = pc.if_else(pc.equal(cells, ""), None, cells).dictionary_encode()
    read = [_read(text, column, attribute) for text in coded.dictionary.to_pylist()]
    read.append((attribute.codes.get(ABSENT, "empty"), False))
    places = coded.indices.fill_null(len(read) - 1).to_numpy(zero_copy_only=False)
    codes = np.array([-1 if isinstance(code, str) else code for code, _ in read], np.int64)
    counts = np.bincount(places, minlength=len(read)).tolist()
    faults: Counter[Fault] = Counter()
    for (code, _), count in zip(read, counts, strict=True):
        if isinstance(code, str) and count:
            faults[code] += count
    rounded = sum(count for (_, is_rounded), count in zip(read, counts, strict=True) if is_rounded)
    return CodedColumn(column, codes[places], rounded, faults)


def column_notices(columns: Iterable[CodedColumn]) -> list[str]:
    """The notices of all columns, in lines."""
    return [line for column in columns for line in column.notices]


def _read(text: str, column: DeclaredColumn, attribute: Attribute) -> tuple[int | Fault, bool]:
    """The code of a cell's text, or why there is none; and whether its number was rounded."""
    # A text that spells the symbol of an empty cell is no declared value.
    if isinstance(code := attribute.read(text), int) and text != ABSENT:
        return code, False
    number = _number(text)
    if number is None:
        return "undeclared", False
    if number.denominator == 1 and isinstance(code := attribute.read(int(number)), int):
        return code, False
    if (points := column.points) is None:
        listed = all(type(value) is int for value in column.values)
        return "with a fraction" if listed and number.denominator > 1 else "undeclared", False
    if not points[0] <= number <= points[-1]:
        return "outside of the range", False
    nearest = points[floor((number - points[0]) / points.step + Fraction(1, 2))]
    code = attribute.read(nearest)
    assert isinstance(code, int)  # every number of the range is declared
    return code, True


def _number(text: str) -> Fraction | None:
    """The number written by a text; None without a number, and beyond 64 bits."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    if not number.is_finite() or abs(number.adjusted()) > _LARGEST:
        return Fraction(0) if number.is_zero() else None
    return Fraction(number)
