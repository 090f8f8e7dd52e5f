"""Child processes of a releaser, ending together with the releaser."""

from __future__ import annotations

import os
import sys
import threading


def end_with_parent() -> None:
    """Ends this process when the standard input ends. Written records are already decided."""

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1024):
            pass
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
