"""The ends of processes: at a signal, or together with the parent."""

from __future__ import annotations

import os
import signal
import sys
import threading


def end_with_parent() -> None:
    """Ends this process when the standard input ends. Written records are already decided."""

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1024):
            pass
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def stop_on_signals(stop: threading.Event) -> None:
    """Sets `stop` at SIGTERM and SIGINT."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
