"""The time that a command has taken so far, shown on a terminal."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_AFTER = 2.0  # seconds without a sign of life


@contextmanager
def shown_elapsed(name: str, after: float = _AFTER) -> Iterator[None]:
    """Shows the seconds that a command has taken on standard error, if that is a terminal.

    name: the command. after: the seconds before the first time.
    """
    if not sys.stderr.isatty():
        yield
        return
    start, done = time.monotonic(), threading.Event()

    def show() -> None:
        if done.wait(after):
            return
        with suppress(OSError):
            while not done.wait(0.2):
                seconds = time.monotonic() - start
                print(f"\r{name}: {seconds:.0f} s", end="", file=sys.stderr, flush=True)
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
