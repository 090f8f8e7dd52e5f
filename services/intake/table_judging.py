"""Judges tables before sending: the faults of columns, the remedies, and notices. CONFIDENTIAL.

A faulty row is the sender's notice and the releaser's dead letter. It holds no other row back. The
report of faulty cells is a file beside the sent table.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TextIO

from tqdm import tqdm

from stream_dp.errors import UserError, visible
from stream_dp.population.arrow_tables import TableSource
from stream_dp.population.cells import REASONS, Reason
from stream_dp.population.tables import Judgement, TableLayout, count_rows, judge_table
from stream_dp.population.tables.cell_judging import FaultListener
from stream_dp.population.tables.id_shapes import DAMAGED_IDS, IdShapes
from stream_dp.population.tables.period_columns import month_names
from stream_dp.population.tables.reading import Reading
from stream_dp.population.tables.spreadsheets import NO_RESULT
from stream_dp.study import Attribute, Study
from stream_dp.study.field_types import is_formula
from stream_dp.study.id_forms import IdForm, read_id
from stream_dp.study.number_texts import number_advice, range_advice
from stream_dp.study.period_texts import PeriodTexts, period_advice
from stream_dp.study.periods import Periods

from ..storage.atomic_files import adopt_draft, open_draft
from .sending import KnownReports, record_overhead

SUFFIX = ".faults.txt"  # no table's, so that who sends all tables of a folder does not send it


class FaultReport:
    """A line per faulty cell, with tabs: row from 1 below the header, column, reason and text.

    A text that a spreadsheet would take for a formula has a ' in front.

    It stands beside the table, readable for its owner alone, in the place of an earlier one. A
    folder where nothing can be written holds no table back: `problem` says why there is none.
    """

    def __init__(self, table: Path) -> None:
        self.path: Path | None = None
        self.problem: str | None = None
        self._target = table.with_name(table.name + SUFFIX)
        self._draft: Path | None = None
        self._file: TextIO | None = None

    def close(self) -> None:
        """Removes the draft of an abandoned report."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
        if self._draft is not None:
            with suppress(OSError):
                self._draft.unlink(missing_ok=True)

    def add(self, row: int, column: str, reason: Reason, text: str) -> None:
        """Adds a faulty cell after the cells of earlier rows."""
        if self.problem is not None:
            return
        try:
            if self._file is None:
                self._draft, self._file = open_draft(self._target)
                self._file.write("row\tcolumn\treason\ttext\n")
            cells = ("'" * is_formula(cell) + visible(cell) for cell in (column, reason, text))
            self._file.write("\t".join([str(row), *cells]) + "\n")
        except OSError as error:
            self._give_up(error)

    def keep(self) -> None:
        """Puts the report in its place, if a cell is faulty."""
        if self._file is None or self._draft is None or self.problem is not None:
            return
        try:
            self._file.close()
            adopt_draft(self._draft, self._target)
            self.path = self._target
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self.problem = f"{self._target}: cannot be written: {error.strerror}"


_MOST_LINES = 20  # of the table
_MOST_NAMES = 8  # of values
_MOST_NOBODIES = 20  # ids
_WORD = re.compile(r"[^\W\d_]{3}")
_LANGUAGES = ("de", "fr", "es", "it", "pt", "nl", "pl", "sv", "da", "nb", "fi", "cs")
_LEAST_REPEATED = 0.4  # of the cells: ids that are no person's alone
_GROUP = re.compile(
    "(?i)house|hh|famil|hogar|cent|clinic|hospital|site|school|class|village|cluster|group|region"
)
_SINGLE_QUOTED = re.compile("'.*'", re.DOTALL).fullmatch
_MOST_COLUMNS = 12  # that are named in one line
_ROW = "(all of a row)"


@dataclass(frozen=True)
class JudgedTable:
    """A judged table, ready for sending.

    report: the file with the faulty cells, or None.
    problem: the reason for a missing file.
    """

    judgement: Judgement
    report: Path | None = None
    problem: str | None = None


