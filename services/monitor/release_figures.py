"""Figures of a release: the client's own answers over the periods, as charts and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from stream_dp.answers.panel_answer import share_query
from stream_dp.answers.query import attribute_title, event_words
from stream_dp.client import PublicLog
from stream_dp.errors import Inconsistent, UserError
from stream_dp.figures.marks import Chart
from stream_dp.release.answer import RESPONDENTS, ReleaseQuery
from stream_dp.release.public_reader import nothing_published
from stream_dp.release.published_panels import ADVICE
from stream_dp.study import Release

from .answers_for_people import pointwise, simultaneous
from .charts import Line, Look, Point, curves, extent, figure, wide_and_narrow
from .default_questions import Question, heading, questions, response_question, totals

SMALL = (360.0, 236.0)
_PERCENT = 100.0
Row = tuple[str, ...]


@dataclass(frozen=True)
class Numbers:
    """The table behind a chart. columns: the names of what stands in a row."""

    title: str
    columns: Row
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Figure:
    """A chart with its question and numbers.

    charts: for wide and for narrow screens; one where it serves both.
    query: in the words of `stream-dp estimate`; empty where the chart answers several.
    count: whether its answers are numbers of people, not shares.
    """

    title: str
    query: str
    charts: tuple[Chart, ...]
    numbers: tuple[Numbers, ...]
    count: bool = False


@dataclass(frozen=True)
class ReleaseFigures:
    """The figures of a panel's release.

    about: what it releases, in words.
    small: figures beside each other.
    large: a figure of the page's width, of the totals; None where there are none.
    bias: how the panel's own answers are biased.
    """

    name: str
    about: str
    small: tuple[Figure, ...]
    large: Figure | None
    bias: str
    rows: int
    last: str


def release_figures(public: PublicLog, name: str) -> ReleaseFigures:
    """The figures of a release, from all that is published. Raises UserError, Inconsistent."""
    declared = public.study.release(name)
    last = public.releases_of(name)[-1].certificate
    windows = (question for question in questions(public.study, declared) if not question.count)
    small = [asked_figure(public, name, question) for question in windows]
    return ReleaseFigures(
        name=name,
        about=about_release(public, declared),
        small=tuple(figure for figure in small if figure is not None),
        large=totals_figure(public, name),
        bias=last.panel_bias.removesuffix(f"; {ADVICE}"),
        rows=last.rows,
        last=last.period,
    )


def about_release(public: PublicLog, declared: Release) -> str:
    """What a release publishes, in a sentence."""
    study, name = public.study, public.study.alphabet(declared).name
    unit, clauses = study.periods.every, []
    if declared.patterns is not None:
        width = declared.history
        span = f"the last {width} {unit}s" if width > 1 else f"each {unit}"
        clauses.append(f"the patterns of {attribute_title(study, name)} in {span}")
    if declared.totals is not None:
        event = event_words(study, declared.totals)
        verb = "had" if ": " in event else "were"  # a value, or its label
        clauses.append(f"how many {study.unit}s {verb} {event} in at least so many {unit}s so far")
    text = " and ".join(clauses)
    if declared.where:
        ((attribute, value),) = declared.where.items()
        text += f", of those with {attribute}={value}"
    return text[:1].upper() + text[1:] + "."


def answers(
    public: PublicLog, name: str, question: Question, truth: Mapping[str, float] | None = None
) -> Line:
    """The client's estimates at all periods with an answer.

    truth: by period, what a simulation knows.

    Raises UserError where no period has an answer.
    """
    labels = shown_periods(public, name)
    points, refused = list[Point](), None
    periods = public.periods_with(name, question.query)
    for index, label in enumerate(labels):
        if label not in periods:
            continue
        try:
            answer = public.answer(name, question.query, label, count=question.count)
        except Inconsistent:
            raise
        except UserError as error:
            refused = error
            continue
        true_value = None if truth is None else truth.get(label)
        points.append(Point(index, label, answer, true_value, pointwise(answer)))
    if not points:
        raise refused or nothing_published(public.study, name)
    return Line(question.title, tuple(points))


def line_of(public: PublicLog, name: str, question: Question, *, together: bool) -> Line:
    """The client's estimates at all periods with an answer.

    together: whether the fan contains all true answers together, not each by itself.

    Raises UserError.
    """
    line = answers(public, name, question)
    if not together:
        return line
    queries = [ReleaseQuery(name, question.query, point.answer.period) for point in line.points]
    fans = simultaneous(public.answers(queries, count=question.count))
    pairs = zip(line.points, fans, strict=True)
    points = tuple(replace(p, answer=p.answer.alone(), fan=fan) for p, fan in pairs)
    return replace(line, points=points, simultaneous=True)


def shown_periods(public: PublicLog, name: str) -> tuple[str, ...]:
    """The periods on a release's axis: from its first to the last that is published."""
    study = public.study
    first, _ = study.span(study.release(name))
    last = public.releases_of(name)[-1].certificate.number
    return study.periods.labels[first - 1 : last]


