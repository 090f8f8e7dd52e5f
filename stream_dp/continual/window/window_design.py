"""The measurements of a window release, their noise and their cost.

Windows are measured as residuals (`residuals.py`, `open_residuals.py`), or as complete histograms
(Bun, Gaboardi, Neunhoeffer, Zhang 2024, Algorithm 1).

Weights. Under add_remove a component that m windows cover has the weight m^(3/4): every history
costs the same, and this is within 2 % of the best for patterns and better for unions of them.
Under replacement it is m: then no pair of histories costs more than with histograms. Where people
come and go or enter late it is m under every relation (`residual_costs.py`, `presence.py`).

Privacy. The noise is scaled so that the worst cost of all periods over all pairs of neighbours is
rho; it is exact but for residuals of an open population under
replacement, where it is an upper bound. The paper states sensitivity 1 but defines neighbours by
replacement: at its noise replace_one costs 2 rho.

Cost of histograms, the exact worst over all pairs of one person's histories. A Gaussian answer of
squared L2 sensitivity D2 and variance s2 costs D2 / (2 s2) (Bun and Steinke 2016; Canonne, Kamath,
Steinke 2020, Theorem 4). With b the noise variance of a cell, and in units of 1 / (2 b), two
histories with the same window cost nothing at a step; otherwise 1 for each of the two windows that
is measured, so 2 in a closed population. In an open population the pattern of k absences is not
measured and costs nothing.

add_remove: one history against none (in an open population against absences, which contribute 0
to every measurement): at most 1 a step, reached at every step by a history that is always present.

Replacement (replace_one, replace_in_place): the cost of a step depends on how many of the newest
symbols of the two histories agree, and on how many of the newest of each are absences, up to k. A
dynamic programme over these numbers is exact, because every sequence of agreeing, differing and
absent symbols is a pair of histories. In a closed population the total is 2 R.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dp.privacy.exact_numbers import exact_field
from stream_dp.study import MOST_PRESENCE_WIDTH, Neighbours, Strategy

from ..mechanism_interface import Counts, Demand, StoredPresence, fractions, packed_integers
from .measurement_strategy import HistogramRows, Histograms, MeasurementStrategy, pattern_words
from .open_residuals import OpenResiduals
from .presence import Presence, PresenceCosts
from .residual_costs import ResidualCosts, residual_costs
from .residuals import Residuals


class Agreement(NamedTuple):
    """What the next cost of two histories depends on. All numbers are at most k.

    same: how many of the newest symbols are the same
    absences: how many of the newest symbols of the first history are absences
    other_absences: the same of the second history
    """

    same: int
    absences: int
    other_absences: int


# Whether the two new symbols are the same, and whether each is an absence.
Move = tuple[bool, bool, bool]


def prefix_costs(
    q: int,
    width: int,
    releases: int,
    neighbours: Neighbours,
    *,
    open_: bool = False,
) -> tuple[Fraction, ...]:
    """The worst cost of the first 1, 2, .., `releases` steps together, in units of 1 / (2 b).

    q: the number of symbols
    width: k
    releases: how many steps
    neighbours: the neighbouring relation
    open_: whether one symbol is 'absent' and the pattern of k absences is not measured

    Under replacement a dynamic programme: `worst` has by state the largest cost of two histories
    that end in this state. A step costs the measured cells in which their windows differ. The
    first k - 1 symbols fill the first window and cost nothing.
    """
    if neighbours == "add_remove":
        return tuple(Fraction(i + 1) for i in range(releases))
    start = width if open_ else 0
    worst = {Agreement(width, start, start): 0}
    costs = []
    for step in range(1 - width, releases):
        reached: dict[Agreement, int] = {}
        for state, cost in worst.items():
            for move in _moves(q, open_):
                next_state = _after(state, move, width)
                total = cost + (_apart(next_state, width) if step >= 0 else 0)
                reached[next_state] = max(total, reached.get(next_state, total))
        worst = reached
        if step >= 0:
            costs.append(Fraction(max(worst.values())))
    return tuple(costs)


def _moves(q: int, open_: bool) -> tuple[Move, ...]:
    """Every move that two new symbols out of q can make; two that differ need a third symbol."""
    if not open_:
        return (True, False, False), (False, False, False)
    moves = (True, True, True), (True, False, False), (False, True, False), (False, False, True)
    return (*moves, (False, False, False)) if q > 2 else moves


def _after(state: Agreement, move: Move, width: int) -> Agreement:
    """The state after a move: a number that goes on is one more, at most k; any other is 0."""
    numbers = zip(state, move, strict=True)
    return Agreement(*(min(number + 1, width) if goes_on else 0 for number, goes_on in numbers))


def _apart(state: Agreement, width: int) -> int:
    """In how many measured cells the two windows differ."""
    return 0 if state.same == width else (state.absences < width) + (state.other_absences < width)


Floats = NDArray[np.float64]

_ADDED, _REPLACED = Fraction(3, 4), Fraction(1)  # exponents of the weights
_MOST_PERIODS = 64  # whose variances are computed for their mean and maximum


@lru_cache(maxsize=64)
def _presence_costs(
    q: int, width: int, horizon: int, *, direct: bool, stored: bytes | None
) -> PresenceCosts:
    """The design of every shape, cached with its factor and costs."""
    return PresenceCosts(Presence(q, width, horizon, stored), direct)


@dataclass(frozen=True, kw_only=True)
class WindowDesign:
    """The measurements of a window release and their noise.

    values: the q symbols
    width: k, the periods of a pattern
    horizon: T, the number of periods
    rho: the cost of all periods together under `neighbours`
    neighbours: the neighbouring relation
    strategy: what is measured, 'residuals' or 'histogram'
    rows: the public number of people under replacement, otherwise a declared cap on the rows;
        None: the panel's size is noisy
    absent: the code of the symbol 'absent' where people come and go (then k absences are never
        measured), otherwise None
    blank: the code of the symbol that earlier periods are filled in with for people who enter
        late, None where nobody can
    crossed: the strata that a replaced person leaves or enters, at most (`privacy/ledger.py`)
    stored: what was computed when the study began; None where it is computed here

    Raises ValueError for residuals of an open population whose windows are too wide.
    """

    values: tuple[int | str, ...]
    width: int
    horizon: int
    rho: Fraction = exact_field()
    neighbours: Neighbours
    strategy: Strategy = Strategy.RESIDUALS
    rows: int | None = None
    absent: int | None = None
    blank: int | None = None
    crossed: int = 0
    stored: StoredPresence | None = None

    @property
    def q(self) -> int:
        return len(self.values)

    @property
    def bins(self) -> int:
        return int(self.q**self.width)

    @property
    def overlaps(self) -> int:
        """The number of patterns of k - 1 symbols."""
        return int(self.q ** (self.width - 1))

    @property
    def releases(self) -> int:
        """R = T - k + 1."""
        return self.horizon - self.width + 1

    @property
    def left_out(self) -> int | None:
        """The symbol of a person who is absent or has not entered."""
        return self.blank if self.absent is None else self.absent

    @property
    def absent_pattern(self) -> int | None:
        """The code of the pattern of k absences, which is never measured."""
        return None if self.absent is None else self.absent * (self.bins - 1) // (self.q - 1)

    @cached_property
    def measured(self) -> NDArray[np.int64]:
        """The codes of the patterns that are estimated: all but k absences."""
        patterns = np.arange(self.bins)
        return patterns if self.absent is None else patterns[patterns != self.absent_pattern]

    def allows(self, strategy: Strategy) -> bool:
        """Whether the release could be measured so."""
        closed = self.left_out is None
        return strategy == Strategy.HISTOGRAM or closed or self.width <= MOST_PRESENCE_WIDTH

    @property
    def weights_words(self) -> str:
        """The rule for the weights of residuals, in words."""
        if self.left_out is None and self.neighbours == "add_remove":
            return (
                "m^(3/4) for an interaction in m windows: under add_remove every history costs the"
                " same, and these weights are near the best for patterns and for unions of patterns"
            )
        why = "where people come and go" if self.absent is not None else "where people enter late"
        if self.left_out is None:
            why = "under replacement"
        return (
            f"m for an interaction in m windows: {why} the cost is then the cost of a histogram of"
            " every window"
        )

    @cached_property
    def measurement(self) -> MeasurementStrategy:
        """The measured rows, with their noise."""
        if self.strategy == Strategy.HISTOGRAM:
            return Histograms(self.q, self.width, self.scale, self.absent_pattern)
        if self.left_out is None:
            closed_costs = self._closed_costs
            people = None if closed_costs.total else self.rows
            return self._residuals(
                exponent=closed_costs.exponent, total=closed_costs.total, people=people
            )
        costs, inside = self._open_costs, self._residuals(exponent=_REPLACED, absent=self.left_out)
        return OpenResiduals(inside, costs.presence, costs.direct)

    def _residuals(
        self,
        *,
        exponent: Fraction,
        total: bool = False,
        people: int | None = None,
        absent: int | None = None,
    ) -> Residuals:
        """The residuals of these windows. Parameters are the fields of `Residuals`."""
        return Residuals(
            q=self.q,
            width=self.width,
            horizon=self.horizon,
            exponent=exponent,
            total=total,
            scale=self.scale,
            absent=absent,
            people=people,
        )

    @cached_property
    def _closed_costs(self) -> ResidualCosts:
        total = self.neighbours == "add_remove" or self.rows is None or self.crossed > 0
        exponent = _ADDED if self.neighbours == "add_remove" else _REPLACED
        return residual_costs(self.q, self.width, self.horizon, exponent, total)

    @cached_property
    def _open_costs(self) -> PresenceCosts:
        if self.width > MOST_PRESENCE_WIDTH:
            raise ValueError(f"residuals of an open population: at most {MOST_PRESENCE_WIDTH} wide")
        stored = None if self.stored is None else self.stored.factor
        direct = self.absent is None
        return _presence_costs(self.q, self.width, self.horizon, direct=direct, stored=stored)

    @property
    def _measures_presence(self) -> bool:
        return self.strategy == Strategy.RESIDUALS and self.left_out is not None

    def stored_presence(self) -> StoredPresence | None:
        """The numbers that may differ on another machine; None if all numbers are exact."""
        if not self._measures_presence:
            return None
        factor = self._open_costs.presence.factor
        return StoredPresence(packed_integers(factor), tuple(str(cost) for cost in self.costs))

    @cached_property
    def costs(self) -> tuple[Fraction, ...]:
        """The worst cost of the first 1..R releases together, in units of 1 / (2 s).

        s: the scale of the noise; of histograms its variance.

        A replaced person may keep the strata, or leave and enter `crossed` of them, and each of
        these sees someone come or go: the cost is the larger of both.
        """
        if self.stored is not None and self._measures_presence:
            return fractions(self.stored.costs)
        crossed = 0 if self.neighbours == "add_remove" else self.crossed
        if self.strategy == Strategy.RESIDUALS and self.left_out is None:
            return self._closed_costs.prefix(self.neighbours, crossed=crossed)
        if self.strategy == Strategy.RESIDUALS:
            replaced = self._open_costs.prefix(self.neighbours)
            moved = self._open_costs.prefix("add_remove")
        else:
            replaced, moved = (
                prefix_costs(
                    self.q, self.width, self.releases, relation, open_=self.absent is not None
                )
                for relation in (self.neighbours, "add_remove")
            )
        return tuple(max(r, crossed * m) for r, m in zip(replaced, moved, strict=True))

    @cached_property
    def scale(self) -> Fraction:
        """s, such that the cost of all periods is rho."""
        return self.costs[-1] / (2 * self.rho)

    @property
    def charges(self) -> tuple[Fraction, ...]:
        """Increments of the worst cost of periods 1..t; their sum is rho."""
        costs = (Fraction(0), *self.costs)
        charges = [self.rho * (b - a) / costs[-1] for a, b in pairwise(costs)]
        return (*[Fraction(0)] * (self.width - 1), *charges)

    @cached_property
    def _variances(self) -> Floats:
        """Of every measured pattern at releases evenly spread over the horizon: (n, patterns)."""
        periods = np.arange(self.width, self.horizon + 1)
        if self.strategy == Strategy.HISTOGRAM:
            periods = periods[:1]
        sampled = np.linspace(0, periods.size - 1, min(periods.size, _MOST_PERIODS)).astype(int)
        return np.stack([self.bin_variances(int(t))[self.measured] for t in periods[sampled]])

    @cached_property
    def worst_variance(self) -> Fraction:
        """The largest noise variance of an unbiased answer to a pattern."""
        if self.strategy == Strategy.HISTOGRAM:
            return self.scale
        return Fraction(float(self._variances.max()))

    @cached_property
    def mean_variance(self) -> float:
        """The mean noise variance of a pattern over releases and measured patterns.

        It holds for the estimates, and for the panel if no count falls below 0.
        """
        return (
            float(self.scale)
            if self.strategy == Strategy.HISTOGRAM
            else float(self._variances.mean())
        )

    @cached_property
    def total_variance(self) -> float:
        """The variance of the number of people at t = k, as the estimates have it."""
        weights = np.zeros(self.bins)
        weights[self.measured] = 1
        return self.measurement.variance(self.width, weights)

    def bin_variances(self, t: int) -> Floats:
        """The variance of every bin's unbiased answer at t >= k, (q^k,).

        Computed from the variance of the discrete Gaussian, not from its parameter.
        """
        if t not in self._known_variances:
            self._known_variances[t] = self.measurement.bin_variances(t)
        return self._known_variances[t]

    @cached_property
    def _known_variances(self) -> dict[int, Floats]:
        """By period, those that were asked for."""
        return {}

    def demand(self, t: int) -> Demand:
        """The noise of the measurements at t, (variance, size) each."""
        return () if t < self.width else self.measurement.demand(t)

    def measure(self, t: int, counts: Counts) -> Counts:
        """The true measurements at t, int64 (n,). counts: as `measurement` takes them."""
        return np.zeros(0, np.int64) if t < self.width else self.measurement.measure(t, counts)

    def matrix(self, t: int) -> list[HistogramRows]:
        """The measurements at t >= k as rows on the histograms of periods up to t."""
        return list(self.measurement.rows(t))

    def query(self, code: int) -> str:
        """The pattern of a bin, in the words of a query."""
        (word,) = pattern_words(np.array([code]), self.q, self.width, self._symbols)
        return word

    @cached_property
    def _symbols(self) -> list[str]:
        return [shlex.quote(str(value)) for value in self.values]

    @cached_property
    def bin_words(self) -> tuple[str, ...]:
        """The queries of the estimated patterns, in the order of their codes."""
        return pattern_words(self.measured, self.q, self.width, self._symbols)

    def words(self, t: int) -> tuple[str, ...]:
        """The queries of the measurements at t."""
        kind = t if t == self.width else self.width + 1
        if kind not in self._words:
            self._words[kind] = self.measurement.words(t, self._symbols)
        return self._words[kind]

    @cached_property
    def _words(self) -> dict[int, tuple[str, ...]]:
        """By t = k and later; those of every later period are the same."""
        return {}
