"""Secrets that a study file refers to: in a file, the environment, or what a command prints."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stream_dp.errors import UserError

_PATIENCE = 60.0  # seconds for a command


def secret_text(place: str, declared: Mapping[Any, str], base: Path) -> str:
    """The text of a secret, without blanks around it.

    place: the key of the study file, for words.
    declared: `file`, `env` or `command` with its value.
    base: the folder that a file is relative to, and that a command runs in.

    Raises UserError, without anything that is secret.
    """
    if len(declared) != 1:
        raise UserError(f"{place}: name one place")
    ((kind, name),) = declared.items()
    if kind == "env":
        if name not in os.environ:
            raise UserError(f"{place}: environment variable {name} is not set")
        return os.environ[name].strip()
    if kind == "file":
        try:
            return (base / name).read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError):
            raise UserError(f"{place}: {base / name} cannot be read") from None
    try:
        done = subprocess.run(
            shlex.split(name),
            cwd=base,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE,
            check=True,
        )
        return done.stdout.decode().strip()
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        raise UserError(f"{place}: the command does not print it: {name}") from None
