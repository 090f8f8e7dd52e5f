"""The form of a cumulative release: its counters, their noise, what it costs, how well it does.

Privacy. Counter b's stream gets a 1 when a person's total reaches b. Under add_remove one path of
entry times changes, under replacement an old and a new one; the exact worst cost is a dynamic
programme (`paths.py`), and the noise is scaled so that it is rho (`budgets.py`). Each row of a
counter is one discrete Gaussian answer, and it looks at no later entry: releases may be chosen by
what came before, the sum of the costs along any pair of histories stays at or under rho.

Who is there. Under replacement the number of people is public. Under add_remove the number of
synthetic rows is declared, or measured at t = 1 with `size_share` of rho. Where people come and go
(`present`) the rows are a declared cap, and counter 0 follows those who have entered.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from stream_dp.errors import UserError
from stream_dp.privacy.noise import exact_variance
from stream_dp.study import CounterName, Neighbours

from .base import Demand
from .budgets import CounterBudget, counter_budget
from .counters import ONCE, Counter
from .factorizations import MOST_GAMMA2, lower_bound

_WORDS: dict[CounterName, str] = {
    "tree": "binary tree counters (Bun et al. 2024, Algorithms 2 and 3)",
    "honaker": "binary tree counters with estimation from below (Honaker 2015)",
    "sqrt": "square-root counters (Henzinger, Upadhyay, Upadhyay 2023)",
    "normalised": "column-normalised square-root counters",
    "gamma2": "counters of the least worst error (gamma2-optimal factorization)",
    "unbounded": "counters without a horizon (after Jacobsen, Fawaz 2025)",
}
_RATIO_STEPS = 1.05


@dataclass(frozen=True, eq=False)
class PlacedCounter:
    """One counter in use. threshold: b, or 0 for people; start: the period of its first entry;
    variance: the parameter of its integer noise; place: of its first row among all rows."""

    threshold: int
    start: int
    counter: Counter
    variance: Fraction
    place: int

    def rows(self, t: int) -> slice:
        """The rows measured at period t, among all rows."""
        first, last = self.counter.rows(t - self.start), self.counter.rows(t - self.start + 1)
        return slice(self.place + first, self.place + last)


@dataclass(frozen=True)
class CumulativeForm:
    """horizon T; rho: cost of all periods under `neighbours`; rows: the public or declared number
    of synthetic people, None where it is measured with size_share of rho; failure: the probability
    that `error_bound` leaves open; counter: how sums are counted.

    present: people enter and S_0, those who have, is a counter of its own, with about size_share
    of rho (0: so that its worst variance is that of the others). moves: the release of one stratum
    among several, when a person who is replaced may turn up in another: the cost is at least twice
    that of add_remove. (Under add_remove a person is in one stratum, and it changes nothing.)
    """

    horizon: int
    rho: Fraction
    neighbours: Neighbours
    rows: int | None
    size_share: Fraction = Fraction(0)
    failure: Fraction = Fraction(1, 20)
    counter: CounterName = "tree"
    present: bool = False
    moves: bool = False

    padding: ClassVar[int] = 0

    def __post_init__(self) -> None:
        if self.counter == "gamma2" and self.horizon > MOST_GAMMA2:
            raise UserError(
                f"counter 'gamma2': it is made for up to {MOST_GAMMA2} periods, not"
                f" {self.horizon}; ask for 'normalised', which is within 1 % of it"
            )
        if self.present and self.rows is None:
            raise UserError("rows: where people come and go, declare a cap on their number")

    @classmethod
    def best(
        cls,
        horizon: int,
        rho: Fraction,
        neighbours: Neighbours,
        rows: int | None,
        size_share: Fraction = Fraction(0),
        failure: Fraction = Fraction(1, 20),
        *,
        counter: CounterName | None = None,
        present: bool = False,
        moves: bool = False,
    ) -> Self:
        """The form with the smallest worst cell in theory, or the one of the counter asked for.

        Above MOST_GAMMA2 periods only 'sqrt' and 'normalised' are compared: trees are behind.
        """

        names: list[CounterName] = ["gamma2", "normalised", "sqrt", "honaker", "tree"]
        if counter is not None:
            names = [counter]
        elif horizon > MOST_GAMMA2:
            names = ["normalised", "sqrt"]
        forms = [
            cls(horizon, rho, neighbours, rows, size_share, failure, name, present, moves)
            for name in names
        ]
        return forms[0] if len(forms) == 1 else min(forms, key=lambda form: form._worst_sum)

    @property
    def title(self) -> str:
        return "cumulative, " + _WORDS[self.counter] + (", with people who enter" * self.present)

    @property
    def values(self) -> tuple[int | str, ...]:
        """Of the panel: no event, the event, and a row that has not entered."""
        return (0, 1, "absent") if self.present else (0, 1)

    @property
    def budget(self) -> CounterBudget:
        share = self.size_share if self.present else Fraction(0)
        return counter_budget(
            self.horizon, self.counter, self.neighbours, self.present, self.moves, share
        )

    @property
    def counters(self) -> tuple[Counter, ...]:
        """For b = 1..T."""
        return self.budget.counters

    @property
    def _counted_rho(self) -> Fraction:
        """All of rho but what a number of people measured once takes."""
        return self.rho if self.present else self.rho * (1 - self.size_share)

    @cached_property
    def lanes(self) -> tuple[PlacedCounter, ...]:
        """Counters 1..T, then that of people where there is one."""
        weights, unit = self.budget.weights, self._counted_rho / self.budget.whole
        lanes: list[PlacedCounter] = []
        place = 0
        for b, counter in enumerate(self.counters, 1):
            lanes.append(PlacedCounter(b, b, counter, 1 / (2 * weights[b - 1] * unit), place))
            place += counter.encode.shape[0]
        if self.present:
            variance = 1 / (2 * weights[-1] * unit)
            lanes.append(PlacedCounter(0, 1, self.counters[0], variance, place))
        elif self.size_share:
            lanes.append(PlacedCounter(0, 1, ONCE, self.size_variance, place))
        return tuple(lanes)

    @property
    def people(self) -> PlacedCounter | None:
        """The lane of S_0, or of the number of people measured at t = 1."""
        return self.lanes[-1] if self.lanes[-1].threshold == 0 else None

    @cached_property
    def _active(self) -> tuple[tuple[PlacedCounter, ...], ...]:
        found = []
        for t in range(1, self.horizon + 1):
            every = (*self.lanes[:t], *self.lanes[self.horizon :])
            found.append(tuple(x for x in every if x.counter.length > t - x.start))
        return tuple(found)

    def active(self, t: int) -> tuple[PlacedCounter, ...]:
        """The lanes with rows at t, in the order of all answers."""
        return self._active[t - 1]

    @property
    def all_rows(self) -> int:
        last = self.lanes[-1]
        return last.place + last.counter.times.size

    @cached_property
    def variances(self) -> tuple[Fraction, ...]:
        """Parameters of the integer noise of counter b's rows, b = 1..T."""
        return tuple(lane.variance for lane in self.lanes[: self.horizon])

    @property
    def size_variance(self) -> Fraction:
        """Noise variance of an n measured once: 1 / (2 rho size_share), sensitivity 1.

        With moves two strata have their n changed, by one each: twice that.
        """
        pairs = self.moves and self.neighbours != "add_remove"
        return (2 if pairs else 1) / (2 * self.rho * self.size_share)

    @cached_property
    def charges(self) -> tuple[Fraction, ...]:
        """Increments of the exact worst cost, period by period; all at once where T is large.

        Without a horizon they end below rho.
        """
        size = self.rho - self._counted_rho
        unit = self._counted_rho / self.budget.whole
        costs = [size + cost * unit for cost in self.budget.costs]
        before = [Fraction(0), *costs[:-1]]
        return tuple(cost - last for last, cost in zip(before, costs, strict=True))

    def variance(self, b: int, t: int) -> float:
        """Variance of the unbiased S_b at t, from the discrete Gaussian's own; 0 for b > t."""
        if b > t:
            return 0.0
        lane = self.lanes[b - 1] if b else self.people
        if lane is None or lane.counter.length <= t - lane.start:
            raise ValueError("nobody measured the number of people then")
        return float(lane.counter.gains[t - lane.start]) * exact_variance(lane.variance)

    @property
    def worst_variance(self) -> Fraction:
        """The largest noise variance of a released number: a sum's, or that of people.

        From the parameter of the noise, at or above its variance; the gains are those computed in
        floats (relative rounding about 1e-14), the rest is exact.
        """
        return max(lane.variance * lane.counter.worst_gain for lane in self.lanes)

    @property
    def _worst_sum(self) -> Fraction:
        sums = self.lanes if self.present else self.lanes[: self.horizon]
        return max(lane.variance * lane.counter.worst_gain for lane in sums)

    @property
    def error_bound(self) -> float:
        """No noisy S_b at any t is off by more, with probability 1 - beta, b = 1..t, t = 1..T.

        A union bound over T (T + 1) / 2 subgaussian sums (and T of people, where they enter);
        making them monotone never raises the largest error (Lemma 4.2 of the paper) as long as
        the number of rows is not too small. Sums that are not whole are rounded for the panel.
        """
        cells = self.horizon * (self.horizon + 1) // 2 + self.horizon * self.present
        half = 0.0 if self.counter == "tree" else 0.5
        return half + math.sqrt(2 * self._worst_sum * math.log(2 * cells / self.failure))

    @property
    def bias(self) -> str:
        """How the panel's own answers are biased, in words."""
        who = " and those who have entered" * self.present
        capped = self.rows is not None and not self.present
        capped = capped and (self.neighbours == "add_remove" or self.moves)
        return (
            f"sums{who} are made to rise with time and fall with b: one that is held back is off to"
            f" one side, all of them by at most {self.error_bound:.0f} but for the declared failure"
            + "; its rows are a cap on the people, so shares of them are too small"
            * capped
        )

    @property
    def rmse(self) -> float:
        """Root mean square over all cells of the unbiased S_b at t, b = 1..T (theory)."""
        sums = [lane.counter.gains.sum() * exact_variance(lane.variance) for lane in self.lanes]
        cells = self.horizon * (self.horizon + 1) / 2
        return math.sqrt(float(np.sum(sums[: self.horizon])) / cells)

    @property
    def lower_bound_ratio(self) -> float:
        """The worst S_b's deviation, over what no choice of counters with budgets of their own,
        the sum of which is rho, can be below under add_remove (so nor under replacement).

        Counter b with budget rho_b has a worst variance of at least gamma2^2 / (2 rho_b), so the
        largest of them is at least the sum of gamma2^2 over 2 rho. gamma2 never falls with n:
        above MOST_GAMMA2 the bound of a shorter length stands in. Counters that share their budget
        along paths (a late entry to one leaves fewer for the others) could be below it.
        """
        total = sum(_below(n) ** 2 for n in range(1, self.horizon + 1))
        worst = max(lane.variance * lane.counter.worst_gain for lane in self.lanes[: self.horizon])
        return math.sqrt(float(worst * 2 * self._counted_rho) / total)

    def demand(self, t: int) -> Demand:
        """Counters 1..t, then people: as many integers of each as it has rows at t."""
        found = [(lane.variance, lane.rows(t)) for lane in self.active(t)]
        return tuple((variance, rows.stop - rows.start) for variance, rows in found)


def _below(n: int) -> float:
    """`lower_bound` of n, or of a shorter length on a coarse grid."""
    if n <= MOST_GAMMA2:
        return lower_bound(n)
    step = math.floor(math.log(n / MOST_GAMMA2, _RATIO_STEPS))
    return lower_bound(min(n, math.floor(MOST_GAMMA2 * _RATIO_STEPS**step)))
