"""The worker that a releaser starts beside itself: a child process that it never waits for.

The child ends with its parent, however that ends: it reads from a pipe that only the parent
holds. What it says on standard error is kept, but for its end; a terminal shows it as well.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import suppress
from threading import Thread
from typing import IO

_PATIENCE = 5.0  # seconds that a child may take to end
_KEPT = 65_536  # bytes of what it said last
_LONGEST = 200  # characters of a reason
_FRAME = re.compile(r'\s+File "')


class Child:
    """`command` after the interpreter's own name. reason: why the last one ended, in a line."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._said = b""
        self._reader: Thread | None = None
        self.reason = ""

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        # A terminal shows the worker's bar; anything else has what the releaser tells.
        shown = sys.stderr is not None and sys.stderr.isatty()
        self._process = subprocess.Popen(
            # Of the current folder's files none is a module of ours, or of Python's.
            [sys.executable, "-P", *self._command],
            stdin=subprocess.PIPE,
            stdout=sys.stderr if shown else subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stderr is not None
        self._said = b""
        self._reader = Thread(target=self._read, args=(self._process.stderr, shown), daemon=True)
        self._reader.start()

    def _read(self, pipe: IO[bytes], shown: bool) -> None:
        with pipe:
            while data := os.read(pipe.fileno(), _KEPT):
                self._said = (self._said + data)[-_KEPT:]
                if shown:
                    with suppress(OSError):
                        os.write(sys.stderr.fileno(), data)

    def ended(self) -> int | None:
        """The exit code of a child that has ended, once; negative where a signal ended it."""
        if self._process is None or (code := self._process.poll()) is None:
            return None
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        if self._reader is not None:
            self._reader.join(_PATIENCE)
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        line = last_line(self._said)
        self.reason = f"the worker ended with {how}" + (f": {line}" if line else "")
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


def last_line(said: bytes) -> str:
    """The last line of what a process said on standard error, cut to a length.

    Of a traceback the kind of error alone: its text may hold values. Nothing where what was said
    is too long to know whether it is one.
    """
    lines = [line for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
    if not lines:
        return ""
    last = lines[-1].strip()
    if not last.startswith("stream-dp: "):
        frames = [place for place, line in enumerate(lines) if _FRAME.match(line)]
        after = (
            (line for line in lines[frames[-1] + 1 :] if not line[0].isspace()) if frames else ()
        )
        last = next(iter(after), "").partition(":")[0] if frames else last
        if not frames and len(said) >= _KEPT:
            return ""
    last = "".join(c if c.isprintable() else "?" for c in last.removeprefix("stream-dp: "))
    return last if len(last) <= _LONGEST else f"{last[:_LONGEST]}..."
