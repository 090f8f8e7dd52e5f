"""The worker that a releaser starts beside itself: a child process that it never waits for.

The child ends with its parent, however that ends: it reads from a pipe that only the parent
holds.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress

_PATIENCE = 5.0  # seconds that a child may take to end


class Child:
    """`command` after the interpreter's own name."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        # A terminal shows the worker's bar; anything else has what the releaser tells.
        quiet = None if sys.stderr is not None and sys.stderr.isatty() else subprocess.DEVNULL
        self._process = subprocess.Popen(
            [sys.executable, *self._command],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=quiet,
            start_new_session=True,
        )

    def ended(self) -> int | None:
        """The exit code of a child that has ended, once; negative where a signal ended it."""
        if self._process is None or (code := self._process.poll()) is None:
            return None
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        self._process = None
        return code

    def stop(self) -> None:
        process = self._process
        if process is None:
            return
        if process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._process = None
