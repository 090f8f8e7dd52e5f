"""`stream-dp close`: an operator's markers, which close periods."""

from __future__ import annotations

import argparse

from stream_dp.errors import UserError

from ..deployment import Deployment
from ..markers import send_close_markers
from ..options import study_file
from ..output import Output


def options(parser: argparse.ArgumentParser) -> None:
    study_file(parser)
    parser.add_argument("period", metavar="PERIOD")


def run(options: argparse.Namespace) -> Output:
    deployment = Deployment.load(options.study)
    periods = deployment.study.periods
    if periods.close != "marker":
        raise UserError("close: this study closes by its schedule, not by markers")
    number = periods.numbers.get(options.period)
    if number is None:
        raise UserError(
            f"period '{options.period}': not one of the study's, {periods.labels[0]} to"
            f" {periods.labels[-1]}"
        )
    send_close_markers(deployment, number)
    text = f"{options.period} is closed to reports from here on; 'stream-dp run' releases it"
    return Output({"closed": options.period}, text)
