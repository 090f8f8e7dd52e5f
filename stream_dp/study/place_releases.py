"""Declarations of places, and of releases of how many people are in how many places.

A place is a group whose members may change: a block, a home or a business. Which place a person
is in is a secret. How many places each region has is public, those of nobody included: it comes
from a table of its own, once, before the study begins, and never from anybody's report.

A person's changes in the sizes of a level, by method and relation, and their cost.

Let one person join a place of size s (or leave one of size s + 1); under `replace_one` a person
leaves a place of size t > 0 and joins one of size s. What changes in one region:
- the naive histogram: one place less of size s and one more of size s + 1. A move adds +1 at t - 1
  and -1 at t. The two changes are (-1, +1) at (s, s + 1) and (+1, -1) at (t - 1, t). They meet in
  no size; or in one, with equal signs (s = t or s + 1 = t - 1), which gives 2, 1 and 1; or in two
  and cancel (s + 1 = t).
- cumulative counts: one place less of at most s people. A move adds +1 at t - 1, elsewhere or at s,
  where it cancels.
- sorted sizes: they differ in one entry, by 1. A move changes a second one, or the same one twice,
  then back to what it was.
A person is in one region of a level. A move between two regions changes four counts of histograms
by 1 each, and two of the others. A cap of the sizes hides changes above it and adds none. So the
worst changes are those below. Of histograms 2, 1, 1 has the largest square (6 and not 4), and costs
most with double-geometric noise, where a change of 2 costs more than two of 1. Its sum of absolute
changes is 4 as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from stream_dp.privacy.exact_tables import geometric_rho

from .families import Kind, Neighbours
from .field_types import Declaration, Flag, Name, Rho
from .table_releases import DataSetRelease

RELATIONS = ("add_remove", "replace_one")  # under which sizes are a secret
_ONE_OR_TWO = {"add_remove": (1,), "replace_one": (1, 1)}
# By method and relation, by how much each count changes, at the worst.
WORST_CHANGES: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "sorted": _ONE_OR_TWO,
    "cumulative-squares": _ONE_OR_TWO,
    "cumulative": _ONE_OR_TWO,
    "naive": {"add_remove": (1, 1), "replace_one": (2, 1, 1)},
}


def squared_change(method: str, relation: str) -> int:
    """The squared L2 sensitivity of a level."""
    return sum(k * k for k in WORST_CHANGES[method][relation])


def geometric_decay(method: str, relation: str, epsilon: Fraction) -> Fraction:
    """The decay of double-geometric noise for an (epsilon)-differentially private level."""
    return epsilon / sum(WORST_CHANGES[method][relation])


def geometric_cost(method: str, relation: str, epsilon: Fraction) -> Fraction:
    """The rho of the noise, at most 1e-12 too large; see `privacy.exact_tables`."""
    decay = geometric_decay(method, relation, epsilon)
    return geometric_rho(decay, WORST_CHANGES[method][relation])


SizesMethod = Literal["sorted", "cumulative-squares", "cumulative", "naive"]
LEAST_EPSILON = Fraction(1, 1000)  # of a level; its noise comes from a table of bounded size
MOST_SIZE = 10**6  # the largest cap of sizes
# Names of columns of the tables of places and of what is published.
RESERVED_COLUMNS = frozenset(
    {"level", "region", "place", "places", "size", "groups", "count", "entry", "value", "variance"}
)
NOTHING_TO_PROTECT = (
    "neighbours: under 'replace_in_place' the groups and their sizes are no secret, so there is"
    " nothing to protect; take 'add_remove' or 'replace_one'"
)


class Places(Declaration):
    """The places of people; the table of places is sent once, before the study begins."""

    unit: Annotated[str, Field(min_length=1, max_length=64)]
    """The word for a place, such as block or home."""
    regions: Annotated[tuple[Name, ...], Field(min_length=1, max_length=8)]
    """The columns of the table of places that name a place's region, from the top down, such as
    `["state", "county"]`. All regions together are one more level, the top one."""
    counted: Flag = None
    """`true`: there are no reports, and the table states how many places have each size. Such a
    study has one period."""

    @property
    def levels(self) -> int:
        """The number of levels of regions; the first level is all regions together."""
        return len(self.regions) + 1


class SizesRelease(DataSetRelease):
    """The numbers of places by number of people, in every region, at declared closes."""

    priced_by: ClassVar[str] = "epsilon"
    kind: Literal[Kind.SIZES]
    """The kind of the release."""
    attribute: str | None = None
    """The attribute with `place = true` that says where a person is. None with
    `places.counted`."""
    largest: Annotated[int, Field(ge=1, le=MOST_SIZE, strict=True)]
    """A public cap of sizes: larger places count as places of this size."""
    methods: (
        Annotated[
            tuple[
                SizesMethod | Annotated[tuple[SizesMethod, ...], Field(min_length=1)],
                ...,
            ],
            Field(min_length=1),
        ]
        | None
    ) = None
    """The measurement of each level, beginning with the top level: `"sorted"`,
    `"cumulative-squares"`, `"cumulative"` or `"naive"`, or a list of which one is chosen
    privately, for a fifth of the level's budget. By default `"sorted"` for levels whose regions
    have fewer than 200 places on average, and `"cumulative-squares"` for other levels."""
    parts: (
        Annotated[
            tuple[Annotated[int, Field(ge=1, le=10**6, strict=True)], ...], Field(min_length=1)
        ]
        | None
    ) = None
    """How `rho` is split between the levels, such as `[1, 1, 2]`; equally by default."""
    epsilon: Annotated[tuple[Rho, ...], Field(min_length=1)] | None = None
    """Instead of `rho`: the pure epsilon of each level, beginning with the top level. The noise is
    double-geometric. Its cost in zCDP, rounded up to a fraction, becomes the release's `rho`."""

    def epsilon_cost(self, neighbours: str) -> Fraction:
        """The cost of `epsilon` in rho under a relation, at most 1e-12 too large."""
        levels = self.candidates or (("sorted",),) * len(self.epsilon or ())
        costs = (
            geometric_cost(methods[0], neighbours, epsilon)
            for methods, epsilon in zip(levels, self.epsilon or (), strict=False)
        )
        return sum(costs, Fraction(0))

    @property
    def candidates(self) -> tuple[tuple[str, ...], ...] | None:
        """The methods to choose from at a level; None if the places decide.

        The methods by default, `sorted` and `cumulative-squares`, have the same cost.
        """
        if self.methods is None:
            return None
        return tuple((level,) if isinstance(level, str) else level for level in self.methods)

    @property
    def questions(self) -> tuple[str, ...]:
        return () if self.attribute is None else (self.attribute,)

    @property
    def counts_people(self) -> bool:
        return False

    @property
    def titles(self) -> tuple[str, ...]:
        return (sizes_title(pure=self.epsilon is not None),)

    def priced(self, neighbours: Neighbours) -> SizesRelease:
        if neighbours not in RELATIONS:
            return self  # the study has a fault
        return self.model_copy(update={"rho": self.epsilon_cost(neighbours)})


def sizes_title(*, pure: bool) -> str:
    """The method of sizes. pure: whether the noise is double-geometric."""
    noise = "double-geometric" if pure else "discrete Gaussian"
    return f"sizes of groups in a tree of regions, {noise} noise, levels made consistent"
