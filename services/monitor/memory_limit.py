"""The memory of the monitor's control group, and the number of answers that it has room for."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from .forks import MEMORY

_OWN = 1 << 29  # bytes of the process that holds the connections and of the first study's
_STUDY = 48 << 20  # bytes of the process of each further study


def memory_limit(
    groups: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")
) -> int | None:
    """The smallest limit of this process's control group and of those around it, in bytes.

    None without a limit, or without control groups of version 2.
    """
    limits = []
    with suppress(OSError):
        lines = own.read_text().splitlines()
        for path in [line.removeprefix("0::/") for line in lines if line.startswith("0::/")]:
            for group in [Path(path), *Path(path).parents]:
                with suppress(OSError, ValueError):  # the file of no limit says max
                    limits.append(int((groups / group / "memory.max").read_text()))
    return min(limits, default=None)


def answers_at_once(limit: int | None, studies: int = 1) -> int:
    """How many answers may be computed at once: as many as processors, two at least.

    Fewer, but one at least, where the memory has no room for them and a download beside them.

    limit: of the memory, in bytes; None for none
    studies: that are served
    """
    processors = max(2, os.cpu_count() or 1)
    if limit is None:
        return processors
    own = _OWN + (studies - 1) * _STUDY
    return max(1, min(processors, (limit - own) // MEMORY - 1))
