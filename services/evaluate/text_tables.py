"""The layout of text tables, and the warning above every result computed from true data."""

from __future__ import annotations

from collections.abc import Sequence

WARNING = (
    "CONFIDENTIAL: computed from true data, not protected by any noise. "
    "The noise is simulated; nothing here is a release."
)


def plain_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lays out a table with aligned columns, the first to the left."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    return "\n".join(_aligned_row(row, widths) for row in (head, *rows))


def decimal(number: float | None, digits: int = 1, *, signed: bool = False) -> str:
    """Writes a number with this many decimal digits, or a dash for None."""
    return "-" if number is None else f"{number:{'+' if signed else ''}.{digits}f}"


def _aligned_row(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = zip(row, widths, strict=True)
    return "  ".join([first[0].ljust(first[1]), *(text.rjust(width) for text, width in rest)])
