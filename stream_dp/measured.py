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

from .continual import AnyMechanism, Cumulative, FixedWindow, Joint, mechanism
from .continual.cumulative_form import Lane
from .errors import Inconsistent
from .study import Release, Study, Window

Floats = NDArray[np.float64]
Ints = NDArray[Any]
M = TypeVar("M", FixedWindow, Cumulative)
_Found = tuple[int | None, tuple[int, int], Ints, Ints, Floats]


@dataclass(frozen=True, eq=False)
class Message:
    """The measurements of a release at a period number: noisy values, and their exact variances."""

    number: int
    values: Floats
    variances: Floats


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows on the histogram at a period number (b is None), or on the people whose total
    reaches b at its 1st, 2nd, .. step.

    at: where they stand among all values of the release; count, cells: how many rows, on how many
    unknowns; row, cell, value: their entries that are not 0.
    """

    number: int
    b: int | None
    at: int
    count: int
    cells: int
    row: Ints
    cell: Ints
    value: Floats


@dataclass(frozen=True, eq=False)
class Measured:
    """One release so far: its declaration, its mechanism's two sides, its messages in order.

    first: the number of its first period.
    """

    study: Study
    declared: Release
    messages: tuple[Message, ...]

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
        assert not isinstance(self.declared, Window)
        return self.study.event_codes(self.declared)

    def lane(self, b: int) -> Lane | None:
        """The counter of S_b; b = 0 counts those who are there for the first time."""
        assert self.totals is not None
        return self.totals.lanes[b - 1] if b else self.totals.people

    @cached_property
    def values(self) -> Floats:
        return np.concatenate([m.values for m in self.messages])

    @cached_property
    def variances(self) -> Floats:
        return np.concatenate([m.variances for m in self.messages])

    @cached_property
    def rows(self) -> tuple[Rows, ...]:
        """All that was measured, in order. Raises Inconsistent where the values are not those."""
        found: list[Rows] = []
        place = 0
        for message in self.messages:
            start = place
            for b, (count, cells), row, cell, value in self._of(message.number):
                found.append(Rows(message.number, b, place, count, cells, row, cell, value))
                place += count
            if place - start != message.values.shape[0]:
                raise Inconsistent(f"{self.declared.name}: not the measurements that it declares")
        return tuple(found)

    def _of(self, number: int) -> Iterator[_Found]:
        t = self.time(number)
        if self.window is not None:
            design = self.window.design(t).tocoo()
            yield None, design.shape, design.row, design.col, design.data.astype(float)
        if self.totals is not None:
            early = self.window is not None and number == self.messages[0].number
            for step in range(1 if early else t, t + 1):
                yield from self._nodes(step)

    def _nodes(self, t: int) -> Iterator[_Found]:
        """What the counters measure at their release's period t."""
        assert self.totals is not None
        for lane in self.totals.active(t):
            rows, steps = lane.rows(t), t - lane.start + 1
            own = lane.counter.encode[rows.start - lane.place : rows.stop - lane.place, :steps]
            row, cell = np.nonzero(own)
            yield lane.threshold, (own.shape[0], steps), row, cell, own[row, cell].astype(float)


def _only(made: AnyMechanism, kind: type[M]) -> M | None:
    return made if isinstance(made, kind) else None


def whole(study: Study, messages: Mapping[str, Sequence[Message]], stream: str) -> list[Measured]:
    """What there is of the releases of a stream, in the study's order."""
    return [
        Measured(study, declared, tuple(messages[declared.name]))
        for declared in study.releases
        if declared.stream == stream and messages.get(declared.name)
    ]
