"""The cumulative synthesizer: Bun, Gaboardi, Neunhoeffer, Zhang 2024, Algorithm 2.

S_b is the number of people with the event in at least b periods so far. All S_b are measured
together (`coupled_strategy.py`), or each by a stream counter of its own. The noisy sums are made
monotone in b and in time, and rounded. As many synthetic rows of running total b - 1 get the event
as S_b rises. `cumulative_design.py` has the measurements and their cost.

Number of rows. Under replacement the number of people is public. Under add_remove the number of
synthetic rows is declared, or measured at t = 1 with `size_share` of rho. Where people come and go
(`present`) the number of rows is a declared cap, and threshold 0 follows S_0, the people who have
entered: S_0 rows enter, and only rows that have entered get the event.

The panel follows from the noisy sums (Bun et al. 2024, Algorithm 2, lines 7 to 9). Only the column
of the present period may be chosen, within S_b(t - 1) <= S_b(t) <= S_{b-1}(t - 1). These bounds
imply that the new sums fall with b, and the noise of different b is independent. So the nearest
possible sums in the metric of the noise are the paper's, each clamped by itself. But the bounds are
noisy as well: sums that are made to fall with b together, before they are clamped, are nearer to
the truth, unless most of them are 0 (docs/results/index.md).

Later rows of a counter look at all true entries, so the state grows with the square of the periods.
The journal has what each period adds to it, so nothing is computed again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
import scipy
from numpy.typing import NDArray

from stream_dp.errors import Inconsistent, UserError
from stream_dp.panel import Columns, Symbols
from stream_dp.privacy.exact_numbers import exact_field
from stream_dp.privacy.ledger import crossed_strata
from stream_dp.privacy.noise import Draw, Measurements, exact_variance
from stream_dp.study import CounterKind, CumulativeRelease, JointRelease, Study

from ..mechanism_interface import (
    NONE,
    Counts,
    Estimates,
    Step,
    StoredDesign,
    check_arguments,
    check_panel_fits,
    event_totals,
    pack_state,
    shuffled_groups,
    unpack_state,
)
from ..window.fitted_targets import LEAST
from .coupled_budget import CoupledBudget
from .cumulative_design import CumulativeDesign
from .placed_counters import Floats, Placed

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


def in_order(sums: Floats, variances: Floats) -> Floats:
    """The nearest sums that do not rise with b: isotonic regression.

    sums: noisy S_1..S_t
    variances: of their noise; a distance is weighted by the inverse

    The largest error never rises. Isotonic regression never lowers a number when inputs rise, moves
    with an added constant, and leaves the true sums as they are: between the true sums less the
    largest error and the true sums plus it, inputs stay there.
    """
    if (np.diff(sums) <= 0).all():
        return sums
    weights = 1 / np.maximum(variances, LEAST)
    fitted: Floats = scipy.optimize.isotonic_regression(sums, weights=weights, increasing=False).x
    return fitted


def monotone(estimates: Counts, last_sums: Counts) -> Counts:
    """S_0..S_T at t: each noisy sum clamped between the last S_b and the last S_{b-1}.

    estimates: noisy S_1..S_t
    last_sums: S_0..S_T at t - 1; where people enter, S_0 at t, as they may have the event at once

    Algorithm 2, line 7; Lemma 4.2.
    """
    sums = last_sums.copy()
    t = estimates.shape[0]
    sums[1 : t + 1] = np.clip(estimates, last_sums[1 : t + 1], last_sums[:t])
    return sums


def random_rises(
    totals: NDArray[np.int64], rises: Counts, coins: np.random.Generator
) -> NDArray[np.int64]:
    """A column (rows,) with a 1 for `rises[b - 1]` uniformly random rows of total b - 1, else 0.

    totals: (rows,) running totals; rows of a negative total have not entered and get a 0
    rises: by how much S_1, S_2, .. rise
    coins: for the choice of rows

    Algorithm 2, lines 8 and 9.
    """
    groups = np.where(totals < 0, rises.shape[0], totals)
    order, starts = shuffled_groups(groups, rises.shape[0] + 1, coins)
    group = groups[order]
    rank = np.arange(order.shape[0]) - starts[group]
    column = np.zeros(totals.shape[0], np.int64)
    column[order] = rank < np.append(rises, 0)[group]
    return column


def total_increments(
    symbols: Symbols, events: Sequence[int], absent: int | None
) -> tuple[Counts, ...]:
    """Counts, by period, the people who reached the total b, b = 1..T, and the entries.

    symbols: the panel, (people, T).
    events: the codes of the event.
    absent: the code of absence; None if all people are present from the start.
    """
    horizon = symbols.shape[1]
    happened = np.isin(symbols, list(events))
    totals = happened.cumsum(axis=1)
    present = np.ones(symbols.shape, bool) if absent is None else symbols != absent
    entered = present & (present.cumsum(axis=1) == 1)
    return tuple(
        np.append(
            np.bincount(totals[happened[:, t], t], minlength=horizon + 1)[1:], entered[:, t].sum()
        ).astype(np.int64)
        for t in range(horizon)
    )


ABSENT = 2  # the panel's code of a row that has not entered


@dataclass(frozen=True, kw_only=True)
class Cumulative(CumulativeDesign):
    """Algorithm 2 of Bun et al. 2024 for an event.

    rows: the public or declared number of synthetic people, None where it is measured
    failure: beta, the probability with which `error_bound` may be exceeded
    ordered: whether the panel's sums of a period are made to fall with b together before each is
        clamped; otherwise each is clamped by itself, as in the paper

    Cost. A person of running total b at period t_b changes entry t_b of threshold b's stream by 1.
    Let x be all these entries of one person, E the integer matrix of all rows and s the noise
    variance of each row. The periods together cost
      add_remove: the maximum over t_1 < t_2 < .. of |E x|^2 / (2 s);
      replace_one, replace_in_place: the maximum over two such paths of |E (x - x')|^2 / (2 s).
    Both maxima are exact (`tests/kit/coupled_costs.py`, and `budgets.py` for separate counters,
    have the dynamic programmes and their proofs), and the noise is scaled so that they are rho. A
    counter without a horizon is charged an upper bound. A number of people that is measured once
    has squared sensitivity 1 and costs `size_share` of rho.
    """

    rows: int | None
    failure: Fraction = exact_field(Fraction(1, 20))
    ordered: bool = True

    padding: ClassVar[int] = 0
    bounded: ClassVar[str] = "for every sum, as estimated and in the panel"

    def __post_init__(self) -> None:
        check_arguments(self)
        if not 0 <= self.size_share < 1:
            raise ValueError(f"size_share: must lie from 0 to below 1, not {self.size_share}")
        if self.counter is not None and CounterKind.named(self.counter) is None:
            raise ValueError(f"counter: must be one of {', '.join(CounterKind)}, or None")
        if self.present and self.rows is None:
            raise UserError("rows: where people come and go, declare a cap on their number")

    @classmethod
    def declared(
        cls,
        study: Study,
        release: CumulativeRelease | JointRelease,
        rho: Fraction,
        stored: StoredDesign = NONE,
    ) -> Cumulative:
        """The totals of a release at this cost.

        stored: what was computed when the study began
        """
        first, last = study.span(release)
        return cls(
            horizon=last - first + 1,
            rho=rho,
            neighbours=study.neighbours,
            rows=study.size if release.rows is None else release.rows,
            failure=release.failure,
            counter=release.counter,
            crossed=crossed_strata(study.strata, release.name),
            open=study.periods.open is True and release.last is None,
            stored=stored.counters,
        )

    @classmethod
    def of(
        cls, study: Study, release: CumulativeRelease, stored: StoredDesign = NONE
    ) -> Cumulative:
        """The mechanism of a release."""
        return replace(
            cls.declared(study, release, release.rho, stored),
            size_share=release.size_share or Fraction(0),
            present=release.rows is not None and release.size_share is not None,
            ordered=release.ordered is not False,
        )

    def as_stored(self) -> StoredDesign:
        """Numbers computed in floats, with possible differences between machines."""
        if isinstance(self.budget, CoupledBudget):
            return NONE
        return StoredDesign(counters=self.budget.as_stored())

    @property
    def title(self) -> str:
        who = ", with people who enter" * self.present
        how = "all totals in one coupled measurement"
        how += ", without a horizon" * self.open
        if self.method is not None:
            how = self.method.title
        return f"cumulative, {how}{who}"

    @property
    def values(self) -> tuple[int | str, ...]:
        """The panel's symbols: no event, the event, and a row that has not entered."""
        return (0, 1, "absent") if self.present else (0, 1)

    @property
    def error_bound(self) -> float:
        """With probability 1 - beta no noisy S_b, b = 1..t, t = 1..T, has a larger error.

        A union bound over T (T + 1) / 2 subgaussian sums (and T of people, where they enter).
        Making them monotone never raises the largest error (Bun et al. 2024, Lemma 4.2, and
        `in_order`) unless the number of rows is too small. Sums that are not integers are rounded
        for the panel, which adds at most 0.5.
        """
        cells = self.horizon * (self.horizon + 1) // 2 + self.horizon * self.present
        half = 0.0 if self.method is not None and self.method.whole_sums else 0.5
        return half + math.sqrt(2 * self.worst_sum_variance * math.log(2 * cells / self.failure))

    @property
    def bias(self) -> str:
        """The bias of the panel's answers, in words."""
        who = " and those who have entered" * self.present
        capped = self.rows is not None and not self.present
        capped = capped and (self.neighbours == "add_remove" or self.crossed > 0)
        return (
            f"sums{who} are clamped to rise with time and to fall with b, and a clamped sum is"
            f" biased; with a probability of {100 * float(1 - self.failure):g} % no sum is wrong by"
            f" more than {self.error_bound:.0f}"
            + "; the number of rows is a cap on the people, so shares of rows are too small"
            * capped
        )

    def init(self) -> CumulativeState:
        return first_state(self)

    def observe(
        self, state: CumulativeState, counts: Counts, noise: Sequence[Counts]
    ) -> tuple[CumulativeState, Counts]:
        """Measures a period without a change to the panel.

        Returns the next state, in which `sums` and `totals` are still those before, and the noisy
        answers.

        state: after the period before
        counts: as in `recorded`
        noise: as `demand` asks
        """
        return self.answered(self.recorded(state, counts), state.period + 1, noise)

    def recorded(self, state: CumulativeState, counts: Counts) -> CumulativeState:
        """The state with the next period's entries in its streams, before they are measured.

        counts: (T + 1,) int64, people whose total went from b - 1 to b, for b = 1..T, then those
            who enter (without `present`: at t = 1 the number of people, later unused)
        """
        t, streams = state.period + 1, state.streams.copy()
        streams[self.entry_positions(t)] = np.append(counts[:t], counts[-1])
        return replace(state, period=t, streams=streams)

    def answered(
        self, state: CumulativeState, t: int, noise: Sequence[Counts]
    ) -> tuple[CumulativeState, Counts]:
        """The noisy answers of period t, at most the state's period, and the state with them."""
        answers = self.measure(state.streams, t) + np.concatenate(noise)
        return replace(state, known=self.learned(state.known, answers, t)), answers

    def sums(self, state: CumulativeState) -> Floats:
        """The unbiased S_1..S_t at the state's period."""
        t = state.period
        sums = self.placed_counters[:t]
        return np.array([placed.sum(state.known, t) for placed in sums])

    def measured(self, answers: Counts, t: int) -> Measurements:
        """The measurements at t, row by row: integers in units of 1 / scale of a person.

        Threshold 3 at t = 7 measures "coupled total 3 row 7". A separate counter measures "counter
        3 node 7", or several rows that are numbered from 1: "counter 3 node 7.2". Threshold 0
        follows the people who have entered; "people" is the number of people where it is measured
        once.
        """
        queries: list[str] = []
        variances = []
        for placed in self.active(t):
            rows = placed.rows(t)
            size = rows.stop - rows.start
            queries += placed.names(t)
            variances += [placed.variance] * size
        return Measurements(tuple(queries), answers, tuple(variances))

    def estimates(self, state: CumulativeState) -> Estimates:
        """S_1..S_t at the state's period t, then the number of people where it is measured."""
        t = state.period
        counters: tuple[Placed, ...] = self.placed_counters[:t]
        queries = [f"total at-least {placed.threshold}" for placed in counters]
        if (people := self._people(t)) is not None:
            counters, queries = (*counters, people), [*queries, "people"]
        values = np.array([placed.sum(state.known, t) for placed in counters])
        variances = [
            placed.gains[t - placed.start] * exact_variance(placed.variance) for placed in counters
        ]
        return Estimates(tuple(queries), values, np.sqrt(np.array(variances)))

    def _people(self, t: int) -> Placed | None:
        """The counter of S_0 if it has a sum at t."""
        placed = self.people
        return placed if placed is not None and t <= placed.length else None

    def step(
        self, state: CumulativeState, counts: Counts, draw: Draw
    ) -> tuple[CumulativeState, Step]:
        """Measures a period and adds a column to the panel. counts: see `recorded`."""
        observed, answers = self.observe(state, counts, draw.noise)
        sums = self.sums(observed)
        t, last_sums, totals = observed.period, state.sums, state.totals
        rounded_sums = np.rint(sums).astype(np.int64)
        estimates = self.estimates(observed)
        noisy_people = round(estimates.values[t]) if estimates.values.size > t else 0
        if t == 1:
            rows = max(0, noisy_people) if self.rows is None else self.rows
            totals = np.full(rows, -1 if self.present else 0)
            last_sums = np.append([0 if self.present else rows], last_sums[1:])
        entered = last_sums
        if self.present:
            first = min(max(noisy_people, int(last_sums[0])), totals.shape[0])
            entered = np.append([first], last_sums[1:])
            entries = np.array([first - last_sums[0], *([0] * self.horizon)])
            totals = totals + random_rises(totals + 1, entries, draw.coins) * (totals < 0)
        fitted = in_order(sums, estimates.errors[:t] ** 2) if self.ordered else sums
        new_sums = monotone(np.rint(fitted).astype(np.int64), entered)
        column = random_rises(totals, new_sums[1:] - last_sums[1:], draw.coins)
        symbols = np.where(totals < 0, ABSENT, column)
        notes = {"moved_by_monotonization": int(np.abs(new_sums[1 : t + 1] - rounded_sums).sum())}
        if self.present:
            notes["entries_moved"] = abs(int(new_sums[0]) - noisy_people)
        step = Step(
            columns=symbols[:, None].astype(np.uint8),
            measurements=self.measured(answers, t),
            estimates=estimates,
            notes=notes,
        )
        return replace(observed, sums=new_sums, totals=totals + column), step

    def dump(self, state: CumulativeState) -> bytes:
        return packed_totals(state, self, (state.period,))

    def load(self, dumps: Sequence[bytes], panel: Columns | None) -> CumulativeState:
        """Raises Inconsistent for bytes or a panel that are not this mechanism's."""
        totals = event_totals(panel, (1,))
        if self.present and panel is not None:
            totals[panel.column(len(panel.periods) - 1) == ABSENT] = -1
        state, rows = unpacked_totals(dumps, self, totals, lambda t: (t,))
        check_panel_fits(panel, state.period, rows)
        return state
