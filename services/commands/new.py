"""`stream-dp new`: writes a commented study file to start from."""

from __future__ import annotations

import argparse
from importlib import resources
from pathlib import Path

from ..process.command_output import Output
from ..storage.atomic_files import write_new_file


def run(options: argparse.Namespace) -> Output:
    path: Path = options.study
    name = "study.toml" if options.kafka is None else "kafka_study.toml"
    text = resources.files("stream_dp.services.commands").joinpath(name).read_text("utf-8")
    if options.kafka is not None:
        text = text.replace("BROKER", options.kafka).replace("NAME", path.stem)
    write_new_file(path, text, public=True)
    return Output({"written": str(path)}, f"{path} written; edit it, then: stream-dp check {path}")
