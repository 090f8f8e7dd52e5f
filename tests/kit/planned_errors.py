"""Errors in theory and of simulated panels, computed once for all processes of a run.

Every `check` and every study that begins computes them. Most tests do one of these, and few are
about the errors. They depend on the study, without its name, on the release and the mechanism: the
same of these have the same errors. Panels are simulated as few times as the product ever does;
`SIMULATED` is the simulation as the product has it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from stream_dp.planning import expected_errors, panel_errors, study_summary
from stream_dp.study import Release, Study

from . import run_results

SIMULATED, LAST = panel_errors.simulated_errors, expected_errors.last_errors


def remember() -> None:
    """From now on this process, and its forks, keep the errors in the folder of the run, if any."""
    if not os.environ.get(run_results.FOLDER):
        return

    def kept(study: Study, words: Sequence[object], compute: Callable[[], Any]) -> Any:
        return run_results.kept(_name(study, words), compute)

    def simulated(study: Study, release: Release, mechanism: Any, **_: int) -> Any:
        words = (release.name, mechanism)
        return kept(study, words, lambda: SIMULATED(study, release, mechanism, work=1))

    def last(study: Study, queries: Sequence[tuple[str, str]], _: object = None) -> Iterator[Any]:
        return iter(kept(study, queries, lambda: tuple(LAST(study, queries))))

    panel_errors.simulated_errors = simulated
    for module in (study_summary, expected_errors):
        module.last_errors = last


def _name(study: Study, words: Sequence[object]) -> str:
    with np.printoptions(threshold=sys.maxsize, floatmode="unique"):
        return repr([study.model_dump_json(exclude={"name"}), *words])
