"""A self-contained HTML file about a public log, for any study."""

from __future__ import annotations

from stream_dp.client import PublicLog
from stream_dp.planning.expected_errors import group_table

from ..portals.description import citation
from .group_chart import group_figure, published_group_errors
from .groups_figures import DataSetFigures, any_figures
from .marginal_series import MarginalSeries, series_of_columns
from .record_rows import (
    HASHES,
    budget_charts,
    budget_table,
    certificate_rows,
    facts,
    held_and_absent,
    privacy_label,
)
from .release_figures import release_figures
from .render import offline_policy, render, resource

_MOST_SERIES = 12  # columns of a data set, over time


def study_page(public: PublicLog, warning: str = "") -> str:
    """Renders the page's HTML. Raises UserError, Inconsistent.

    warning: the first text on the page.
    """
    published = {release.certificate.release for release in public.published}
    names = [r.name for r in public.study.releases if r.name in published]
    sets = [r.name for r in public.study.batches or () if r.name in published]
    data_sets = [any_figures(public, name, None) for name in sets]
    last = public.published[-1] if public.published else None
    style, fold, verifier = map(resource, ("style.css", "fold.js", "verifier.mjs"))
    return render(
        "study.html",
        style=style,
        verifier=verifier,
        fold=fold,
        policy=offline_policy(f"\n{style}\n", fold, verifier),
        warning=warning,
        study=public.study,
        facts=facts(public),
        releases=[release_figures(public, name) for name in names],
        data_sets=[(figures, _over_time(public, figures)) for figures in data_sets],
        most_series=_MOST_SERIES,
        budget=budget_charts(public),
        budget_rows=budget_table(public),
        certificate=() if last is None else certificate_rows(public, last),
        hashes=HASHES,
        label=privacy_label(public),
        groups=group_figure(group_table(public.study, published_group_errors(public))),
        checked=held_and_absent(public.verify()),
        citation=citation(public),
        head=public.head,
    )


def _over_time(public: PublicLog, figures: DataSetFigures) -> tuple[MarginalSeries, ...]:
    """The series of the first columns of a data set."""
    columns = figures.columns_over_time[:_MOST_SERIES]
    return series_of_columns(public, figures.name, columns) if columns else ()
