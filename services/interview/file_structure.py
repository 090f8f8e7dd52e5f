"""Questions about the format of a file: its encoding and the row of its header.

No content of a cell is looked at. The proposals follow from bytes that are no UTF-8, and from the
blank cells of the first rows.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

from stream_dp.errors import UserError
from stream_dp.population.tables import FileForm
from stream_dp.population.tables.sheet_rows import SHEET_ROWS, UnknownSheet
from stream_dp.population.tables.table_files import has_rows_above_a_header, is_text, read_rows
from stream_dp.population.tables.text_files import is_decodable

from .questions import Questions

_ROWS = 12  # in which a header is looked for
_ENCODING = "cp1252"  # what Windows writes in Western Europe


def header_names(path: Path, form: FileForm) -> list[str]:
    """The names in the header of a table. Raises UserError."""
    with closing(read_rows(path, form)) as source:
        names: list[str] = next(source).batch.schema.names
        return names


def asked_form(questions: Questions, path: Path, form: FileForm) -> FileForm:
    """Asks for the encoding, the sheet and the row of the header where they are in doubt.

    Raises UserError.
    """
    if is_text(path) and path.is_file() and form.encoding is None and not is_decodable(path):
        form = questions.ask(
            "The file is not UTF-8; its encoding", lambda e: replace(form, encoding=e), _ENCODING
        )
    try:
        header_names(path, form)
    except UnknownSheet as unknown:
        if form.sheet is not None:
            raise
        sheet = questions.choose("Sheet of the table", unknown.sheets, unknown.sheets[0])
        form = replace(form, sheet=sheet)
    if form.header_row is None and has_rows_above_a_header(path):
        names = header_names(path, form)
        doubtful = len(names) < 2 or "" in names
        if doubtful and (likely := _likely_row(path, form)) is not None:
            row = questions.whole("Row of the header", 1, SHEET_ROWS, str(likely))
            form = replace(form, header_row=row)
    return form


def form_options(form: FileForm) -> list[str]:
    """The options of `send` for a format."""
    options = {
        "--separator": form.separator,
        "--encoding": form.encoding,
        "--sheet": form.sheet,
        "--header-row": form.header_row,
    }
    return [word for name, value in options.items() if value for word in (name, str(value))]


def _likely_row(path: Path, form: FileForm) -> int | None:
    """The first row with almost as many filled cells as any of the first rows.

    Returns None if this is the first row with content.
    """
    filled = [_filled(path, replace(form, header_row=row)) for row in range(1, _ROWS + 1)]
    enough = max(2, max(filled) - 1)
    likely = next((row for row, cells in enumerate(filled, 1) if cells >= enough), None)
    first = next((row for row, cells in enumerate(filled, 1) if cells), None)
    return None if likely == first else likely


def _filled(path: Path, form: FileForm) -> int:
    """The number of cells with content in a row."""
    try:
        return sum(map(bool, header_names(path, form)))
    except UserError:
        return 0
