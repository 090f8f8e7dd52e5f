"""`stream-dp check`: validates a study file and prints the promises, costs and releases."""

from __future__ import annotations

import argparse

from stream_dp.planning.plan import plan_study
from stream_dp.planning.study_summary import summary

from ..process.command_output import Output
from ..storage.deployment import Deployment
from ..storage.study_register import read_register


def run(options: argparse.Namespace) -> Output:
    deployment = Deployment.load(options.study)
    study = deployment.study
    for register in {options.register, deployment.register} - {None}:
        read_register(register).check(study)
    study_summary = summary(plan_study(study))
    text = study_summary.text(long=options.long)
    return Output(study_summary.as_dict(), text)
