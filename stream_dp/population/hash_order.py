"""Sorts hashes. People with equal first halves are told apart by the second halves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Halves = NDArray[np.uint64]


def sorted_rows(hi: Halves, lo: Halves) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Sorts rows by their hash, rows with equal hashes in unchanged order.

    hi, lo: the two halves of the hashes.

    Returns the rows in their order, and which of them begin a new hash.
    """
    # An unstable sort of one half is several times quicker than a sort by three keys. Rows whose
    # halves are equal are few, and are sorted again.
    order = np.argsort(hi)
    ranked = hi[order]
    begins = np.ones(len(order), bool)
    begins[1:] = ranked[1:] != ranked[:-1]
    if not begins.all():
        repeated = ~begins
        repeated[:-1] |= ~begins[1:]
        positions = np.flatnonzero(repeated)
        rows = order[positions]
        order[positions] = rows[np.lexsort((rows, lo[rows], hi[rows]))]
        begins[1:] |= lo[order[1:]] != lo[order[:-1]]
    return order, begins


def last_rows(hi: Halves, lo: Halves) -> NDArray[np.int64]:
    """Returns the last row of each hash, in the order of the hashes."""
    order, begins = sorted_rows(hi, lo)
    return order if begins.all() else order[np.append(begins[1:], True)]


def distinct(hi: Halves, lo: Halves) -> tuple[Halves, Halves]:
    """Sorts hashes and drops repeated hashes.

    Hashes with `hi` in strictly increasing order are returned as they are.
    """
    if (hi[1:] <= hi[:-1]).any():
        order, begins = sorted_rows(hi, lo)
        hi, lo = hi[order[begins]], lo[order[begins]]
    return hi, lo
