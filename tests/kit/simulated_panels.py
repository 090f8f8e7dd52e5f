"""The stated errors of panels, simulated once for all processes of a run.

Every study that begins simulates panels. Most tests begin one, and few are about these errors. What
the simulation depends on is the study, without its name, the release and the mechanism: the same of
these has the same errors. `SIMULATED` is the simulation itself.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from stream_dp.planning import panel_errors
from stream_dp.study import Release, Study

SIMULATED = panel_errors.simulated_errors
FOLDER = "SIMULATED_PANELS"  # the variable of the environment that names the folder of a run


def remember() -> None:
    """From now on this process, and its forks, keep the errors in the folder of the run, if any."""
    if FOLDER not in os.environ:
        return
    folder = Path(os.environ[FOLDER])
    known: dict[str, Any] = {}

    def errors(study: Study, release: Release, mechanism: Any, **how: int) -> Any:
        key = _key(study, release, mechanism, how)
        if key not in known:
            file = folder / key
            with suppress(OSError):
                known[key] = pickle.loads(file.read_bytes())  # noqa: S301
        if key not in known:
            known[key] = SIMULATED(study, release, mechanism, **how)
            with suppress(OSError):  # a folder that another user or a full disk keeps from this one
                written = folder / uuid.uuid4().hex
                written.write_bytes(pickle.dumps(known[key]))
                written.rename(file)
        return known[key]

    panel_errors.simulated_errors = errors


def _key(study: Study, release: Release, mechanism: Any, how: dict[str, int]) -> str:
    with np.printoptions(threshold=sys.maxsize, floatmode="unique"):
        words = [study.model_dump_json(exclude={"name"}), release.name, repr(mechanism), how]
    return hashlib.sha256(repr(words).encode()).hexdigest()
