"""`stream-dp rejected`: dead letters by reason, with the attributes and periods of their cells."""

from __future__ import annotations

import argparse
from contextlib import closing

from stream_dp.log.log import Missing
from stream_dp.study.topics import DEAD_LETTERS

from ..deployment import Deployment
from ..intake.dead_letters import cells_of
from ..intake.following import READ_AT_ONCE, following
from ..intake.rejections import Placing, no_rejections, rejections_data, rejections_text, totals
from ..intake.schema_source import shape_reader
from ..options import study_file
from ..process.output import Output


def options(parser: argparse.ArgumentParser) -> None:
    study_file(parser)


def run(options: argparse.Namespace) -> Output:
    deployment = Deployment.load(options.study)
    placing = Placing(deployment.study, shape_reader(deployment))
    letters_read: set[object] = set()
    rejections = no_rejections()
    keys: set[bytes | None] = set()
    try:
        with closing(deployment.log(readonly=True)) as log:
            positions = dict(log.describe(DEAD_LETTERS).first)
            for letter in following(log, DEAD_LETTERS, positions, READ_AT_ONCE):
                cells = cells_of(letter)
                # A letter that was written again after a crash counts once.
                if (duplicate_key := (letter.key, tuple(cells.items()))) in letters_read:
                    continue
                letters_read.add(duplicate_key)
                keys.add(letter.key)
                for reason, counts in placing.places(letter, cells):
                    rejections[reason] += counts
    except Missing:
        pass
    data: dict[str, object] = {
        "confidential": True,
        "rejected": totals(rejections),
        "records": len(keys),
        "cells": rejections_data(rejections),
    }
    lines = rejections_text(rejections) or ["nothing was rejected"]
    return Output(data, "\n".join(["CONFIDENTIAL", *lines]))
