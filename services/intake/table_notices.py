"""Notices about a judged table whose cells count: what its sender may not have meant."""

from __future__ import annotations

from stream_dp.population.tables import Judgement
from stream_dp.study import Study

from .table_judging import strange_ids

_MOST_NAMES = 12  # of columns, in one line


def table_notices(name: str, judgement: Judgement, study: Study) -> list[str]:
    """Lines about strange ids, columns left out, repeated cells, late people and open quotes.

    name: of the table.
    """
    lines, left_out = (
        [f"{name}: {line}" for line in strange_ids(judgement)],
        judgement.header.left_out,
    )
    if left_out:
        ellipsis = ", ..." if len(left_out) > _MOST_NAMES else ""
        lines.append(f"{name}: columns left out: {', '.join(left_out[:_MOST_NAMES])}{ellipsis}")
    if repeated := repeated_cells(judgement):
        first = min(repeats.first_row for repeats in judgement.repeated.values())
        lines.append(
            f"{name}: {repeated} cells repeat an earlier one of the same person and period, the"
            f" first in row {first} below the header: the last one counts"
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


def repeated_cells(judgement: Judgement) -> int:
    """The number of cells of a table that replace an earlier cell of the same table."""
    return sum(repeats.cells for repeats in judgement.repeated.values())


def late_people(judgement: Judgement) -> int:
    """The number of people of a table who may come too late for a closed cohort."""
    return 0 if judgement.late_people is None else judgement.late_people.people
