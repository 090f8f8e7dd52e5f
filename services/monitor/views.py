"""The public monitor's pages: views of a state, rendered to bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stream_dp.errors import UserError
from stream_dp.study import Release

from ..pages.data_sets import two_way
from ..pages.figures import about_release, side_by_side
from ..pages.label import privacy_label
from ..pages.questions import Question
from ..pages.records import (
    HASHES,
    budget_charts,
    budget_table,
    certificate_rows,
    citation,
    facts,
)
from ..pages.render import render
from ..pages.sizes import any_figures
from .answers import parts_of, releases_data
from .asking import address, builder, siblings
from .downloads import FORMATS
from .state import State


def _rendered(state: State, template: str, **values: Any) -> bytes:
    study = state.public.study
    return render(template, study=study, head=state.head, **values).encode()


def _published(state: State) -> tuple[list[Release], list[str]]:
    """The releases of panels and the names of data sets of which something is published."""
    names = {release.certificate.release for release in state.public.published}
    study = state.public.study
    return (
        [declared for declared in study.releases if declared.name in names],
        [batch.name for batch in study.batches or () if batch.name in names],
    )


def index_page(state: State) -> bytes:
    """What the study is, its releases with a first chart each, the last publications."""
    panels, data_sets = _published(state)
    public = state.public
    latest = releases_data(public)[-12:][::-1]
    previews = []
    for declared in panels:
        figures = state.figures(declared.name)
        first = figures.small[0] if figures.small else figures.large
        previews.append((figures, first))
    return _rendered(
        state,
        "index.html",
        facts=facts(public),
        previews=previews,
        data_sets=data_sets,
        latest=latest,
        label=privacy_label(public),
        citation=citation(public),
        verified=state.verified,
    )


def release_page(state: State, name: str) -> bytes:
    """All figures of a release, and the builder. Raises UserError."""
    declared = state.public.study.release(name)
    return _rendered(
        state,
        "release.html",
        figures=state.figures(name),
        builder=builder(state.public.study, declared),
        examples=state.public.queries(name),
        address=address,
        certificate=_last_index(state, name),
    )


def answer_page(
    state: State, name: str, query: str, beside: Sequence[str], *, count: bool
) -> bytes:
    """The answer to a query over all periods, beside those of other releases. Raises UserError."""
    public, study = state.public, state.public.study
    declared = study.release(name)
    others = [other for other in dict.fromkeys(beside) if other in siblings(study, declared)]
    figures = side_by_side(public, [name, *others], Question(query, query, count=count))
    last = public.estimate(name, query, count=count)
    return _rendered(
        state,
        "answer.html",
        name=name,
        about=about_release(public, declared),
        query=query,
        count=count,
        figures=figures,
        answer=last,
        builder=builder(study, declared),
        examples=public.queries(name),
        address=address,
        shared=address(name, query, count=count, beside=others),
        other_measure=address(name, query, count=not count, beside=others),
        beside=others,
    )


def _last_index(state: State, name: str) -> int:
    places = [i for i, r in enumerate(state.public.published, 1) if r.certificate.release == name]
    return places[-1]


def data_set_page(
    state: State,
    name: str,
    period: str | None,
    pair: str | None,
    query: str | None = None,
    *,
    count: bool = False,
) -> bytes:
    """The marginals of a data set, a two-way table and the answer to a query. Raises UserError."""
    if state.public.study.batch(name) is None:
        raise UserError(f"release '{name}': is no data set")
    figures = any_figures(state.public, name, period)
    table = None if pair is None else two_way(state.public, name, period, pair)
    answer = None
    if query is not None:
        answer = state.public.data_set_estimate(name, query, period, count=count)
    return _rendered(
        state,
        "data_set.html",
        figures=figures,
        table=table,
        pair=pair,
        answer=answer,
        examples=[] if figures.regions else state.public.queries(name),
        certificate=_last_index(state, name),
    )


def privacy_page(state: State) -> bytes:
    """The privacy label and the budget."""
    return _rendered(
        state,
        "privacy.html",
        label=privacy_label(state.public),
        budget=budget_charts(state.public),
        budget_rows=budget_table(state.public),
    )


def verify_page(state: State) -> bytes:
    """What was checked, and every hash of the chain."""
    rows = releases_data(state.public)
    return _rendered(state, "verify.html", verified=state.verified, rows=rows)


def certificate_page(state: State, index: int) -> bytes:
    """The certificate of a release in words."""
    release = state.public.published[index - 1]
    return _rendered(
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
    tables = [(name, parts_of(state.public, name)) for name in names]
    return _rendered(
        state,
        "downloads.html",
        tables=tables,
        formats=list(FORMATS),
        citation=citation(state.public),
    )


def api_paths(openapi: dict[str, Any]) -> list[dict[str, Any]]:
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
    """Computes the pages that viewers open first, before anybody waits for them."""
    state.pages["/"] = index_page(state)
    for declared in _published(state)[0]:
        state.pages[f"/release/{declared.name}"] = release_page(state, declared.name)
