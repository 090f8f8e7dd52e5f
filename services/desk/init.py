"""`stream-dp init`: writes a study file from a table's header and the operator's answers.

The first questions are about the format of the file: its encoding and the row of its header. The
proposals follow from bytes that are no UTF-8, and from the blank cells of the first rows.

At a terminal, or with the answers from another input, a line each, questions without an answer come
one after the other, and before the last one, the price, a table of all answers. At each question,
any other answer can be changed: `NUMBER = ANSWER` changes a line of the table, and `<` goes back.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
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
from ..process.command_output import Output, printable
from ..storage.atomic_files import write_new_file
from .answers_form import Field, Form, whole_number
from .column_proposals import (
    TableHeader,
    codebook_values,
    has_every_cell,
    labelled_values,
    public_values,
    repeated_ids,
)
from .draft import AGAIN, PRICE, Draft, drafted
from .draft_columns import SourceTable
from .draft_picture import Fan

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


_WIDE = 70  # letters of an answer that are shown
_CHANGE = re.compile(r"\s*([^=]*[^=\s])\s*=\s*(.*\S)\s*")
_BEGIN = "An empty line accepts the answer in brackets; < goes back; ? shows all answers."
_HEADER = "From the header, unless you answer differently, such as with columns = A,B:"
_ALL = "All answers, with the proposals where nothing was asked:"
_HELP = "change any line by its number, such as 2 = ANSWER; < goes back; ? shows the lines again"
_FIRST_ASKED = "periods"  # of the fields after those about the header


class Dialogue:
    """Asks for what a draft lacks.

    draw: the draft that follows from answers. Raises UserError.
    lines: of the operator; an empty line takes the proposal.
    show: prints a text to the operator.
    patient: whether a wrong answer is asked again; if not, it ends the dialogue.
    """

    def __init__(
        self,
        draw: Callable[[Mapping[str, str]], Draft],
        lines: Iterable[str],
        show: Callable[[str], None],
        *,
        patient: bool,
    ) -> None:
        self._draw, self._show, self._patient = draw, show, patient
        self._lines: Iterator[str] = iter(lines)
        self._answers: dict[str, str] = {}
        self._asked: list[str] = []  # the keys of answers in order
        self._is_unseen = False  # whether a new price waits for an empty line

    def held(self) -> Draft:
        """The complete draft. Raises UserError if the answers end, or one is wrong."""
        draft = self._draw({})
        self._show(_BEGIN)
        self._show(_HEADER)
        told: set[str] = set()
        while draft.study is None or self._is_unseen:
            field = draft.pending or _field(draft, PRICE)
            found = [key for key in _header_keys(draft, field) if key not in told]
            self._rows(draft, found)
            told |= {*found}
            for line in draft.faults:
                self._refuse(line, "")
            for line in () if field.key in told else draft.notes.get(field.key, ()):
                self._show(printable(f"  {line}"))
            if field.key == PRICE and PRICE not in told:
                self._show(_ALL)
                self._overview(draft)
            told.add(field.key)
            if field.key == PRICE:
                self._priced(draft)
            draft = self._answered(draft, field)
        return draft

    def _answered(self, draft: Draft, field: Field) -> Draft:
        """The draft after the next line."""
        self._show(
            f"{field.question}{f' [{field.answer or field.proposal}]' * bool(field.answer)}: "
        )
        line = next(self._lines, None)
        if line is None:
            raise UserError(
                f"init: the input ends before an answer to {field.key!r}; nothing was written"
            )
        text = line.strip()
        if text == "?":
            self._overview(draft)
            return draft
        if text == "<":
            if self._asked:
                del self._answers[self._asked.pop()]
            return self._draw(self._answers)
        key, answer = _changed(draft, text) or (field.key, text or field.answer)
        if not answer:
            return self._refused(draft, field, "an answer is needed, because none is proposed")
        before, self._answers = self._answers, {**self._answers, key: answer}
        after = self._draw(self._answers)
        if fault := _field(after, key, field).fault:
            self._answers = before
            return self._refused(draft, _field(draft, key, field), fault)
        self._asked = [*(k for k in self._asked if k != key), key]
        if key != field.key and self._patient:
            self._overview(after)
        if key in {PRICE, AGAIN}:
            # The picture of a new price comes before the study is written.
            new = answer != _field(draft, PRICE).answer
            self._is_unseen = self._patient and key == PRICE and new
        return after

    def _refused(self, draft: Draft, field: Field, fault: str) -> Draft:
        self._refuse(fault, f"init: {field.key}: ")
        return draft

    def _refuse(self, fault: str, where: str) -> None:
        """Says what is wrong. Raises UserError if nobody can answer again."""
        if not self._patient:
            raise UserError(f"{where}{fault}; nothing was written")
        self._show(f"  {fault}")

    def _rows(self, draft: Draft, keys: Collection[str]) -> None:
        """Shows the answers with these keys, a row each."""
        for number, field in enumerate(draft.fields, 1):
            if field.key in keys:
                answer = (field.answer or "?")[:_WIDE]
                self._show(printable(f"{number:>3}  {field.key:<12}  {answer}"))

    def _overview(self, draft: Draft) -> None:
        """Shows all answers, a row per column, and how to change them."""
        names = [column.column for column in draft.columns]
        cells: dict[str, list[str]] = {name: [] for name in names}
        for number, field in enumerate(draft.fields, 1):
            column, _, part = field.key.rpartition(": ")
            if column in cells:
                cells[column].append(f"{number} {part}: {field.answer or '?'}")
        keys = [field.key for field in draft.fields if field.key.rpartition(": ")[0] not in cells]
        self._rows(draft, keys)
        wide = min(_WIDE // 2, max(map(len, names), default=0))
        for shown in draft.columns:
            row = "; ".join(cells[shown.column])
            self._show(printable(f"     {shown.column:<{wide}}  {row}"))
            if facts := "; ".join(filter(None, (shown.title, shown.codes))):
                self._show(printable(f"     {'':<{wide}}  {facts}"))
        self._show(f"     {_HELP}")

    def _priced(self, draft: Draft) -> None:
        for line in () if draft.fan is None else fan_lines(draft.fan):
            self._show(line)


def fan_lines(fan: Fan) -> list[str]:
    """The fan as a table."""
    rows = [
        f"  eps {b.eps:>5}   {b.guess:>3} of 100 instead of 50   {b.points}" for b in fan.budgets
    ]
    return [
        f"  {fan.title}, in 95 of 100 cases:",
        "  price       best guess about a person   percentage points",
        *rows,
    ]


def promise_lines(draft: Draft) -> list[str]:
    """What a complete draft promises."""
    study, fan = draft.study, draft.fan
    if study is None or fan is None:
        return []
    chosen = fan.budgets[1]
    return [
        f"precision: {fan.title} is within {chosen.points} percentage points in 95 of 100 cases",
        f"price: rho {float(study.rho):g} at delta {float(study.delta):g}. {fan.words}",
    ]


def _header_keys(draft: Draft, pending: Field) -> list[str]:
    """The keys of the fields about the header of the table, before a pending field."""
    keys = [field.key for field in draft.fields]
    return keys[: min(keys.index(_FIRST_ASKED), keys.index(pending.key))]


def _field(draft: Draft, key: str, otherwise: Field | None = None) -> Field:
    found = next((field for field in draft.fields if field.key == key), otherwise)
    assert found is not None
    return found


def _changed(draft: Draft, text: str) -> tuple[str, str] | None:
    """The field and the answer of a change; None for a text without a change."""
    match = _CHANGE.fullmatch(text)
    if match is None:
        return None
    keys = [field.key for field in draft.fields]
    named = dict(zip(map(str, range(1, len(keys) + 1)), keys, strict=True))
    key = named.get(match[1], match[1])
    return (key, match[2]) if key in keys else None
