"""Writes small .ods files, as LibreOffice does, and what LibreOffice never writes."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from xml.sax.saxutils import escape

_SPACES = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for name in ("office", "table", "text", "style")
)
_STYLES = (
    "<office:automatic-styles><style:style style:name='away' style:family='table'>"
    "<style:table-properties table:display='false'/></style:style></office:automatic-styles>"
)
_BLANK = '<table:table-cell table:number-columns-repeated="{}"/>'


def cell(value: object, *, shown: str | None = None, repeated: int = 1) -> str:
    """A cell with a value. shown: its text, if it differs."""
    if value is None:
        return _BLANK.format(repeated)
    text = escape(str(value) if shown is None else shown)
    kind = f'office:value-type="float" office:value="{value}"'
    if isinstance(value, bool):
        kind = f'office:value-type="boolean" office:boolean-value="{str(value).lower()}"'
    elif isinstance(value, date):
        kind = f'office:value-type="date" office:date-value="{value.isoformat()}"'
    elif isinstance(value, str):
        kind = 'office:value-type="string"'
    times = f' table:number-columns-repeated="{repeated}"' if repeated > 1 else ""
    return f"<table:table-cell {kind}{times}><text:p>{text}</text:p></table:table-cell>"


def row(cells: Iterable[str], repeated: int = 1) -> str:
    times = f'table:number-rows-repeated="{repeated}"'
    return f"<table:table-row {times}>{''.join(cells)}</table:table-row>"


def rows(values: Iterable[Sequence[object]]) -> list[str]:
    """Rows with blank cells and blank rows after them, as LibreOffice writes."""
    full = [row([*map(cell, line), _BLANK.format(16384 - len(line))]) for line in values]
    return [*full, row([_BLANK.format(16384)], 1_048_576 - len(full))]


def write_ods(
    path: Path, sheets: dict[str, list[str]], *, hidden: str = "", head: str = ""
) -> None:
    """Writes sheets of rows. hidden: the name of a sheet that is not shown. head: XML before."""
    away = ' table:style-name="away"'
    tables = "".join(
        f'<table:table table:name="{name}"{away * (name == hidden)}>'
        f"{''.join(content)}</table:table>"
        for name, content in sheets.items()
    )
    body = f"<office:body><office:spreadsheet>{tables}</office:spreadsheet></office:body>"
    xml = f"<?xml version='1.0' encoding='UTF-8'?>{head}<office:document-content {_SPACES}>"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("content.xml", f"{xml}{_STYLES}{body}</office:document-content>")
