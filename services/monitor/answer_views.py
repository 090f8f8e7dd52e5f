"""Pages of answers to questions, and of two answers beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from stream_dp.client import PublicLog
from stream_dp.errors import UserError
from stream_dp.figures.marks import Chart
from stream_dp.release.answer import ReleaseQuery
from stream_dp.release.public_reader import nothing_published

from .answers_for_people import for_people, reading
from .comparison import Comparison, compared, comparison_chart, comparison_numbers, difference_chart
from .default_questions import Question, default_query, query_title
from .public_api import region_path
from .public_state import State
from .query_forms import (
    FigureLinks,
    PageQuery,
    address,
    builder,
    comparable,
    other_base,
    siblings,
)
from .release_figures import about_release, response_figure, side_by_side
from .views import rendered

_WIDE, _NARROW = 780.0, 340.0


def answer_page(state: State, name: str, page_query: PageQuery) -> bytes:
    """The answer to a query over all periods, beside other releases' answers. Raises UserError."""
    public, study = state.public, state.public.study
    declared = study.release(name)
    page_query = page_query.changed(beside=comparable(study, declared, page_query.beside))
    last = public.answer(name, page_query.query, count=page_query.count)
    title = query_title(study, declared, page_query.query)
    question = Question(title, page_query.query, count=page_query.count)
    figures = side_by_side(
        public,
        [name, *page_query.beside],
        question,
        together=page_query.together,
        panel=page_query.panel,
    )
    answer = for_people(last, study.size)
    response = None if page_query.count else response_figure(public, name, page_query.query)
    return rendered(
        state,
        "answer.html",
        name=name,
        title=title,
        about=about_release(public, declared),
        page_query=page_query,
        figures=figures,
        response=response,
        answer=answer,
        other=other_base(public, last, page_query.query),
        reading=reading(title, answer),
        links=FigureLinks("release", name, page_query.fields()),
        trend=_trend(state, name, page_query),
        form=CompareForm.of(state, name, page_query.query, page_query.count),
        builder=builder(study, declared),
        examples=public.queries(name),
        address=address,
    )


def _trend(state: State, name: str, page_query: PageQuery) -> Comparison | None:
    """The change from the first period to the last; None for a single period."""
    first, *later = state.public.periods_with(name, page_query.query)
    if not later:
        return None
    queries = [ReleaseQuery(name, page_query.query, period) for period in (later[-1], first)]
    try:
        return compared(state.public, *queries, count=page_query.count)
    except UserError:
        return None


@dataclass(frozen=True)
class CompareForm:
    """The fields of the form that compares two answers.

    names: the releases that can be chosen.
    periods: of all of them, in order.
    regions: examples of regions of sizes; empty for other releases.
    chosen: the values of the fields by name.
    """

    name: str
    names: tuple[str, ...]
    periods: tuple[str, ...]
    regions: tuple[str, ...]
    measures: bool
    chosen: dict[str, str]

    @classmethod
    def of(
        cls,
        state: State,
        name: str,
        query: str,
        count: bool | None,
        chosen: dict[str, str] | None = None,
    ) -> CompareForm:
        public = state.public
        declared = next((r for r in public.study.releases if r.name == name), None)
        names = [name] if declared is None else [name, *siblings(public.study, declared)]
        names = [release for release in names if public.periods_of(release)]
        published = {period for release in names for period in public.periods_with(release)}
        periods = [label for label in public.study.periods.labels if label in published]
        second_query = query if len(periods) > 1 else _other_query(state, name, query)
        fields = {
            "q": query,
            "period": periods[-1],
            "with": name,
            "q2": second_query,
            "period2": _first_period(public, name, query, periods),
            "measure": "count" if count else "share",
            "region": "",
            "region2": "",
        }
        fields |= {key: value for key, value in (chosen or {}).items() if value and key in fields}
        regions = tuple("/".join(path) for path in public.regions(name))
        return cls(name, tuple(names), tuple(periods), regions, not regions, fields)

    def queries(self) -> tuple[ReleaseQuery, ReleaseQuery]:
        """The two questions."""
        fields = self.chosen
        return (
            ReleaseQuery(self.name, fields["q"], fields["period"], region_path(fields["region"])),
            ReleaseQuery(
                fields["with"], fields["q2"], fields["period2"], region_path(fields["region2"])
            ),
        )

    @property
    def count(self) -> bool | None:
        return self.chosen["measure"] == "count" if self.measures else None


def _first_period(public: PublicLog, name: str, query: str, periods: Sequence[str]) -> str:
    """The first period with an answer to a query, or the first period of all without an answer."""
    if public.study.batch(name) is not None:
        return periods[0]
    with suppress(UserError):
        return (*public.periods_with(name, query), periods[0])[0]
    return periods[0]


def _other_query(state: State, name: str, query: str) -> str:
    """An example that a query of the only period can be compared with, or the query itself."""
    for example in state.public.queries(name):
        queries = [ReleaseQuery(name, text, None) for text in (query, example)]
        with suppress(UserError):
            compared(state.public, *queries, count=None)
            return example
    return query


def comparison_of(state: State, form: CompareForm) -> Comparison:
    """The comparison of a form. Raises UserError."""
    return compared(state.public, *form.queries(), count=form.count)


def compare_page(state: State, name: str, fields: dict[str, str]) -> tuple[bytes, bool]:
    """Two answers beside each other, or the reasons why not, and the form again.

    Returns the page and whether the questions are understood. Raises UserError for an unknown
    release, and for one of which nothing is published.
    """
    if not state.public.periods_of(name):
        raise nothing_published(state.public.study, name)
    examples = state.public.queries(name)
    query = fields.get("q") or default_query(state.public, name)
    form = CompareForm.of(state, name, query, None, fields)
    faults: Sequence[str] = ()
    result: Comparison | None = None
    charts: tuple[Chart, ...] = ()
    difference: tuple[Chart, ...] = ()
    try:
        result = comparison_of(state, form)
        size = state.public.study.size
        charts = tuple(comparison_chart(result, size, width) for width in (_WIDE, _NARROW))
        difference = tuple(difference_chart(result, size, width) for width in (_WIDE, _NARROW))
    except UserError as error:
        faults = error.lines
    page = rendered(
        state,
        "compare.html",
        title=result.title if result else "",
        links=FigureLinks("compare", name, urlencode(form.chosen)),
        name=name,
        back=f"/{'data' if state.public.study.batch(name) else 'release'}/{quote(name, safe='')}",
        form=form,
        faults=faults,
        compared=result,
        whom=result.whom if result else "",
        charts_of_both=charts,
        difference=difference,
        numbers=None if result is None else comparison_numbers(result, state.public.study.size),
        examples=examples,
    )
    return page, not faults
