"""The public monitor's pages: views of a state, rendered to bytes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from urllib.parse import urlencode

from stream_dp.errors import NotThere, UserError
from stream_dp.json_object import Json
from stream_dp.planning.expected_errors import group_table
from stream_dp.release.answer import Answer, Region
from stream_dp.release.public_reader import AnyPublished
from stream_dp.study import Release

from ..portals.description import citation
from ..portals.release_tables import tables_of
from .answers_for_people import for_people
from .charts import wide_and_narrow
from .downloads import FORMATS, metadata_links
from .group_chart import group_figure
from .marginal_series import series_of_columns
from .public_api import releases_data
from .public_state import State
from .query_forms import FigureLinks, PageQuery, address, builder, figure_citation, other_base
from .record_rows import (
    HASHES,
    budget_charts,
    budget_table,
    certificate_rows,
    facts,
    held_and_absent,
    price_words,
)
from .region_map import QUERY, region_map
from .release_figures import ReleaseFigures
from .render import render
from .two_way import two_way


def rendered(state: State, template: str, **values: object) -> bytes:
    study = state.public.study
    shown = {"study": study, "head": state.head, "url": state.url, **values}
    shown |= {"price": price_words(state.public), "cite": partial(figure_citation, state)}
    return render(template, root=state.root, **shown).encode()


def _published(state: State) -> tuple[list[Release], list[str]]:
    """The releases of panels and the names of data sets of which something is published."""
    names = {release.certificate.release for release in state.public.published}
    study = state.public.study
    return (
        [declared for declared in study.releases if declared.name in names],
        [batch.name for batch in study.batches or () if batch.name in names],
    )


def index_page(state: State) -> bytes:
    """The page of the study: releases with a first chart."""
    panels, data_sets = _published(state)
    public = state.public
    previews = []
    preview: tuple[FigureLinks, str, str] | None = None
    for declared in panels:
        figures = state.figures(declared.name)
        first = figures.small[0] if figures.small else figures.large
        previews.append((figures, first))
        preview = preview or _preview(declared.name, figures)
    return rendered(
        state,
        "index.html",
        facts=facts(public),
        previews=previews,
        preview=preview,
        data_sets=[state.data_set_figures(name, None) for name in data_sets],
        label=state.label,
        citation=citation(public),
        held=held_and_absent(state.verified)[0],
    )


def _preview(name: str, figures: ReleaseFigures) -> tuple[FigureLinks, str, str] | None:
    """The figure that a preview of a link shows: its addresses, its title and its sentence."""
    if figures.small:
        first = figures.small[0]
        fields = PageQuery(first.query, first.count).fields()
        return FigureLinks("release", name, fields), first.title, first.charts[0].description
    if figures.large is None:
        return None
    links = FigureLinks("totals", name, "")
    return links, figures.large.title, figures.large.charts[0].description


def release_page(state: State, name: str, query: str = "", faults: Sequence[str] = ()) -> bytes:
    """All figures of a release, and the builder. Raises UserError.

    query, faults: a refused question and the reasons, which take the place of the figures.
    """
    declared = state.public.study.release(name)
    figures = state.figures(name)
    return rendered(
        state,
        "release.html",
        totals=FigureLinks("totals", name, ""),
        preview=_preview(name, figures),
        query=query,
        faults=faults,
        figures=figures,
        builder=builder(state.public.study, declared),
        examples=state.public.queries(name),
        address=address,
        certificate=_last_index(state, name),
    )


def _last_index(state: State, name: str) -> int:
    indices = [i for i, r in enumerate(state.public.published, 1) if r.certificate.release == name]
    return indices[-1]


def data_set_page(
    state: State,
    name: str,
    period: str | None,
    pair: str | None,
    query: str | None = None,
    *,
    column: str | None = None,
    count: bool | None = None,
    region: Region | None = None,
) -> tuple[bytes, bool]:
    """The marginals of a data set, a two-way table, the series of a column and the answer to a
    query. Raises UserError.

    Returns the page and whether the query is understood.
    """
    if state.public.study.batch(name) is None:
        raise NotThere(f"release '{name}': is no data set")
    figures = state.data_set_figures(name, period)
    table = None if pair is None else two_way(state.public, name, period, pair)

    def links(kind: str, field: str, text: str | None, value: str | None = None) -> FigureLinks:
        fields = {field: text or "", "period": figures.period}
        fields |= {} if value is None else {"value": value}
        return FigureLinks(kind, name, urlencode(fields))

    series = None
    if column is not None and figures.columns_over_time:
        series = next(iter(series_of_columns(state.public, name, [column])), None)
    answer: Answer | None = None
    base: tuple[str, str] | None = None
    faults: Sequence[str] = ()
    if query is not None:
        try:
            unbiased = state.public.answer(name, query, period, count=count, region=region)
            answer = for_people(unbiased)
            base = other_base(state.public, unbiased, query)
        except UserError as error:
            faults = error.lines
    question = QUERY if query is None or faults else query
    on_map = region_map(state.public, state.outlines, name, period, question)
    page = rendered(
        state,
        "data_set.html",
        figures=figures,
        table=table,
        pair=pair,
        pair_links=links("data", "pair", pair),
        column_links=lambda marginal: links("data", "column", marginal.path),
        column=column,
        series=series,
        series_links=links("series", "column", column),
        value_links=lambda value: links("series", "column", column, value),
        on_map=on_map,
        map_charts=() if on_map is None else wide_and_narrow(on_map.drawn, 420),
        map_links=links("map", "q", question),
        answer=answer,
        other=base,
        query=query or "",
        faults=faults,
        examples=state.public.queries(name),
        regions=state.public.regions(name),
        certificate=_last_index(state, name),
    )
    return page, not faults


def privacy_page(state: State) -> bytes:
    """The privacy label and the budget."""
    return rendered(
        state,
        "privacy.html",
        label=state.label,
        groups=group_figure(group_table(state.public.study, state.groups)),
        budget=budget_charts(state.public),
        budget_rows=budget_table(state.public),
    )


def verify_page(state: State) -> bytes:
    """The checks, and every hash of the chain."""
    rows = releases_data(state.public)
    return rendered(state, "verify.html", checked=held_and_absent(state.verified), rows=rows)


def certificate_page(state: State, index: int, release: AnyPublished) -> bytes:
    """The certificate of a release in words. index: its position in the log, from 1."""
    return rendered(
        state,
        "certificate.html",
        index=index,
        count=len(state.public.published),
        title=f"{release.certificate.release}, {release.certificate.period}",
        rows=certificate_rows(state.public, release),
        hashes=HASHES,
    )


def downloads_page(state: State) -> bytes:
    """Links to every table in every format."""
    panels, data_sets = _published(state)
    names = [declared.name for declared in panels] + data_sets
    tables = [(name, tables_of(state.public, name)) for name in names]
    return rendered(
        state,
        "downloads.html",
        tables=tables,
        formats=list(FORMATS),
        metadata=metadata_links(state),
        citation=citation(state.public),
    )


def api_paths(openapi: Json) -> list[Json]:
    """The API's paths with their words and parameters, for its page."""
    return [
        {
            "path": path,
            "words": operation.get("description") or operation.get("summary", ""),
            "parameters": [
                (p["name"], "required" if p.get("required") else "optional")
                for p in operation.get("parameters", [])
            ],
        }
        for path, operations in openapi["paths"].items()
        for operation in operations.values()
    ]


def prepare(state: State) -> None:
    """Computes the most visited pages in advance."""
    state.pages["/privacy"] = privacy_page(state)
    state.pages["/"] = index_page(state)
    for declared in _published(state)[0]:
        state.pages[f"/release/{declared.name}"] = release_page(state, declared.name)