def asked_figure(public: PublicLog, name: str, question: Question) -> Figure | None:
    """The figure of a question as a share, or as a count if the last period has no share.

    None where the release cannot answer it at all.
    """
    periods = shown_periods(public, name)
    for attempt in (question, Question(question.title, question.query, count=True)):
        try:
            line = answers(public, name, attempt).for_people(public.study.size)
        except Inconsistent:
            raise
        except UserError:
            continue
        if not attempt.count and line.points[-1].label != periods[-1]:
            continue
        look = look_of(public, [line], count=attempt.count)
        chart = curves([line], periods, look, SMALL)
        table = numbers_of(line, look)
        title = heading(question.title)
        return Figure(title, attempt.query, (chart,), (table,), count=attempt.count)
    return None


def response_figure(public: PublicLog, name: str, query: str) -> Figure | None:
    """The figure of the response below a query's shares of respondents; else None."""
    study = public.study
    declared = study.release(name)
    asked, base = share_query(study, declared, query, count=False)
    response = response_question(study, declared)
    if base is None or base.text != RESPONDENTS or response is None or asked.text == RESPONDENTS:
        return None
    line = answers(public, name, response).for_people(study.size)
    look, labels = look_of(public, [line], count=False), shown_periods(public, name)
    return lines_figure([line], labels, look, heading(response.title), height=180)


def look_of(public: PublicLog, lines: Sequence[Line], *, count: bool) -> Look:
    """The look of lines: of counts of people, or of shares in percent of those in the answers."""
    people = f"{public.study.unit}s"
    if count:
        return Look(unit=people)
    bases = {point.answer.base for line in lines for point in line.points}
    return Look(unit=f"% of {bases.pop() if len(bases) == 1 else people}", scale=_PERCENT)


def totals_figure(public: PublicLog, name: str) -> Figure | None:
    """The figure of all totals of a release; None for a release without totals."""
    declared = public.study.release(name)
    if declared.totals is None:
        return None
    lines = [line.for_people(public.study.size) for line in totals_lines(public, declared)]
    if not lines:
        return None
    return lines_figure(
        lines,
        shown_periods(public, name),
        totals_look(public),
        heading(event_words(public.study, declared.totals)),
    )


def totals_look(public: PublicLog) -> Look:
    """How the lines of totals are drawn."""
    return Look(f"{public.study.unit}s", ends=True)


def totals_lines(public: PublicLog, declared: Release) -> list[Line]:
    """Lines for the totals of a release that people can have reached; empty without totals."""
    if declared.totals is None:
        return []
    lines = []
    for question in totals(public.study, declared):
        # Nobody can reach a threshold earlier than so many periods after the first.
        earliest = int(question.query.split()[-1]) - 1
        points = answers(public, declared.name, question).points
        if reachable := tuple(point for point in points if point.position >= earliest):
            lines.append(Line(question.title, reachable))
    return lines


def lines_figure(
    lines: Sequence[Line], labels: Sequence[str], look: Look, title: str, height: float = 410
) -> Figure:
    """Several lines in one chart of the page's width."""
    charts = wide_and_narrow(lambda size: curves(lines, labels, look, size), height)
    return Figure(title, "", charts, tuple(numbers_of(line, look) for line in lines))


def side_by_side(
    public: PublicLog,
    names: Sequence[str],
    question: Question,
    *,
    together: bool = False,
    panel: bool = False,
) -> tuple[Figure, ...]:
    """Figures of a question to several releases, like strata, on a shared vertical axis.

    together: whether each fan contains all true answers of its curve together.
    panel: whether the synthetic panel's own answers are drawn.

    Raises UserError where one of them cannot answer it.
    """
    lines = {}
    for name in names:
        line = line_of(public, name, question, together=together)
        lines[name] = line.for_people(public.study.size)
    look = replace(look_of(public, [*lines.values()], count=question.count), panel=panel)
    look = replace(look, limits=extent(list(lines.values()), look))
    if len(lines) == 1:
        ((name, line),) = lines.items()
        return (
            lines_figure(
                [line], labels=shown_periods(public, name), look=look, title=name, height=300
            ),
        )
    return tuple(
        Figure(
            name,
            question.query,
            (curves([line], shown_periods(public, name), look, SMALL),),
            (numbers_of(line, look),),
        )
        for name, line in lines.items()
    )


def numbers_of(line: Line, look: Look) -> Numbers:
    """The numbers of a line as texts, a row a period."""
    columns: Row = ("period", "estimate", "95% interval", "standard error", "panel")
    has_truth = any(point.truth is not None for point in line.points)
    rows = []
    for point in line.points:
        answer = point.answer
        low, high = (figure(end, look) for end in answer.ends)
        error = "" if answer.standard_error is None else figure(answer.standard_error, look)
        panel = "" if answer.synthetic is None else figure(answer.synthetic, look)
        texts = [figure(answer.value, look), f"{low} to {high}", error, panel]
        if point.truth is not None:
            texts.append(figure(point.truth, look))
        rows.append((point.label, *texts))
    title = f"{line.title} ({look.unit})"
    return Numbers(title, (*columns, "truth") if has_truth else columns, tuple(rows))
