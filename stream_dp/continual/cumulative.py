"""The cumulative synthesizer: Bun, Gaboardi, Neunhoeffer, Zhang 2024, Algorithm 2.

For every b a stream counter follows S_b, the number of people with the event in at least b
periods so far. The noisy sums are rounded and made monotone in time and in b, and that many
synthetic rows of running total b - 1 get the event. Where people come and go, S_0 counts those who
have entered; as many rows enter, and only rows that have entered get the event. What is measured,
at what cost, is in `cumulative_form.py`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stream_dp.errors import Inconsistent
from stream_dp.panel import Panel, Symbols
from stream_dp.privacy.measurements import Measurements
from stream_dp.privacy.noise import Draw, exact_variance
from stream_dp.study import CumulativeRelease, Study

from .base import (
    Counts,
    Estimates,
    Step,
    check_panel_fits,
    pack_state,
    shuffled_groups,
    unpack_state,
)
from .counters import Floats
from .cumulative_form import CumulativeForm, PlacedCounter

STATE_VERSION = 2
ABSENT = 2  # the panel's code of a row that has not entered


@dataclass(frozen=True)
class CumulativeState:
    """What the next period needs.

    streams: (T + 1, T) true entries of counters 1..T and of people at t (confidential); noisy:
    (all rows,) measured integers, counter after counter, 0 where not yet; sums: (T + 1,) monotone
    S_0..S_T; totals: (rows,) each row's running total, -1 before it has entered.
    """

    period: int
    streams: NDArray[np.int64]
    noisy: NDArray[np.int64]
    sums: NDArray[np.int64]
    totals: NDArray[np.int64]


@dataclass(frozen=True)
class Cumulative(CumulativeForm):
    """Algorithm 2 for one event; its fields are those of its form."""

    @classmethod
    def of(cls, study: Study, release: CumulativeRelease) -> Cumulative:
        """The form that the release declares, with the best counter where it names none."""
        first, last = study.span(release)
        return cls.best(
            last - first + 1,
            release.rho,
            study.neighbours,
            study.size if release.rows is None else release.rows,
            release.size_share or Fraction(0),
            release.failure,
            counter=release.counter,
            present=release.rows is not None and release.size_share is not None,
            moves=release.where is not None,
        )

    def init(self) -> CumulativeState:
        streams = np.zeros((self.horizon + 1, self.horizon), np.int64)
        noisy, sums = np.zeros(self.all_rows, np.int64), np.zeros(self.horizon + 1, np.int64)
        return CumulativeState(0, streams, noisy, sums, np.zeros(0, np.int64))

    def measure(
        self, streams: NDArray[np.int64], t: int, counts: Counts
    ) -> tuple[NDArray[np.int64], Counts]:
        """The streams with period t's entries, and the true rows that are measured at t.

        counts: (T + 1,) int64, people whose total went from b - 1 to b at t, for b = 1..T, then
        those who enter at t (without `present`: at t = 1 the number of people, later unused).
        """
        streams = streams.copy()
        streams[:, t - 1] = counts
        return streams, np.concatenate([self._rows(streams, lane, t) for lane in self.active(t)])

    def _rows(self, streams: NDArray[np.int64], lane: PlacedCounter, t: int) -> Counts:
        place, rows = lane.place, lane.rows(t)
        steps = t - lane.start + 1
        encode = lane.counter.encode[rows.start - place : rows.stop - place, :steps]
        found: Counts = encode @ streams[lane.threshold - 1, lane.start - 1 : t]
        return found

    def observe(
        self, state: CumulativeState, counts: Counts, noise: Sequence[Counts]
    ) -> tuple[CumulativeState, Floats]:
        """Measure one period, without rows: the state but for sums and totals, and the unbiased
        S_1..S_t. counts as in `measure`; noise: as `demand` asks."""
        seen = self.answered(self.recorded(state, counts), state.period + 1, noise)
        return seen, self.sums(seen)

    def recorded(self, state: CumulativeState, counts: Counts) -> CumulativeState:
        """The next period's state before anything is measured."""
        streams = state.streams.copy()
        streams[:, state.period] = counts
        return replace(state, period=state.period + 1, streams=streams)

    def answered(self, state: CumulativeState, t: int, noise: Sequence[Counts]) -> CumulativeState:
        """The state with what is measured at t, no later than its period."""
        true = np.concatenate([self._rows(state.streams, lane, t) for lane in self.active(t)])
        noisy = state.noisy.copy()
        noisy[self._places[t - 1]] = true + np.concatenate(noise)
        return replace(state, noisy=noisy)

    def sums(self, state: CumulativeState) -> Floats:
        """The unbiased S_1..S_t at the state's period."""
        return np.array([self._sum(state, lane) for lane in self.lanes[: state.period]])

    @cached_property
    def _places(self) -> tuple[NDArray[np.int64], ...]:
        """Where the answers of each period are kept, in the order of the demand."""
        found = []
        for t in range(1, self.horizon + 1):
            slices = [lane.rows(t) for lane in self.active(t)]
            found.append(np.concatenate([np.arange(s.start, s.stop) for s in slices]))
        return tuple(found)

    def _sum(self, state: CumulativeState, lane: PlacedCounter) -> float:
        """The unbiased sum of a lane at the state's period, people."""
        step = state.period - lane.start + 1
        known = lane.counter.rows(step)
        noisy = state.noisy[lane.place : lane.place + known]
        return float(lane.counter.decode[step - 1, :known] @ noisy) / lane.counter.scale

    def measured(self, state: CumulativeState, t: int) -> Measurements:
        """What was measured at t: row by row, integers in units of 1 / scale of a person.

        "counter 3 node 7" is what counter 3 measured at t = 7; where these are several, they are
        numbered from 1: "counter 3 node 7.2". Counter 0 follows those who have entered, and
        "people" is their number, measured once.
        """
        queries: list[str] = []
        variances = []
        for lane in self.active(t):
            rows = lane.rows(t)
            size = rows.stop - rows.start
            name = f"counter {lane.threshold} node {t}"
            names = [name] if size == 1 else [f"{name}.{i}" for i in range(1, size + 1)]
            queries += ["people"] if lane.counter.name == "once" else names
            variances += [lane.variance] * size
        return Measurements(tuple(queries), state.noisy[self._places[t - 1]], tuple(variances))

    def estimates(self, state: CumulativeState) -> Estimates:
        """S_1..S_t at the state's period t, then the number of people where it is measured."""
        t = state.period
        lanes = self.lanes[:t]
        queries = [f"total at-least {lane.threshold}" for lane in lanes]
        if (people := self._people(t)) is not None:
            lanes, queries = (*lanes, people), [*queries, "people"]
        values = np.array([self._sum(state, lane) for lane in lanes])
        variances = [
            lane.counter.gains[t - lane.start] * exact_variance(lane.variance) for lane in lanes
        ]
        return Estimates(tuple(queries), values, np.sqrt(np.array(variances)))

    def _people(self, t: int) -> PlacedCounter | None:
        lane = self.people
        return lane if lane is not None and t <= lane.counter.length else None

    def step(
        self, state: CumulativeState, counts: Counts, draw: Draw
    ) -> tuple[CumulativeState, Step]:
        """One period. counts as in `measure`."""
        seen, sums = self.observe(state, counts, draw.noise)
        t, before, totals = seen.period, state.sums, state.totals
        wanted = np.rint(sums).astype(np.int64)
        people = self._people(t)
        there = 0 if people is None else round(self._sum(seen, people))
        if t == 1:
            rows = max(0, there) if self.rows is None else self.rows
            totals = np.full(rows, -1 if self.present else 0)
            before = np.append([0 if self.present else rows], before[1:])
        entered = before
        if self.present:
            first = min(max(there, int(before[0])), totals.shape[0])
            entered = np.append([first], before[1:])
            enter = np.array([first - before[0], *([0] * self.horizon)])
            totals = totals + _append(totals + 1, enter, draw.coins) * (totals < 0)
        after = monotone(wanted, entered)
        column = _append(totals, after[1:] - before[1:], draw.coins)
        symbols = np.where(totals < 0, ABSENT, column)
        moved = int(np.abs(after[1 : t + 1] - wanted).sum())
        notes = {"moved_by_monotonization": moved}
        if self.present:
            notes["entries_moved"] = abs(int(after[0]) - there)
        step = Step(
            symbols[:, None].astype(np.uint8), self.measured(seen, t), self.estimates(seen), notes
        )
        return replace(seen, sums=after, totals=totals + column), step

    @cached_property
    def _fingerprint(self) -> NDArray[np.int64]:
        """Of all matrices: what was measured can only be decoded with the ones it was made by."""
        digest = hashlib.sha256()
        for counter in self.counters:
            digest.update(np.ascontiguousarray(counter.encode).astype("<i8").tobytes())
        return np.frombuffer(digest.digest()[:8], "<i8").astype(np.int64)

    def dump(self, state: CumulativeState) -> bytes:
        arrays = {"streams": state.streams, "noisy": state.noisy, "sums": state.sums}
        return pack_state(STATE_VERSION, state.period, counters=self._fingerprint, **arrays)

    def load(self, data: bytes, panel: Panel | None) -> CumulativeState:
        """Raises Inconsistent for bytes or a panel that are not this mechanism's."""
        symbols = None if panel is None else panel.symbols
        state = self.restored(data, None if symbols is None else symbols == 1)
        rows = self.rows if self.rows is not None else int(state.sums[0])
        check_panel_fits(panel, state.period, rows)
        if self.present and symbols is not None:
            state.totals[_outside(symbols)] = -1
        return state

    def restored(self, data: bytes, happened: NDArray[np.bool_] | None) -> CumulativeState:
        """The state from its bytes and from where the panel has the event, (rows, periods).

        Raises Inconsistent for bytes that are not this mechanism's.
        """
        period, held = unpack_state(
            data,
            STATE_VERSION,
            counters=(1,),
            streams=(self.horizon + 1, self.horizon),
            noisy=(self.all_rows,),
            sums=(self.horizon + 1,),
        )
        if held["counters"] != self._fingerprint:
            raise Inconsistent(
                "journal: the state was made with other counters than this machine computes; go"
                " on with the version of stream-dp and the machine that began the study"
            )
        totals = np.zeros(0, np.int64) if happened is None else happened.sum(1, dtype=np.int64)
        return CumulativeState(period, held["streams"], held["noisy"], held["sums"], totals)


def _outside(symbols: Symbols) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = symbols[:, -1] == ABSENT
    return found


def monotone(estimates: Counts, before: Counts) -> Counts:
    """S_0..S_T at t: each noisy sum clamped between its own last value and S_{b-1}'s last value.

    estimates: noisy S_1..S_t; before: S_0..S_T at t - 1, S_0 at t where people enter: whoever
    enters may have the event at once. (Algorithm 2, line 7; Lemma 4.2.)
    """
    after = before.copy()
    t = estimates.shape[0]
    after[1 : t + 1] = np.clip(estimates, before[1 : t + 1], before[:t])
    return after


def _append(
    totals: NDArray[np.int64], rises: Counts, coins: np.random.Generator
) -> NDArray[np.int64]:
    """A 1 for `rises[b - 1]` uniformly random rows of total b - 1, a 0 for all others.

    Rows of a negative total, which have not entered, get a 0.
    """
    groups = np.where(totals < 0, rises.shape[0], totals)
    order, starts = shuffled_groups(groups, rises.shape[0] + 1, coins)
    group = groups[order]
    place = np.arange(order.shape[0]) - starts[group]
    column = np.zeros(totals.shape[0], np.int64)
    column[order] = place < np.append(rises, 0)[group]
    return column
