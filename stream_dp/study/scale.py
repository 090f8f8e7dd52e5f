"""Numbers as answers: a public lattice of whole numbers, cut into public bins.

The symbols of a number are computed and never listed, because there may be millions.
"""

from __future__ import annotations

import itertools
import math
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import field
from typing import Annotated, Literal, overload

from pydantic import ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer
from pydantic.dataclasses import dataclass

from .field_types import ABSENT, Declaration, Symbol

MOST_POINTS = 1 << 24
MOST_EDGES = 1000
MOST_SPECIAL = 64
_LONGEST = 17  # characters of a whole number with its sign
Whole = Annotated[int, Field(ge=-(1 << 53), le=1 << 53, strict=True)]

# The reason why a value is not a number of the scale: not whole, out of range, between two points.
Fault = Literal["value", "range", "step"]


class Scale(Declaration):
    """The whole numbers as answers: the multiples of `step` from `least` to `most`."""

    least: Whole
    """The smallest answer, a multiple of `step`."""
    most: Whole
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
    """The symbols of a number in code order: its scale's points, special codes, 'absent'.

    bins: public edges; a bin holds the points from one edge up to the next.
    special: the answers that are no numbers, each beside the bins.
    absent: whether 'absent' is a symbol.

    >>> age = Numbers(Scale(least=0, most=99), (18, 65), absent=True, special=(-9,))
    >>> len(age), age[17], age[100], age[101], age.bin_labels
    (102, 17, -9, 'absent', ('0..17', '18..64', '65..99', '-9', 'absent'))
    """

    scale: Scale
    bins: tuple[Whole, ...] = field(default=())
    absent: bool = False
    special: tuple[Whole, ...] = field(default=())

    @model_serializer(mode="wrap")
    def _declared(self, fields: SerializerFunctionWrapHandler) -> dict[str, object]:
        """The fields; special codes only if some are declared."""
        declared: dict[str, object] = fields(self)
        if not self.special:
            declared.pop("special", None)
        return declared

    def __len__(self) -> int:
        return len(self.scale.points) + len(self.special) + self.absent

    @overload
    def __getitem__(self, code: int) -> Symbol: ...
    @overload
    def __getitem__(self, code: slice) -> Sequence[Symbol]: ...
    def __getitem__(self, code: int | slice) -> Symbol | Sequence[Symbol]:
        if isinstance(code, slice):
            return tuple(self[i] for i in range(len(self))[code])
        index = range(len(self))[code]
        beyond = index - len(self.scale.points)
        if beyond < 0:
            return self.scale.points[index]
        return self.special[beyond] if beyond < len(self.special) else ABSENT

    def __contains__(self, value: object) -> bool:
        if isinstance(value, str):
            return value == ABSENT and self.absent
        return value in self.scale.points or value in self.special

    @property
    def non_numbers(self) -> int:
        """How many symbols are no numbers: the special codes, and 'absent' if declared."""
        return len(self.special) + self.absent

    @property
    def bin_starts(self) -> tuple[int, ...]:
        """The first code of every bin, then the number of points."""
        points = self.scale.points
        return (0, *(points.index(edge) for edge in self.bins), len(points))

    @property
    def starts(self) -> tuple[int, ...]:
        """The first code of every bin and of every special code, then that of 'absent'."""
        first = len(self.scale.points) + 1
        return (*self.bin_starts, *range(first, first + len(self.special)))

    @property
    def bin_labels(self) -> tuple[str, ...]:
        """The bins by their first and last number, the special codes, 'absent' if declared."""
        points, pairs = self.scale.points, itertools.pairwise(self.bin_starts)
        labels = (
            *(f"{points[a]}..{points[b - 1]}" if b - a > 1 else str(points[a]) for a, b in pairs),
            *map(str, self.special),
        )
        return (*labels, ABSENT) if self.absent else labels

    def coarser(self, edges: Sequence[int]) -> tuple[int, ...]:
        """The number, from 0, of the coarser bin around every bin; no bin holds a special code.

        edges: a subset of the bins' edges.

        >>> Numbers(Scale(least=0, most=99), (18, 40, 65), absent=True).coarser((40,))
        (0, 0, 1, 1, 2)
        """
        firsts = [self.scale.points[start] for start in self.bin_starts[:-1]]
        beside = range(len(edges) + 1, len(edges) + 1 + self.non_numbers)
        return (*(bisect_right(edges, first) for first in firsts), *beside)


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


def round_bins(points: range, count: int) -> tuple[int, ...]:
    """The edges of about `count` bins that begin at multiples of a round number; a bin for 0.

    A range of ages is cut at 5, 10, 15. Hours and amounts are 0 far more often than any number next
    to it. Less than half a bin at an end belongs to the next one.

    >>> round_bins(range(0, 100), 20)[:4]
    (1, 5, 10, 15)
    """
    length, step = len(points) * points.step, points.step
    widths = [digit * 10**power for power in range(len(str(length))) for digit in (1, 2, 5)]
    width = min(
        (w for w in widths if w >= step),
        key=lambda w: abs(math.log(length / w / count)),
        default=step,
    )
    start, end = points[0], points[-1] + step
    whole = range(start - start % width + width, end, width)
    edges = {multiple + (start - multiple) % step for multiple in whole}
    edges = {edge for edge in edges if 2 * min(edge - start, end - edge) >= width}
    edges |= {number for number in (0, step) if number in points and 0 in points}
    return tuple(sorted(edges - {start}))


_USUAL_CODE = re.compile(r"9+[789]")  # 97, 98, 99, 997, ...


def special_fault(scale: Scale, special: Sequence[int]) -> str | None:
    """The fault of special codes beside a scale. None for sound ones."""
    if len(special) > MOST_SPECIAL:
        return f"declare at most {MOST_SPECIAL} codes"
    for code in special:
        if special.count(code) > 1:
            return f"{code} stands there twice"
        if code in scale.points:
            return (
                f"{code} is a number of the scale, too; let the scale end before its codes, or"
                " leave the code out"
            )
    return None


def code_notice(scale: Scale) -> str | None:
    """A line about numbers of a scale that are often codes; None for a scale without any."""
    ends = []
    if scale.least < 0:
        ends.append(f"begins at {scale.least}, below 0")
    if _USUAL_CODE.fullmatch(str(scale.most)):
        ends.append(f"ends in {scale.most}")
    if not ends:
        return None
    return (
        f"{' and '.join(ends)}: if some of these numbers are codes, such as of a refusal, let the"
        " range end before them and declare them as special = [CODE, ...]; special = [] says that"
        " there are none"
    )
