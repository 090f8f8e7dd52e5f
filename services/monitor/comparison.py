"""Comparisons of two answers: the difference and the ratio, with the joint error of both."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from stream_dp.answers.joint_answers import JointAnswers
from stream_dp.answers.query import EVERYBODY, query_words
from stream_dp.client import PublicLog
from stream_dp.errors import UserError
from stream_dp.figures.marks import (
    Chart,
    Dot,
    Mark,
    Path,
    Text,
    number_axis,
    number_text,
    period_words,
    px,
)
from stream_dp.release.answer import RESPONDENTS, Answer, ReleaseQuery

from .answers_for_people import (
    LEVELS,
    SURE,
    FanEnds,
    difference_words,
    feasible_fan,
    feasible_range,
    for_people,
    interval_words,
    noise_alone,
    number_words,
    pointwise,
    reading,
    verdict,
)
from .default_questions import query_title
from .release_figures import Numbers

_ROW, _TOP, _BOTTOM = 44.0, 10.0, 26.0
_LETTER = 5.0  # the width of a letter of a number


@dataclass(frozen=True)
class Comparison:
    """Two answers and how they differ, not clipped, as for programs.

    common: what both answers have in common, in words.
    titles: what each answer is of beside it.
    difference: the first less the second.
    ratio: the first over the second; None where the second is not clearly above 0.
    chance: that noise alone gives a difference at least this large; None if no error is known.
    verdict: a sentence.
    readings: the sentences of both answers.
    """

    common: str
    titles: tuple[str, str]
    answers: tuple[Answer, Answer]
    difference: Answer
    ratio: Answer | None
    chance: float | None
    verdict: str
    readings: tuple[str, str]

    @property
    def title(self) -> str:
        """What is compared, in words."""
        pair = f"{self.titles[0]} and {self.titles[1]}"
        return f"{self.common}: {pair}" if self.common else pair

    @property
    def whom(self) -> str:
        """Of whom both shares are, in words; empty for other measures and for different people."""
        first, second = self.answers
        return first.base if first.measure == "share" and first.base == second.base else ""

    @property
    def since(self) -> str:
        """The period of the second answer, in words."""
        return period_words(self.answers[1].period)

    def as_dict(self) -> dict[str, object]:
        """The comparison as plain data."""
        keys = ("value", "standard_error", "interval")
        difference, ratio = self.difference.as_dict(), self.ratio and self.ratio.as_dict()
        stated = [*keys, *(["people"] if "people" in difference else [])]
        return {
            "answers": [answer.as_dict() for answer in self.answers],
            "difference": {key: difference[key] for key in stated},
            "ratio": ratio and {key: ratio[key] for key in keys},
            "noise_alone": self.chance,
            "verdict": self.verdict,
        }


def compared(
    public: PublicLog, first: ReleaseQuery, second: ReleaseQuery, *, count: bool | None
) -> Comparison:
    """Compares the public answers to two queries of any releases.

    What both answers share becomes the common title; what differs becomes the title of each.

    count: True for numbers, False for shares, None for what is usual of each release.

    Raises UserError for the same query twice, or for a share against a number.
    """
    if first == second:
        raise UserError("compare: both answers are the same; choose another period or question")
    joint = public.answers([first, second], count=count)
    measure = {answer.measure for answer in joint.answers}
    if len(measure) > 1:
        raise UserError("compare: one answer is a share and the other a number; choose one measure")
    try:
        ratio = joint.ratio(0, 1)
    except UserError:
        ratio = None
    size, pair = public.study.size, (first, second)
    difference, answers = _difference(public, pair, joint, count=count)
    sentences = [_words(public, query) for query in pair]
    facts = [  # of each answer: the question, the release, the region and the period
        (word, query.release, _region(query), period_words(answer.period))
        for word, query, answer in zip(sentences, pair, answers, strict=True)
    ]
    differs = [a != b for a, b in zip(*facts, strict=True)]
    common = ", ".join(
        fact for fact, other in zip(facts[0], differs, strict=True) if fact and not other
    )
    titles = [", ".join(itertools.compress(fact, differs)) for fact in facts]
    only_period_differs = differs == [False, False, False, True]
    words_of_difference = verdict(for_people(difference, size), over_time=only_period_differs)
    if only_period_differs:
        words_of_difference = _among_respondents(public, pair, difference, words_of_difference)
    readings = [reading(w, for_people(a, size)) for w, a in zip(sentences, answers, strict=True)]
    return Comparison(
        common=common,
        titles=(titles[0], titles[1]),
        answers=answers,
        difference=difference,
        ratio=ratio,
        chance=noise_alone(difference),
        verdict=words_of_difference,
        readings=(readings[0], readings[1]),
    )


def _difference(
    public: PublicLog,
    pair: tuple[ReleaseQuery, ReleaseQuery],
    joint: JointAnswers,
    *,
    count: bool | None,
) -> tuple[Answer, tuple[Answer, Answer]]:
    """The difference and both answers: of least error if they are of one panel.

    joint: the unbiased answers.
    """
    change = public.change(*pair, count=count)
    if change.unbiased is None:
        return joint.difference(0, 1), (joint.answers[0], joint.answers[1])
    first, second = (public.answer(*q[:3], count=count, region=q.region) for q in pair)
    return change, (first, second)


def _among_respondents(
    public: PublicLog, pair: tuple[ReleaseQuery, ReleaseQuery], change: Answer, said: str
) -> str:
    """The verdict on a change over time among respondents.

    change: between the periods. said: the verdict on it alone.
    """
    if change.people == f"among {RESPONDENTS}":
        return said + _response_verdict(public, pair)
    asked = query_words(pair[0].query)
    if asked.weighted or asked.among not in (None, EVERYBODY) or not _is_sure(change):
        return said
    queries = [query._replace(query=asked.query) for query in pair]
    try:
        shares = public.change(*queries, count=False)
    except UserError:
        return said
    alike = (shares.value < 0) == (change.value < 0)
    if shares.people != f"among {RESPONDENTS}" or (_is_sure(shares) and alike):
        return said
    size = difference_words(abs(shares.value), shares.measure, shares.unit)
    verb = "fell" if shares.value < 0 else "rose"
    measure = "number" if change.measure == "count" else f"share of {change.base}"
    all_verb = "fell" if change.value < 0 else "rose"
    by = difference_words(abs(change.value), change.measure, change.unit)
    return (
        f"Among {RESPONDENTS} the change does not hold: their share {verb} by {size}, which"
        f" {'stands out of' if _is_sure(shares) else 'cannot be told from'} the noise. The"
        f" {measure} {all_verb} by {by}.{_response_verdict(public, pair)}"
    )


def _is_sure(difference: Answer) -> bool:
    """Whether a difference stands out of the noise."""
    chance = noise_alone(difference)
    return chance is not None and chance < SURE


def _response_verdict(public: PublicLog, pair: tuple[ReleaseQuery, ReleaseQuery]) -> str:
    """A sentence on the change of the response, if it stands out of the noise."""
    queries = [query._replace(query=RESPONDENTS) for query in pair]
    try:
        difference = public.change(*queries, count=False)
    except UserError:  # how many people there are is not known
        return ""
    if not _is_sure(difference):
        return ""
    verb = "fell" if difference.value < 0 else "rose"
    size = difference_words(abs(difference.value), difference.measure, difference.unit)
    return f" Beside it the response {verb} by {size}."


def _words(public: PublicLog, query: ReleaseQuery) -> str:
    """The question in words; of a panel's release from the declared labels."""
    declared = next((r for r in public.study.releases if r.name == query.release), None)
    return query.query if declared is None else query_title(public.study, declared, query.query)


