"""`stream-dp send`: judges tables of reports against the study and sends them."""

from __future__ import annotations

import argparse
from fractions import Fraction
from pathlib import Path
from typing import Any

from stream_dp.errors import UserError
from stream_dp.population.tables import Judgement

from ..deployment import Deployment
from ..groups.places import study_with_places
from ..judging import judge_tables
from ..known_reports import known_reports
from ..options import check_mapped_values, layout, study_file, table_columns
from ..output import Output
from ..reports import require_plain_reports, send_table, withdraw_cells

_MOST_NAMES = 12  # of columns, in one line
_UNREAD = "the log cannot be read from here: ids and closed periods were not compared with it"


def options(parser: argparse.ArgumentParser) -> None:
    study_file(parser)
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    table_columns(parser)
    parser.add_argument("--check", action="store_true", help="judge the files and send nothing")
    words = "send although that share of a file's cells will not count, 0.01 for one in a hundred"
    parser.add_argument("--allow-rejects", metavar="SHARE", default="0", help=words)
    words = "FILE replaces this earlier one: cells that it lacks are cleared"
    parser.add_argument("--replace", type=Path, metavar="EARLIER", help=words)


def run(options: argparse.Namespace) -> Output:
    deployment = Deployment.load(options.study)
    require_plain_reports(deployment)
    study, columns, files = (
        study_with_places(deployment),
        layout(options),
        list[Path](options.files),
    )
    earlier: Path | None = options.replace
    allowed = _share(options.allow_rejects)
    check_mapped_values(study, columns)
    if earlier is not None and len(files) != 1:
        raise UserError("--replace: name the one file that takes the earlier one's place")
    known = known_reports(deployment)
    if earlier is not None:
        judge_tables(study, [earlier], columns, known=known, allowed=Fraction(1), empty=True)
    judgements = judge_tables(
        study, files, columns, known=known, allowed=allowed, empty=earlier is not None
    )
    left_out = {str(path): list(j.header.left_out) for path, j in judgements.items()}
    notices = [line for path, j in judgements.items() for line in _notices(path, j)]
    if not known.readable:
        notices.append(_UNREAD)
    repeated = {str(path): _repeated(j) for path, j in judgements.items()}
    compared = {"repeated_cells": repeated, "compared_with_log": known.readable}
    if options.check:
        cells = {str(path): judgement.cells for path, judgement in judgements.items()}
        text = [_checked(path, judgement) for path, judgement in judgements.items()]
        return Output(
            {"checked": cells, "left_out": left_out, **compared}, "\n".join([*text, *notices])
        )
    sent = {str(path): send_table(deployment, path, columns) for path in files}
    text = [f"{path}: {count} reports sent" for path, count in sent.items()]
    data: dict[str, Any] = {"sent": sent, "left_out": left_out, **compared}
    if earlier is not None:
        count = withdraw_cells(
            deployment=deployment,
            earlier=earlier,
            path=files[0],
            layout=columns,
            closed=known.closed,
        )
        data["withdrawn"] = count
        text.append(f"{earlier}: {count} reports withdrawn")
    return Output(data, "\n".join([*text, *notices]))


def _share(text: str) -> Fraction:
    """The share of `--allow-rejects`. Raises UserError."""
    try:
        share = Fraction(text)
    except (ValueError, ZeroDivisionError):
        share = Fraction(-1)
    if not 0 <= share <= 1:
        raise UserError("--allow-rejects: write a share from 0 to 1, such as 0.01")
    return share


def _checked(path: Path, judgement: Judgement) -> str:
    faulty = sum(place.cells for place in judgement.faults.values())
    if not faulty:
        return f"{path}: {judgement.cells} cells, all of them would count"
    return f"{path}: {judgement.cells} cells, {faulty} of them would not count"


def _notices(path: Path, judgement: Judgement) -> list[str]:
    """What a sender should see although it is no fault."""
    lines, names = [], judgement.header.left_out
    if names:
        more = ", ..." if len(names) > _MOST_NAMES else ""
        lines.append(f"{path}: columns left out: {', '.join(names[:_MOST_NAMES])}{more}")
    if repeated := _repeated(judgement):
        first = min(place.first_row for place in judgement.repeated.values())
        lines.append(
            f"{path}: {repeated} cells repeat an earlier one of the same person and period, the"
            f" first in row {first} below the header: the last one counts"
        )
    return lines


def _repeated(judgement: Judgement) -> int:
    """How many cells of a table replace an earlier one of the same table."""
    return sum(place.cells for place in judgement.repeated.values())
