"""`stream-dp plan`: the errors to expect of queries, and the budget that an error needs."""

from __future__ import annotations

import argparse
from pathlib import Path

from stream_dp.errors import UserError
from stream_dp.planning.plan_picture import plan_picture
from stream_dp.planning.plan_result import PlanRequest, planned

from ..intake.options import study_file
from ..process.command_output import Output
from ..storage.atomic_files import write_text_file
from ..storage.deployment import Deployment


def options(parser: argparse.ArgumentParser) -> None:
    study_file(parser)
    help_text = "in words, may be repeated; by default examples of every release"
    parser.add_argument("--query", action="append", metavar="QUERY", help=help_text)
    help_text = "ask this release only; by default every release that can answer"
    parser.add_argument("--release", metavar="NAME", help=help_text)
    help_text = "print the rho for half-widths of at most E at every period"
    parser.add_argument("--error", type=float, metavar="E", help=help_text)
    help_text = "the level of the intervals, 0.95 by default"
    parser.add_argument("--confidence", type=float, default=0.95, metavar="LEVEL", help=help_text)
    parser.add_argument("--count", action="store_true", help="--error is a number of people")
    help_text = "the number of people as the base of shares, if it is private or unknown"
    parser.add_argument("--people", type=int, metavar="N", help=help_text)
    help_text = "plan the same study over N periods"
    parser.add_argument("--periods", type=int, metavar="N", help=help_text)
    help_text = (
        "other kinds, widths, counters, horizons and waves that answer each query, with their"
    )
    help_text += " errors at the same rho"
    parser.add_argument("--alternatives", action="store_true", help=help_text)
    help_text = "write half-widths over the periods, and the alternatives, as a picture .svg"
    parser.add_argument("--picture", type=Path, metavar="OUT", help=help_text)


def run(options: argparse.Namespace) -> Output:
    out: Path | None = options.picture
    if out is not None and out.suffix != ".svg":
        raise UserError(f"--picture {out}: write it as .svg")
    if options.count and options.error is None and not options.alternatives:
        raise UserError("--count: says what --error or --alternatives is of; give one of them")
    request = PlanRequest(
        release=options.release,
        queries=None if options.query is None else tuple(options.query),
        error=options.error,
        confidence=options.confidence,
        count=options.count,
        people=options.people,
        periods=options.periods,
        alternatives=options.alternatives,
    )
    request.check()
    result = planned(Deployment.load(options.study).study, request)
    data, text = result.as_dict(), result.text()
    if out is not None:
        write_text_file(out, plan_picture(data).svg(), public=True)
        text += f"\n\n{out} written"
    return Output(data, text)
