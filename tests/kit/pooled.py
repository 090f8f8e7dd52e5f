"""A process with a pool that it begins before anything else, for tests that kill one of them.

    python -m kit.pooled FOLDER

Tasks leave the ids of their processes in the folder as names of files. Prints their results, waits
for a line, and ends.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from functools import partial
from pathlib import Path

from stream_dp.services.parts.task_pool import Pool

COPIED: list[int] = []  # what a copy has from the process that began it


def square(folder: Path, number: int) -> tuple[int, int]:
    """The square, and what this process has from the other; dies once, at 3."""
    (folder / str(os.getpid())).touch()
    died = folder / "died"
    if number == 3 and not died.exists():
        died.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number**2, sum(COPIED)


def main() -> None:
    folder = Path(sys.argv[1])
    COPIED.append(7)
    pool = Pool(2, threading.Event())
    pool.begin()
    print(pool.map(partial(square, folder), [1, 2]), flush=True)
    print([one for one, _ in pool.map(partial(square, folder), [1, 2, 3, 4])], flush=True)
    sys.stdin.readline()
    pool.close()


if __name__ == "__main__":
    main()
