"""Errors in theory and of simulated panels, computed once for all processes of a run.

Every `check` and every study that begins computes them. Most tests do one of these, and few are
about the errors. They depend on the study, without its name, on the release and the mechanism: the
same of these have the same errors. Panels are simulated as few times as the product ever does;
`SIMULATED` is the simulation as the product has it.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from stream_dp.planning import (
    expected_errors,
    group_errors,
    panel_errors,
    study_summary,
)
from stream_dp.study import Release, Study

SIMULATED, LAST = panel_errors.simulated_errors, expected_errors.last_errors
FOLDER = "PLANNED_ERRORS"  # the variable of the environment that names the folder of a run


def remember() -> None:
    """From now on this process, and its forks, keep the errors in the folder of the run, if any."""
    if FOLDER not in os.environ:
        return
    folder = Path(os.environ[FOLDER])
    known: dict[str, Any] = {}

    def kept(study: Study, words: Sequence[object], compute: Callable[[], Any]) -> Any:
        key = _key(study, words)
        if key not in known:
            file = folder / key
            with suppress(OSError):
                known[key] = pickle.loads(file.read_bytes())  # noqa: S301
        if key not in known:
            known[key] = compute()
            with suppress(OSError):  # a folder that another user or a full disk keeps from this one
                written = folder / uuid.uuid4().hex
                written.write_bytes(pickle.dumps(known[key]))
                written.rename(file)
        return known[key]

    def simulated(study: Study, release: Release, mechanism: Any, **_: int) -> Any:
        words = (release.name, mechanism)
        return kept(study, words, lambda: SIMULATED(study, release, mechanism, work=1))

    def last(study: Study, queries: Sequence[tuple[str, str]]) -> Iterator[Any]:
        return iter(kept(study, queries, lambda: tuple(LAST(study, queries))))

    panel_errors.simulated_errors = simulated
    for module in (study_summary, group_errors):
        module.last_errors = last


def _key(study: Study, words: Sequence[object]) -> str:
    with np.printoptions(threshold=sys.maxsize, floatmode="unique"):
        text = repr([study.model_dump_json(exclude={"name"}), *words])
    return hashlib.sha256(text.encode()).hexdigest()
