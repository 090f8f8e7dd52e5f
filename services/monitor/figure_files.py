"""Figures to take away: SVG, PNG and CSV of a page's content, with the sentence of its reading."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.csv

from stream_dp.answers.query import event_words
from stream_dp.errors import NotThere, UserError
from stream_dp.figures.marks import Chart, Picture, Placed, Text
from stream_dp.release.answer import Answer
from stream_dp.release.public_reader import nothing_published

from .answer_views import CompareForm, comparison_of
from .answers_for_people import LEVELS, reading
from .charts import Line, curves
from .comparison import comparison_chart
from .default_questions import Question, default_query, heading, query_title
from .marginal_series import marginal_series
from .public_state import State
from .query_forms import FigureLinks, PageQuery, comparable
from .record_rows import price
from .region_map import QUERY, region_map
from .release_figures import line_of, look_of, shown_periods, totals_lines, totals_look
from .two_way import FEWER, MORE, two_way
from .views import rendered

FIGURE_FORMATS = {
    "svg": "image/svg+xml",
    "png": "image/png",
    "csv": "text/csv; charset=utf-8",
}
Fields = Mapping[str, Any]
Draw = Callable[[tuple[float, float]], Chart]
_BEYOND = {MORE: "more", FEWER: "fewer"}  # the noise, by mark
# Of a picture, in units: twice as many pixels in PNG, as previews of links take them.
_WIDTH, _HEIGHT, _MARGIN = 600.0, 315.0, 20.0
_TITLE_LINE, _TITLE_LETTERS, _TITLE_LINES = 21.0, 58, 2
_CAPTION_LINE, _CAPTION_LETTERS, _CAPTION_LINES = 14.0, 98, 3


@dataclass(frozen=True)
class FigureFile:
    """A figure by itself.

    reading: the sentence that reads it aloud.
    draw: draws the chart in a size.
    rows: the numbers as a table.
    """

    title: str
    reading: str
    draw: Draw
    rows: pa.Table

    def encoded(self, form: str, source: str) -> bytes:
        """The figure as bytes. source: the last line of a picture. Raises UserError."""
        if form == "csv":
            out = io.BytesIO()
            pa.csv.write_csv(self.rows, out)
            return out.getvalue()
        picture = figure_picture(self.title, self.reading, source, self.draw)
        return picture.png() if form == "png" else picture.svg().encode()


def figure_picture(title: str, reading: str, source: str, draw: Draw) -> Picture:
    """Lays a picture out. draw: draws the chart in a size.

    reading: the sentence below the chart.
    source: the last lines.
    """
    titles = _wrapped(title, _TITLE_LETTERS, _TITLE_LINES)
    captions = _wrapped(reading, _CAPTION_LETTERS, _CAPTION_LINES)
    captions += _wrapped(source, _CAPTION_LETTERS, 2)
    texts = [Text("title", _MARGIN, 32 + _TITLE_LINE * i, line) for i, line in enumerate(titles)]
    top = 32 + _TITLE_LINE * len(titles) - 6
    bottom = _HEIGHT - 14 - _CAPTION_LINE * (len(captions) - 1)
    texts += [
        Text("caption", _MARGIN, bottom + _CAPTION_LINE * i, line)
        for i, line in enumerate(captions)
    ]
    chart = draw((_WIDTH - 2 * _MARGIN, bottom - _CAPTION_LINE - 6 - top))
    placed = (Placed(0.0, 0.0, texts), Placed(_MARGIN, top, chart.marks))
    return Picture(title, reading, _WIDTH, _HEIGHT, placed)


def _wrapped(text: str, letters: int, lines: int) -> list[str]:
    """A text in lines of so many letters; the last of so many lines ends in an ellipsis."""
    return textwrap.wrap(text, letters, max_lines=lines, placeholder=" …") or [""]


def source_line(state: State) -> str:
    """The last line of a picture: the study, its curator and licence, the price and the head."""
    study = state.public.study
    simulated = "SIMULATED NOISE. " if state.simulated else ""
    if not simulated and "SIMULATED" in study.description:
        simulated = "SIMULATED DATA. "
    source = state.url.partition("://")[2] or study.name
    if study.curator is not None:
        source += f", {study.curator.name}"
        source += f", {study.curator.licence}" if study.curator.licence else ""
    cost = f"differential privacy, eps {price(state.public)} for a {study.unit}'s whole history"
    if state.simulated:
        cost = "protects nobody"
    return f"{simulated}{source}: {cost}; head {state.head[:16]}"


def figure_file(state: State, kind: str, name: str, fields: Fields) -> FigureFile:
    """The figure of an address. Raises UserError."""
    build = FIGURES.get(kind)
    if build is None:
        raise NotThere(f"figure: there is no kind '{kind}'; there are {', '.join(FIGURES)}")
    return build(state, name, fields)


def _release(state: State, name: str, fields: Fields) -> FigureFile:
    """The fan of a question, with those of other releases."""
    public, study = state.public, state.public.study
    declared, page_query = study.release(name), PageQuery.of(fields)
    if not page_query.query:
        raise UserError("figure: name a question, q=QUERY")
    names = [name, *comparable(study, declared, page_query.beside)]
    title = query_title(study, declared, page_query.query)
    question = Question(title, page_query.query, count=page_query.count)
    lines = {name: line_of(public, name, question, together=page_query.together) for name in names}
    shown = [
        replace(line.for_people(study.size), title=name if len(names) > 1 else title)
        for name, line in lines.items()
    ]
    look = replace(
        look_of(public, shown, count=page_query.count), panel=page_query.panel, ends=len(names) > 1
    )
    return FigureFile(
        title,
        reading(title, shown[0].points[-1].answer),
        lambda size: curves(shown, shown_periods(public, name), look, size),
        _curve_rows(state, list(lines.values())),
    )


def _totals(state: State, name: str, fields: Fields) -> FigureFile:
    """The fans of all totals of a release."""
    public, study = state.public, state.public.study
    declared = study.release(name)
    lines = totals_lines(public, declared)
    if declared.totals is None or not lines:
        raise NotThere(f"release '{name}': has no totals")
    shown = [line.for_people(study.size) for line in lines]
    last = shown[0]
    title = heading(f"{event_words(study, declared.totals)}: totals so far")
    return FigureFile(
        title,
        reading(f"{title}, {last.title}", last.points[-1].answer),
        lambda size: curves(shown, shown_periods(public, name), totals_look(public), size),
        _curve_rows(state, lines),
    )


def _curve_rows(state: State, lines: Sequence[Line]) -> pa.Table:
    """A row per answer, not clipped: the estimate, its error and the ends of its fan.

    The unbiased answer stands beside an answer of least error.
    """
    rows = []
    for line in lines:
        for point in line.points:
            answer = point.answer
            row = _columns(answer, "release query measure people period value standard_error")
            for i, level in enumerate(LEVELS):
                low, high = point.fan[i] if point.fan else (None, None)
                row |= {f"low_{100 * level:.0f}": low, f"high_{100 * level:.0f}": high}
            row["band"] = "simultaneous" if line.simultaneous else "pointwise"
            row["method"], row["unbiased"] = answer.method, answer.alone().value
            row["unbiased_error"] = answer.alone().standard_error
            rows.append({**row, "panel": answer.synthetic})
    return _table(state, rows)


def _columns(answer: Answer, names: str) -> dict[str, object]:
    """The columns of an answer with these names."""
    low, high = answer.interval or (None, None)
    people = answer.base if answer.measure == "share" else None
    other = {"people": people, "low_95": low, "high_95": high}
    return {n: other[n] if n in other else getattr(answer, n) for n in names.split()}


def _table(state: State, rows: Iterable[dict[str, object]]) -> pa.Table:
    """Rows as a table, each with the head of the log."""
    return pa.Table.from_pylist([{**row, "head": state.head} for row in rows])


def _compare(state: State, name: str, fields: Fields) -> FigureFile:
    """Two answers beside each other, with the verdict."""
    public = state.public
    if not public.periods_of(name):
        raise nothing_published(public.study, name)
    query = fields.get("q") or default_query(public, name)
    result = comparison_of(state, CompareForm.of(state, name, query, None, dict(fields)))
    answers = {"first": result.answers[0], "second": result.answers[1]}
    answers["difference"] = result.difference
    if result.ratio is not None:
        answers["ratio"] = result.ratio
    names = "release query period measure people value standard_error low_95 high_95"
    rows = [
        {
            "answer": which,
            **_columns(answer, names),
            "noise_alone": result.chance if which == "difference" else None,
        }
        for which, answer in answers.items()
    ]
    size = public.study.size
    return FigureFile(
        result.title,
        result.verdict,
        lambda room: comparison_chart(result, size, room[0]),
        _table(state, rows),
    )


def _data(state: State, name: str, fields: Fields) -> FigureFile:
    """The bars of a column of a data set, or the heat map of two columns."""
    period = fields.get("period") or None
    if pair := fields.get("pair"):
        table = two_way(state.public, name, period, pair)
        cells = [
            {
                table.down: value,
                table.across: column,
                **_share(cell.unbiased, cell.share, table.table),
                "beyond_noise": _BEYOND.get(cell.mark),
            }
            for value, row in table.rows
            for column, cell in zip(table.columns, row, strict=True)
        ]
        title = f"{name}: {table.title}"
        return FigureFile(title, table.reading, table.drawn, _table(state, cells))
    marginals = state.data_set_figures(name, period).marginals
    named = {marginal.path: marginal for marginal in marginals}
    marginal = named.get(fields.get("column") or next(iter(named), ""))
    if marginal is None:
        raise NotThere(f"release '{name}': has no column '{fields.get('column')}'")
    rows = [
        {"value": bar.name, **_share(bar.unbiased, bar.share, marginal.table)}
        for bar in marginal.bars
    ]
    title = f"{name}: {marginal.title}"
    return FigureFile(title, marginal.description, marginal.drawn, _table(state, rows))


def _series(state: State, name: str, fields: Fields) -> FigureFile:
    """The shares of the values of a column over the periods, or of one value."""
    series = marginal_series(state.public, name, fields.get("column") or "")
    if (value := fields.get("value")) is not None:
        series = series.of_value(value)
    title = f"{name}: {series.title}"
    rows = _curve_rows(state, list(series.lines))
    names = ["synthetic" if column == "panel" else column for column in rows.column_names]
    return FigureFile(title, series.reading, series.drawn, rows.rename_columns(names))


def _map(state: State, name: str, fields: Fields) -> FigureFile:
    """The regions of sizes on a map."""
    period, query = fields.get("period") or None, fields.get("q") or QUERY
    shown = region_map(state.public, state.outlines, name, period, query)
    if shown is None:
        raise NotThere(f"release '{name}': has no outlines of its regions here")
    rows = [
        {
            "region": region.name,
            **_columns(region.answer, "query measure value standard_error low_95 high_95"),
            "groups": region.groups,
            "beyond_noise": _BEYOND.get(region.mark),
        }
        for region in shown.regions
    ]
    return FigureFile(shown.title, shown.reading, shown.drawn, _table(state, rows))


def _share(unbiased: Answer | None, published: float, rows: str) -> dict[str, object]:
    """A share with its unbiased estimate, if it was measured.

    published: of the synthetic rows. rows: their name.
    """
    if unbiased is None or unbiased.interval is None:
        unknown = dict.fromkeys(("standard_error", "low_95", "high_95"))
        return {"share": published, "people": f"synthetic {rows}", **unknown}
    stated = {"share": unbiased.value, "people": unbiased.base}
    return stated | _columns(unbiased, "standard_error low_95 high_95")


def embed_page(state: State, figure: FigureFile, links: FigureLinks) -> bytes:
    """A page with a figure alone, for a frame of another page."""
    return rendered(
        state,
        "embed.html",
        figure=figure,
        charts_drawn=(figure.draw((600.0, 240.0)), figure.draw((340.0, 220.0))),
        links=links,
        source=source_line(state),
    )


# By kind: makes the figure of a release's name and of the fields of an address.
FIGURES: dict[str, Callable[[State, str, Fields], FigureFile]] = {
    "release": _release,
    "totals": _totals,
    "compare": _compare,
    "data": _data,
    "series": _series,
    "map": _map,
}
