"""Numbers as answers: a public lattice of whole numbers, cut into public bins.

The symbols of a number are computed and never listed, because there may be millions.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import field
from typing import Annotated, Literal, overload

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from .alphabet import ABSENT
from .field_types import Declaration, Symbol

MOST_POINTS = 1 << 24
MOST_EDGES = 1000
_LONGEST = 17  # characters of a whole number with its sign
_Whole = Annotated[int, Field(ge=-(1 << 53), le=1 << 53, strict=True)]

# The reason why a value is not a number of the scale: not whole, out of range, between two points.
Fault = Literal["value", "range", "step"]


class Scale(Declaration):
    """The whole numbers as answers: the multiples of `step` from `least` to `most`."""

    least: _Whole
    """The smallest answer, a multiple of `step`."""
    most: _Whole
    """The largest answer, a multiple of `step`."""
    step: Annotated[int, Field(ge=1, le=1 << 53, strict=True)] = 1
    """The difference between neighbouring answers."""

    @property
    def points(self) -> range:
        """The numbers in order."""
        return range(self.least, self.most + 1, self.step)

    def fault(self) -> str | None:
        """The fault of the scale. None for a sound scale."""
        if self.least >= self.most:
            return "least must be below most"
        if self.least % self.step or self.most % self.step:
            return "least and most must be multiples of step"
        if len(self.points) > MOST_POINTS:
            return f"{len(self.points):,} numbers; at most {MOST_POINTS:,}: make step larger"
        return None

    def read(self, value: Symbol) -> int | Fault:
        """The index of a number, or of a number as text, among the points; or a Fault.

        >>> income = Scale(least=-9000, most=1400000, step=100)
        >>> [income.read(value) for value in (-9000, "1200", "1200.0", 1234, 2000000)]
        [0, 102, 'value', 'step', 'range']
        """
        if isinstance(value, str):
            if len(value) > _LONGEST or not value.removeprefix("-").isdecimal():
                return "value"
            number = int(value)
            if str(number) != value:
                return "value"
            value = number
        if not self.least <= value <= self.most:
            return "range"
        index, remainder = divmod(value - self.least, self.step)
        return "step" if remainder else index

    @property
    def words(self) -> str:
        step = f" in steps of {self.step}" if self.step > 1 else ""
        return f"a whole number from {self.least} to {self.most}{step}"


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Numbers(Sequence[Symbol]):
    """The symbols of a number in code order: the points of its scale, then 'absent' if declared.

    bins: public edges; a bin holds the points from one edge up to the next.

    >>> age = Numbers(Scale(least=0, most=99), (18, 65), absent=True)
    >>> len(age), age[17], age[100], age.bin_labels
    (101, 17, 'absent', ('0..17', '18..64', '65..99', 'absent'))
    """

    scale: Scale
    bins: tuple[_Whole, ...] = field(default=())
    absent: bool = False

    def __len__(self) -> int:
        return len(self.scale.points) + self.absent

    @overload
    def __getitem__(self, code: int) -> Symbol: ...
    @overload
    def __getitem__(self, code: slice) -> Sequence[Symbol]: ...
    def __getitem__(self, code: int | slice) -> Symbol | Sequence[Symbol]:
        if isinstance(code, slice):
            return tuple(self[i] for i in range(len(self))[code])
        index = range(len(self))[code]
        return ABSENT if index == len(self.scale.points) else self.scale.points[index]

    def __contains__(self, value: object) -> bool:
        return value == ABSENT if isinstance(value, str) else value in self.scale.points

    @property
    def starts(self) -> tuple[int, ...]:
        """The first code of every bin, then the number of points."""
        points = self.scale.points
        return (0, *(points.index(edge) for edge in self.bins), len(points))

    @property
    def bin_labels(self) -> tuple[str, ...]:
        """The bins by their first and last number, then 'absent' if declared."""
        points, starts = self.scale.points, self.starts
        pairs = itertools.pairwise(starts)
        labels = tuple(
            f"{points[a]}..{points[b - 1]}" if b - a > 1 else str(points[a]) for a, b in pairs
        )
        return (*labels, ABSENT) if self.absent else labels

    def coarser(self, edges: Sequence[int]) -> tuple[int, ...]:
        """The number, from 0, of the coarser bin around every bin.

        edges: a subset of the bins' edges.

        >>> Numbers(Scale(least=0, most=99), (18, 40, 65), absent=True).coarser((40,))
        (0, 0, 1, 1, 2)
        """
        firsts = [self.scale.points[start] for start in self.starts[:-1]]
        coarse_bins = tuple(bisect_right(edges, first) for first in firsts)
        return (*coarse_bins, len(edges) + 1) if self.absent else coarse_bins


def bin_fault(scale: Scale, bins: Sequence[int]) -> str | None:
    """The fault of the edges of bins. None for sound edges."""
    if not 1 <= len(bins) <= MOST_EDGES:
        return f"declare 1 to {MOST_EDGES} edges between bins"
    if any(a >= b for a, b in itertools.pairwise(bins)):
        return "edges must increase"
    if bins[0] <= scale.least or bins[-1] > scale.most or any(b % scale.step for b in bins):
        line = f"edges must be numbers of the scale above {scale.least}"
        return f"{line}, where the first bin begins" if bins[0] == scale.least else line
    return None
