"""What a cumulative release remembers from period to period, and its bytes in the journal.

Later rows of a counter look at all true entries, so the state grows with the square of the periods.
The journal has what each period adds to it, so nothing is computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stream_dp.errors import Inconsistent

from ..mechanism_interface import Counts, pack_state, unpack_state
from .cumulative_design import CumulativeDesign

STATE_VERSION = 1


@dataclass(frozen=True)
class CumulativeState:
    """The state for the next period.

    period: the last completed period
    streams: (all entries,) true entries of thresholds 1..T and 0 (`first_entry`; confidential)
    known: (all rows,) unbiased entries of the coupled measurement, or the noisy rows of separate
        counters; 0 where not yet measured
    sums: (T + 1,) monotone S_0..S_T
    totals: (rows,) each row's running total, -1 before it has entered
    """

    period: int
    streams: NDArray[np.int64]
    known: NDArray[np.float64]
    sums: NDArray[np.int64]
    totals: NDArray[np.int64]


def first_state(design: CumulativeDesign) -> CumulativeState:
    """The state before the first period."""
    horizon = design.horizon
    return CumulativeState(
        period=0,
        streams=np.zeros(design.all_entries, np.int64),
        known=np.zeros(design.all_rows),
        sums=np.zeros(horizon + 1, np.int64),
        totals=np.zeros(0, np.int64),
    )


def packed_totals(
    state: CumulativeState, design: CumulativeDesign, measured: Sequence[int]
) -> bytes:
    """The state's increment of the period in bytes: true entries, and the known bits of rows.

    measured: the periods that were measured at the state's period
    """
    t = state.period
    return pack_state(
        STATE_VERSION,
        t,
        entries=state.streams[design.entry_positions(t)] if t else state.streams[:0],
        estimated=state.known[_positions(design, measured)].view(np.int64),
        rows=np.array(state.totals.shape[0]),
    )


def unpacked_totals(
    dumps: Sequence[bytes],
    design: CumulativeDesign,
    totals: Counts,
    measured: Callable[[int], Sequence[int]],
) -> tuple[CumulativeState, int]:
    """The state and the number of rows, from the bytes of every period so far.

    totals: (rows,) each row's running total, from the released panel
    measured: the periods that were measured at a period

    Raises Inconsistent for bytes that are not this release's.
    """
    state, rows, horizon = first_state(design), 0, design.horizon
    for t, data in enumerate(dumps, 1):
        positions = _positions(design, measured(t)) if t <= horizon else np.zeros(0, np.int64)
        period, arrays = unpack_state(
            data, STATE_VERSION, entries=(t + 1,), estimated=positions.shape, rows=()
        )
        if period != t or t > horizon:
            raise Inconsistent("journal: the state is another period's; restore a backup")
        state.streams[design.entry_positions(t)] = arrays["entries"]
        state.known[positions] = arrays["estimated"].view(np.float64)
        rows = int(arrays["rows"])
    sums = panel_sums(totals, horizon)
    return replace(state, period=len(dumps), sums=sums, totals=totals), rows


def panel_sums(totals: NDArray[np.int64], horizon: int) -> Counts:
    """The panel's own S_0..S_T. totals: (rows,) running totals, below 0 before an entry."""
    by_total = np.bincount(totals[totals >= 0], minlength=horizon + 1)
    sums: Counts = by_total[::-1].cumsum()[::-1].astype(np.int64)
    return sums


def _positions(design: CumulativeDesign, measured: Sequence[int]) -> NDArray[np.int64]:
    """The positions of the answers of given periods among all rows."""
    none = np.zeros(0, np.int64)
    return np.concatenate([none, *(design.row_positions[s - 1] for s in measured)])
