"""What a window release remembers from period to period, and its bytes in the journal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_dp.panel import Columns, last_codes
from stream_dp.study import Strategy

from ..mechanism_interface import Counts, check_panel_fits, pack_state, unpack_state
from .measurement_strategy import NoisyWindow
from .window_design import WindowDesign

Floats = NDArray[np.float64]

STATE_VERSION = 1

_NOTHING = np.zeros(0), np.zeros(0)  # the carry and the mean of histograms


@dataclass(frozen=True)
class WindowState:
    """What the next period needs.

    period: the last completed period
    tails: (rows,) the code of each row's last k - 1 symbols, None before t = k
    panel: (q^k,) how many rows have which last k symbols, None before t = k
    known: what the answers so far say; empty where every period measures a histogram
    carry: (q^k,) what the panel's patterns did not get (`fitted_targets.py`); empty for histograms
    mean: (q^k,) of the estimates so far (`fitted_targets.py`); empty for histograms
    """

    period: int
    tails: NDArray[np.int64] | None
    panel: Counts | None
    known: NoisyWindow
    carry: Floats
    mean: Floats


def packed_window(state: WindowState, design: WindowDesign) -> bytes:
    """The state as bytes, without its rows, which are in the released panel.

    They hold the period, the number of rows and, with residuals, the noisy entries, the estimates
    of who is present, the carry and the mean, bit by bit.
    """
    known = state.known
    arrays = {"rows": np.array(0 if state.tails is None else state.tails.shape[0])}
    if design.strategy == Strategy.RESIDUALS:
        # As many estimates at every period: 0 behind those that are there.
        missing = design.measurement.known_sets(design.horizon) - known.solved.size
        arrays |= {
            "entries": known.entries,
            "solved": np.append(known.solved, np.zeros(missing)).view(np.int64),
            "direct": np.array(known.direct),
            "carry": state.carry.view(np.int64),
            "mean": state.mean.view(np.int64),
        }
    return pack_state(STATE_VERSION, state.period, **arrays)


def unpacked_window(data: bytes, design: WindowDesign, panel: Columns | None) -> WindowState:
    """The state from its bytes and the released panel.

    Raises Inconsistent for bytes or a panel that are not this release's.
    """
    measurement, fitted = design.measurement, design.strategy == Strategy.RESIDUALS
    shapes: dict[str, tuple[int, ...]] = {}
    if fitted:
        shapes = {
            "entries": (design.bins,),
            "solved": (measurement.known_sets(design.horizon),),
            "direct": (),
            "carry": (design.bins,),
            "mean": (design.bins,),
        }
    period, arrays = unpack_state(data, STATE_VERSION, rows=(), **shapes)
    check_panel_fits(panel, period if period >= design.width else 0, int(arrays["rows"]))
    tails = counts = None
    if panel is not None:
        codes = last_codes(panel, design.width, design.q)
        tails = codes % design.overlaps
        counts = np.bincount(codes, minlength=design.bins)
    if not fitted:
        return WindowState(period, tails, counts, measurement.init(), *_NOTHING)
    solved = arrays["solved"].view(np.float64)[: measurement.known_sets(period)]
    known = NoisyWindow(arrays["entries"], solved, int(arrays["direct"]))
    carry, mean = (arrays[name].view(np.float64) for name in ("carry", "mean"))
    return WindowState(period, tails, counts, known, carry, mean)