def _region(query: ReleaseQuery) -> str:
    return "" if query.region is None else "/".join(query.region) or "all regions"


def comparison_numbers(compared: Comparison, size: int | None) -> Numbers:
    """Both answers, the difference and the ratio as a table. size: the public number of people."""
    rows = [*zip(compared.titles, compared.answers, strict=True)]
    rows.append(("difference", compared.difference))
    if compared.ratio is not None:
        rows.append(("ratio", compared.ratio))
    if compared.answers[0].measure == "share" and not compared.whom:
        rows[:2] = [(f"{name}, of {answer.base}", answer) for name, answer in rows[:2]]
    texts = []
    for name, unbiased in rows:
        answer = for_people(unbiased, size)
        error = answer.standard_error
        texts.append(
            (
                name,
                number_words(answer.value, answer.measure),
                "" if answer.interval is None else interval_words(answer.interval, answer.measure),
                "" if error is None else number_words(error, answer.measure),
            )
        )
    columns = ("answer", "estimate", "95% interval", "standard error")
    of_whom = compared.whom and f", in shares of {compared.whom}"
    return Numbers(f"Both answers and how they differ{of_whom}", columns, tuple(texts))


def comparison_chart(compared: Comparison, size: int | None, width: float) -> Chart:
    """Two answers above each other with their fans. size: the public number of people."""
    rows = [(t, a) for t, a in zip(compared.titles, compared.answers, strict=True)]
    return _rows_chart(rows, size, width, compared.verdict)


