"""The operator's commands, each in its own process, with the same checks as in a terminal."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PATIENCE = 300.0  # seconds


@dataclass(frozen=True)
class Said:
    """What a command said. lines: why it failed; empty where it did not."""

    data: dict[str, Any]
    lines: tuple[str, ...]

    @property
    def succeeded(self) -> bool:
        return not self.lines


def command(name: str, study: Path, *words: str) -> Said:
    """Runs `stream-dp NAME STUDY WORDS --json`."""
    # -P: modules are never imported from the current folder; `=` and `--` keep words from options.
    program = [sys.executable, "-P", "-m", "stream_dp.services.cli"]
    try:
        done = subprocess.run(
            [*program, name, "--json", str(study), *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:
        return Said({}, (f"{name}: no end within {PATIENCE:.0f} seconds",))
    try:
        data = json.loads(done.stdout) if done.stdout else {}
    except ValueError:
        data = {}
    if done.returncode == 0:
        return Said(data, ())
    return Said(data, _lines(name, done.stderr, done.returncode))


def _lines(name: str, stderr: str, code: int) -> tuple[str, ...]:
    for line in reversed(stderr.splitlines()):
        try:
            return tuple(json.loads(line)["lines"])
        except (ValueError, KeyError, TypeError):
            continue
    return (f"{name}: ended with exit code {code}",)
