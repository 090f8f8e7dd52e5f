"""The worker that a releaser starts beside itself: a child process that it never waits for.

The child ends with its parent, however that ends: it reads from a pipe that only the parent
holds. What it tells of its progress, a line of JSON each, becomes confidential facts.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any

_PATIENCE = 5.0  # seconds that a child may take to end


class Child:
    """`command` after the interpreter's own name; heard: called with what the child tells."""

    def __init__(self, command: list[str], heard: Any = lambda told: None) -> None:
        self._command, self._heard = command, heard
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
            stdout=subprocess.PIPE,
            stderr=quiet,
            start_new_session=True,
        )
        threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                with suppress(ValueError, KeyError, TypeError):
                    self._heard(json.loads(line))

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
