"""Small populations and noise between bounds: what the tests of the mechanisms have in common."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from stream_dp.continual.mechanism_interface import Step
from stream_dp.panel import Panel, window_codes
from stream_dp.privacy.noise import Draw, NoiseSource


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


def when_present(symbols: np.ndarray, t: int, width: int, absent: int) -> np.ndarray:
    """(2^(2k - 1),): people by when they were present; bit g of the number for t - g."""
    counts = np.zeros(2 ** (2 * width - 1), np.int64)
    for person in symbols[:, max(t - 2 * width + 1, 0) : t]:
        bits = "".join("1" if symbol != absent else "0" for symbol in person)
        counts[int(bits, 2)] += 1
    return counts


def counts_of(mechanism: Any, symbols: np.ndarray, t: int) -> np.ndarray:
    if hasattr(mechanism, "width"):
        counts = window_counts(symbols, t, mechanism.width, mechanism.q)
        if t >= mechanism.width and mechanism.measurement.counts_size > counts.size:
            absent = mechanism.left_out
            return np.append(counts, when_present(symbols, t, mechanism.width, absent))
        return counts
    if getattr(mechanism, "present", False):
        return open_counts(symbols, t)
    return cumulative_counts(symbols, t)


def drawn_between(demand: Any, rng: np.random.Generator, low: int, high: int) -> Draw:
    """Noise of the demanded shape, uniform in low..high: any values, not a distribution."""
    noise = tuple(rng.integers(low, high, size, endpoint=True) for _, size in demand)
    return Draw(noise, np.random.default_rng(rng.integers(1 << 32)))


def extreme_draws(
    draw: Callable[[Any], Any], mechanism: Any, rng: np.random.Generator
) -> list[Draw]:
    """A draw of any size and sign for every period of a window mechanism.

    draw: of a composite strategy. Up to t = k noise is at most 40, which limits the panel's rows.
    """
    low = draw(st.sampled_from([0, -5, -40, -(10**9)]))
    high = draw(st.sampled_from([0, 40, 10**9]))
    return [
        drawn_between(
            mechanism.demand(t), rng, low, min(high, 40) if t <= mechanism.width else high
        )
        for t in range(1, mechanism.horizon + 1)
    ]


def window_releases(
    mechanism: Any, truth: np.ndarray, source: NoiseSource
) -> Iterator[tuple[int, Step, np.ndarray]]:
    """(t, step, histogram) of every release of a window mechanism.

    truth: (T, counts) what the mechanism takes, read from t = k on
    histogram: (bins,) of the panel's last k symbols
    """
    state, overlaps = mechanism.init(), mechanism.q ** (mechanism.width - 1)
    for t in range(1, mechanism.horizon + 1):
        state, step = mechanism.step(state, truth[t - 1], source.draw(mechanism.demand(t)))
        if step is None:
            continue
        if t == mechanism.width:
            codes = window_codes(step.columns, mechanism.q)
        else:
            codes = codes % overlaps * mechanism.q + step.columns[:, 0]
        yield t, step, np.bincount(codes, minlength=mechanism.bins)


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