def difference_chart(compared: Comparison, size: int | None, width: float) -> Chart:
    """The difference with its fan, beside a line at 0."""
    return _rows_chart([("difference", compared.difference)], size, width, compared.verdict)


def _rows_chart(
    rows: list[tuple[str, Answer]], size: int | None, width: float, description: str
) -> Chart:
    """Answers as points in fans of intervals, a row each; a difference with a line at 0."""
    scale = 100.0 if rows[0][1].measure == "share" else 1.0
    shown: list[tuple[str, Answer, FanEnds]] = []
    for name, answer in rows:
        feasible = feasible_range(answer, size)
        fan = feasible_fan(pointwise(answer), feasible)
        shown.append((name, for_people(answer, size), fan))
    is_difference = rows[0][1].minus is not None
    numbers = [scale * n for _, a, fan in shown for n in (a.value, *(e for f in fan for e in f))]
    axis = number_axis(
        min([*numbers, 0.0] if is_difference else numbers),
        max([*numbers, 0.0] if is_difference else numbers),
    )
    left, right = 8.0, 14.0
    height = _TOP + _ROW * len(shown) + _BOTTOM

    def x(number: float) -> float:
        inside = (scale * number - axis.low) / (axis.high - axis.low)
        return px(left + inside * (width - left - right))

    marks: list[Mark] = []
    unit = "%" if scale == 100.0 else ""
    unit = " points" if unit and is_difference else unit
    step = (width - left - right) / max(1, len(axis.ticks) - 1)
    for i, tick in enumerate(axis.ticks):
        text = number_text(tick, axis.ticks) + (unit if i == len(axis.ticks) - 1 else "")
        marks.append(Path("grid", f"M{x(tick / scale)} {_TOP}V{height - _BOTTOM}"))
        if i == len(axis.ticks) - 2 and step < _LETTER * (len(unit) + 6):
            continue  # its number would run into the last one with the unit
        anchor = "end" if i == len(axis.ticks) - 1 else "start" if i == 0 else "middle"
        marks.append(Text("tick", x(tick / scale), height - 8, text, anchor))
    if is_difference:
        marks.append(Path("truth", f"M{x(0.0)} {_TOP}V{height - _BOTTOM}"))
    for i, (name, answer, fan) in enumerate(shown):
        y = _TOP + _ROW * i + 30
        marks.append(Text("name", 0, y - 16, name))
        for level, (low, high) in reversed(list(zip(LEVELS, fan, strict=bool(fan)))):
            marks.append(Path(f"bar-{100 * level:.0f}", f"M{x(low)} {y}H{x(high)}"))
        marks.append(Dot("estimate", x(answer.value), y, 4))
    return Chart(width, height, description, tuple(marks))
