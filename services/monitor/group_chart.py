"""The relative errors of small and large groups, as cells that are filled where usable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from stream_dp.client import PublicLog
from stream_dp.figures.marks import Box, Chart, Mark, Text, px
from stream_dp.planning.expected_errors import (
    GROUP_SIZES,
    Count,
    GroupError,
    group_error,
    group_errors,
    least_text,
    panel_count,
    percent,
)
from stream_dp.study import DataSetRelease, Family, Study
from stream_dp.study.families import PANEL_FAMILIES, TABLE_FAMILIES, Registry

from .charts import cut, wide_and_narrow
from .release_figures import Numbers

_MOST_ROWS = 12
_TOP, _STEP, _CELL, _GAP = 44.0, 50.0, 24.0, 6.0
_LETTER = 6.2  # pixels of a letter, on average
Row = Mapping[str, Any]


@dataclass(frozen=True)
class GroupFigure:
    """A chart for wide and one for narrow screens, with the rule of usable groups."""

    rule: str
    charts: tuple[Chart, ...]
    numbers: tuple[Numbers, ...]


def published_group_errors(public: PublicLog) -> tuple[GroupError, ...]:
    """The errors of a public log: panels' from the declaration, tables' once one is published."""

    def table_count(study: Study, release: DataSetRelease) -> GroupError | None:
        if release.name not in {r.certificate.release for r in public.published}:
            return None
        query = public.queries(release.name)[0]
        answer = public.answer(release.name, query, count=True, unbiased=True)
        if answer.standard_error is None:
            return None
        return group_error(study, release, answer.query, answer.standard_error)

    def no_count(study: Study, release: DataSetRelease) -> None:
        """Sizes count places."""

    counts: Registry[Family, Count] = Registry(
        "errors of a published count of people",
        Family,
        {
            **dict.fromkeys(PANEL_FAMILIES, partial(panel_count, streams={})),
            **dict.fromkeys(TABLE_FAMILIES, table_count),
            Family.SIZES: no_count,
        },
    )
    return group_errors(public.study, counts)


def group_figure(table: Row) -> GroupFigure | None:
    """The figure of small groups' errors; None without a row.

    table: as `group_table` gives it
    """
    if not table["rows"]:
        return None
    rows, unit = table["rows"], table["unit"]
    shown = rows[:_MOST_ROWS]
    height = _TOP + _STEP * len(shown)
    charts = wide_and_narrow(lambda size: _cells(shown, unit, size[0]), height)
    columns = ("count", *(f"{size:,} {unit}s" for size in GROUP_SIZES), "usable from")
    numbers = Numbers(
        f"Half-width at {table['confidence']:.0%}, of the group that is counted",
        columns,
        tuple((_name(row), *_texts(row), least_text(row["usable_from"])) for row in rows),
    )
    return GroupFigure(table["rule"], charts, (numbers,))


def _cells(rows: Sequence[Row], unit: str, width: float) -> Chart:
    """Draws a row a count, a cell a size of group."""
    cell = (width - (len(GROUP_SIZES) - 1) * _GAP) / len(GROUP_SIZES)
    lefts = [px(i * (cell + _GAP)) for i in range(len(GROUP_SIZES))]
    marks: list[Mark] = [Text("tick", 0, 11, f"error of a group of so many {unit}s")]
    for x, size in zip(lefts, GROUP_SIZES, strict=True):
        marks.append(Text("tick", px(x + cell / 2), 32, f"{size:,}", "middle"))
    for index, row in enumerate(rows):
        y = _TOP + _STEP * index
        usable = f"usable from {least_text(row['usable_from'])}"
        letters = int((width - _LETTER * len(usable)) / _LETTER) - 2
        marks += [
            Text("name", 0, y + 10, cut(_name(row), letters)),
            Text("tick", width, y + 10, usable, "end"),
        ]
        by_size = {group["size"]: group for group in row["groups"]}
        for x, size, text in zip(lefts, GROUP_SIZES, _texts(row), strict=True):
            group = by_size.get(size)
            style = "usable" if group is not None and group["usable"] else "unusable"
            words = f"{_name(row)}, {group['words']}" if group is not None else ""
            marks += [
                Box(style, x, y + 16, px(cell), _CELL, words),
                Text("cell", px(x + cell / 2), y + 32, text, "middle"),
            ]
    words = "; ".join(f"{_name(row)}: usable from {least_text(row['usable_from'])}" for row in rows)
    return Chart(width, _TOP + _STEP * len(rows), f"{words}.", tuple(marks))


def _name(row: Row) -> str:
    stratum = f" ({row['stratum']})" if row["stratum"] else ""
    return f"{row['release']}{stratum}: {row['query']}"


def _texts(row: Row) -> list[str]:
    """The relative error by size; a dash for an impossible group."""
    by_size = {group["size"]: group["relative_half_width"] for group in row["groups"]}
    return [f"± {percent(by_size[n])}" if n in by_size else "–" for n in GROUP_SIZES]
