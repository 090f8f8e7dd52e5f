"""The measurements in the messages of a release, as rows on the true counts of the mechanism.

A window release measures rows on a period's histogram. A cumulative release measures rows on the
numbers of people whose total reaches b, period by period. A joint release measures both, the
window's rows first; its first message also has the sums of all earlier periods.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stream_dp.continual.cumulative.cumulative import Cumulative
from stream_dp.continual.cumulative.placed_counters import Placed, PlacedCounter
from stream_dp.continual.joint.joint import Joint
from stream_dp.continual.mechanisms import AnyMechanism, mechanism
from stream_dp.continual.window.measurement_strategy import MeasurementStrategy
from stream_dp.continual.window.window import FixedWindow
from stream_dp.errors import Inconsistent
from stream_dp.study import Release, Study

from .measurement_blocks import (
    CounterMeasurements,
    CoupledMeasurements,
    Floats,
    Ints,
    TotalMeasurements,
)

_LEAST = 1e-9  # people squared


@dataclass(frozen=True, eq=False)
class PeriodMeasurements:
    """The measurements of a release at a period number: noisy values, and their exact variances."""

    number: int
    values: Floats
    variances: Floats


@dataclass(frozen=True)
class Slice:
    """Rows on a period's histogram, or on the people whose total reaches b, step by step.

    number: of the period
    b: None for a histogram
    time: the period of measurement, counted from the release's first
    at: the position of the first row among all values of the release
    count: the number of rows
    """

    number: int
    b: int | None
    time: int
    at: int
    count: int


@dataclass(frozen=True, eq=False)
class ReleaseMeasurements:
    """The measurements of a release so far.

    study: what is declared
    declared: the release
    messages: its measurements, period by period
    """

    study: Study
    declared: Release
    messages: tuple[PeriodMeasurements, ...]

    @cached_property
    def mechanism(self) -> AnyMechanism:
        return mechanism(self.study, self.declared)

    def measuring(self, values: Sequence[Floats]) -> ReleaseMeasurements:
        """The same measurements with other values. values: of every message"""
        messages = zip(self.messages, values, strict=True)
        other = ReleaseMeasurements(
            self.study,
            self.declared,
            tuple(PeriodMeasurements(m.number, v, m.variances) for m, v in messages),
        )
        other.__dict__["mechanism"] = self.mechanism  # as if it was asked for before
        return other

    @property
    def window(self) -> FixedWindow | None:
        measuring = self.mechanism
        measuring = measuring.window if isinstance(measuring, Joint) else measuring
        return measuring if isinstance(measuring, FixedWindow) else None

    @property
    def totals(self) -> Cumulative | None:
        measuring = self.mechanism
        measuring = measuring.totals if isinstance(measuring, Joint) else measuring
        return measuring if isinstance(measuring, Cumulative) else None

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
        assert self.declared.totals is not None
        return self.study.event_codes(self.declared.totals)

    def placed_counter(self, b: int) -> Placed | None:
        """The counter of S_b; b = 0 counts the people who enter."""
        assert self.totals is not None
        return self.totals.placed_counters[b - 1] if b else self.totals.people

    @cached_property
    def values(self) -> Floats:
        return np.concatenate([m.values for m in self.messages])

    @cached_property
    def variances(self) -> Floats:
        """The variances of the values, at least `_LEAST`, because weights are their inverses."""
        variances: Floats = np.concatenate([m.variances for m in self.messages])
        return variances.clip(_LEAST)

    @cached_property
    def slices(self) -> tuple[Slice, ...]:
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
                label = f"{self.declared.name} at {self.study.periods.labels[message.number - 1]}"
                raise Inconsistent(f"public log: {label}: not the measurements that it declares")
        return tuple(slices)

    def _sizes(self, number: int) -> Iterator[tuple[int | None, int, int]]:
        """For every slice of a message: b, the release's period, the number of rows.

        The first message of a joint release, at t = k, has the totals of periods 1..k.
        """
        t = self.time(number)
        if self.window is not None:
            yield None, t, sum(size for _, size in self.window.demand(t))
        if self.totals is not None:
            first_joint = self.window is not None and number == self.messages[0].number
            for step in range(1 if first_joint else t, t + 1):
                for placed in self.totals.active(step):
                    rows = placed.rows(step)
                    yield placed.threshold, step, rows.stop - rows.start

    def measured(self, section: Slice) -> tuple[Floats, Floats]:
        """The values and variances of a slice."""
        rows = slice(section.at, section.at + section.count)
        return self.values[rows], self.variances[rows]

    @property
    def window_measurement(self) -> MeasurementStrategy:
        assert self.window is not None
        return self.window.measurement

    @property
    def measured_patterns(self) -> Ints:
        """The patterns of a histogram, in order."""
        assert self.window is not None
        return self.window.measured

    def counters(self) -> Iterator[tuple[int, TotalMeasurements]]:
        """The thresholds with rows up to t, and the measurements of their steps."""
        for b, sections in self._slices_of_counters.items():
            placed = self.placed_counter(b)
            assert placed is not None
            steps = min(placed.length, self.time(self.last) - placed.start + 1)
            rows = np.array([i for p in sections for i in range(p.at, p.at + p.count)], np.int64)
            values, variances = self.values[rows], self.variances[rows]
            if isinstance(placed, PlacedCounter):
                counter = placed.counter
                yield b, CounterMeasurements(counter, steps, values=values, variances=variances)
            else:
                yield b, CoupledMeasurements(placed, steps, values=values, variances=variances)

    @cached_property
    def _slices_of_counters(self) -> dict[int, list[Slice]]:
        """The slices of every counter, in the order of its rows."""
        sections: dict[int, list[Slice]] = {}
        for section in self.slices:
            if section.b is not None:
                sections.setdefault(section.b, []).append(section)
        return sections


def releases_of_stream(
    study: Study, messages: Mapping[str, Sequence[PeriodMeasurements]], stream: str
) -> list[ReleaseMeasurements]:
    """The measurements of a stream's releases that have any, in the study's order."""
    return [
        ReleaseMeasurements(study, declared, tuple(messages[declared.name]))
        for declared in study.releases
        if declared.stream == stream and messages.get(declared.name)
    ]
