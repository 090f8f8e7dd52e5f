"""The values that columns may have: from a codebook, or from a file that is public."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path

from stream_dp.celltext import cell_text
from stream_dp.errors import UserError
from stream_dp.population.tables import FileForm
from stream_dp.population.tables.table_files import read_rows, readable

MOST_VALUES = 60  # that are proposed for a column
_NAMES = ("column", "name", "variable", "attribute")
_VALUES = ("value", "code")


def codebook_values(path: Path) -> dict[str, list[str]]:
    """By column, the values in a codebook: a CSV with a row for each value. Raises UserError."""
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    with readable(path), path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file)
        header = {(name or "").strip().casefold(): name for name in rows.fieldnames or ()}
        column = next((header[name] for name in _NAMES if name in header), None)
        value = next((header[name] for name in _VALUES if name in header), None)
        if column is None or value is None:
            raise UserError(f"{path}: a codebook has a column 'column' and a column 'value'")
        values: dict[str, list[str]] = {}
        for row in islice(rows, 100_000):
            text = (row[value] or "").strip()
            listed = values.setdefault((row[column] or "").strip(), [])
            if text and text not in listed:
                listed.append(text)
    return values


def public_values(
    path: Path, form: FileForm, keys: Sequence[str], columns: Iterable[str]
) -> Mapping[str, list[str]]:
    """By column, the texts in the cells of a file that is public, sorted. Raises UserError.

    Columns of more than `MOST_VALUES` texts are left out.
    """
    seen: dict[str, set[str]] = {column: set() for column in columns}
    for rows in read_rows(path, form, keys):
        for column in list(seen):
            cells = rows.batch.column(rows.batch.schema.get_field_index(column))
            texts = cell_text(cells, column, "").to_pylist()
            seen[column] |= {text for text in texts if text}
            if len(seen[column]) > MOST_VALUES:
                del seen[column]
    return {column: sorted(texts, key=_order) for column, texts in seen.items() if len(texts) > 1}


def _order(text: str) -> tuple[int, int, str]:
    return (0, int(text), "") if text.isdecimal() else (1, 0, text)
