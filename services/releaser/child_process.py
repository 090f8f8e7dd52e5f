"""The worker or aggregator beside a releaser, as a child process.

The child reads its standard input, a pipe from the parent, and ends when the parent does. The end
of its standard error is kept for the reason of a failure; a terminal shows all of it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import suppress
from threading import Thread
from typing import IO

_PATIENCE = 5.0  # seconds until a child that does not end is killed
_MOST_STDERR = 65_536  # bytes of its end that are kept
_LONGEST = 200  # characters of a reason
_FRAME = re.compile(r'\s+File "')


class Child:
    """A child process that can be started again after its end.

    command: the arguments of the Python interpreter.
    name: of the child, for messages.
    reason: why the last process ended, on one line.
    """

    def __init__(self, command: list[str], name: str = "the worker") -> None:
        self._command, self._name = command, name
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr = b""
        self._reader: Thread | None = None
        self.reason = ""

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts the process, and a thread that keeps the end of its standard error."""
        # Only a terminal shows the worker's output, with its progress bar.
        terminal = sys.stderr is not None and sys.stderr.isatty()
        self._process = subprocess.Popen(
            # -P: modules are never imported from the current folder.
            [sys.executable, "-P", *self._command],
            stdin=subprocess.PIPE,
            stdout=sys.stderr if terminal else subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stderr is not None
        self._stderr = b""
        self._reader = Thread(target=self._read, args=(self._process.stderr, terminal), daemon=True)
        self._reader.start()

    def _read(self, pipe: IO[bytes], terminal: bool) -> None:
        """Keeps the last bytes of the standard error. terminal: whether it is shown, too."""
        with pipe:
            while data := os.read(pipe.fileno(), _MOST_STDERR):
                self._stderr = (self._stderr + data)[-_MOST_STDERR:]
                if terminal:
                    with suppress(OSError):
                        os.write(sys.stderr.fileno(), data)

    def ended(self) -> int | None:
        """The exit code of an ended child, once for each end, negative for a signal; or None."""
        if self._process is None or (code := self._process.poll()) is None:
            return None
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        if self._reader is not None:
            self._reader.join(_PATIENCE)
        ending = f"signal {-code}" if code < 0 else f"exit code {code}"
        line = last_line(self._stderr)
        self.reason = f"{self._name} ended with {ending}" + (f": {line}" if line else "")
        self._process = None
        return code

    def stop(self) -> None:
        """Ends the child, by force after a time."""
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


def last_line(stderr: bytes) -> str:
    """The last line of a process's standard error, cut to a length.

    For a traceback only the type of the error is given, as its message may contain values. The
    line is empty where the output was cut and may be the end of a traceback.
    """
    lines = [line for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    if not lines:
        return ""
    last = lines[-1].strip()
    if not last.startswith("stream-dp: "):
        frames = [i for i, line in enumerate(lines) if _FRAME.match(line)]
        if frames:
            messages = (line for line in lines[frames[-1] + 1 :] if not line[0].isspace())
            last = next(messages, "").partition(":")[0]
        elif len(stderr) >= _MOST_STDERR:
            return ""
    last = "".join(c if c.isprintable() else "?" for c in last.removeprefix("stream-dp: "))
    return last if len(last) <= _LONGEST else f"{last[:_LONGEST]}..."
