"""Reads and checks the table of places."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_dp.batch.data.hierarchy_tables import id_column, text_column
from stream_dp.errors import UserError
from stream_dp.population.arrow_tables import TableSource, missing_columns
from stream_dp.population.tables import FileForm, read_table
from stream_dp.population.tables.table_files import header_names
from stream_dp.study import Study
from stream_dp.study.field_types import ABSENT, FAULT, is_formula

from .place_table import PlacesTable

MOST_PLACES = 1 << 30
_MOST_SIZE = 1 << 31  # people in a place
_LONGEST = 64  # characters of a key or of a region's name


def read_places(
    study: Study, path: TableSource, key: str = "place", form: FileForm | None = None
) -> PlacesTable:
    """Reads the table of places, sorted by key, from a file of any kind or from memory.

    Beside the declared columns of regions the table has one of three sets of columns. `key` has the
    keys of places. `places` has the number of places in the region, with generated keys
    REGION/.../1, REGION/.../2 and so on. `size` and `count`, in a study with a table of counts,
    have the number of places of every size.

    Raises UserError, a line for each kind of fault.
    """
    assert study.places is not None
    columns = study.places.regions
    if study.places.counted:
        return _counted(path, columns, _read(path, study, form, "size", "count"))
    names = header_names(path, form or FileForm(), columns)
    if not {*columns} <= {*names} or not {key, "places"} & {*names}:
        line = f"{path}: needs the columns {', '.join(columns)}, and '{key}' of keys or"
        raise UserError(f"{line} 'places' of how many each region has")
    if key not in names:
        return _numbered(path, columns, _read(path, study, form, "places"))
    rows = _read(path, study, form, key)
    regions, region_of = _regions(path, columns, rows)
    return _keyed(path, columns, regions, region_of, id_column(rows, key), key)


def _read(path: TableSource, study: Study, form: FileForm | None, *columns: str) -> pa.Table:
    """Reads columns. In a spreadsheet codes of regions and keys keep the zeros that it shows."""
    assert study.places is not None
    regions = study.places.regions
    codes = [*regions, *({*columns} - {"places", "size", "count"})]
    as_written = study.id_rule.as_written is True
    return read_table(path, [*regions, *columns], form or FileForm(), codes, as_written=as_written)


def _keyed(
    path: TableSource,
    columns: tuple[str, ...],
    regions: tuple[tuple[str, ...], ...],
    region_of: NDArray[np.int64],
    keys: pa.Array,
    name: str,
) -> PlacesTable:
    """The table of places with these keys. Raises UserError."""
    texts = np.array(keys.to_pylist(), object)
    lines = []
    if keys.null_count:
        lines.append(f"{path}: {keys.null_count} rows without '{name}'")
    present_keys = [text for text in texts.tolist() if text is not None]
    if len({*present_keys}) < len(present_keys):
        lines.append(f"{path}: a value of '{name}' stands there twice")
    if any(len(text) > _LONGEST for text in present_keys):
        lines.append(f"{path}: a value of '{name}' has over {_LONGEST} characters")
    if any(map(is_formula, present_keys)):
        lines.append(f"{path}: a value of '{name}' {FAULT}")
    if ABSENT in {*present_keys}:
        lines.append(f"{path}: '{ABSENT}' is reserved for people in no place")
    if lines:
        raise UserError(lines)
    order = np.argsort(texts, kind="stable")
    return PlacesTable(
        columns,
        regions,
        np.bincount(region_of, minlength=len(regions)).astype(np.int64),
        tuple(texts[order].tolist()),
        region_of[order],
    )


def _numbered(path: TableSource, columns: tuple[str, ...], rows: pa.Table) -> PlacesTable:
    """The table of places from numbers of places by region. Raises UserError."""
    regions, region_of = _regions(path, columns, rows)
    (numbers,) = _numbers(path, rows, {"places": MOST_PLACES})
    if len(regions) < len(region_of):
        raise UserError(f"{path}: a region stands there twice")
    if not 0 < numbers.sum() <= MOST_PLACES:
        raise UserError(f"{path}: the places must be 1 to {MOST_PLACES}")
    keys = [
        f"{'/'.join(regions[region])}/{i}"
        for region, count in zip(region_of.tolist(), numbers.tolist(), strict=True)
        for i in range(1, count + 1)
    ]
    region_of_keys = np.repeat(region_of, numbers)
    return _keyed(path, columns, regions, region_of_keys, pa.array(keys, pa.string()), "places")


def _counted(path: TableSource, columns: tuple[str, ...], rows: pa.Table) -> PlacesTable:
    """The table of places from counts by size. Raises UserError."""
    regions, region_of = _regions(path, columns, rows)
    size, count = _numbers(path, rows, {"size": _MOST_SIZE, "count": MOST_PLACES})
    place_counts = np.zeros(len(regions), np.int64)
    np.add.at(place_counts, region_of, count)
    if not 0 < place_counts.sum() <= MOST_PLACES:
        raise UserError(f"{path}: the places must be 1 to {MOST_PLACES}")
    order = np.lexsort((size, region_of))
    counts = np.stack([region_of, size, count], axis=1)[order]
    return PlacesTable(columns, regions, place_counts, counts=counts)


def _numbers(path: TableSource, rows: pa.Table, bounds: dict[str, int]) -> list[NDArray[np.int64]]:
    """Reads columns of whole numbers. bounds: by column, the exclusive bound. Raises UserError."""
    lines, numbers = [], []
    for name, bound in bounds.items():
        try:
            column = np.array([int(t) for t in text_column(rows, name).to_pylist()], np.int64)
        except (TypeError, ValueError, OverflowError):
            lines.append(f"{path}: '{name}' must be whole numbers")
            continue
        if len(column) and not 0 <= column.min() <= column.max() < bound:
            lines.append(f"{path}: '{name}' must not be negative, nor {bound} or more")
        numbers.append(column)
    if lines:
        raise UserError(lines)
    return numbers


def _regions(
    path: TableSource, columns: tuple[str, ...], rows: pa.Table
) -> tuple[tuple[tuple[str, ...], ...], NDArray[np.int64]]:
    """The paths of regions in increasing order, and every row's region. Raises UserError."""
    lines = missing_columns(str(path), rows.column_names, columns)
    if lines:
        raise UserError(lines)
    texts = [text_column(rows, name) for name in columns]
    for name, text in zip(columns, texts, strict=True):
        if text.null_count:
            lines.append(f"{path}: {text.null_count} rows without '{name}'")
        names = [t for t in text.unique().to_pylist() if t is not None]
        if any("/" in t or not 0 < len(t) <= _LONGEST for t in names):
            lines.append(
                f"{path}: a value of '{name}' has a '/', or over {_LONGEST} characters, or none"
            )
        if any(map(is_formula, names)):
            lines.append(f"{path}: a value of '{name}' {FAULT}")
    if not len(rows):
        lines.append(f"{path}: no rows")
    if lines:
        raise UserError(lines)
    paths = list(zip(*(text.to_pylist() for text in texts), strict=True))
    regions = tuple(sorted({*paths}))
    number = {region: i for i, region in enumerate(regions)}
    return regions, np.fromiter((number[p] for p in paths), np.int64, len(paths))
