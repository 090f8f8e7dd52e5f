"""`stream-dp estimate`, `estimates` and `regress`: answers with their standard errors.

`estimate` answers a query, `estimates` writes all answers of all releases as one tidy table, and
`regress` fits a regression about the people of a published table.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable
from pathlib import Path

from stream_dp.answers.joint_answers import JointAnswers
from stream_dp.answers.query import of_people
from stream_dp.answers.tables.regression import Coefficient, Regression
from stream_dp.answers.weighted import cell_queries
from stream_dp.client import PublicLog
from stream_dp.errors import UserError
from stream_dp.release.answer import ASSUMED, LEVEL, Answer, Fused, ReleaseQuery, Synthetic
from stream_dp.release.public_reader import AnyCertificate
from stream_dp.study import Study

from ..process.command_output import Output
from ..storage.atomic_files import atomic_file
from ..storage.deployment import open_pinned

ERRORS = "errors are those of the privacy noise, not of sampling people"
SAMPLED = "'estimate' has the errors of the privacy noise alone, 'with sampling' of {}"
NUMBER_TEXT = {"share": "{:.3%}", "count": "{:,.1f}"}  # by measure
SYNTHETIC = {
    Synthetic.PANEL: "panel's answer ",
    Synthetic.RECORDS: "records' answer",
    Synthetic.SIZES: "published      ",
}


def run(options: argparse.Namespace) -> Output:
    if options.of is not None and options.query is not None:
        options.query = of_people(options.query, options.of)
        options.also = options.also and [
            (name, of_people(query, options.of), at) for name, query, at in options.also
        ]
    several = options.each_period or options.also is not None
    difference = options.minus is not None or options.minus_region is not None
    named = {options.release, *(name for name, _, _ in options.also or ())}

    def keep(study: Study, certificate: AnyCertificate, table: str) -> bool:
        if study.batch(certificate.release) is not None:
            return options.release is None or certificate.release in named
        if options.query is None:
            return False
        single_answer = certificate.release == options.release and not (several or difference)
        return table == "measurements" or (table == "panel" and single_answer)

    public, _ = open_pinned(options, keep)
    if options.query is None:
        return _askable(public, options.release)
    if several:
        return _together(public, options)
    count = True if options.count else False if options.share else None
    query = ReleaseQuery(options.release, options.query, options.period, _region(options.region))
    if difference:
        region = options.region if options.minus_region is None else options.minus_region
        baseline = query._replace(period=options.minus or query.period, region=_region(region))
        answer = public.change(query, baseline, count=count, unbiased=options.unbiased)
    else:
        answer = public.answer(
            *query[:3], count=count, region=query.region, unbiased=options.unbiased
        )
    return Output(answer.as_dict(), "\n".join(answer_lines(answer, long=options.long)))


def _region(path: str | None) -> tuple[str, ...] | None:
    return None if path is None else tuple(filter(None, path.split("/")))


def _askable(public: PublicLog, release: str | None) -> Output:
    """Examples of queries of a release, or of all releases."""
    names = [declared.name for declared in public.study.releases]
    names += sorted({r.certificate.release for r in public.published} - {*names})
    askable = {}
    for name in names if release is None else [release]:
        queries = public.queries(name)
        word = next((query for query in queries if " " not in query), "")
        of_regions = [f"{word} --region {'/'.join(path)}" for path in public.regions(name)]
        askable[name] = [*queries, *of_regions]
    if not askable:
        return Output(askable, "nothing is published yet")
    text = [f"{name}\n" + "\n".join(f"  {q}" for q in queries) for name, queries in askable.items()]
    return Output(askable, "what can be asked, for example:\n" + "\n".join(text))


def answer_lines(answer: Answer, *, long: bool = False) -> list[str]:
    """An answer in words, in four lines. long: with other answers to the query, and the method."""
    of_sizes = answer.region is not None
    shown = NUMBER_TEXT.get("" if of_sizes else answer.measure, "{:.5g}").format
    whom = f"{answer.unit} by their number of people" if of_sizes else answer.base
    if answer.weighted_by is not None:
        whom = f"{answer.unit} {answer.people}"
    less = "" if answer.minus is None else f", less {_place(answer.minus)}"
    lines = [f"{answer.query} at {_place(answer)}{less} ({answer.measure} of {whom})"]
    ends = answer.interval and (
        f"  {LEVEL:.0%} interval    {shown(answer.interval[0])} to {shown(answer.interval[1])}"
    )
    known = answer.standard_error is not None
    if known:
        name = "estimate" if answer.minus is None else "change  "
        error = f"standard error {shown(answer.standard_error)}"
        lines.append(f"  {name}        {shown(answer.value)}, {error}")
        lines += [ends] if ends else []
    if answer.unbiased is not None and long:
        lines.append(_unbiased_line(answer.unbiased, shown))
    if answer.sampled is not None:
        low, high = map(shown, answer.sampled.interval)
        error = shown(answer.sampled.standard_error)
        lines.append(f"  with sampling   {low} to {high}, standard error {error}")
    if answer.fused is not None and long:
        lines.append(_fused_line(answer.fused, shown))
    if answer.synthetic is not None and (long or not known):
        padding = f", of which {shown(answer.padding)} are padding" if answer.padding else ""
        levels = ", which agrees between all levels" if of_sizes and answer.minus is None else ""
        lines.append(f"  {SYNTHETIC[answer.origin]} {shown(answer.synthetic)}{padding}{levels}")
    if not known:
        lines.append(f"  standard error  none is known: {answer.reason}")
        lines += [ends] if ends else []
    if long or answer.standard_error == 0:  # why it is certain
        lines += _method(answer)
    if ends and (long or answer.sampled is None):
        errors = ERRORS if answer.sampled is None else SAMPLED.format(answer.sampled.covers)
        lines.append(f"  {errors}")
    return lines


def _method(answer: Answer) -> list[str]:
    """How the answer was computed, and how the panel's own answer is biased."""
    lines = []
    if answer.bias is not None:
        bias = f"  panel's bias    {answer.bias}"
        lines += textwrap.wrap(bias, 100, subsequent_indent=" " * 18, break_long_words=False)
    is_single = answer.sources == (answer.release,)
    sources = "" if is_single else f" of {', '.join(answer.sources)}"
    through = f", from measurements{sources} up to {answer.through}" if answer.through else ""
    return [*lines, f"  method          {answer.method}{through}"]


