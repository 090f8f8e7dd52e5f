"""Reads files of tables, of any supported kind, as Arrow batches of rows."""

from __future__ import annotations

import codecs
from collections.abc import Collection, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from stream_dp.errors import UserError
from stream_dp.study.number_texts import SPACE

from ..arrow_tables import TableSource
from ..table_bounds import PARQUET_ROWS, bounded_batches, parquet_batches, readable
from .fixed_width import FIXED, fixed_batches
from .labelled_files import is_labelled, labelled_batches
from .opendocument import document_batches
from .row_batches import TableRows, no_rows, numbered
from .spreadsheets import SHEET_ROWS, workbook_batches
from .text_files import PACKED, json_batches, text_batches

_TEXT = (".csv", ".tsv", ".tab", ".psv", ".txt")
_JSON = (".jsonl", ".ndjson")
_ARROW = (".arrow", ".feather", ".ipc")
_BYTES = {
    pa.string(): pa.binary(),
    pa.large_string(): pa.large_binary(),
    pa.string_view(): pa.binary_view(),
}
_SHEETS = {".xlsx": workbook_batches, ".ods": document_batches}
_OLD_SHEETS = (".xls", ".xlsb")
_UNREAD = {
    ".json": "a single value of JSON; write an object in each line, as .jsonl (jq -c '.[]'); ",
    ".rds": "a file of R; in R write.csv(readRDS(FILE), NEW, row.names = FALSE) saves it as text; ",
    "": "the name says no kind; ",
}
_KINDS = (
    "CSV (.csv, .tsv, .psv, .txt, packed as .gz, .bz2, .xz or .zip), .jsonl, .parquet, .arrow,"
    " .feather, .xlsx, .ods, .sav, .por, .dta, .sas7bdat, .xpt, or .dat beside its .sps"
)


@dataclass(frozen=True)
class FileForm:
    """The format of a file, beyond its name, its header and its first bytes.

    separator: between the cells of a text file; None: read from its header.
    encoding: of a text file; None: from its byte-order mark, else UTF-8.
    sheet: of a spreadsheet with several sheets.
    header_row: of a text file or a spreadsheet, the row of the header, from 1; None: the first
        row that is not blank.
    row_names: whether rows of a text file begin with a name for which the header has no cell, as R
        writes them.
    """

    separator: str | None = None
    encoding: str | None = None
    sheet: str | None = None
    header_row: int | None = None
    row_names: bool = False

    def __post_init__(self) -> None:
        if self.header_row is not None and not 0 < self.header_row <= SHEET_ROWS:
            raise UserError(f"--header-row: write a number from 1 to {SHEET_ROWS:,}")
        if self.separator is not None and (
            len(self.separator) != 1 or not self.separator.isascii() or self.separator in '"\r\n\0'
        ):
            raise UserError(
                "--separator: write one character, such as ';' or '|', or 'tab' or 'space'"
            )
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


def is_text(source: TableSource) -> bool:
    """Tells whether the source is a text file, packed or not, by its name."""
    return isinstance(source, Path) and _kind(source) in _TEXT


def has_rows_above_a_header(path: Path) -> bool:
    """Tells whether a file of this kind can have other rows above its header."""
    return is_text(path) or _kind(path) in _SHEETS


def read_rows(
    path: TableSource,
    form: FileForm,
    ids: Collection[str] = (),
    keys: Collection[str] = (),
    *,
    as_written: bool = False,
) -> Generator[TableRows, None, None]:
    """Reads the rows of a table in batches, after a batch without rows for the header.

    ids: the columns of ids. keys: these and, in a long table, the column of periods.
    as_written: whether an id of a spreadsheet may be a date.

    Raises UserError.
    """
    if not isinstance(path, Path):
        batches = path.rows.to_batches(PARQUET_ROWS)
        yield from numbered([no_rows(path.rows.schema), *batches])
        return
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    kind = _kind(path)
    if form.header_row is not None and not has_rows_above_a_header(path):
        raise UserError(f"{path}: --header-row: a {kind} file has no rows above its header")
    with readable(path):
        if kind == ".parquet":
            yield from numbered(parquet_batches(path))
        elif kind in _ARROW:
            yield from numbered(bounded_batches(path, _arrow_batches(path)))
        elif kind in _SHEETS:
            yield from _SHEETS[kind](path, form.sheet, form.header_row, ids, as_written=as_written)
        elif is_labelled(path):
            yield from numbered(labelled_batches(path, form.encoding))
        elif kind in _JSON:
            yield from json_batches(path, form.encoding)
        elif kind == FIXED:
            yield from fixed_batches(path, form.encoding)
        elif kind in _TEXT:
            yield from text_batches(
                path,
                form.separator,
                form.encoding,
                form.header_row,
                keys,
                row_names=form.row_names,
            )
        elif kind in _OLD_SHEETS:
            raise UserError(
                f"{path}: {kind} is a binary format of Excel that is not read; open the file in a"
                " spreadsheet program and save it as .xlsx"
            )
        else:
            raise UserError(f"{path}: {_UNREAD.get(kind, '')}write tables as {_KINDS}")


def header_names(path: TableSource, form: FileForm, keys: Collection[str] = ()) -> list[str]:
    """Reads the names in the header of a table. keys: columns that it likely has.

    Raises UserError.
    """
    with closing(read_rows(path, form, keys=keys)) as rows:
        names: list[str] = next(rows).batch.schema.names
        return names


def count_rows(path: TableSource) -> int | None:
    """Counts the rows, for a progress bar; of a text file, the lines.

    Returns None for a kind of file that must be read to be counted.
    """
    if not isinstance(path, Path):
        return int(path.rows.num_rows)
    if not path.is_file():
        return None
    with readable(path):
        if path.suffix.lower() == ".parquet":
            return int(pyarrow.parquet.read_metadata(path).num_rows)
        if path.suffix.lower() not in (*_TEXT, *_JSON, FIXED):
            return None
        with path.open("rb") as file:
            lines = sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
            return max(0, lines - 1)


def _kind(path: Path) -> str:
    """Returns the suffix of the format in small letters."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] and suffixes[-1] in PACKED:
        inner = suffixes[-2] if len(suffixes) > 1 else ""
        # A file in an archive may have any name and is read as text.
        return inner if inner in (*_TEXT, *_JSON) else ".csv" if suffixes[-1] == ".zip" else ""
    return suffixes[-1] if suffixes else ""


def _arrow_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """Reads and validates the batches of an Arrow IPC file or stream (Feather is an IPC file)."""
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
    """Checks that a damaged column can be read without harm; bad UTF-8 in a cell is harmless.

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


def separator_of(option: str | None) -> str | None:
    """Returns the separator of an option: a character, or 'tab' or 'space'."""
    return {"tab": "\t", "\\t": "\t", SPACE: " "}.get(option or "", option)
