"""`stream-dp init`: writes a study file from a table's header and the operator's answers.

The first questions are about the format of the file: its encoding and the row of its header. The
proposals follow from bytes that are no UTF-8, and from the blank cells of the first rows.
"""

from __future__ import annotations

import argparse
import hashlib
import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from stream_dp.errors import UserError
from stream_dp.population.tables import FileForm
from stream_dp.population.tables.labelled_files import file_labels
from stream_dp.population.tables.spreadsheets import SHEET_ROWS, UnknownSheet
from stream_dp.population.tables.table_files import (
    has_rows_above_a_header,
    header_names,
    is_text,
    separator_of,
)
from stream_dp.population.tables.text_files import (
    first_lines,
    is_decodable,
    likely_separator,
    line_cells,
)
from stream_dp.study.number_texts import SPACE
from stream_dp.study.study_text import study_text

from ..intake.options import file_form
from ..process.command_output import Output
from ..storage.atomic_files import write_new_file
from .answers_form import Form, whole_number
from .column_proposals import (
    TableHeader,
    codebook_values,
    has_every_cell,
    labelled_values,
    public_values,
)
from .dialogue import Dialogue, promise_lines
from .draft import Draft, drafted
from .draft_columns import SourceTable
from .repeated_ids import repeated_ids

_ROWS = 12  # in which a header is looked for
_ENCODING = "cp1252"  # what Windows writes in Western Europe


def asked_form(questions: Form, path: Path, form: FileForm) -> FileForm:
    """Asks for the encoding, the sheet and the row of the header where they are in doubt.

    Raises UserError.
    """
    if is_text(path) and path.is_file() and form.encoding is None and not is_decodable(path):
        encoding = questions.ask(
            "encoding", "The file is not UTF-8; its encoding", str, "", proposal=_ENCODING
        )
        form = replace(form, encoding=encoding)
    try:
        header_names(path, form)
    except UnknownSheet as unknown:
        if form.sheet is not None:
            raise
        sheet = questions.choose(
            "sheet", "Sheet of the table", unknown.sheets, unknown.sheets[0], confirmed=True
        )
        form = replace(form, sheet=sheet)
    if form.header_row is None and has_rows_above_a_header(path):
        names = header_names(path, form)
        doubtful = len(names) < 2 or "" in names
        if doubtful and (likely := _likely_row(path, form)) is not None:
            row = questions.ask(
                "header row",
                "Row of the header",
                lambda answer: whole_number(answer, 1, SHEET_ROWS),
                likely,
                proposal=str(likely),
            )
            form = replace(form, header_row=row)
    return _asked_cells(questions, path, form) if is_text(path) else form


def _asked_cells(questions: Form, path: Path, form: FileForm) -> FileForm:
    """Asks for blanks as separators, and for names of rows, by the cells in the first two lines.

    Only the number of cells counts.
    """
    lines = first_lines(path, form.encoding, 2) if form.header_row is None else []
    if len(lines) < 2:
        return form
    separator = form.separator or likely_separator(lines[0])
    header, row = (len(line_cells(line, separator)) for line in lines)
    names, cells = (len(line_cells(line, " ")) for line in lines)
    if form.separator is None and header == row == 1 < names <= cells <= names + 1:
        separator = questions.ask(
            "separator",
            "Separator of the cells",
            lambda s: separator_of(s) or s,
            separator,
            proposal=SPACE,
        )
        form = replace(form, separator=separator)
        header, row = (len(line_cells(line, separator)) for line in lines)
    # A line that ends in a separator has no name in front.
    ends = lines[1].endswith(separator)
    if not form.row_names and header > 1 and row == header + 1 and not ends:
        question = "Do rows begin with a name that the header leaves out"
        named = questions.choose("row names", question, ("yes", "no"), "yes")
        form = replace(form, row_names=named == "yes")
    return form


def form_options(form: FileForm) -> list[str]:
    """The options of `send` for a format."""
    options = {
        "--separator": form.separator,
        "--encoding": form.encoding,
        "--sheet": form.sheet,
        "--header-row": form.header_row,
    }
    flags = {"--row-names": form.row_names}
    return [
        *(word for name, value in options.items() if value for word in (name, str(value))),
        *(name for name, is_set in flags.items() if is_set),
    ]


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


_PUBLIC = "The declared values were read off a file that the guarantee does not cover."


def run(options: argparse.Namespace) -> Output:
    def draw(answers: Mapping[str, str]) -> Draft:
        return drafted(lambda form: _source(options, form), answers)

    if not options.page:
        lines = (line.rstrip("\n") for line in iter(sys.stdin.readline, ""))
        draft = Dialogue(draw, lines, _show, patient=sys.stdin.isatty()).held()
        return _written(options, draft)
    from .desk_page import DeskPage

    with DeskPage(options.file.name, draw, lambda draft: _written(options, draft)) as page:
        _show(f"open {page.address} in a browser of this machine; the address works once")
        return page.ended()


def _source(options: argparse.Namespace, form: Form) -> SourceTable:
    """The table of the command. Raises UserError if its header cannot be read."""
    file: Path = options.file
    format_ = asked_form(form, file, file_form(options))
    names = header_names(file, format_)
    header = TableHeader(tuple(name for name in names if name and names.count(name) == 1))
    labels = file_labels(file, format_.encoding)
    values = labelled_values(labels.values)
    sources = {}
    if options.public:
        public = public_values(file, format_, header.names)
        values |= public
        sources = dict.fromkeys(public, _file_hash(file))
    if options.codebook:
        values |= (listed := codebook_values(options.codebook))
        sources = {column: source for column, source in sources.items() if column not in listed}
    return SourceTable(
        file,
        format_,
        header,
        values,
        labels.values,
        labels.columns,
        sources,
        _PUBLIC if options.public else "",
        partial(has_every_cell, file.resolve(), format_),
        partial(repeated_ids, file, format_),
    )


def _written(options: argparse.Namespace, draft: Draft) -> Output:
    """Writes the study file, and says what it promises. Raises UserError."""
    study, file = draft.study, options.file
    assert study is not None
    out: Path = options.out or Path(f"{study.name}.toml")
    comments = "".join(f"# {line}\n" for line in draft.comments)
    declared = study_text(study) + (f"\n{comments}" if comments else "")
    write_new_file(out, declared, public=True)
    name = shlex.quote(str(out))
    words = [str(out), str(file), *form_options(draft.form), *draft.options]
    sent = shlex.join(["stream-dp", "send", *words])
    text = [
        f"{out} written",
        *promise_lines(draft),
        f"to judge the table: {sent} --check",
        f"to try it in memory: {shlex.join(['stream-dp', 'rehearse', *words])} --out"
        f" {study.name}-rehearsal",
        f"to send it: {sent}",
        f"then, for a page with its figures: stream-dp close {name} PERIOD, stream-dp run"
        f" {name} --until-idle, stream-dp page {name} {study.name}.html",
        f"PERIOD is the last period of the table, such as {study.periods.labels[-1]}",
    ]
    return Output({"written": str(out), "send": sent, "rho": str(study.rho)}, "\n".join(text))


@cache
def _file_hash(file: Path) -> str:
    with file.open("rb") as opened:
        return f"sha256:{hashlib.file_digest(opened, 'sha256').hexdigest()}"


def _show(text: str) -> None:
    """Prints a text; at a terminal the answer to a question stands behind it."""
    is_typed = text.endswith(": ") and sys.stdin.isatty()
    print(text, end="" if is_typed else "\n", file=sys.stderr, flush=True)
