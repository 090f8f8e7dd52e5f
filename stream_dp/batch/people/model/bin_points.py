"""Numbers of synthetic people, who have bins: uniform on the points of each one's bin.

The people of a bin are spread evenly over its points, from a random start and in random order. So
the number of people below any threshold inside a bin is its expectation, up to one person.
"""

from __future__ import annotations

import numpy as np

from stream_dp.study.scale import Numbers

from ...data.domain import Codes


def spread(rng: np.random.Generator, bins: Codes, numbers: Numbers) -> Codes:
    """(N,) codes of numbers, given the bin of each; 'absent' stays so."""
    codes = np.empty(len(bins), np.int64)
    for bin_, start in enumerate(numbers.starts):
        people = np.flatnonzero(bins == bin_)
        end = (*numbers.starts, len(numbers))[bin_ + 1]
        places = (np.arange(len(people)) + rng.random()) * (end - start) / max(len(people), 1)
        codes[people] = start + rng.permutation(places.astype(np.int64))
    return codes
