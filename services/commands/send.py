"""`stream-dp send`, `groups` and `places`: judges tables against the study and sends them."""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from stream_dp.errors import UserError, visible
from stream_dp.population.arrow_tables import TableSource
from stream_dp.population.cells import Reason
from stream_dp.study import Study

from ..intake.accepted_readings import AcceptedReading
from ..intake.group_tables import send_table as send_operator_table
from ..intake.group_tables import study_with_places
from ..intake.options import file_form, roster_tables
from ..intake.sending import known_reports, require_plain_reports, send_table, withdraw_cells
from ..intake.table_judging import (
    JudgedTable,
    JudgedTables,
    fault_advice,
    fault_table,
    judge_tables,
    late_people,
    repeated_cells,
    table_notices,
)
from ..process.command_output import BAD_INPUT, Output, say
from ..storage.deployment import Deployment

_REASONS: tuple[Reason, ...] = ("period", "value", "range", "step")
_MOST_TEXTS = 20  # of a column
_MOST_KEPT = 10_000  # different ones of a column
_LONGEST = 60  # characters


class ShownTexts:
    """Counts the texts that are no period and no declared value, by column. CONFIDENTIAL.

    Ids are never among them. On any output but a terminal nothing is counted or shown.
    """

    def __init__(self, *, wanted: bool) -> None:
        self.shows = wanted and sys.stdout.isatty()
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def add(self, row: int, column: str, reason: Reason, text: str) -> None:
        """Counts a faulty cell."""
        counts, text = self._counts[column], text[:_LONGEST]
        if self.shows and reason in _REASONS and (text in counts or len(counts) < _MOST_KEPT):
            counts[text] += 1

    def show(self) -> None:
        """Prints the most frequent texts of every column with their numbers."""
        for column, counts in self._counts.items():
            for text, count in counts.most_common(_MOST_TEXTS):
                say(f"{count:>9} cells  {visible(column)}: {visible(text)}")
            if len(counts) > _MOST_TEXTS:
                say(f"{'':>15}  {visible(column)}: {len(counts) - _MOST_TEXTS} texts more")


_NOT_COMPARED = (
    "this user may not read the log, as senders may not: ids and closed periods were not compared"
    " with it"
)


def run(options: argparse.Namespace) -> Output:
    deployment = Deployment.load(options.study)
    require_plain_reports(deployment)
    study, files = study_with_places(deployment), list[Path](options.files)
    readings = AcceptedReading(options.reading, quiet=options.quiet or options.json)
    columns = readings.layout(study, options)
    earlier: Path | None = options.replace
    if earlier is not None and len(files) != 1:
        raise UserError("--replace: name the one file that takes the earlier one's place")
    known_cells = known_reports(deployment)
    if earlier is not None:
        judge_tables(study, [earlier], columns, known=known_cells)
    texts = ShownTexts(wanted=options.show_texts and not options.json)
    try:
        judged = judge_tables(
            study,
            files,
            columns,
            known=known_cells,
            strict=options.strict,
            empty=earlier is not None,
            reported=True,
            tell=texts.add if texts.shows else None,
            accept=readings.add,
        )
    finally:
        texts.show()
    if not judged.tables:
        judged.require_all()
    readings.keep()
    data, text = _judged(judged, study, known_cells.readable)
    data["reading"] = {str(path): facts for path, facts in readings.facts.items()}
    if options.check:
        text = [
            *(
                f"{path}: {table.judgement.cells} cells, all of them would count"
                for path, table in judged.tables.items()
                if not table.judgement.faulty
            ),
            *text,
        ]
        data = {"checked": {str(p): t.judgement.cells for p, t in judged.tables.items()}, **data}
    else:
        sent = {str(path): send_table(deployment, path, columns) for path in judged.tables}
        withdrawn = {}
        if earlier is not None:
            count = withdraw_cells(
                deployment=deployment,
                earlier=earlier,
                path=files[0],
                layout=columns,
                closed=known_cells.closed,
            )
            withdrawn = {"withdrawn": count}
            text = [f"{earlier}: {count} reports withdrawn", *text]
        text = [*(f"{path}: {count} reports sent" for path, count in sent.items()), *text]
        data = {"sent": sent, **withdrawn, **data}
    return Output(data, "\n".join(text), BAD_INPUT if judged.refused else 0)


def _judged(
    judged: JudgedTables, study: Study, compared: bool
) -> tuple[dict[str, object], list[str]]:
    """The facts about the judged tables, for machines and for people.

    compared: whether the tables were compared with the log.
    """
    data: dict[str, object] = {
        key: {str(path): value(table) for path, table in judged.tables.items()}
        for key, value in _FACTS.items()
    }
    data["refused"] = {str(path): lines for path, lines in judged.refused.items()}
    data["compared_with_log"] = compared
    text = [line for path, table in judged.tables.items() for line in _notices(path, table, study)]
    text += [line for lines in judged.refused.values() for line in lines]
    return data, text if compared else [*text, _NOT_COMPARED]


def _notices(path: TableSource, table: JudgedTable, study: Study) -> list[str]:
    """Notices about a judged table, for the sender."""
    lines = []
    if table.judgement.faulty:
        location = table.problem if table.report is None else f"each is in {table.report}"
        lines += [
            *fault_table(str(path), table.judgement, f"the others count; {location}"),
            *fault_advice(table.judgement, study),
        ]
    return lines + table_notices(str(path), table.judgement, study)


# Of each table, by the key under which --json has it.
_FACTS: dict[str, Callable[[JudgedTable], Any]] = {
    "faulty_cells": lambda table: table.judgement.faulty,
    "fault_report": lambda table: None if table.report is None else str(table.report),
    "strange_ids": lambda table: sum(fault.count for fault in table.judgement.strange),
    "left_out": lambda table: list(table.judgement.header.left_out),
    "repeated_cells": lambda table: repeated_cells(table.judgement),
    "over_lines": lambda table: table.judgement.over_lines.cells,
    "late_people": lambda table: late_people(table.judgement),
}


def send_groups(options: argparse.Namespace) -> Output:
    from ..intake.group_files import read_roster  # reports do not wait for it

    deployment = Deployment.load(options.study)
    if deployment.study.groups is None:
        raise UserError(f"{options.study}: declares no [groups], so there is nothing to send")
    tables = replace(roster_tables(options), form=file_form(options))
    roster = read_roster(deployment.study, tables)
    groups, people = len(roster.sizes), len(roster.persons)
    text = f"{groups} groups, {people} members"
    return _sent(send_operator_table(deployment, roster), text, groups=groups, members=people)


def send_places(options: argparse.Namespace) -> Output:
    from ..intake.group_files import read_places

    deployment = Deployment.load(options.study)
    if deployment.study.places is None:
        raise UserError(f"{options.study}: declares no [places], so there is nothing to send")
    table = read_places(deployment.study, options.places, options.place, file_form(options))
    places, regions = int(table.place_counts.sum()), len(table.regions)
    text = f"{places} places in {regions} regions of '{table.columns[-1]}'"
    return _sent(send_operator_table(deployment, table), text, places=places, regions=regions)


def _sent(sent: bool, text: str, **counts: int) -> Output:
    notice = "" if sent else "; the same table is there already, and nothing was sent"
    data = {"confidential": True, **counts, "sent": sent}
    return Output(data, f"CONFIDENTIAL\n{text}{notice}")
