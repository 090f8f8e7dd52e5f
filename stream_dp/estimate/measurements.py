"""What the messages of a release measured, as rows on the true counts that its mechanism looks at.

A window release measures rows on a period's histogram, a cumulative one rows on the people whose
total reaches b step by step; a joint one both, the window's first, and the sums of all periods
before its first message with that one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from stream_dp.continual import AnyMechanism, Cumulative, FixedWindow, Joint, mechanism
from stream_dp.continual.cumulative_design import PlacedCounter
from stream_dp.errors import Inconsistent
from stream_dp.study import Release, Study, WindowRelease

Floats = NDArray[np.float64]
Ints = NDArray[Any]
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
    """Some rows on the histogram at a period number (b is None), or on the people whose total
    reaches b at its 1st, 2nd, .. step.

    time: the release's own period at which they were measured; at, count: where they stand among
    all values of the release, and how many they are.
    """

    number: int
    b: int | None
    time: int
    at: int
    count: int


@dataclass(frozen=True, eq=False)
class DesignRows:
    """What stands in a place, on `cells` unknowns: entries that are not 0."""

    place: Slice
    cells: int
    row: Ints
    cell: Ints
    value: Floats


@dataclass(frozen=True, eq=False)
class ReleaseMeasurements:
    """One release so far: its declaration, its mechanism's two sides, its messages in order.

    first: the number of its first period.
    """

    study: Study
    declared: Release
    messages: tuple[PeriodMeasurements, ...]

    @cached_property
    def _mechanism(self) -> AnyMechanism:
        return mechanism(self.study, self.declared)

    @property
    def window(self) -> FixedWindow | None:
        made = self._mechanism
        return made.window if isinstance(made, Joint) else _only(made, FixedWindow)

    @property
    def totals(self) -> Cumulative | None:
        made = self._mechanism
        return made.totals if isinstance(made, Joint) else _only(made, Cumulative)

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
        assert not isinstance(self.declared, WindowRelease)
        return self.study.event_codes(self.declared)

    def placed_counter(self, b: int) -> PlacedCounter | None:
        """The counter of S_b; b = 0 counts those who are there for the first time."""
        assert self.totals is not None
        return self.totals.design.placed_counters[b - 1] if b else self.totals.design.people

    @cached_property
    def values(self) -> Floats:
        return np.concatenate([m.values for m in self.messages])

    @cached_property
    def variances(self) -> Floats:
        """Not quite 0 where there is hardly any noise: all are divided by."""
        found: Floats = np.concatenate([m.variances for m in self.messages])
        return found.clip(_LEAST)

    @cached_property
    def places(self) -> tuple[Slice, ...]:
        """All that was measured, in order. Raises Inconsistent where the values are not those."""
        found: list[Slice] = []
        end = 0
        for message in self.messages:
            start = end
            for b, time, count in self._sizes(message.number):
                found.append(Slice(message.number, b, time, end, count))
                end += count
            if end - start != message.values.shape[0]:
                where = f"{self.declared.name} at {self.study.periods.labels[message.number - 1]}"
                raise Inconsistent(f"public log: {where}: not the measurements that it declares")
        return tuple(found)

    def _sizes(self, number: int) -> Iterator[tuple[int | None, int, int]]:
        """b, own period and number of rows of everything in a message."""
        t = self.time(number)
        if self.window is not None:
            yield None, t, sum(size for _, size in self.window.demand(t))
        if self.totals is not None:
            early = self.window is not None and number == self.messages[0].number
            for step in range(1 if early else t, t + 1):
                for placed in self.totals.design.active(step):
                    rows = placed.rows(step)
                    yield placed.threshold, step, rows.stop - rows.start

    def rows(self) -> Iterator[DesignRows]:
        """What stands in all places, in order."""
        for place in self.places:
            if place.b is None:
                assert self.window is not None
                design = self.window.design.matrix(place.time).tocoo()
                cells, row, cell, value = design.shape[1], design.row, design.col, design.data
            else:
                placed = self.placed_counter(place.b)
                assert placed is not None
                own, cells = placed.rows(place.time), place.time - placed.start + 1
                part = placed.counter.encode[
                    own.start - placed.place : own.stop - placed.place, :cells
                ]
                row, cell = np.nonzero(part)
                value = part[row, cell]
            yield DesignRows(place, cells, row, cell, value.astype(float))


def _only(made: AnyMechanism, kind: type[M]) -> M | None:
    return made if isinstance(made, kind) else None


def releases_of_stream(
    study: Study, messages: Mapping[str, Sequence[PeriodMeasurements]], stream: str
) -> list[ReleaseMeasurements]:
    """What there is of the releases of a stream, in the study's order."""
    return [
        ReleaseMeasurements(study, declared, tuple(messages[declared.name]))
        for declared in study.releases
        if declared.stream == stream and messages.get(declared.name)
    ]
