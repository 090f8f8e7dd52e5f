"""`stream-dp rejected`: dead letters by reason, and the attributes and periods of their cells."""

from __future__ import annotations

import argparse
from contextlib import closing
from typing import Any

from stream_dp.log.base import Missing
from stream_dp.topics import DEAD_LETTERS

from ..dead_letters import cells_of
from ..deployment import Deployment
from ..following import READ_AT_ONCE, following
from ..options import study_file
from ..output import Output
from ..rejections import Placing, no_rejections, rejections_data, rejections_text, totals
from ..schema_source import shape_reader


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
                if (same := (letter.key, tuple(cells.items()))) in letters_read:
                    continue
                letters_read.add(same)
                keys.add(letter.key)
                for reason, where in placing.places(letter, cells):
                    rejections[reason] += where
    except Missing:
        pass
    data: dict[str, Any] = {
        "confidential": True,
        "rejected": totals(rejections),
        "records": len(keys),
        "cells": rejections_data(rejections),
    }
    lines = rejections_text(rejections) or ["nothing was rejected"]
    return Output(data, "\n".join(["CONFIDENTIAL", *lines]))
