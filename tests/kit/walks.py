"""Small populations and hand-made noise: what the tests of the mechanisms have in common."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from stream_dp.panel import Panel, window_codes
from stream_dp.privacy.noise import Draw


def window_counts(symbols: np.ndarray, t: int, width: int, q: int) -> np.ndarray:
    """The histogram of everybody's last `width` symbols at t; zeros before t = width."""
    if t < width:
        return np.zeros(q**width, np.int64)
    return np.bincount(window_codes(symbols[:, t - width : t], q), minlength=q**width)


def cumulative_counts(events: np.ndarray, t: int) -> np.ndarray:
    """(T + 1,): people whose total goes from b - 1 to b at t, for b = 1..T, then all people."""
    people, horizon = events.shape
    totals = events[:, :t].sum(axis=1)
    risen = totals[events[:, t - 1] == 1]
    return np.append(np.bincount(risen, minlength=horizon + 1)[1:], people).astype(np.int64)


def open_counts(symbols: np.ndarray, t: int) -> np.ndarray:
    """The same of symbols 0, 1 and 2 (absent), and then those who enter at t."""
    events = (symbols == 1).astype(np.int64)
    here = symbols != 2
    enters = here[:, t - 1] & ~here[:, : t - 1].any(axis=1)
    return np.append(cumulative_counts(events, t)[:-1], enters.sum()).astype(np.int64)


def counts_of(mechanism: Any, symbols: np.ndarray, t: int) -> np.ndarray:
    if hasattr(mechanism, "width"):
        return window_counts(symbols, t, mechanism.width, mechanism.q)
    if getattr(mechanism, "present", False):
        return open_counts(symbols, t)
    return cumulative_counts(symbols, t)


def hand_made(demand: Any, rng: np.random.Generator, low: int, high: int) -> Draw:
    """Noise of the demanded shape, uniform in low..high: any values, not a distribution."""
    noise = tuple(rng.integers(low, high, size, endpoint=True) for _, size in demand)
    return Draw(noise, np.random.default_rng(rng.integers(1 << 32)))


def released(
    mechanism: Any, symbols: np.ndarray, draws: Sequence[Draw], values: tuple[int, ...] = ()
) -> Iterator[tuple[int, Any, Any, Panel | None]]:
    """(t, state, step, panel) after every period."""
    state, panel = mechanism.init(), None
    for t, draw in enumerate(draws, 1):
        state, step = mechanism.step(state, counts_of(mechanism, symbols, t), draw)
        if step is not None:
            new = [str(t - i) for i in reversed(range(step.columns.shape[1]))]
            empty = Panel(step.columns[:, :0], (), values or getattr(mechanism, "values", (0, 1)))
            panel = (panel or empty).extended(step.columns, new)
        yield t, state, step, panel
