"""Marginal series: the estimated shares of a column's values, period by period.

Each answer is what `stream-dp estimate` gives by default. Its interval and fan are of the
measurements of its own period.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stream_dp.answers.tables.limited_records import limited_records
from stream_dp.answers.tables.table_answer import Conjunctions
from stream_dp.answers.tables.table_facts import PublishedTables, Value
from stream_dp.client import PublicLog
from stream_dp.errors import Inconsistent, NotThere, UserError
from stream_dp.figures.marks import Chart
from stream_dp.release.answer import RESPONDENTS
from stream_dp.study.field_types import ABSENT

from .answers_for_people import pointwise
from .charts import Line, Look, Point, curves, cut
from .release_figures import SMALL, Figure, numbers_of

_MOST_VALUES = 8  # of a column
_MOST_PERIODS = 60  # the last of a schedule
_COLUMNS = ("period", "estimate", "95% interval", "standard error", "synthetic rows")
_LETTERS = (16, 10)  # of a value's name at the end of a line, in wide and in narrow charts
_OWN_ERRORS = (
    "Each interval is from the measurements of its own period, and the noise of different periods"
    " is independent."
)
_SHARED_ERRORS = (
    "The synthetic rows of different periods share errors, because each period's rows are fitted"
    " with the measurements of earlier periods, too."
)


@dataclass(frozen=True)
class MarginalSeries:
    """The shares of the values of a column over the periods of a schedule.

    column: as `table:column`.
    lines: by value, the default answers of all periods that measured the value.
    labels: the periods of the horizontal axis.
    notes: what is left out, and which errors are correlated, in sentences.
    """

    column: str
    title: str
    unit: str
    lines: tuple[Line, ...]
    labels: tuple[str, ...]
    notes: tuple[str, ...]

    def of_value(self, value: str) -> MarginalSeries:
        """The series of one value. Raises UserError."""
        lines = tuple(line for line in self.lines if line.title == value)
        if not lines:
            raise UserError(f"{self.title}: no series of the value '{value}' is shown")
        return replace(self, title=f"{lines[0].points[0].answer.query} over time", lines=lines)

    @property
    def look(self) -> Look:
        """How the lines are drawn."""
        return Look(self.unit, 100.0, ends=len(self.lines) > 1)

    @property
    def shown(self) -> tuple[Line, ...]:
        """The lines with their numbers inside of the feasible range."""
        return tuple(line.for_people(None) for line in self.lines)

    @property
    def small(self) -> tuple[Figure, ...]:
        """A figure of every value."""
        look = replace(self.look, ends=False)
        return tuple(
            Figure(
                line.title,
                "",
                (curves([line], self.labels, look, SMALL),),
                (replace(numbers_of(line, look), columns=_COLUMNS),),
            )
            for line in self.shown
        )

    @property
    def reading(self) -> str:
        """The last estimates as a sentence."""
        values = ", ".join(
            f"{line.title} {line.points[-1].answer.value:.1%}"
            f" ({' to '.join(f'{end:.1%}' for end in line.points[-1].answer.ends)})"
            for line in self.shown
        )
        return f"{self.title}, {self.unit}; the last estimates are {values}."

    def drawn(self, size: tuple[float, float]) -> Chart:
        """All values in one chart."""
        letters = _LETTERS[0] if size[0] > 500 else _LETTERS[1]
        lines = [replace(line, title=_short(line.title, letters)) for line in self.shown]
        return replace(curves(lines, self.labels, self.look, size), description=self.reading)


def _short(text: str, letters: int) -> str:
    """The name of a value on one line."""
    return cut(text, letters).replace(" ", "\N{NO-BREAK SPACE}")


def marginal_series(public: PublicLog, name: str, column: str) -> MarginalSeries:
    """The series of a column of a data set.

    column: as `table:column`.

    Raises UserError for an unknown column, and for a column without a measured share.
    """
    series = series_of_columns(public, name, [column])
    if not series:
        raise UserError(f"release '{name}': no share of the column '{column}' is measured")
    return series[0]


def series_of_columns(
    public: PublicLog, name: str, columns: Sequence[str]
) -> tuple[MarginalSeries, ...]:
    """The series of those columns of a data set that have a measured share.

    columns: each as `table:column`.

    Raises UserError for an unknown column.
    """
    last = public.published_tables(name)
    for column in columns:
        which, _, attribute = column.partition(":")
        if attribute not in last.names.get(which, ()):
            raise NotThere(f"release '{name}': has no column '{column}'")
    points = {column: _by_value(last, column) for column in columns}
    labels, published, fused = _labels(public, name), public.periods_of(name), False
    for position, label in enumerate(labels):
        if label in published:
            tables = public.published_tables(name, label)
            fused = fused or bool(tables.fused_with)
            for column, by_value in points.items():
                _add_points(by_value, tables, column, position)
    notes = [_OWN_ERRORS, *([_SHARED_ERRORS] if fused else [])]
    if labels[0] != published[0]:
        notes.append(f"Shown are the last {len(labels)} periods of the schedule.")
    return tuple(
        _series(last, column, by_value, labels, notes)
        for column, by_value in points.items()
        if any(by_value.values())
    )


def _series(
    last: PublishedTables,
    column: str,
    by_value: Mapping[Value, Sequence[Point]],
    labels: tuple[str, ...],
    notes: Sequence[str],
) -> MarginalSeries:
    which, _, attribute = column.partition(":")
    called, total = last.noun(which), len(last.columns[which][attribute])
    about_shown = []
    if total > len(by_value):
        about_shown.append(
            f"Shown are the {len(by_value)} of {total} values with the most synthetic rows in"
            f" {last.period}."
        )
    if any(len(points) < len(labels) for points in by_value.values()):
        about_shown.append("A period in which a value's share was not measured has no estimate.")
    bases = {point.answer.base for run in by_value.values() for point in run}
    of_respondents = RESPONDENTS in bases
    if of_respondents and len(bases) > 1:
        about_shown.append(
            f"The share of '{ABSENT}' is of all {called}: it is the lack of response."
        )
    return MarginalSeries(
        column=column,
        title=f"{attribute} ({called}) over time",
        unit=f"% of {RESPONDENTS if of_respondents else f'all {called}'}",
        lines=tuple(Line(str(value), tuple(run)) for value, run in by_value.items() if run),
        labels=labels,
        notes=(*about_shown, *notes),
    )


def _by_value(published: PublishedTables, column: str) -> dict[Value, list[Point]]:
    """No points yet for the values with the most synthetic rows, in the column's order."""
    which, _, attribute = column.partition(":")
    values = published.columns[which][attribute]
    counts = np.bincount(published.tables[which][attribute].to_numpy(), minlength=len(values))
    largest = np.argsort(-counts, kind="stable")[:_MOST_VALUES]
    return {values[code]: [] for code in sorted(largest)}


def _labels(public: PublicLog, name: str) -> tuple[str, ...]:
    """The scheduled periods up to the last published period; from the first, within a bound."""
    study, published = public.study, public.periods_of(name)
    declared = study.batch(name)
    assert declared is not None
    labels = [study.periods.labels[number - 1] for number in study.due_periods(declared)]
    first, last = labels.index(published[0]), labels.index(published[-1])
    return tuple(labels[first : last + 1][-_MOST_PERIODS:])


def _add_points(
    by_value: Mapping[Value, list[Point]], published: PublishedTables, column: str, position: int
) -> None:
    """Adds the measured shares of a period. A value that the period's bins lack gets none."""
    which, _, attribute = column.partition(":")
    prefix = "" if published.link is None else f"{which}: "
    for value, points in by_value.items():
        if value not in published.columns[which].get(attribute, ()):
            continue
        try:
            unbiased = Conjunctions(published).answer(f"{prefix}{attribute}={value}", count=False)
        except Inconsistent:
            raise
        except UserError:  # of how many people is not known well enough
            continue
        answer = limited_records(unbiased)
        if answer.standard_error is not None and answer.interval is not None:
            points.append(Point(position, published.period, answer, fan=pointwise(answer)))