@dataclass(frozen=True)
class JudgedTables:
    """The judgements of several tables.

    tables: the tables to send.
    refused: for every other table, the reasons in lines.
    """

    tables: dict[TableSource, JudgedTable]
    refused: dict[TableSource, list[str]]

    def require_all(self) -> dict[TableSource, Judgement]:
        """The judgements. Raises UserError for a refused table."""
        if self.refused:
            raise UserError(line for lines in self.refused.values() for line in lines)
        return {path: table.judgement for path, table in self.tables.items()}


def judge_tables(
    study: Study,
    paths: Iterable[TableSource],
    layout: TableLayout,
    *,
    known: KnownReports,
    strict: bool = False,
    empty: bool = False,
    reported: bool = False,
    tell: FaultListener | None = None,
    accept: Callable[[Reading], object] = lambda reading: None,
    done: str = "sent",
) -> JudgedTables:
    """Judges tables against the study, in order, with the ids of earlier tables.

    A faulty cell holds no other one back. A table of which no cell would count is refused, and
    holds no other table back.

    strict: whether no table may have a faulty cell, or an id of a strange shape.
    empty: whether a table may be without values.
    reported: whether a report of the faulty cells is written beside each table.
    tell: also called for each faulty cell.
    accept: called with the reading of each table; it may refuse the table with a UserError.
    done: what the command does with tables, in the lines about a refused one, such as 'sent'.

    Raises UserError at the first table that cannot be read, whose header is doubtful, or that is
    faulty although `strict`.
    """
    shapes, tables = IdShapes(), dict[TableSource, JudgedTable]()
    refused = dict[TableSource, list[str]]()
    shapes.merge(known.shapes)
    for path in paths:
        with (
            tqdm(
                total=count_rows(path), desc=f"judging {path.name}", disable=None, leave=False
            ) as bar,
            closing(FaultReport(Path(str(path)))) as report,
        ):
            judgement = judge_table(
                path,
                study,
                layout,
                closed=known.closed,
                known_shapes=shapes,
                overhead=record_overhead(path),
                tell=_together(report.add if reported else None, tell),
                progress=bar.update,
            )
            if judgement.reading is not None:
                accept(judgement.reading)
            if judgement.header.faults:
                raise UserError([*judgement.header.faults, f"{path}: nothing is {done}"])
            counts = judgement.faulty < judgement.cells
            if counts:
                report.keep()
        if strict and (judgement.faulty or judgement.strange):
            raise UserError(_strict_refusal(path, judgement, study, done))
        if pair := several_people(path, judgement, layout, done):
            refused[path] = pair
        elif counts or (judgement.cells == 0 and empty):
            tables[path] = JudgedTable(judgement, report.path, report.problem)
        else:
            refused[path] = _refusal(path, judgement, study, done)
        shapes.merge(judgement.shapes)
    return JudgedTables(tables, refused)


def _together(*listeners: FaultListener | None) -> FaultListener | None:
    """Returns a listener for several listeners, or None without listeners."""
    called = [listener for listener in listeners if listener is not None]

    def tell(row: int, column: str, reason: Reason, text: str) -> None:
        for listener in called:
            listener(row, column, reason, text)

    return tell if called else None


def _refusal(path: TableSource, judgement: Judgement, study: Study, done: str) -> list[str]:
    """The reasons for refusing a whole table, in lines."""
    if judgement.cells == 0:
        return [f"{path}: holds no values; nothing of it is {done}"]
    lines = fault_table(str(path), judgement, f"nothing of it is {done}")
    return [*lines, *fault_advice(judgement, study), "rows count from 1 below the header"]


def _strict_refusal(path: TableSource, judgement: Judgement, study: Study, done: str) -> list[str]:
    """The reasons for refusing a table under --strict, in lines."""
    return [
        *fault_table(str(path), judgement, f"nothing is {done}"),
        *fault_advice(judgement, study),
        *strange_ids(judgement),
        f"rows count from 1 below the header; without --strict what counts is {done}",
    ]


