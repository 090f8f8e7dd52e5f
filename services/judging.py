"""Judges tables before they are sent: what is wrong with which column, and how to mend it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

from tqdm import tqdm

from stream_dp.errors import UserError
from stream_dp.log.base import memory_bytes
from stream_dp.population.rejected import REASONS
from stream_dp.population.tables import Judgement, TableLayout, count_rows, judge_table
from stream_dp.population.tables.id_shapes import IdShapes
from stream_dp.study import Study

from .dead_letters import source_header
from .known_reports import KnownReports

_MOST_LINES = 20  # of the table
_MOST_NAMES = 8  # of values
_DATES = {
    r"\d{1,2}\.\d{1,2}\.\d{4}": "--dates '%d.%m.%Y'",
    r"\d{1,2}\.\d{1,2}\.\d{2}": "--dates '%d.%m.%y'",
    r"\d{1,2}/\d{1,2}/\d{4}": "--dates '%d/%m/%Y' or --dates '%m/%d/%Y'",
    r"\d{1,2}/\d{1,2}/\d{2}": "--dates '%d/%m/%y' or --dates '%m/%d/%y'",
    r"\d{1,2}-\d{1,2}-\d{4}": "--dates '%d-%m-%Y' or --dates '%m-%d-%Y'",
    r"\d{1,2}-[A-Za-z]{3}-\d{4}": "--dates '%d-%b-%Y'",
    r"[A-Za-z]{3} \d{4}": "a format with a day: put '01 ' in front and --dates '%d %b %Y'",
}


def judge_tables(
    study: Study,
    paths: Iterable[Path],
    layout: TableLayout,
    *,
    known: KnownReports,
    allowed: Fraction = Fraction(0),
    empty: bool = False,
) -> dict[Path, Judgement]:
    """Judges tables against the study, in order, each after what is known of those before.

    allowed: the share of a table's cells that may be rejected.
    empty: whether a table may be without values.

    Raises UserError at the first table that is not to be sent.
    """
    shapes = IdShapes()
    shapes.merge(known.shapes)
    judgements = {}
    for path in paths:
        total = count_rows(path)
        with tqdm(total=total, desc=f"judging {path.name}", disable=None, leave=False) as bar:
            judgement = judge_table(
                path,
                study,
                layout,
                closed=known.closed,
                known=shapes,
                overhead=memory_bytes(None, None, source_header(path)),
                progress=bar.update,
            )
        _check_judgement(path, judgement, study, allowed)
        if judgement.cells == 0 and not empty:
            raise UserError(f"{path}: holds no values; nothing is sent")
        shapes.merge(judgement.shapes)
        judgements[path] = judgement
    return judgements


def _check_judgement(path: Path, judgement: Judgement, study: Study, allowed: Fraction) -> None:
    """That a table may be sent. Raises UserError with a table of what is wrong."""
    if judgement.header.faults:
        raise UserError([*judgement.header.faults, f"{path}: nothing is sent"])
    share = faulty_share(judgement)
    if share > allowed:
        raise UserError(
            [
                *fault_table(str(path), judgement, "nothing is sent"),
                *_advice(judgement, study),
                f"rows count from 1 below the header; to send it as it is: --allow-rejects"
                f" {rounded_up(share)}",
            ]
        )


def faulty_share(judgement: Judgement) -> Fraction:
    """The share of cells that would be rejected, or are of people with strange ids."""
    # A cell of a strange id may have another fault too.
    faulty = min(judgement.cells, sum(place.cells for place in judgement.faults.values()))
    return Fraction(faulty, max(judgement.cells, 1))


def rounded_up(share: Fraction) -> float:
    """A share that is not below this one, in three digits."""
    return math.ceil(1000 * share) / 1000


def fault_table(name: str, judgement: Judgement, outcome: str) -> list[str]:
    """Lines that say how many cells of which column have which fault.

    name: of the table. outcome: what follows from it.
    """
    faulty = int(faulty_share(judgement) * judgement.cells)
    lines = [f"{name}: {faulty} of {judgement.cells} cells would not count; {outcome}"]
    width = min(40, max(len("column"), *(len(column) for column, _ in judgement.faults)))
    lines.append(f"  {'column':<{width}}  {'reason':<7}{'cells':>10}{'first row':>11}")
    places = list(judgement.faults.items())
    lines += [
        f"  {column[:width]:<{width}}  {reason:<7}{place.cells:>10}{place.first_row:>11}"
        for (column, reason), place in places[:_MOST_LINES]
    ]
    if len(places) > _MOST_LINES:
        lines.append(f"  and {len(places) - _MOST_LINES} columns more")
    return lines


def _advice(judgement: Judgement, study: Study) -> list[str]:
    """What each reason means and how to mend it, a line each."""
    reasons = {reason for _, reason in judgement.faults}
    lines = []
    if "person" in reasons:
        lines.append(f"person: {REASONS['person']}; fill them in, or leave those rows out")
    if "period" in reasons:
        lines.append(f"period: {REASONS['period']}: {_period_advice(judgement, study)}")
    if "late" in reasons:
        lines.append(
            "late: the period is closed, for good: leave those rows out, in a wide table with"
            " --columns 'COLUMN='"
        )
    sources = judgement.header.sources
    undeclared = [attribute for c, (_, attribute) in sources.items() if c in judgement.undeclared]
    for name in dict.fromkeys(undeclared):
        attribute = study.attributes[name]
        if attribute.place:
            lines.append(f"value: {name} is the key of a place in the table of places")
            continue
        if attribute.number is not None:
            lines.append(
                f"{name} is {attribute.words}, written without a fraction; say which text of the"
                f" file is none: --map '{name}:TEXT='"
            )
            continue
        values = [str(value) for value in attribute.values]
        several = ", ".join(values[:_MOST_NAMES]) + (", ..." if values[_MOST_NAMES:] else "")
        lines.append(
            f"value: {name} is one of {several}; say which text of the file is which:"
            f" --map '{name}:TEXT={values[0]},TEXT={values[-1]}' (TEXT= empties a cell)"
        )
    for fault in judgement.strange:
        mend = f"--id-width {fault.width} puts zeros in front" if fault.width else "see the file"
        lines.append(f"shape: {fault.why}: these would be new people: {mend}")
    return lines


def _period_advice(judgement: Judgement, study: Study) -> str:
    labels = study.periods.labels
    for shape, words in _DATES.items():
        if judgement.periods and all(re.fullmatch(shape, t.strip()) for t in judgement.periods):
            return words
    return (
        f"{labels[0]} to {labels[-1]}; dates in another order need --dates, such as"
        " --dates '%d.%m.%Y'"
    )
