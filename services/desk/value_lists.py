"""The values that columns may have: from labels, a codebook, or a file that is public."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import islice
from pathlib import Path
from xml.etree import ElementTree

from stream_dp.errors import UserError
from stream_dp.population.celltext import cell_text
from stream_dp.population.table_bounds import bounded_lines, readable
from stream_dp.population.tables import FileForm
from stream_dp.population.tables.labelled_files import file_labels, is_labelled
from stream_dp.population.tables.table_files import read_rows
from stream_dp.study.alphabet import ABSENT

MOST_VALUES = 60  # that are proposed for a column
_NAMES = ("column", "name", "variable", "attribute")
_VALUES = ("value", "code")
_PLAIN_LABEL = re.compile(r"[^\W_][^,|?&\"']{0,59}")  # that a list of answers can have


def labelled_values(labels: Mapping[str, Mapping[str, str]]) -> dict[str, list[str]]:
    """By column, its labels; its codes where a label has a comma, or stands there twice.

    labels: by column, the labels by code.
    """
    values = {}
    for column, named in labels.items():
        texts = list(named.values())
        plain = all(_PLAIN_LABEL.fullmatch(text) and text != ABSENT for text in texts)
        values[column] = texts if plain and len(set(texts)) == len(texts) else list(named)
    return values


def codebook_values(path: Path) -> dict[str, list[str]]:
    """By column, the values in a codebook. Raises UserError.

    A codebook is a CSV with a row for each value, DDI, or a file of SPSS or Stata with labels.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    if is_labelled(path):
        return {column: list(named) for column, named in file_labels(path).values.items()}
    if path.suffix.lower() == ".xml":
        return _documented_values(path)
    with readable(path), path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(bounded_lines(path, file))
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


def _documented_values(path: Path) -> dict[str, list[str]]:
    """By variable, the values of its categories in DDI, without those that mean missing."""
    values: dict[str, list[str]] = {}
    try:
        for _, element in ElementTree.iterparse(path):
            if element.tag.rpartition("}")[2] != "var":
                continue
            found = [
                (category.findtext("{*}catValu") or "").strip()
                for category in element.iterfind("{*}catgry")
                if category.get("missing") != "Y"
            ]
            values[element.get("name", "")] = list(dict.fromkeys(filter(None, found)))
            element.clear()
    except (ElementTree.ParseError, LookupError, OSError):
        raise UserError(f"{path}: cannot be read as a codebook in DDI") from None
    return values


@lru_cache(maxsize=1)  # a page repeats the interview with every answer
def public_values(path: Path, form: FileForm, columns: tuple[str, ...]) -> Mapping[str, list[str]]:
    """By column, the texts in the cells of a file that is public, sorted. Raises UserError.

    Columns of more than `MOST_VALUES` texts are left out.
    """
    seen: dict[str, set[str]] = {column: set() for column in columns}
    with readable(path):
        for rows in read_rows(path, form):
            for column in list(seen):
                cells = rows.batch.column(rows.batch.schema.get_field_index(column))
                texts = cell_text(cells, column, "").to_pylist()
                seen[column] |= {text for text in texts if text}
                if len(seen[column]) > MOST_VALUES:
                    del seen[column]
    return {column: sorted(texts, key=_order) for column, texts in seen.items() if len(texts) > 1}


def _order(text: str) -> tuple[int, int, str]:
    return (0, int(text), "") if text.isdecimal() else (1, 0, text)
