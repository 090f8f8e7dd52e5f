"""The measurements in the messages of a release, as rows on the true counts of its mechanism.

A window release measures rows on a period's histogram. A cumulative one measures rows on the
numbers of people whose total reaches b, period by period. A joint one measures both, the window's
first; its first message also has the sums of all periods before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from stream_dp.continual import AnyMechanism, Cumulative, FixedWindow, Joint, mechanism
from stream_dp.continual.cumulative.cumulative_design import PlacedCounter
from stream_dp.continual.window.measurement_strategy import MeasurementStrategy
from stream_dp.errors import Inconsistent
from stream_dp.study import Release, Study, has_totals

from .blocks import CounterMeasurements, Floats, Ints

_LEAST = 1e-9  # people squared
M = TypeVar("M", FixedWindow, Cumulative)


@dataclass(frozen=True, eq=False)
class PeriodMeasurements:
    """The measurements of a release at a period number: noisy values, and their exact variances."""

    number: int
    values: Floats
    variances: Floats


@dataclass(frozen=True)
class Slice:
    """Rows on the histogram at a period, or on the people whose total reaches b, step by step.

    number: of the period
    b: None for a histogram
    time: the release's own period at which they were measured
    at: where they begin among all values of the release
    count: how many they are
    """

    number: int
    b: int | None
    time: int
    at: int
    count: int


@dataclass(frozen=True, eq=False)
class ReleaseMeasurements:
    """The measurements of one release so far.

    study: what is declared
    declared: the release
    messages: its measurements, period by period
    """

    study: Study
    declared: Release
    messages: tuple[PeriodMeasurements, ...]

    @cached_property
    def _mechanism(self) -> AnyMechanism:
        return mechanism(self.study, self.declared)

    @property
    def window(self) -> FixedWindow | None:
        release_mechanism = self._mechanism
        return (
            release_mechanism.window
            if isinstance(release_mechanism, Joint)
            else _only(release_mechanism, FixedWindow)
        )

    @property
    def totals(self) -> Cumulative | None:
        release_mechanism = self._mechanism
        return (
            release_mechanism.totals
            if isinstance(release_mechanism, Joint)
            else _only(release_mechanism, Cumulative)
        )

    @property
    def first(self) -> int:
        return self.study.span(self.declared)[0]

    @property
    def last(self) -> int:
        """The period number of the last message."""
        return self.messages[-1].number

    def time(self, number: int) -> int:
        return number - self.first + 1

    @property
    def events(self) -> tuple[int, ...]:
        assert has_totals(self.declared)
        return self.study.event_codes(self.declared)

    def placed_counter(self, b: int) -> PlacedCounter | None:
        """The counter of S_b; b = 0 counts those who are there for the first time."""
        assert self.totals is not None
        return self.totals.placed_counters[b - 1] if b else self.totals.people

    @cached_property
    def values(self) -> Floats:
        return np.concatenate([m.values for m in self.messages])

    @cached_property
    def variances(self) -> Floats:
        """Of the values; never quite 0, as weights are their inverses."""
        variances: Floats = np.concatenate([m.variances for m in self.messages])
        return variances.clip(_LEAST)

    @cached_property
    def places(self) -> tuple[Slice, ...]:
        """All measurements, in order.

        Raises Inconsistent where a message has another number of values than is declared.
        """
        slices: list[Slice] = []
        end = 0
        for message in self.messages:
            start = end
            for b, time, count in self._sizes(message.number):
                slices.append(Slice(number=message.number, b=b, time=time, at=end, count=count))
                end += count
            if end - start != message.values.shape[0]:
                where = f"{self.declared.name} at {self.study.periods.labels[message.number - 1]}"
                raise Inconsistent(f"public log: {where}: not the measurements that it declares")
        return tuple(slices)

    def _sizes(self, number: int) -> Iterator[tuple[int | None, int, int]]:
        """b, the release's own period and the number of rows of each slice in a message."""
        t = self.time(number)
        if self.window is not None:
            yield None, t, sum(size for _, size in self.window.demand(t))
        if self.totals is not None:
            early = self.window is not None and number == self.messages[0].number
            for step in range(1 if early else t, t + 1):
                for placed in self.totals.active(step):
                    rows = placed.rows(step)
                    yield placed.threshold, step, rows.stop - rows.start

    def measured(self, place: Slice) -> tuple[Floats, Floats]:
        """The values and variances of a slice."""
        own = slice(place.at, place.at + place.count)
        return self.values[own], self.variances[own]

    @property
    def window_measurement(self) -> MeasurementStrategy:
        assert self.window is not None
        return self.window.measurement

    @property
    def measured_patterns(self) -> Ints:
        """The patterns that a histogram measures, in order."""
        assert self.window is not None
        return self.window.measured

    def counters(self) -> Iterator[tuple[PlacedCounter, CounterMeasurements]]:
        """Each counter with any rows so far, and what it measured of its steps so far."""
        for b, places in self._places_of_counters.items():
            placed = self.placed_counter(b)
            assert placed is not None
            steps = min(placed.counter.length, self.time(self.last) - placed.start + 1)
            own = np.array([i for p in places for i in range(p.at, p.at + p.count)], np.int64)
            yield (
                placed,
                CounterMeasurements(
                    placed.counter, steps, values=self.values[own], variances=self.variances[own]
                ),
            )

    @cached_property
    def _places_of_counters(self) -> dict[int, list[Slice]]:
        """The slices of each counter, in the order of its rows."""
        places: dict[int, list[Slice]] = {}
        for place in self.places:
            if place.b is not None:
                places.setdefault(place.b, []).append(place)
        return places


def _only(release_mechanism: AnyMechanism, kind: type[M]) -> M | None:
    return release_mechanism if isinstance(release_mechanism, kind) else None


def releases_of_stream(
    study: Study, messages: Mapping[str, Sequence[PeriodMeasurements]], stream: str
) -> list[ReleaseMeasurements]:
    """The measurements of a stream's releases that have any, in the study's order."""
    return [
        ReleaseMeasurements(study, declared, tuple(messages[declared.name]))
        for declared in study.releases
        if declared.stream == stream and messages.get(declared.name)
    ]
