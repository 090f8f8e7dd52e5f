"""`stream-dp plan`: the errors to expect of queries, and the budget that an error needs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from fractions import Fraction
from statistics import NormalDist
from typing import Any

from stream_dp.errors import UserError
from stream_dp.estimate.examples import example_queries
from stream_dp.planning.alternatives import alternatives
from stream_dp.planning.expected import ExpectedError, asked_query, expected_errors
from stream_dp.planning.needed import Asked, Goal, needed_budget
from stream_dp.privacy.zcdp import epsilon
from stream_dp.study import Study

from ..deployment import Deployment
from ..options import study_file
from ..output import Output


def options(parser: argparse.ArgumentParser) -> None:
    study_file(parser)
    words = "in words, may be repeated; by default examples of every release"
    parser.add_argument("--query", action="append", metavar="QUERY", help=words)
    words = "of this release alone; by default of all that can answer"
    parser.add_argument("--release", metavar="NAME", help=words)
    words = "print the rho that half-widths of at most this need, at every period"
    parser.add_argument("--error", type=float, metavar="E", help=words)
    words = "the level of the intervals, 0.95 by default"
    parser.add_argument("--confidence", type=float, default=0.95, metavar="LEVEL", help=words)
    parser.add_argument("--count", action="store_true", help="--error is a number of people")
    words = "the number of people that shares are of, where it is private or not yet known"
    parser.add_argument("--people", type=int, metavar="N", help=words)
    words = "other declarations that answer each query, with their errors at the same rho"
    parser.add_argument("--alternatives", action="store_true", help=words)


def run(options: argparse.Namespace) -> Output:
    _check(options)
    study = Deployment.load(options.study).study
    asked = _asked(study, options.release, options.query)
    quantile = NormalDist().inv_cdf((1 + options.confidence) / 2)
    count = bool(options.count)
    rows: list[ExpectedError] = []
    for name, query in asked:
        rows += expected_errors(study, name, query, people=options.people)
    goal = Goal(asked, options.error or 1.0, quantile, count=count, people=options.people)
    data: dict[str, Any] = {
        "study": study.name,
        "rho": str(study.rho),
        "epsilon": str(epsilon(study.rho, study.delta)),
        "confidence": options.confidence,
        "errors": [_row(row, quantile) for row in rows],
    }
    lines = [*_table(study, rows, quantile, options.confidence)]
    if options.error is not None:
        needed = needed_budget(study, goal)
        data["needed"] = needed.as_dict()
        unit = f"{study.unit}s" if count else "as a share"
        lines += ["", f"half-widths of at most {options.error:g} ({unit}), every period, need"]
        lines += [
            f"  release {new.name}: rho = {float(new.rho):g} (now {float(old.rho):g})"
            for new, old in zip(needed.study.releases, study.releases, strict=True)
        ]
        new = needed.study
        lines.append(
            f"  in all: rho = {float(new.rho):g}, eps = {epsilon(new.rho, new.delta)} at delta ="
            f" {float(new.delta):g}; planned again, the largest half-width is {needed.error:.4g}"
        )
    if options.alternatives:
        reach = options.error is not None
        data["alternatives"] = _alternative_rows(study, goal, reach=reach)
        lines += _alternative_lines(study, data["alternatives"], reach=reach)
    return Output(data, "\n".join(lines))


def _check(options: argparse.Namespace) -> None:
    if not 0 < options.confidence < 1:
        raise UserError("--confidence: write a level between 0 and 1, such as 0.95")
    if options.people is not None and options.people < 1:
        raise UserError("--people: write a number of at least 1")
    if options.error is not None and not 0 < options.error < float("inf"):
        raise UserError("--error: write a number above 0")
    if options.count and options.error is None and not options.alternatives:
        raise UserError("--count: says what --error or --alternatives is of; give one of them")


def _asked(study: Study, release: str | None, queries: Sequence[str] | None) -> list[Asked]:
    """The releases and queries to plan. Raises UserError where no release can answer a query."""
    names = [r.name for r in study.releases] if release is None else [study.release(release).name]
    if not names:
        raise UserError("releases: none of a panel; errors are planned of panels' queries alone")
    if queries is None:
        return [(name, q) for name in names for q in example_queries(study, study.release(name))]
    asked: list[Asked] = []
    for query in queries:
        refusals, before = [], len(asked)
        for name in names:
            try:
                asked_query(study, name, query)
                asked.append((name, query))
            except UserError as error:
                refusals += [f"release '{name}': {line}" for line in error.lines]
        if len(asked) == before:
            raise UserError(refusals)
    return asked


def _row(row: ExpectedError, quantile: float) -> dict[str, Any]:
    halves = {
        f"{name}_half_width": None if error is None else quantile * error
        for name, error in (
            ("count", row.count),
            ("share", row.share),
            ("final_count", row.final_count),
            ("final_share", row.final_share),
        )
    }
    return {**row.__dict__, **halves}


def _table(
    study: Study, rows: Sequence[ExpectedError], quantile: float, confidence: float
) -> list[str]:
    labels = study.periods.labels
    lines = [
        f"study {study.name}: errors to expect of the privacy noise, before any data",
        f"each: standard error, half-width at {confidence:.4g}; as a share and in {study.unit}s",
    ]
    before = None
    for row in rows:
        if (row.release, row.query) != before:
            before = row.release, row.query
            lines += [
                "",
                f"{row.release}: {row.query}",
                f"  {'period':<10} {'when it is published':<44} once {labels[-1]} is published",
            ]
        now = _cell(row.share, row.count, quantile)
        lines.append(
            f"  {row.period:<10} {now:<44} {_cell(row.final_share, row.final_count, quantile)}"
        )
    if all(row.share is None for row in rows):
        lines += ["", "shares: the number of people is private; --people N assumes one"]
    return lines


def _cell(share: float | None, count: float, quantile: float) -> str:
    people = f"{count:.1f}, +-{quantile * count:.1f}"
    return people if share is None else f"{share:.5f}, +-{quantile * share:.5f}; {people}"


def _alternative_rows(study: Study, goal: Goal, *, reach: bool) -> list[dict[str, Any]]:
    """The alternatives for each query, with what they give and, for an error, what they cost."""
    return [
        {
            "release": name,
            "query": query,
            "declaration": each.words,
            "half_width": each.error,
            "rho_needed": None if each.rho is None else str(each.rho),
        }
        for name, query in goal.asked
        for each in alternatives(study, name, query, goal=goal, reach=reach)
    ]


def _alternative_lines(study: Study, rows: Sequence[dict[str, Any]], *, reach: bool) -> list[str]:
    lines, before = [], None
    for row in rows:
        if (row["release"], row["query"]) != before:
            before = row["release"], row["query"]
            rho = float(study.release(row["release"]).rho)
            lines += [
                "",
                f"{row['release']}: {row['query']}: by itself, at rho = {rho:g}",
                f"  {'declared as':<58} {'half-width':<12}" + "rho for the error" * reach,
            ]
        needed = row["rho_needed"]
        cost = (
            ""
            if not reach
            else "out of reach"
            if needed is None
            else f"{float(Fraction(needed)):.4g}"
        )
        lines.append(f"  {row['declaration']:<58} {row['half_width']:<12.4g}{cost}".rstrip())
    return lines
