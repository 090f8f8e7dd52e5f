"""`stream-dp rejected`: dead letters by reason, with the attributes and periods of their cells."""

from __future__ import annotations

import argparse
from contextlib import closing

from stream_dp.log.log import Missing

from ..intake.input_decoders import shape_reader
from ..intake.rejections import (
    Placing,
    no_rejections,
    read_rejections,
    rejections_data,
    rejections_text,
    totals,
)
from ..process.command_output import Output
from ..storage.deployment import Deployment


def run(options: argparse.Namespace) -> Output:
    deployment = Deployment.load(options.study)
    try:
        with closing(deployment.log(readonly=True)) as log:
            rejections, records = read_rejections(
                log, Placing(deployment.study, shape_reader(deployment))
            )
    except Missing:
        rejections, records = no_rejections(), 0
    data: dict[str, object] = {
        "confidential": True,
        "rejected": totals(rejections),
        "records": records,
        "cells": rejections_data(rejections),
    }
    lines = rejections_text(rejections) or ["nothing was rejected"]
    return Output(data, "\n".join(["CONFIDENTIAL", *lines]))
