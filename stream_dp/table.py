"""Tables of reports: CSV and Parquet, long or wide, read in batches, as text."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from .errors import UserError
from .study import Study

Row = tuple[str, str, dict[str, str]]


@dataclass(frozen=True)
class Layout:
    """Which columns hold what.

    Long: person, period and a column for each attribute. Wide (attribute given): person and a
    column for each period. columns: from the file's names to the study's, where they differ.
    """

    person: str = "person"
    period: str = "period"
    attribute: str | None = None
    columns: Mapping[str, str] | None = None


def rows(path: Path) -> int:
    """Rows of a table, for a progress bar; a CSV's lines are counted."""
    with _readable(path):
        if path.suffix == ".parquet":
            return int(pyarrow.parquet.read_metadata(path).num_rows)
        with path.open("rb") as file:
            lines = sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
            return max(0, lines - 1)


def reports(path: Path, study: Study, layout: Layout) -> Iterator[list[Row]]:
    """Batches of (person, period, values); empty cells are left out. Raises UserError.

    An empty list stands for a row group without a value, so that progress can be told.
    """
    plan: dict[str, tuple[str, str]] | None = None
    for batch in _batches(path):
        if plan is None:
            plan = _columns(path, batch.schema.names, study, layout)
        people = _text(path, batch, layout.person)
        if layout.attribute is None:
            periods = _text(path, batch, layout.period)
            named = {attribute: _text(path, batch, name) for name, (_, attribute) in plan.items()}
            yield [
                (person or "", period or "", values)
                for i, (person, period) in enumerate(zip(people, periods, strict=True))
                if (values := {a: v for a, c in named.items() if (v := c[i]) is not None})
            ]
            continue
        for name, (period, attribute) in plan.items():
            cells = zip(people, _text(path, batch, name), strict=True)
            yield [
                (person or "", period, {attribute: value})
                for person, value in cells
                if value is not None
            ]


def _columns(
    path: Path, names: list[str], study: Study, layout: Layout
) -> dict[str, tuple[str, str]]:
    """By column of the file: the period and the attribute that it holds."""
    renamed = {name: (layout.columns or {}).get(name, name) for name in names}
    absent = [name for name in (layout.columns or {}) if name not in names]
    problems = [f"{path}: no column '{name}' to rename" for name in absent]
    if layout.person not in names:
        problems.append(
            f"{path}: no column '{layout.person}'; name the ids' with --person: there are"
            f" {', '.join(names[:12])}{', ...' if len(names) > 12 else ''}"
        )
    if layout.attribute is not None:
        if layout.attribute not in study.attributes:
            known = ", ".join(study.attributes)
            problems.append(f"attribute '{layout.attribute}': not declared; there are {known}")
        numbers = study.periods.numbers
        found = {n: (p, layout.attribute) for n, p in renamed.items() if p in numbers}
        hint = "a column for each period, or --columns NAME=PERIOD,..."
    else:
        if layout.period not in names:
            problems.append(f"{path}: no column '{layout.period}'; name it with --period")
        found = {n: ("", a) for n, a in renamed.items() if a in study.attributes}
        hint = f"a column for an attribute ({', '.join(study.attributes)}), or --attribute (wide)"
    used = Counter(renamed[n] for n in names if n in found)
    keys = {layout.person} if layout.attribute else {layout.person, layout.period}
    used += Counter(n for n in names if n in keys - used.keys())
    problems += [f"{path}: '{n}' is there in {c} columns" for n, c in used.items() if c > 1]
    if not found and not problems:
        problems.append(f"{path}: nothing to send: give {hint}")
    if problems:
        raise UserError(problems)
    return found


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    with _readable(path):
        if path.suffix == ".parquet":
            with pyarrow.parquet.ParquetFile(path) as file:
                yield _none(file.schema_arrow)
                yield from file.iter_batches(batch_size=65_536)
        elif path.suffix == ".csv":
            with path.open(encoding="utf-8-sig", newline="") as lines:
                names = next(csv.reader(lines), [])
            # Everything is read as text: 07 is not 7, and nothing is guessed from the data.
            text = pyarrow.csv.ConvertOptions(
                column_types={name: pa.string() for name in names},
                strings_can_be_null=True,
                null_values=[""],
            )
            with pyarrow.csv.open_csv(path, convert_options=text) as reader:
                yield _none(reader.schema)
                yield from reader
        else:
            raise UserError(f"{path}: write tables as .csv or .parquet")


def _none(schema: pa.Schema) -> pa.RecordBatch:
    """A batch without rows, so that a table without rows has its header checked too."""
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError, csv.Error, OSError):
        raise UserError(
            f"{path}: cannot be read as a table: check its header, its rows and that it is UTF-8;"
            " what stands before the fault may be sent already, and sending it again is harmless"
        ) from None


def _text(path: Path, batch: pa.RecordBatch, name: str) -> list[str | None]:
    """A column as text; whole numbers that were stored as floats lose their '.0'."""
    column = batch.column(batch.schema.names.index(name))
    try:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if pa.types.is_floating(column.type):
            column = pc.if_else(pc.is_nan(column), None, column)
            fits = pc.and_(pc.equal(pc.floor(column), column), pc.less(pc.abs(column), 1e15))
            whole = pc.all(fits, min_count=0).as_py()
            column = column.cast(pa.int64()) if whole else column
        found: list[str | None] = column.cast(pa.string()).to_pylist()
    except pa.ArrowException:
        raise UserError(f"{path}: column '{name}' holds neither text nor numbers") from None
    return found
