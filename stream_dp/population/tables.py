"""Tables of reports: CSV and Parquet, long or wide, read in batches, as text.

What one row holds never changes how another is read: only the header and the columns' types, or
a fault that stops the file, are of the whole table.
"""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from stream_dp.celltext import cell_text, id_text
from stream_dp.errors import UserError
from stream_dp.study import Study

ReportRow = tuple[str, str, dict[str, str]]

PARQUET_ROWS = 1 << 16  # read at once
CSV_BYTES = 1 << 20  # read at once


@dataclass(frozen=True)
class TableLayout:
    """Which columns hold what.

    Long: person, period and a column for each attribute. Wide (attribute given): person and a
    column for each period. columns: from the file's names to the study's, where they differ.
    """

    person: str = "person"
    period: str = "period"
    attribute: str | None = None
    columns: Mapping[str, str] | None = None


def count_rows(path: Path) -> int:
    """Rows of a table, for a progress bar; a CSV's lines are counted."""
    with _readable(path):
        if path.suffix == ".parquet":
            return int(pyarrow.parquet.read_metadata(path).num_rows)
        with path.open("rb") as file:
            lines = sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
            return max(0, lines - 1)


def read_reports(path: Path, study: Study, layout: TableLayout) -> Iterator[list[ReportRow]]:
    """Batches of (person, period, values); empty cells are left out. Raises UserError.

    An empty list stands for a row group without a value, so that progress can be told.
    """
    plan: dict[str, tuple[str, str]] | None = None
    for batch in _batches(path):
        if plan is None:
            plan = _columns(path, batch.schema.names, study, layout)
        people = _text(path, batch, layout.person, id_text)
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
    path: Path, names: list[str], study: Study, layout: TableLayout
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
        sources = {n: (p, layout.attribute) for n, p in renamed.items() if p in numbers}
        hint = "a column for each period, or --columns NAME=PERIOD,..."
    else:
        if layout.period not in names:
            problems.append(f"{path}: no column '{layout.period}'; name it with --period")
        sources = {n: ("", a) for n, a in renamed.items() if a in study.attributes}
        hint = f"a column for an attribute ({', '.join(study.attributes)}), or --attribute (wide)"
    used = Counter(renamed[n] for n in names if n in sources)
    keys = {layout.person} if layout.attribute else {layout.person, layout.period}
    used += Counter(n for n in names if n in keys - used.keys())
    problems += [f"{path}: '{n}' is there in {c} columns" for n, c in used.items() if c > 1]
    if not sources and not problems:
        problems.append(f"{path}: nothing to send: give {hint}")
    if problems:
        raise UserError(problems)
    return sources


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    with _readable(path):
        if path.suffix == ".parquet":
            with pyarrow.parquet.ParquetFile(path) as file:
                yield _none(file.schema_arrow)
                yield from file.iter_batches(batch_size=PARQUET_ROWS)
        elif path.suffix == ".csv":
            yield from _csv_batches(path)
        else:
            raise UserError(f"{path}: write tables as .csv or .parquet")


def _csv_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """Everything is read as text: 07 is not 7, and nothing is guessed from the data."""
    faults: list[str] = []

    def stop(row: pyarrow.csv.InvalidRow) -> str:
        faults.append(
            f"row {row.number - 1} below the header has {row.actual_columns} cells, and the header"
            f" has {row.expected_columns}"
        )
        return "error"

    as_text = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(csv_names(path), pa.string()),
        strings_can_be_null=True,
        null_values=[""],
    )
    # Rows are numbered by one thread alone. Without newlines_in_values the end of a block could
    # fall into a quoted cell, wherever the rows before it put that end.
    read = pyarrow.csv.ReadOptions(use_threads=False, block_size=CSV_BYTES)
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=stop)
    try:
        with pyarrow.csv.open_csv(path, read, parse, as_text) as reader:
            yield _none(reader.schema)
            yield from reader
    except pa.ArrowException:
        if faults:
            raise _unreadable(path, faults[0]) from None
        raise


def csv_names(path: Path) -> list[str]:
    """The header of a CSV file, as the reader of its rows sees it.

    Raises ArrowException, and UnicodeDecodeError where any of the file is not UTF-8: pyarrow would
    print a traceback for such a row before it refuses it.
    """
    decode = codecs.getincrementaldecoder("utf-8")().decode
    with path.open("rb") as file:
        for block in iter(lambda: file.read(CSV_BYTES), b""):
            decode(block)
        decode(b"", final=True)
    parse = pyarrow.csv.ParseOptions(
        newlines_in_values=True, invalid_row_handler=lambda row: "skip"
    )
    with pyarrow.csv.open_csv(path, parse_options=parse) as reader:
        return list(reader.schema.names)


def _none(schema: pa.Schema) -> pa.RecordBatch:
    """A batch without rows, so that a table without rows has its header checked too."""
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError, OSError):
        raise _unreadable(path, "check its header, its rows and that it is UTF-8") from None


def _unreadable(path: Path, why: str) -> UserError:
    return UserError(
        f"{path}: cannot be read as a table: {why}; what stands before the fault may be sent"
        " already, and sending it again is harmless"
    )


def _text(
    path: Path,
    batch: pa.RecordBatch,
    name: str,
    as_text: Callable[[pa.Array, str], pa.Array] = cell_text,
) -> list[str | None]:
    """A column as text. Raises UserError."""
    try:
        cells = as_text(batch.column(batch.schema.names.index(name)), name)
    except UserError as error:
        raise UserError(f"{path}: {line}" for line in error.lines) from None
    if path.suffix == ".csv" and pc.any(pc.match_substring(cells, "\n")).as_py():
        raise _unreadable(
            path, f"a cell of column '{name}' goes over lines; look for a quote that is left open"
        )
    text: list[str | None] = cells.to_pylist()
    return text
