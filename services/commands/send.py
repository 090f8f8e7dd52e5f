"""`stream-dp send`: tables of reports."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..deployment import Deployment
from ..options import layout, study_file, table_columns
from ..output import Output
from ..reports import send_table


def options(parser: argparse.ArgumentParser) -> None:
    study_file(parser)
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    table_columns(parser)


def run(options: argparse.Namespace) -> Output:
    deployment = Deployment.load(options.study)
    how = layout(options)
    sent = {str(path): send_table(deployment, path, how) for path in options.files}
    text = [f"{path}: {count} reports sent" for path, count in sent.items()]
    return Output({"sent": sent}, "\n".join(text))
