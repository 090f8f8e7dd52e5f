"""Commands run in this process, what they print, and the study file that they are given."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from kit.studies import on_kafka
from stream_dp.services.commands.cli import main


def json_output(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    """What a command that succeeds prints as JSON."""
    assert main([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def refusal(capsys: pytest.CaptureFixture[str], code: int, *arguments: object) -> str:
    """The error of a command that ends with this exit code and prints nothing else."""
    assert main([*map(str, arguments)]) == code
    out, error = capsys.readouterr()
    assert out == ""
    return error


def written(
    text: str,
    folder: Path,
    log: str,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
) -> Path:
    """A study file whose logs are files, on "sqlite", or topics of their own, on "kafka"."""
    file = folder / "study.toml"
    if log == "kafka":
        server = request.getfixturevalue("kafka")
        text = on_kafka(text, f"kafka://{server}/{uuid.uuid4().hex}")
    file.write_text(text)
    if log == "kafka":
        json_output(capsys, "topics", file)
    return file
