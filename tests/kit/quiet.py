"""Measurements of nothing: what an estimator's errors depend on, for studies of any length."""

import numpy as np

from stream_dp.answers.estimator import StreamMeasurements
from stream_dp.answers.measured_rows import PeriodMeasurements, releases_of_stream
from stream_dp.continual.mechanisms import mechanism
from stream_dp.privacy.noise import exact_variance


def quiet(study):
    """The releases of a study whose measurements are all 0: errors do not depend on values."""
    messages = {}
    for declared in study.releases:
        declared_mechanism, width = mechanism(study, declared), getattr(declared, "width", 1)
        for t in range(width, study.periods.count + 1):
            demand = list(declared_mechanism.demand(t))
            if declared.kind == "joint" and t == width:
                demand = [d for s in range(1, t) for d in declared_mechanism.totals.demand(s)]
                demand = [
                    *declared_mechanism.window.demand(t),
                    *demand,
                    *declared_mechanism.totals.demand(t),
                ]
            noise = np.concatenate([np.full(n, exact_variance(v)) for v, n in demand])
            messages.setdefault(declared.name, []).append(
                PeriodMeasurements(t, np.zeros(noise.size), noise)
            )
    return StreamMeasurements(tuple(releases_of_stream(study, messages, study.releases[0].stream)))
