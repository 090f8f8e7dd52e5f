"""`stream-dp check`: validates a study file and says what it promises, costs and gives."""

from __future__ import annotations

import argparse

from stream_dp.plan import plan_study
from stream_dp.planning.summary import summary

from ..deployment import Deployment
from ..options import study_file
from ..output import Output


def options(parser: argparse.ArgumentParser) -> None:
    study_file(parser)
    words = "also every period's charge as a fraction, and each mechanism's parameters"
    parser.add_argument("--exact", action="store_true", help=words)


def run(options: argparse.Namespace) -> Output:
    short = summary(plan_study(Deployment.load(options.study).study))
    text = short.text(exact=options.exact)
    return Output(short.as_dict(), text)
