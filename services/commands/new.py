"""`stream-dp new`: writes a commented study file to start from."""

from __future__ import annotations

import argparse
from contextlib import suppress
from importlib import resources
from pathlib import Path

from stream_dp.errors import UserError, write_error

from ..options import study_file
from ..process.output import Output


def options(parser: argparse.ArgumentParser) -> None:
    study_file(parser)


def run(options: argparse.Namespace) -> Output:
    path: Path = options.study
    text = resources.files("stream_dp.services.commands").joinpath("study.toml").read_text("utf-8")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UserError(f"{path}: is there already; nothing was written") from None
    except OSError as error:
        with suppress(OSError):  # an incomplete file of this call
            path.unlink()
        raise write_error(path, error) from None
    return Output({"written": str(path)}, f"{path} written; edit it, then: stream-dp check {path}")