def fault_table(name: str, judgement: Judgement, outcome: str) -> list[str]:
    """Lines with the number of faulty cells, a row for each column and reason.

    name: of the table. outcome: what follows from it.
    """
    lines = [f"{name}: {judgement.faulty} of {judgement.cells} cells would not count; {outcome}"]
    if not judgement.faults:
        return lines
    rows = [(column or _ROW, reason, at) for (column, reason), at in judgement.faults.items()]
    width = min(40, max(len("column"), *(len(column) for column, _, _ in rows)))
    lines.append(f"  {'column':<{width}}  {'reason':<10}{'cells':>10}{'first row':>11}")
    lines += [
        f"  {column[:width]:<{width}}  {reason:<10}{at.cells:>10}{at.first_row:>11}"
        for column, reason, at in rows[:_MOST_LINES]
    ]
    if len(rows) > _MOST_LINES:
        lines.append(f"  and {len(rows) - _MOST_LINES} rows more, each a column and a reason")
    return lines


def strange_ids(judgement: Judgement) -> list[str]:
    """Lines about ids of a strange shape, with the remedy."""
    return [
        f"shape: {fault.count} cells, the first in row {fault.first_row}: {fault.why}; they count"
        " as new people: "
        + (f"--id-width {fault.width} puts zeros in front" if fault.width else "see the file")
        for fault in judgement.strange
    ]


def doubtful_ids(judgement: Judgement, study: Study) -> list[str]:
    """Lines about ids that may be nobody's or somebody else's, with the options that decide."""
    lines = []
    rule, forms = study.id_rule, judgement.id_forms
    if judgement.nobody:
        lines.append(f"{judgement.nobody} rows of nobody, by --no-id or [study.ids], are left out")
    by_form: dict[IdForm | None, list[str]] = {}
    for text, _ in judgement.nobodies.most_common(_MOST_NOBODIES):
        by_form.setdefault(read_id(text)[1], []).append(text)
    if (found := forms.get(IdForm.NOBODY)) is not None and rule.refuses_words:
        texts = by_form.get(IdForm.NOBODY, ["NA"])
        lines.append(
            f"{found.cells} cells have a word for nobody as their id ({_listed(texts)}), the first"
            f" in row {found.first_row}, and would not count; to leave out their rows:"
            f" {shlex.quote('--no-id=' + ','.join(texts))}; if they are people's: [study.ids]"
            " nobody = [] in the study"
        )
    # Ids that are counted from 0 are people's.
    numbers = by_form.get(IdForm.NUMBER, [])
    counted = numbers == ["0"] and not judgement.repeated
    found = forms.get(IdForm.NUMBER)
    if found is not None and rule.nobody is None and not counted:
        lines.append(
            f"{found.cells} cells have an id that may be nobody's ({_listed(numbers)}), the first"
            f" in row {found.first_row}; to leave them out:"
            f" {shlex.quote('--no-id=' + ','.join(numbers))}, or [study.ids] nobody = [...] in the"
            " study; nobody = [] if all are people's"
        )
    if (found := forms.get(IdForm.PROGRAM)) is not None:
        lines.append(
            f'{found.cells} cells have an id as programs write it (="0012", \'0012 or 1001.0), the'
            f" first in row {found.first_row}, which is read as 0012 or 1001; to keep it:"
            " [study.ids] as_written = true in the study"
        )
    if (found := forms.get(IdForm.DATE)) is not None:
        lines.append(
            f"{found.cells} cells have a date for an id, the first in row {found.first_row}: if a"
            " spreadsheet made it of an id, write the column as text, from the source"
        )
    if (found := forms.get(IdForm.PADDED)) is not None and rule.trim is None:
        lines.append(
            f"{found.cells} cells have an id with blanks at its ends, the first in row"
            f" {found.first_row}, which is read without them; to keep them: [study.ids]"
            " trim = false in the study"
        )
    return lines


