"""Files of tables, of whatever kind, as Arrow's batches of rows."""

from __future__ import annotations

import codecs
from collections.abc import Collection, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from stream_dp.errors import UserError

from .spreadsheets import sheet_batches
from .table_rows import TableRows, no_rows, numbered
from .text_files import SEPARATORS, UNPACKING, text_batches

PARQUET_ROWS = 1 << 16  # read at once
_TEXT = (".csv", ".tsv", ".tab", ".psv", ".txt")
_ARROW = (".arrow", ".feather", ".ipc")
_BYTES = {
    pa.string(): pa.binary(),
    pa.large_string(): pa.large_binary(),
    pa.string_view(): pa.binary_view(),
}
_PACKED = (".gz", ".zip")
_KINDS = "CSV (.csv, .tsv, .psv, .txt, packed as .gz or .zip), .parquet, .arrow, .feather or .xlsx"


@dataclass(frozen=True)
class FileForm:
    """How a file is written, where its name, its header and its first bytes do not say it.

    separator: between the cells of a text file; read from its header where None.
    encoding: of a text file; that of its byte-order mark, or UTF-8, where None.
    sheet: of a spreadsheet with several.
    """

    separator: str | None = None
    encoding: str | None = None
    sheet: str | None = None

    def __post_init__(self) -> None:
        if self.separator is not None and (
            len(self.separator) != 1 or not self.separator.isascii() or self.separator in '"\r\n\0'
        ):
            raise UserError("--separator: write one character, such as ';' or '|', or 'tab'")
        if self.encoding is not None:
            try:
                if codecs.lookup(self.encoding).encode("a")[1] != 1:
                    raise LookupError
                b"a".decode(self.encoding, "ignore")
            except (LookupError, TypeError, ValueError):
                raise UserError(
                    "--encoding: no encoding of text; write one such as utf-8, cp1252, latin-1 or"
                    " utf-16"
                ) from None


def is_text(path: Path) -> bool:
    """Whether the file's name is that of a text file, packed or not."""
    return _kind(path) in _TEXT


def read_rows(
    path: Path, form: FileForm, keys: Collection[str]
) -> Generator[TableRows, None, None]:
    """The rows of a table in batches, after one without rows for the header. Raises UserError.

    keys: the columns of ids and, in a long table, of periods; the first is that of ids.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    kind = _kind(path)
    with readable(path):
        if kind == ".parquet":
            with pyarrow.parquet.ParquetFile(path) as file:
                batches = file.iter_batches(batch_size=PARQUET_ROWS)
                yield from numbered(chain([no_rows(file.schema_arrow)], batches))
        elif kind in _ARROW:
            yield from numbered(_arrow_batches(path))
        elif kind == ".xlsx":
            yield from sheet_batches(path, form.sheet, next(iter(keys)), PARQUET_ROWS)
        elif kind in _TEXT:
            yield from text_batches(path, form.separator, form.encoding, keys)
        else:
            raise UserError(f"{path}: write tables as {_KINDS}")


def count_rows(path: Path) -> int | None:
    """The number of rows, for a progress bar; None where only reading them would tell.

    Of a text file it is the number of its lines.
    """
    if not path.is_file():
        return None
    with readable(path):
        if path.suffix == ".parquet":
            return int(pyarrow.parquet.read_metadata(path).num_rows)
        if path.suffix not in _TEXT:
            return None
        with path.open("rb") as file:
            lines = sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
            return max(0, lines - 1)


def _kind(path: Path) -> str:
    """The suffix that says how the table is written, in small letters."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] and suffixes[-1] in _PACKED:
        inner = suffixes[-2] if len(suffixes) > 1 else ""
        # A file in an archive may have any name; what is packed is read as text.
        return inner if inner in _TEXT else ".csv" if suffixes[-1] == ".zip" else ""
    return suffixes[-1] if suffixes else ""


def _arrow_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """The batches of an Arrow IPC file or stream (Feather is an IPC file), each validated."""
    with pa.OSFile(str(path)) as source:
        try:
            reader = pa.ipc.open_file(source)
        except pa.ArrowInvalid:
            source.seek(0)
            stream = pa.ipc.open_stream(source)
            yield no_rows(stream.schema)
            batches: Iterator[pa.RecordBatch] = iter(stream)
        else:
            yield no_rows(reader.schema)
            batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
        for batch in batches:
            for column in batch.columns:
                _check_buffers(column)
            yield batch


def _check_buffers(column: pa.Array) -> None:
    """That a damaged column can be read without harm; bad UTF-8 in a cell is no harm.

    Raises ArrowException.
    """
    if pa.types.is_dictionary(column.type):
        _check_buffers(column.dictionary)
        column.validate()
        column.indices.validate(full=True)
        if len(column) > column.null_count:
            bounds = pc.min_max(column.indices).as_py()
            if not 0 <= bounds["min"] <= bounds["max"] < len(column.dictionary):
                raise pa.ArrowInvalid("an index beyond the dictionary")
        return
    kind = _BYTES.get(column.type)
    (column if kind is None else column.view(kind)).validate(full=True)


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turns whatever a damaged file raises into one line that names the file."""
    try:
        yield
    except (pa.ArrowException, UnicodeError, OSError, *UNPACKING):
        raise UserError(
            f"{path}: cannot be read as a table: check its header, its rows and its kind"
        ) from None


def separator_of(word: str | None) -> str | None:
    """The separator that an option names: a character, or 'tab'."""
    return SEPARATORS[2] if word in ("tab", "\\t") else word
