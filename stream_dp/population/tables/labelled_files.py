"""Reads files of SPSS, Stata and SAS, with their labels of codes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

import pyarrow as pa

from stream_dp.errors import UserError, missing_extra

from ..arrow_tables import TableSource
from .fixed_width import FIXED, labels_of, syntax_of
from .row_batches import no_rows
from .spreadsheets import number_text

_CELLS = 1 << 21  # read at once
_READERS = {
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".dta": "read_dta",
    ".sas7bdat": "read_sas7bdat",
    ".por": "read_por",
    ".xpt": "read_xport",
}
_WITH_MISSING_CODES = (".sav", ".zsav", ".dta")
_COUNTED = (".sav", ".zsav")  # whose reader believes the number of rows that the file states


@dataclass(frozen=True)
class FileLabels:
    """The labels in a file.

    columns: by column, its label.
    values: by column, the labels by code; without codes that the file declares as missing.
    formats: by column, the format in which its program shows it, such as `%tm`.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    formats: Mapping[str, str] = field(default_factory=dict)


def labelled_batches(path: Path, encoding: str | None) -> Iterator[pa.RecordBatch]:
    """Reads the rows of a file in batches, after a batch without rows for the header.

    A code that the file declares as missing is an empty cell. Each batch is sought from the
    beginning of the file, so that memory is bounded by a batch. Raises UserError.
    """
    read = _reader(path, encoding)
    about = read(metadataonly=True)[1]
    names, types = list(about.column_names), about.readstat_variable_types
    if not names:
        raise UserError(f"{path}: cannot be read as a table: it has no columns")
    yield no_rows(pa.schema([(name, pa.string()) for name in names]))
    count, start = max(1, _CELLS // len(names)), 0
    stated = about.number_rows if path.suffix.lower() in _COUNTED else None
    while True:
        if start == stated and _holds_more(path, encoding, start):
            raise UserError(
                f"{path}: holds more rows than the {start} that it states; save it anew"
            )
        if start == stated:
            return
        columns, _ = read(row_offset=start, row_limit=count)
        arrays = [_array(column, types.get(name)) for name, column in columns.items()]
        batch = pa.RecordBatch.from_arrays(arrays, names=list(columns))
        if not len(batch):
            return
        yield batch
        start += len(batch)


def is_labelled(source: TableSource) -> bool:
    """Tells whether the source is a file of SPSS, Stata or SAS, by its name."""
    return isinstance(source, Path) and source.suffix.lower() in _READERS


def file_labels(path: TableSource, encoding: str | None = None) -> FileLabels:
    """Reads the labels of a file of SPSS or Stata; no labels of other tables. Raises UserError."""
    if isinstance(path, Path) and path.suffix.lower() == FIXED:
        table = syntax_of(path, encoding)
        return FileLabels(table.labels, labels_of(table))
    if not isinstance(path, Path) or not is_labelled(path):
        return FileLabels()
    more = {"user_missing": True} if path.suffix.lower() in _WITH_MISSING_CODES else {}
    _, about = _reader(path, encoding)(metadataonly=True, **more)
    columns = {n: text for n, text in about.column_names_to_labels.items() if text}
    values = {}
    for name, labels in about.variable_value_labels.items():
        missing = [(r["lo"], r["hi"]) for r in about.missing_ranges.get(name, [])]
        letters = set(about.missing_user_values.get(name, []))
        kept = {
            _code(code): label.strip()
            for code, label in labels.items()
            if label.strip()
            and code not in letters
            and not any(_within(code, lo, hi) for lo, hi in missing)
        }
        if kept:
            values[name] = kept
    return FileLabels(columns, values, about.original_variable_types)


def _within(code: object, low: object, high: object) -> bool:
    numbers = all(isinstance(value, (int, float)) for value in (code, low, high))
    return low <= code <= high if numbers else code == low  # type: ignore[operator]


def _code(code: object) -> str:
    """Converts a code to the text of its cells."""
    return number_text(code) if isinstance(code, float) else str(code)


def _reader(
    path: Path, encoding: str | None, source: IO[bytes] | None = None
) -> Callable[..., Any]:
    """Returns pyreadstat's reader of a file, or of `source` in its place. Raises UserError."""
    try:
        import pyreadstat
    except ImportError:
        raise missing_extra(f"{path}: needs pyreadstat", "tables") from None
    reader = getattr(pyreadstat, _READERS[path.suffix.lower()])
    encoded = {} if path.suffix.lower() == ".por" else {"encoding": encoding}

    def read(**options: Any) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return reader(source or str(path), output_format="dict", **encoded, **options)
        except MemoryError:
            raise
        except Exception:  # a damaged file raises whatever its reader stumbles over
            raise UserError(
                f"{path}: cannot be read as a {path.suffix} file: save it anew, or name its"
                " encoding with --encoding"
            ) from None

    return read


def _holds_more(path: Path, encoding: str | None, rows: int) -> bool:
    """Tells whether a file of SPSS has more rows than stated."""
    with path.open("rb") as file:
        source = cast(IO[bytes], _WithoutCount(file))
        columns, _ = _reader(path, encoding, source)(row_offset=rows, row_limit=1)
    return any(map(len, columns.values()))


class _WithoutCount:
    """A file of SPSS without a stated number of rows; reading continues to its end."""

    _PLACE = range(80, 84)  # of the number

    def __init__(self, file: IO[bytes]) -> None:
        self.seek, self.tell, self.close = file.seek, file.tell, file.close
        self._file = file

    def read(self, size: int = -1) -> bytes:
        start = self._file.tell()
        data = bytearray(self._file.read(size))
        for place in self._PLACE:
            if start <= place < start + len(data):
                data[place - start] = 0xFF  # -1
        return bytes(data)


def _array(values: Sequence[object], kind: str | None = None) -> pa.Array:
    """Makes a column of numbers, dates or texts; an empty text is no cell.

    kind: of the column in the file. A "float" has 32 bits.
    """
    try:
        column = pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError):
        column = pa.array([None if v is None else str(v) for v in values], pa.string())
    if pa.types.is_floating(column.type) and kind == "float":
        return column.cast(pa.float32())
    if pa.types.is_string(column.type):
        column = pa.array([v or None for v in column.to_pylist()], pa.string())
    return column
