"""What panels would publish of known people, with simulated noise, for a fit that is evaluated."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from stream_dp.continual import mechanism, patterns_part
from stream_dp.continual.window.open_residuals import OpenResiduals
from stream_dp.continual.window.window import FixedWindow
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study import PeopleRelease, Study

from .known_interactions import Answers, panels_of


def simulated_answers(
    study: Study,
    release: PeopleRelease,
    period: int,
    panel: Mapping[str, NDArray[np.unsignedinteger]],
    seed: int,
) -> Answers:
    """The answers that `published.known_interactions` reads, each with the noise of its plan.

    period: the number of the data set's period.
    panel: by attribute, symbols of everybody (people, periods). Confidential.
    """
    answers = dict[tuple[str, int], NDArray[np.int64]]()
    for place, declared in enumerate(panels_of(study, release)):
        source = SeededNoise(seed * 1000 + place)
        chosen = mechanism(study, declared)
        window = patterns_part(chosen)
        if window is None:
            continue
        if isinstance(window.measurement, OpenResiduals):
            continue  # where people come and go it says nothing that a fit could use
        for number in range(max(1, period - release.past), period + 1):
            time = study.time(declared, number)
            if time is None or time < window.width:
                continue
            counts = _patterns(panel[str(declared.attribute)], number, window)
            noise = np.concatenate(source.draw(window.demand(time)).noise)
            answers[declared.name, number] = window.measure(time, counts) + noise
    return answers


def _patterns(
    symbols: NDArray[np.unsignedinteger], number: int, window: FixedWindow
) -> NDArray[np.int64]:
    """(q^k,) how many people have each pattern of the k periods up to one."""
    q, cells = len(window.values), np.zeros(len(symbols), np.int64)
    for column in range(number - window.width, number):
        cells = cells * q + symbols[:, column]
    return np.bincount(cells, minlength=q**window.width).astype(np.int64)
