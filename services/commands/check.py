"""`stream-dp check`: validates a study file and prints its plan."""

from __future__ import annotations

import argparse

from ..deployment import Deployment
from ..options import study_file
from ..output import Output


def options(parser: argparse.ArgumentParser) -> None:
    study_file(parser)


def run(options: argparse.Namespace) -> Output:
    plan = Deployment.load(options.study).plan
    return Output(plan.as_dict(), plan.text())
