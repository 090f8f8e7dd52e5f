"""Two columns of a data set as a heat map with marks beyond the noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from stream_dp.answers.joint_answers import JointAnswers
from stream_dp.answers.measurement_blocks import Floats
from stream_dp.answers.query import attribute_title
from stream_dp.answers.tables.limited_records import limited_records
from stream_dp.answers.tables.table_facts import PublishedTables
from stream_dp.client import LEVEL, PublicLog
from stream_dp.errors import UserError
from stream_dp.figures.marks import Box, Chart, Mark, Text, px
from stream_dp.release.answer import Answer, Interval
from stream_dp.study.group_releases import KEY_COLUMN

from .answers_for_people import for_people
from .charts import cut
from .groups_figures import estimated_shares

_MOST_CELLS = 400
MORE, FEWER = "▲", "▼"


@dataclass(frozen=True)
class Cell:
    """A share of rows.

    share: the estimate, or the share of the synthetic rows.
    interval: the ends of the interval; None without an error.
    shade: from 0 to 4.
    unbiased: the share as it is for programs; None if nobody measured it.
    mark: `MORE` or `FEWER` than independent columns would have, beyond the noise; else empty.
    """

    share: float
    interval: Interval | None
    shade: int
    unbiased: Answer | None = None
    mark: str = ""

    @property
    def text(self) -> str:
        """The share with its mark."""
        return f"{self.mark} {self.share:.2%}".strip()

    @property
    def ends(self) -> str:
        """The interval as a text; empty without an interval."""
        return "" if self.interval is None else " to ".join(f"{e:.2%}" for e in self.interval)


@dataclass(frozen=True)
class TwoWay:
    """The rows of a table by two of its columns, as shares.

    whom: of whom the shares are.
    caption: what the shares are.
    titles: of the columns `down` and `across`, in words.
    columns: the values of `across`.
    rows: a value of `down` and its cells.
    """

    table: str
    whom: str
    caption: str
    across: str
    down: str
    titles: tuple[str, str]
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]

    @property
    def title(self) -> str:
        """The titles of both columns."""
        return f"{' by '.join(self.titles)} ({self.table}), % of {self.whom}"

    @property
    def reading(self) -> str:
        """The marked cells as a sentence."""
        marked = [
            f"{value} and {column} {'more' if cell.mark == MORE else 'fewer'}"
            for value, cells in self.rows
            for column, cell in zip(self.columns, cells, strict=True)
            if cell.mark
        ]
        if all(cell.interval is None for _, cells in self.rows for cell in cells):
            return "No error of these shares is known."
        if not marked:
            return "No cell differs from independent columns beyond the noise."
        listed = "; ".join(marked[:12]) + ("; and others" if len(marked) > 12 else "")
        return f"Beyond the noise, compared with independent columns: {listed}."

    def drawn(self, size: tuple[float, float]) -> Chart:
        """The heat map within a width and a height."""
        width, height = size
        left, top = 96.0, 26.0
        step = (width - left) / max(1, len(self.columns))
        row = min(40.0, (height - top) / max(1, len(self.rows)))
        letters = max(2, int(step / 7))
        marks: list[Mark] = [Text("tick", 0, 14, " by ".join(self.titles))]
        for j, name in enumerate(self.columns):
            x = px(left + step * (j + 0.5))
            marks.append(Text("tick", x, top - 4, cut(name, letters), "middle"))
        for i, (value, cells) in enumerate(self.rows):
            y = px(top + row * i)
            marks.append(Text("name", left - 8, px(y + row / 2 + 4), cut(value, 14), "end"))
            for j, cell in enumerate(cells):
                x = px(left + step * j)
                title = f"{value}, {self.columns[j]}: {cell.text} {cell.ends}".strip()
                box = Box(f"heat-{cell.shade}", x, y, px(step - 1), px(row - 1), title)
                text = f"{cell.mark}{cell.share:.1%}" if letters > 5 else cell.mark
                marks.append(box)
                marks.append(
                    Text("value-ink", px(x + step / 2), px(y + row / 2 + 4), text, "middle")
                )
        return Chart(width, top + row * len(self.rows), self.reading, tuple(marks))


def two_way(public: PublicLog, name: str, period: str | None, pair: str) -> TwoWay:
    """The two-way table of `table:column:column`. Raises UserError for an unknown pair."""
    published = public.published_tables(name, period)
    which, _, columns = pair.partition(":")
    values_of = published.columns.get(which, {})
    for down in values_of:
        for across in values_of:
            if columns == f"{down}:{across}" and down != across and KEY_COLUMN not in values_of:
                titles = (
                    attribute_title(public.study, down),
                    attribute_title(public.study, across),
                )
                return _crossed(published, which, (down, across), titles)
    raise UserError(f"release '{name}': has no two columns '{pair}' in one table")


def _crossed(
    published: PublishedTables, which: str, names: tuple[str, str], titles: tuple[str, str]
) -> TwoWay:
    """The shares of two columns: estimates with intervals, or of synthetic rows if not measured."""
    down, across = (published.columns[which][name] for name in names)
    if len(down) * len(across) > _MOST_CELLS:
        raise UserError(f"{names[0]} by {names[1]}: has too many cells for a page; download it")
    shape = len(down), len(across)
    joint = estimated_shares(published, which, names)
    whom = f"all {which}" if joint is not None else f"the synthetic {which}"
    caption = f"shares of {whom}"
    intervals: list[Interval | None]
    if joint is None:
        shares = _synthetic(published, which, names, shape)
        intervals, marks = [None] * shares.size, [""] * shares.size
        estimates: Sequence[Answer | None] = [None] * shares.size
    else:
        answers = [for_people(limited_records(answer)) for answer in joint.answers]
        shares = np.array([answer.value for answer in answers])
        intervals = [answer.interval for answer in answers]
        marks, estimates = beyond_independence(joint, shape), joint.answers
        caption = (
            f"estimated shares of {whom} with {LEVEL:.0%} intervals; {MORE} more and"
            f" {FEWER} fewer than independent columns would have, beyond the noise of all cells"
            " together"
        )
    largest = max(float(shares.max(initial=0.0)), 1e-12)
    cells = [
        Cell(float(share), interval, round(4 * share / largest), unbiased, mark)
        for share, interval, unbiased, mark in zip(shares, intervals, estimates, marks, strict=True)
    ]
    rows = tuple(
        (str(value), tuple(cells[i * shape[1] : (i + 1) * shape[1]]))
        for i, value in enumerate(down)
    )
    columns = tuple(map(str, across))
    down_name, across_name = names
    return TwoWay(
        which,
        whom,
        caption,
        across=across_name,
        down=down_name,
        titles=titles,
        columns=columns,
        rows=rows,
    )


def _synthetic(
    published: PublishedTables, which: str, names: tuple[str, str], shape: tuple[int, int]
) -> Floats:
    """The shares of the synthetic rows, by cell."""
    table = published.tables[which]
    codes = [table[name].to_numpy().astype(np.int64) for name in names]
    counts = np.bincount(codes[0] * shape[1] + codes[1], minlength=shape[0] * shape[1])
    return np.asarray(counts / max(1, int(counts.sum())))


def beyond_independence(joint: JointAnswers, shape: tuple[int, int]) -> list[str]:
    """Marks of cells with a share beyond noise from the share under independent columns.

    With r and c the sums of rows and columns, p_ij - r_i c_j is 0 for independent columns. Its
    variance is that of the first order (delta method). A cell is marked where it lies so many
    standard errors from 0 that all true zeros together stay unmarked at 95 % (Sidak 1967).

    joint: the shares of all cells, row by row.
    """
    shares, (rows, columns) = joint.values.reshape(shape), shape
    of_rows, of_columns = shares.sum(axis=1), shares.sum(axis=0)
    excess = (shares - np.outer(of_rows, of_columns)).ravel()
    # d excess_ij / d p_kl = [k = i and l = j] - [k = i] c_j - [l = j] r_i
    same_row = np.kron(np.eye(rows), np.ones((columns, columns)))
    same_column = np.kron(np.ones((rows, rows)), np.eye(columns))
    to_column, to_row = np.tile(of_columns, rows), np.repeat(of_rows, columns)
    slopes = np.eye(excess.size) - same_row * to_column[:, None] - same_column * to_row[:, None]
    variances = np.einsum("ij,jk,ik->i", slopes, joint.covariance, slopes, optimize=True)
    reach = NormalDist().inv_cdf((1 + LEVEL ** (1 / excess.size)) / 2) * np.sqrt(
        np.maximum(variances, 0.0)
    )
    marks = np.where(excess > reach, MORE, np.where(excess < -reach, FEWER, ""))
    return [str(mark) for mark in marks]