def _period_advice(periods: Periods, texts: Collection[str]) -> str:
    """Says which option reads texts of periods, with names of months in English or another one."""
    advice = period_advice(periods, texts)
    if _reads_all(advice) or find_spec("babel") is None or not any(map(_WORD.search, texts)):
        return advice
    for language in _LANGUAGES:
        months = month_names([language])
        if all(map(PeriodTexts(periods, months=months).is_period, texts)):
            return f"--language {language}"
        if _reads_all(other := period_advice(periods, texts, months)):
            return f"{other} --language {language}"
    return advice


def _reads_all(advice: str) -> bool:
    """Tells whether an advice of `period_advice` is a format for every text, word by word."""
    return "--dates" in advice and "--map" not in advice and "{}" not in advice


def _listed(texts: Sequence[str]) -> str:
    return ", ".join(texts[: _MOST_NOBODIES - 1]) + (
        ", ..." if len(texts) >= _MOST_NOBODIES else ""
    )


def fault_advice(judgement: Judgement, study: Study) -> list[str]:
    """Lines with the meaning of every reason, and with the remedy."""
    reasons = {reason for _, reason in judgement.faults}
    lines = []
    if "unreadable" in reasons:
        lines.append(
            "unreadable: rows with more or fewer cells than the header, or too long: a separator"
            " inside a text needs quotes; --row-names if R wrote names of rows without a cell in"
            " the header; with --event, rows whose event has no number from 1 to the attribute's"
            " slots"
        )
    if "person" in reasons:
        lines.append(
            f"person: {REASONS['person']}: fill them in; ids that are no UTF-8: --encoding cp1252"
            " or another; ids that became numbers with a fraction or lost digits: write the column"
            " as text"
        )
    if (damaged := judgement.id_forms.get(IdForm.DAMAGED)) is not None:
        lines.append(
            f"{damaged.cells} cells of damaged ids, the first in row {damaged.first_row}:"
            f" {DAMAGED_IDS}"
        )
    if judgement.unread:
        lines.append(
            "cells that cannot be read: of a workbook, formulas without a stored result:"
            f" {NO_RESULT}; of a text file, bytes of another encoding: --encoding cp1252 or another"
        )
    if "period" in reasons:
        lines.append(
            f"period: {REASONS['period']}: {_period_advice(study.periods, judgement.periods)}"
        )
    if "late" in reasons:
        lines.append(
            "late: the period is closed, for good: leave those rows out, in a wide table with"
            " --columns 'COLUMN='"
        )
    texts_of = dict[str, set[str]]()
    if any(map(_SINGLE_QUOTED, {*judgement.periods}.union(*judgement.undeclared.values()))):
        lines.append(
            "cells stand in single quotes, which are part of the texts: write the file with double"
            " quotes, or with none"
        )
    for column, (_, name) in judgement.header.sources.items():
        if column in judgement.undeclared:
            texts_of.setdefault(name, set()).update(judgement.undeclared[column])
    return lines + [_answer_advice(name, study.attributes[name], t) for name, t in texts_of.items()]


def _answer_advice(name: str, attribute: Attribute, texts: Collection[str]) -> str:
    """A line about the answers to an attribute. texts: examples of invalid answers."""
    if attribute.place:
        return f"value: {name} is the key of a place in the table of places"
    options = number_advice(attribute, texts)
    read_as_numbers = ""
    if options is not None:
        what = "numbers with a fraction" if "--round" in options else "numbers with marks"
        read_as_numbers = f"{what}: {options}; "
    if attribute.number is not None:
        return (
            f"{name} is {attribute.words}; {read_as_numbers}a text that is no answer:"
            f" --map '{name}:TEXT='"
        )
    values = [str(value) for value in attribute.listed]
    several = ", ".join(values[:_MOST_NAMES]) + (", ..." if values[_MOST_NAMES:] else "")
    if options is None and (number := range_advice(attribute, texts)) is not None:
        read_as_numbers = f"numbers in between: declare {number} in place of values; "
    return (
        f"value: {name} is one of {several}; {read_as_numbers}say which text of the file is which:"
        f" --map '{name}:TEXT={values[0]},TEXT={values[-1]}' (TEXT= empties a cell);"
        " --show-texts lists the texts"
    )


