"""`stream-dp check`: validates a study file and prints the promises, costs and releases."""

from __future__ import annotations

import argparse

from stream_dp.planning.plan import plan_study
from stream_dp.planning.study_summary import summary

from ..deployment import Deployment
from ..options import study_file
from ..process.output import Output


def options(parser: argparse.ArgumentParser) -> None:
    study_file(parser)
    help_text = "also every period's charge as a fraction, and each mechanism's parameters"
    parser.add_argument("--exact", action="store_true", help=help_text)


def run(options: argparse.Namespace) -> Output:
    study_summary = summary(plan_study(Deployment.load(options.study).study))
    text = study_summary.text(exact=options.exact)
    return Output(study_summary.as_dict(), text)
