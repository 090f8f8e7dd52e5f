"""One repetition of one declared release on a known panel, and sums over repetitions.

A plan holds what all repetitions share: the mechanism, the true counts of every period (computed
once) and the true answers. `run` draws simulated noise, takes the mechanism through the horizon
and returns the errors, in people: answer by query by period, NaN where a query has no answer.

Confidential: a plan holds true counts, and errors are computed from them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..continual import AnyMechanism, Cumulative, FixedWindow
from ..panel import Symbols
from ..privacy.noise import Seeded, exact_variance
from .queries import Asked, asked, histograms, narrowed, widest

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Trial:
    """What one repetition, or the sum of several, did.

    total, squares: sums of errors and of their squares, and worst: the largest in size, each
    (answers, queries, periods); cell_squares: (answers,), squared errors summed over all cells (a
    bin in a period, or b <= t); cell_worst: (repetitions, answers), each repetition's worst cell;
    repaired: repetitions in which a synthetic count had to be repaired.
    """

    repetitions: int
    total: Floats
    squares: Floats
    worst: Floats
    cell_squares: Floats
    cell_worst: Floats
    repaired: int

    def __add__(self, other: Trial) -> Trial:
        return Trial(
            self.repetitions + other.repetitions,
            self.total + other.total,
            self.squares + other.squares,
            np.maximum(self.worst, other.worst),
            self.cell_squares + other.cell_squares,
            np.concatenate([self.cell_worst, other.cell_worst]),
            self.repaired + other.repaired,
        )


class Plan(Protocol):
    """answers: their names; labels: text, kind and width of each query; first: the first period.

    truth, theory: (queries, periods), theory the raw answer's standard deviation; cells: how many
    cells there are; cell_theory: root mean square of their raw answers' standard deviations.
    """

    @property
    def mechanism(self) -> AnyMechanism: ...
    @property
    def answers(self) -> tuple[str, ...]: ...
    @property
    def labels(self) -> tuple[tuple[str, str, int], ...]: ...
    @property
    def first(self) -> int: ...
    @property
    def truth(self) -> Floats: ...
    @property
    def theory(self) -> Floats: ...
    @property
    def cells(self) -> int: ...
    @property
    def cell_theory(self) -> float: ...
    def run(self, seed: int) -> Trial: ...


@dataclass(frozen=True, eq=False)
class WindowPlan:
    """Periods k..T. raw: the noisy counts of the query's bins. panel: rows of the panel that
    answer it, less the padding's. undebiased: its share of the rows, times the people.

    The padding fills every pattern of k symbols evenly, and is taken to fill wider ones evenly.
    """

    mechanism: FixedWindow
    queries: tuple[Asked, ...]
    counts: tuple[NDArray[np.int64], ...]
    truth: Floats
    people: int
    answers: tuple[str, ...] = ("raw", "panel", "undebiased")

    @property
    def labels(self) -> tuple[tuple[str, str, int], ...]:
        return tuple((query.text, query.kind, query.width) for query in self.queries)

    @property
    def first(self) -> int:
        return self.mechanism.width

    @property
    def cells(self) -> int:
        return self.mechanism.bins * self.mechanism.releases

    @property
    def cell_theory(self) -> float:
        return math.sqrt(exact_variance(self.mechanism.variance))

    @property
    def theory(self) -> Floats:
        """Deviation of a sum of |A| noisy bins, s sqrt(|A|); NaN for queries wider than k."""
        made, each = self.mechanism, exact_variance(self.mechanism.variance)
        bins = [
            q.patterns * made.q ** (made.width - q.width) if q.width <= made.width else np.nan
            for q in self.queries
        ]
        column = np.sqrt(np.array(bins, float) * each)[:, None]
        return np.where(np.isnan(self.truth), np.nan, column)

    def run(self, seed: int) -> Trial:
        made, source = self.mechanism, Seeded(seed)
        k, q, widest_code = made.width, made.q, made.q ** widest(made)
        errors = np.full((3, *self.truth.shape), np.nan)
        cell_squares, cell_worst = np.zeros(3), np.zeros(3)
        state, repaired, codes = made.init(), 0, np.zeros(0, np.int64)
        for t in range(1, made.horizon + 1):
            counts = self.counts[t - k] if t >= k else np.zeros(0, np.int64)
            state, step = made.step(state, counts, source.draw(made.demand(t)))
            if step is None:
                continue
            codes = codes if codes.size else np.zeros(step.columns.shape[0], np.int64)
            for column in step.columns.T:
                codes = (codes * q + column) % widest_code
            held = np.bincount(codes, minlength=min(q**t, widest_code))
            bins = self._bins(step.estimates.values, narrowed(held, q, k), codes.size)
            off = bins - counts
            cell_squares += (off**2).sum(axis=1)
            cell_worst = np.maximum(cell_worst, np.abs(off).max(axis=1))
            errors[:, :, t - k] = self._answer(bins, held, codes.size, t) - self.truth[:, t - k]
            repaired |= step.notes["cells_below_zero"] > 0
        worst = np.abs(errors)
        return Trial(1, errors, errors**2, worst, cell_squares, cell_worst[None], int(repaired))

    def _bins(self, raw: Floats, held: NDArray[np.int64], rows: int) -> Floats:
        share = held * (self.people / max(rows, 1))
        return np.stack([raw, held - float(self.mechanism.padding), share])

    def _answer(self, bins: Floats, held: NDArray[np.int64], rows: int, t: int) -> Floats:
        """(3, queries): what each answer says at t."""
        made = self.mechanism
        found = np.full((3, len(self.queries)), np.nan)
        listed = sum(query.kind == "bin" for query in self.queries)
        found[:, :listed] = bins[:, :listed]
        for i, query in enumerate(self.queries[listed:], listed):
            if query.width <= made.width:
                found[:, i] = bins[:, query.lifted(made.bins)].sum(axis=1)
            elif query.width <= t:
                count = int(narrowed(held, made.q, query.width)[query.mask].sum())
                padded = made.padding * made.bins * query.patterns / made.q**query.width
                found[1:, i] = count - padded, count * self.people / max(rows, 1)
        return found


@dataclass(frozen=True, eq=False)
class CumulativePlan:
    """Periods 1..T. raw: the noisy S_b; panel: rows whose total is at least b (made monotone)."""

    mechanism: Cumulative
    counts: tuple[NDArray[np.int64], ...]
    truth: Floats
    people: int
    answers: tuple[str, ...] = ("raw", "panel")
    first: int = 1

    @property
    def labels(self) -> tuple[tuple[str, str, int], ...]:
        every = range(1, self.mechanism.horizon + 1)
        return tuple((f"total at-least {b}", "total", b) for b in every)

    @property
    def cells(self) -> int:
        return self.mechanism.horizon * (self.mechanism.horizon + 1) // 2

    @property
    def cell_theory(self) -> float:
        return math.sqrt(float(np.nansum(self.theory**2)) / self.cells)

    @property
    def theory(self) -> Floats:
        """Deviation of the noisy S_b at t: popcount(t - b + 1) nodes; NaN for b > t."""
        made = self.mechanism
        found = np.full(self.truth.shape, np.nan)
        for b in range(1, made.horizon + 1):
            parameter = made.variances[b - 1]
            each = exact_variance(parameter)
            for t in range(b, made.horizon + 1):
                nodes: Fraction = made.variance(b, t) / parameter
                found[b - 1, t - 1] = np.sqrt(float(nodes) * each)
        return found

    def run(self, seed: int) -> Trial:
        made, source = self.mechanism, Seeded(seed)
        errors = np.full((2, *self.truth.shape), np.nan)
        state, totals = made.init(), np.zeros(0, np.int64)
        repaired = False
        for t in range(1, made.horizon + 1):
            state, step = made.step(state, self.counts[t - 1], source.draw(made.demand(t)))
            totals = totals + step.columns[:, 0] if t > 1 else step.columns[:, 0].astype(np.int64)
            panel = np.bincount(totals, minlength=t + 1)[::-1].cumsum()[::-1][1 : t + 1]
            answers = np.stack([step.estimates.values[:t], panel])
            errors[:, :t, t - 1] = answers - self.truth[:t, t - 1]
            repaired |= step.notes["moved_by_monotonization"] > 0
        worst = np.abs(errors)
        cell_squares = np.nansum(errors**2, axis=(1, 2))
        cell_worst = np.nanmax(worst, axis=(1, 2))[None]
        return Trial(1, errors, errors**2, worst, cell_squares, cell_worst, int(repaired))


def window_plan(made: FixedWindow, attribute: str, code: int, symbols: Symbols) -> WindowPlan:
    """The plan of a window release on a true panel; code: the symbol of the named queries."""
    queries = asked(made, attribute, code)
    found = histograms(symbols, made.q, made.width, widest(made))
    truth = np.full((len(queries), made.releases), np.nan)
    for i, query in enumerate(queries):
        for p, histogram in enumerate(found):
            if query.width <= p + made.width:
                truth[i, p] = narrowed(histogram, made.q, query.width)[query.mask].sum()
    counts = tuple(narrowed(histogram, made.q, made.width) for histogram in found)
    return WindowPlan(made, queries, counts, truth, symbols.shape[0])


def cumulative_plan(made: Cumulative, events: tuple[int, ...], symbols: Symbols) -> CumulativePlan:
    """The plan of a cumulative release on a true panel; events: the symbols that count."""
    happened = np.isin(symbols, events)
    totals = happened.cumsum(axis=1)
    people = symbols.shape[0]
    truth = np.full((made.horizon, made.horizon), np.nan)
    counts = []
    for t in range(1, made.horizon + 1):
        reached = totals[happened[:, t - 1], t - 1]
        entered = np.bincount(reached, minlength=made.horizon + 1)[1:]
        counts.append(np.append(entered, people).astype(np.int64))
        at_least = np.bincount(totals[:, t - 1], minlength=t + 1)[::-1].cumsum()[::-1]
        truth[:t, t - 1] = at_least[1 : t + 1]
    return CumulativePlan(made, tuple(counts), truth, people)
