"""`stream-dp check` and `stream-dp plan`: what a study promises, costs and answers."""

from __future__ import annotations

import argparse
from pathlib import Path

from stream_dp.errors import UserError
from stream_dp.planning.plan import plan_study
from stream_dp.planning.plan_result import PlanRequest, plan_picture, planned
from stream_dp.planning.study_summary import summary

from ..process.command_output import Output
from ..storage.atomic_files import write_text_file
from ..storage.deployment import Deployment
from ..storage.study_register import read_register


def check_study(options: argparse.Namespace) -> Output:
    deployment = Deployment.load(options.study)
    study = deployment.study
    for register in {options.register, deployment.register} - {None}:
        read_register(register).check(study)
    study_summary = summary(plan_study(study))
    text = study_summary.text(long=options.long)
    return Output(study_summary.as_dict(), text)


def plan_queries(options: argparse.Namespace) -> Output:
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
    data, text = result.as_dict(), result.text(long=options.long)
    if out is not None:
        write_text_file(out, plan_picture(data).svg(), public=True)
        text += f"\n\n{out} written"
    return Output(data, text)