def _unbiased_line(answer: Answer, shown: Callable[[float], str]) -> str:
    """The unbiased answer beside the default one."""
    low, high = map(shown, answer.ends)
    error = (
        "" if answer.standard_error is None else f", standard error {shown(answer.standard_error)}"
    )
    return f"  unbiased        {shown(answer.value)}, interval {low} to {high}{error}"


def _fused_line(fused: Fused, shown: Callable[[float], str]) -> str:
    """The answer from all data sets up to this period, and its assumption."""
    low, high = map(shown, fused.interval)
    doubt = "; doubtful: far from the period's own answer" if fused.doubtful else ""
    return (
        f"  since {fused.periods[0]:<9} {shown(fused.value)}, interval {low} to {high}:"
        f" of {len(fused.periods)} data sets together, assumes {ASSUMED}{doubt}"
    )


def _place(subject: Answer | ReleaseQuery) -> str:
    """The period of an answer and, of sizes, its region."""
    region = "" if subject.region is None else f", {'/'.join(subject.region) or 'all regions'}"
    return f"{subject.period}{region}"


def _together(public: PublicLog, options: argparse.Namespace) -> Output:
    """Several answers with a band that covers all at once; of two, their difference and ratio."""
    single: dict[str, str | None] = {
        "--minus": options.minus,
        "--region": options.region,
        "--minus-region": options.minus_region,
        "--period": options.period if options.each_period else None,
    }
    for option, value in single.items():
        if value is not None:
            raise UserError(f"{option}: goes with one answer alone")
    queries = [ReleaseQuery(options.release, options.query, options.period)]
    if options.each_period:
        first = cell_queries(public.study, queries[0]).queries[0]
        public.queries(first.release)  # refuses a release that nothing is published of
        periods = public.periods_with(first.release, first.query)
        queries = [queries[0]._replace(period=period) for period in periods]
    queries += [ReleaseQuery(*fields) for fields in options.also or ()]
    joint = public.answers(queries, count=bool(options.count) or None)
    low, high = joint.band()
    measure = joint.answers[0].measure
    shown = NUMBER_TEXT[measure].format
    rows: list[dict[str, object]] = []
    kind = "unbiased " if joint.answers[0].region is None else ""
    text = [
        f"{kind}{measure}s, standard errors, and a band that covers all at once with {LEVEL:.0%}"
    ]
    for query, answer, *band in zip(
        queries, joint.answers, low.tolist(), high.tolist(), strict=True
    ):
        rows.append(
            {
                "release": answer.release,
                "query": query.query,
                "period": answer.period,
                **({"people": answer.base} if measure == "share" else {}),
                "value": answer.value,
                "standard_error": answer.standard_error,
                "band": band,
            }
        )
        base = f", of {answer.base}" if measure == "share" else ""
        text.append(
            f"  {shown(answer.value)}  +- {shown(answer.standard_error)}"
            f"  {shown(band[0])} to {shown(band[1])}"
            f"  {answer.release}, {query.query} at {answer.period}{base}"
        )
    data: dict[str, object] = {
        "measure": measure,
        "level": LEVEL,
        "answers": rows,
        "covariance": joint.covariance.tolist(),
    }
    if len(joint.answers) == 2:
        text += _compared(joint, data)
    if any(query.release in public.weights for query in queries):
        text.append("one query alone has an answer of least error")
    text.append(ERRORS)
    return Output(data, "\n".join(text))


