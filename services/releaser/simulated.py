"""Panels' answers about known people, with simulated noise, for evaluated fits."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from stream_dp.continual.mechanisms import mechanism, patterns_part
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
    """The input of `known_interactions`: answers with the noise of their plans.

    period: the number of the data set's period.
    panel: by attribute, symbols of everybody (people, periods). Confidential.
    """
    answers = dict[tuple[str, int], NDArray[np.int64]]()
    for index, declared in enumerate(panels_of(study, release)):
        source = SeededNoise(seed * 1000 + index)
        window = patterns_part(mechanism(study, declared))
        # With late arrivals a panel has nothing of use for a fit.
        if window is None or isinstance(window.measurement, OpenResiduals):
            continue
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
    """The number of people by pattern of the k periods up to `number`, (q^k,)."""
    q, cells = len(window.values), np.zeros(len(symbols), np.int64)
    for column in range(number - window.width, number):
        cells = cells * q + symbols[:, column]
    return np.bincount(cells, minlength=q**window.width).astype(np.int64)
