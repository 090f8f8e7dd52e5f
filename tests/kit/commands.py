"""Commands run in this process, and what they print."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stream_dp.services.cli import main


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
