"""Two mechanisms of one's own: a stream counter, and a kind of synthetic households.

stream-dp proves nothing about them. Their author answers for the costs that they claim.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stream_dp.batch.data.domain import Hierarchy
from stream_dp.batch.groups.independent import Independent, fit_independent
from stream_dp.batch.groups.workload.groups_plan import planned_independent
from stream_dp.batch.synthesizer import FitContext
from stream_dp.continual.counters.methods import CounterMethod
from stream_dp.continual.counters.stream_counters import Counter
from stream_dp.study.families import DataSetKind, Family, Measured
from stream_dp.study.group_releases import BatchRelease


def plain(steps: int) -> Counter:
    """Every entry of the stream is measured once; a sum adds the answers so far.

    One entry is in one answer, so the squared sensitivity is 1. The variance grows with the step.
    """
    return Counter(
        encode=np.eye(steps, dtype=np.int64),
        decode=np.tril(np.ones((steps, steps))),
        times=np.arange(1, steps + 1),
    )


PLAIN = CounterMethod(title="plain counters", of_length=plain, whole_matrices=True, whole_sums=True)


def fit_smoothed(data: Hierarchy, release: BatchRelease, context: FitContext) -> Independent:
    """Independent attributes, in which every declared value has one household or person more.

    The noise is drawn and recorded by `fit_independent`. Smoothing its answers costs nothing.
    """
    fitted = fit_independent(data, release, context)
    return replace(fitted, counts=tuple(np.maximum(count, 0) + 1 for count in fitted.counts))


SMOOTHED = DataSetKind(
    family=Family.HOUSEHOLDS,
    about="Groups and members, every attribute by itself, without empty values.",
    mechanism="independent attributes from smoothed noisy marginals",
    declaration="group_releases:BatchRelease",
    faults="data_set_faults:grouped_faults",
    relations=("replace_in_place",),
    measured=Measured.MARGINALS,
    plan=planned_independent,
    fit=fit_smoothed,
    jax=False,
)