def _compared(joint: JointAnswers, data: dict[str, object]) -> list[str]:
    """The difference and the ratio of two answers, a line for each, and as parts of `data`."""
    lines, measure = [], NUMBER_TEXT[joint.answers[0].measure]
    for name, compare, comparison, shown in (
        ("difference", joint.difference, "the first less the second", measure.format),
        ("ratio", joint.ratio, "the first over the second", "{:.5f}".format),
    ):
        try:
            answer = compare(0, 1)
        except UserError as refused:
            data[name] = None
            lines.append(f"{comparison}: {refused}")
            continue
        shown_keys = ("value", "standard_error", "interval")
        data[name] = {key: value for key, value in answer.as_dict().items() if key in shown_keys}
        low, high = answer.ends
        lines.append(
            f"{comparison}: {shown(answer.value)}, standard error"
            f" {shown(answer.standard_error)}, {LEVEL:.0%} interval {shown(low)} to {shown(high)}"
        )
    return lines


def write_estimates(options: argparse.Namespace) -> Output:
    from pyarrow import csv, parquet  # no other command needs them

    out: Path = options.out
    if out.suffix not in {".parquet", ".csv"}:
        raise UserError(f"{out}: write it as .parquet or .csv")

    def keep(study: Study, certificate: AnyCertificate, table: str) -> bool:
        if study.batch(certificate.release) is None:
            return table == "measurements"
        return options.release in (None, certificate.release)

    public, _ = open_pinned(options, keep)
    if not public.published:
        raise UserError("public log: nothing is published yet")
    table = public.answer_table(options.release)
    with atomic_file(out, public=True) as draft:
        if out.suffix == ".csv":
            csv.write_csv(table, draft)
        else:
            parquet.write_table(table, draft)
    text = (
        f"{out}: {table.num_rows} answers, with intervals of {LEVEL:.0%} for the privacy noise,"
        f" as of head {public.head}"
    )
    return Output({"out": str(out), "rows": table.num_rows, "head": public.head}, text)


REGRESSION_ERRORS = (
    "errors are those of the privacy noise, not of sampling people; ask with --sampling"
)
REGRESSION_SAMPLED = "'with sampling' covers {}; the other intervals cover the privacy noise alone"
NAIVE = "'synthetic rows' is a fit of the synthetic people as if they were people: its intervals"
NAIVE += " know of no noise"


def fit_regression(options: argparse.Namespace) -> Output:
    def keep(study: Study, certificate: AnyCertificate, table: str) -> bool:
        named: str = options.release
        return certificate.release == named

    public, _ = open_pinned(options, keep)
    fit = public.regress(
        options.release,
        options.formula,
        options.period,
        logistic=options.logistic,
        sampling=options.sampling,
    )
    return Output(fit.as_dict(), "\n".join(regression_lines(fit)))


def regression_lines(fit: Regression) -> list[str]:
    """A model in words, line by line."""
    lines = [f"{fit.formula} at {fit.period} ({fit.model}, {fit.people:,.0f} people)"]
    sampled = fit.coefficients[0].sampled
    interval = f"{LEVEL:.0%} interval"
    head = ["", "estimate", "std. error", interval, "synthetic rows", interval]
    if sampled is not None:
        head[4:4] = ["with sampling"]
    rows = [head, *(_row(coefficient) for coefficient in fit.coefficients)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    for first, *cells in rows:
        shown = (f"{cell:>{w}}" for cell, w in zip(cells, widths[1:], strict=True))
        lines.append(f"  {first:<{widths[0]}}  {'  '.join(shown)}".rstrip())
    errors = REGRESSION_ERRORS if sampled is None else REGRESSION_SAMPLED.format(sampled.covers)
    for note in (*fit.notes, errors, NAIVE):
        lines += textwrap.wrap(note, 100, initial_indent="  ", subsequent_indent="    ")
    return lines


def _row(coefficient: Coefficient) -> list[str]:
    """A coefficient as a line of the table: estimate, error, intervals, and the naive fit's."""

    def ends(interval: tuple[float, float]) -> str:
        return f"{interval[0]:.5g} to {interval[1]:.5g}"

    naive = ["none", ""]
    if coefficient.naive is not None:
        naive = [f"{coefficient.naive[0]:.5g}", ends(coefficient.naive[1])]
    return [
        coefficient.term,
        f"{coefficient.estimate:.5g}",
        f"{coefficient.standard_error:.5g}",
        ends(coefficient.interval),
        *([] if coefficient.sampled is None else [ends(coefficient.sampled.interval)]),
        *naive,
    ]
