"""`stream-dp init`: writes a study file from a table's header and the operator's answers.

The first questions are about the format of the file: its encoding and the row of its header. No
content of a cell is looked at. The proposals follow from bytes that are no UTF-8, and from the
blank cells of the first rows.
"""

from __future__ import annotations

import argparse
import hashlib
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from stream_dp.errors import UserError
from stream_dp.planning.alternatives import Goal, needed_budget
from stream_dp.planning.plan_result import PlanRequest, planned
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
from stream_dp.privacy.zcdp import epsilon
from stream_dp.release.certificate import guess_words
from stream_dp.study import Study
from stream_dp.study.number_texts import SPACE
from stream_dp.study.study_text import study_text

from ..intake.options import file_form
from ..process.command_output import Output, printable
from ..storage.atomic_files import write_new_file
from .column_proposals import TableHeader, codebook_values, labelled_values, public_values
from .interview import Interview, interview
from .questions import Questions

_ROWS = 12  # in which a header is looked for
_ENCODING = "cp1252"  # what Windows writes in Western Europe


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
    return _asked_cells(questions, path, form) if is_text(path) else form


def _asked_cells(questions: Questions, path: Path, form: FileForm) -> FileForm:
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
        form = questions.ask(
            "Separator of the cells", lambda s: replace(form, separator=separator_of(s)), SPACE
        )
        separator = form.separator or separator
        header, row = (len(line_cells(line, separator)) for line in lines)
    # A line that ends in a separator has no name in front.
    ends = lines[1].endswith(separator)
    if not form.row_names and header > 1 and row == header + 1 and not ends:
        named = questions.choose(
            "Do rows begin with a name that the header leaves out", ("yes", "no"), "yes"
        )
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
    flags = {"--row-names": form.row_names, "--ids-as-written": form.ids_as_written}
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


_QUANTILE = PlanRequest().quantile
_PUBLIC = "The declared values were read off a file that the guarantee does not cover."


def run(options: argparse.Namespace) -> Output:
    if not options.page:
        return _interviewed(options, Questions(_lines(), _show, patient=sys.stdin.isatty()))
    from .interview_page import InterviewPage

    def held(answers: Sequence[str], notes: Callable[[str], None]) -> Output:
        return _interviewed(options, Questions(answers, notes, patient=False))

    with InterviewPage(options.file.name, held) as page:
        _show(f"open {page.address} in a browser of this machine; the address works once")
        return page.ended()


def _interviewed(options: argparse.Namespace, questions: Questions) -> Output:
    """Asks the questions about a file, writes the study file, and says what it promises."""
    file: Path = options.file
    form = asked_form(questions, file, file_form(options))
    names = header_names(file, form)
    header = TableHeader(tuple(name for name in names if name and names.count(name) == 1))
    labels = file_labels(file, form.encoding)
    values = labelled_values(labels.values)
    sources = {}
    if options.public:
        public = public_values(file, form, header.names)
        values |= public
        sources = dict.fromkeys(public, _file_hash(file))
    if options.codebook:
        values |= (listed := codebook_values(options.codebook))
        sources = {column: source for column, source in sources.items() if column not in listed}
    questions.show(f"columns: {printable(', '.join(header.names))}")
    for name, label in labels.columns.items():
        questions.show(f"{name}: {printable(label)}")
    answers = interview(
        questions,
        file,
        header,
        values,
        description=_PUBLIC if options.public else "",
        sources=sources,
        labels=labels.values,
    )
    study, promise = _with_budget(answers)
    out: Path = options.out or Path(f"{study.name}.toml")
    write_new_file(out, study_text(study), public=True)
    name = shlex.quote(str(out))
    words = [str(out), str(file), *form_options(form), *answers.options]
    sent = shlex.join(["stream-dp", "send", *words])
    text = [
        f"{out} written",
        *promise,
        f"to judge the table: {sent} --check",
        f"to try it in memory: {shlex.join(['stream-dp', 'rehearse', *words])} --out"
        f" {study.name}-rehearsal",
        f"to send it: {sent}",
        f"then, for a page with its figures: stream-dp close {name} PERIOD, stream-dp run"
        f" {name} --until-idle, stream-dp page {name} {study.name}.html",
    ]
    return Output({"written": str(out), "send": sent, "rho": str(study.rho)}, "\n".join(text))


def _file_hash(file: Path) -> str:
    with file.open("rb") as opened:
        return f"sha256:{hashlib.file_digest(opened, 'sha256').hexdigest()}"


def _lines() -> Iterator[str]:
    while line := sys.stdin.readline():
        yield line.rstrip("\n")


def _show(text: str) -> None:
    print(text, end="" if text.endswith(": ") else "\n", file=sys.stderr, flush=True)


def _with_budget(answers: Interview) -> tuple[Study, list[str]]:
    """The study with the budget of the wanted precision, and what it promises in words.

    Raises UserError if no budget reaches the precision.
    """
    study = answers.study
    people = study.size or next(r.rows for r in study.releases if r.rows is not None)
    errors = planned(study, PlanRequest(people=people)).errors
    queries = list(dict.fromkeys((row.release, row.query) for row in errors))
    # Of a private number of people not every release has shares: errors are of people then.
    count = study.size is None
    error = answers.half_width * (people if count else 1)
    needed = needed_budget(study, Goal(queries, error, _QUANTILE, count=count, people=people))
    eps = epsilon(needed.study.rho, needed.study.delta)
    share = needed.error / (people if count else 1)
    return needed.study, [
        f"precision: shares are within {100 * share:.2g} percentage points, or"
        f" {share * people:,.0f} {study.unit}s, in 95 of 100 cases at every period",
        f"price: rho {float(needed.study.rho):g}, eps {eps} at delta {float(study.delta):g}."
        f" {guess_words(needed.study, needed.study.rho)}",
    ]
