"""Secrets named in a study file: in a file, in the environment, or printed by a command."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stream_dp.errors import UserError

_COMMAND_TIMEOUT = 60.0  # seconds for a command


def secret_text(key: str, declared: Mapping[Any, str], base: Path) -> str:
    """Reads the text of a secret, without surrounding blanks.

    key: the key of the study file, for messages.
    declared: `file`, `env` or `command` with its value.
    base: the folder for relative paths, and the working folder of the command.

    Raises UserError without any part of the secret.
    """
    if len(declared) != 1:
        raise UserError(f"{key}: name one place")
    ((kind, name),) = declared.items()
    if kind == "env":
        if name not in os.environ:
            raise UserError(f"{key}: environment variable {name} is not set")
        return os.environ[name].strip()
    if kind == "file":
        try:
            return (base / name).read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError):
            raise UserError(f"{key}: {base / name} cannot be read") from None
    try:
        finished = subprocess.run(
            shlex.split(name),
            cwd=base,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_COMMAND_TIMEOUT,
            check=True,
        )
        return finished.stdout.decode().strip()
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        raise UserError(f"{key}: the command does not print it: {name}") from None
