"""Results that the processes of a run share: the first that needs one computes it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import pickle
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

FOLDER = "STREAM_DP_TEST_RESULTS"  # the variable of the environment that names the folder of a run
_KNOWN: dict[str, Any] = {}


def kept(name: str, compute: Callable[[], Any]) -> Any:
    """What `compute` returns, from memory, from the folder of the run, or computed now."""
    key = hashlib.sha256(name.encode()).hexdigest()
    if key not in _KNOWN:
        _KNOWN[key] = _read_or_computed(key, compute)
    return _KNOWN[key]


def _read_or_computed(key: str, compute: Callable[[], Any]) -> Any:
    if not (folder := os.environ.get(FOLDER)):
        return compute()
    file = Path(folder) / key
    # A folder that another user or a full disk keeps from this process: it computes by itself.
    with suppress(OSError), file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            result = compute()
            written = file.with_suffix(".new")
            with suppress(OSError):
                written.write_bytes(pickle.dumps(result))
                written.rename(file)
            return result
        return pickle.loads(file.read_bytes())  # noqa: S301
    return compute()