def table_notices(name: str, judgement: Judgement, study: Study) -> list[str]:
    """Lines about strange ids, columns left out, repeated cells, late people and open quotes.

    name: of the table.
    """
    ids = [*strange_ids(judgement), *doubtful_ids(judgement, study)]
    lines, left_out = [f"{name}: {line}" for line in ids], judgement.header.left_out
    if left_out:
        ellipsis = ", ..." if len(left_out) > _MOST_COLUMNS else ""
        lines.append(f"{name}: columns left out: {', '.join(left_out[:_MOST_COLUMNS])}{ellipsis}")
    if repeated := repeated_cells(judgement):
        first = min(repeats.first_row for repeats in judgement.repeated.values())
        lines.append(
            f"{name}: {repeated} cells repeat an earlier one of the same person and period, the"
            f" first in row {first} below the header: the last one counts"
        )
    if judgement.zoneless.cells:
        lines.append(
            f"{name}: {judgement.zoneless.cells} times have an offset or are in UTC, the first in"
            f" row {judgement.zoneless.first_row} below the header: the day counts that is written;"
            " the day of a zone counts with, for example, --zone Europe/Berlin"
        )
    if (late := judgement.late_people) is not None and study.last_entry is not None:
        last = study.periods.labels[study.last_entry - 1]
        who = "all people have" if late.all_late else f"{late.people} people have"
        lines.append(
            f"{name}: {who} values after {last} alone, when the cohort closes, the first in row"
            f" {late.first_row} below the header: they count if an earlier file has a value of"
            f" theirs by {last}, and are refused for good otherwise"
        )
    if judgement.over_lines.cells:
        lines.append(
            f"{name}: {judgement.over_lines.cells} rows go over lines, the first is row"
            f" {judgement.over_lines.first_row} below the header: if no cell should, look for a"
            " quote that is left open"
        )
    return lines


def several_people(
    path: TableSource, judgement: Judgement, layout: TableLayout, done: str
) -> list[str]:
    """Refuses a table with often repeated ids: lines with the options to decide; or no lines.

    Ids such as numbers within a household or a clinic are people's only with a second column.
    """
    repeated, others = repeated_cells(judgement), judgement.header.left_out
    told = {name for name, meant in (layout.columns or {}).items() if not meant}
    if layout.member is not None or "{}" in told or repeated < _LEAST_REPEATED * judgement.cells:
        return []
    groups = [name for name in others if name not in told]
    if not repeated or not groups:
        return []
    likely = next((name for name in groups if _GROUP.match(name)), groups[0])
    more = f" (or another column left out: {', '.join(groups[:_MOST_COLUMNS])})" * bool(groups[1:])
    pair = shlex.join(["--group", likely, "--member", layout.person])
    return [
        f"{path}: {repeated} of {judgement.cells} cells repeat an earlier one of the same person"
        f" and period; nothing of it is {done}",
        f"if the ids are numbers within {likely}: {pair}{more}; if the last row of a person and"
        f" period counts: --columns {shlex.quote('{}=')}",
    ]


def repeated_cells(judgement: Judgement) -> int:
    """The number of cells of a table that replace an earlier cell of the same table."""
    return sum(repeats.cells for repeats in judgement.repeated.values())


def late_people(judgement: Judgement) -> int:
    """The number of people of a table who may come too late for a closed cohort."""
    return 0 if judgement.late_people is None else judgement.late_people.people
