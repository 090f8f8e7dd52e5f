"""The operator's commands in child processes, with the checks of a terminal."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from stream_dp.json_object import Json

COMMAND_TIMEOUT = 300.0  # seconds


@dataclass(frozen=True)
class CommandResult:
    """The result of a command. lines: the reasons of a failure; empty after a success."""

    data: Json
    lines: tuple[str, ...]

    @property
    def succeeded(self) -> bool:
        return not self.lines


def command(name: str, study: Path, *arguments: str) -> CommandResult:
    """Runs `stream-dp NAME STUDY ARGUMENTS --json`."""
    # -P: modules are never imported from the current folder.
    # `=` and `--` keep arguments from being options.
    program = [sys.executable, "-P", "-m", "stream_dp.services.commands.cli"]
    try:
        finished = subprocess.run(
            [*program, name, "--json", str(study), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        return CommandResult({}, (f"{name}: no end within {COMMAND_TIMEOUT:.0f} seconds",))
    try:
        data = json.loads(finished.stdout) if finished.stdout else {}
    except ValueError:
        data = {}
    if finished.returncode == 0:
        return CommandResult(data, ())
    return CommandResult(data, _lines(name, finished.stderr, finished.returncode))


def _lines(name: str, stderr: str, code: int) -> tuple[str, ...]:
    for line in reversed(stderr.splitlines()):
        try:
            return tuple(json.loads(line)["lines"])
        except (ValueError, KeyError, TypeError):
            continue
    return (f"{name}: ended with exit code {code}",)
