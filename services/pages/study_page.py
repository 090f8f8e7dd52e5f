"""A self-contained HTML file about a public log, for any study."""

from __future__ import annotations

from stream_dp.client import PublicLog

from .data_set_pages import any_figures
from .privacy_label import privacy_label
from .record_rows import HASHES, budget_charts, budget_table, certificate_rows, citation, facts
from .release_figures import release_figures
from .render import render, resource


def study_page(public: PublicLog, warning: str = "") -> str:
    """Renders the page's HTML. Raises UserError, Inconsistent.

    warning: the first text on the page.
    """
    published = {release.certificate.release for release in public.published}
    names = [r.name for r in public.study.releases if r.name in published]
    sets = [r.name for r in public.study.batches or () if r.name in published]
    last = public.published[-1] if public.published else None
    return render(
        "study.html",
        style=resource("style.css"),
        warning=warning,
        study=public.study,
        facts=facts(public),
        releases=[release_figures(public, name) for name in names],
        data_sets=[any_figures(public, name, None) for name in sets],
        budget=budget_charts(public),
        budget_rows=budget_table(public),
        certificate=() if last is None else certificate_rows(public, last),
        hashes=HASHES,
        label=privacy_label(public),
        verified=public.verify(),
        citation=citation(public),
        head=public.head,
    )
