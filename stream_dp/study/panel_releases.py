"""Declared releases of panels: windows, totals, and both in one panel."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field

from .families import CounterKind, DeclaredRelease, Kind, Strategy
from .field_types import Name, Probability, Rho, Symbol
from .periods import MOST_OPEN, Periods

MOST_TOTALS = MOST_OPEN  # periods of a cumulative release, whose counters grow with their cube
MOST_PRESENCE_WIDTH = 6  # of windows whose residuals also tell who is present
RowBound = Annotated[int, Field(ge=1, le=10**8, strict=True)]


class _Release(DeclaredRelease):
    """The keys of every release of a panel."""

    name: Name
    """The name of the release, which analysts use. No other release has the same name."""
    attribute: str | Annotated[tuple[str, ...], Field(min_length=2, max_length=8)]
    """The attribute that is released, or a list of 2 to 8 attributes for their product."""
    rho: Rho
    """The release's part of the budget, for all its periods together."""
    failure: Probability = Fraction(1, 20)
    """The probability of an error beyond the bound in the plan. Padding depends on it, too."""
    where: Annotated[dict[Name, Symbol], Field(min_length=1, max_length=1)] | None = None
    """One stratum: only people for whom this fixed attribute has this value, such as
    `{ region = "north" }`. Needs `rows`."""
    first: str | None = None
    """The release's first period; by default the study's."""
    last: str | None = None
    """The release's last period; by default the study's."""
    rows: RowBound | None = None
    """A declared bound on the number of people and of synthetic rows, if the number of people is
    private: under `add_remove` with `missing = "absent"`, and in strata."""
    kind: Kind
    """Which kind of release this is."""

    @property
    def history(self) -> int:
        """How many periods of a person's history the release counts."""
        return 1

    @property
    def attributes(self) -> tuple[str, ...]:
        return (self.attribute,) if isinstance(self.attribute, str) else self.attribute

    @property
    def questions(self) -> tuple[str, ...]:
        """The attributes of people in the release."""
        return (*self.attributes, *(self.where or {}))

    @property
    def cells(self) -> tuple[str, ...]:
        return (*(self.where or {}),)

    @property
    def most_people(self) -> int | None:
        return self.rows

    def span(self, periods: Periods) -> tuple[int, int]:
        """The numbers of the release's first and last period, from 1."""
        numbers = periods.numbers
        first = 1 if self.first is None else numbers[self.first]
        return first, periods.count if self.last is None else numbers[self.last]

    def first_number(self, periods: Periods) -> int:
        return self.span(periods)[0] + self.history - 1

    @property
    def division(self) -> tuple[str, ...]:
        """The declared keys that divide rho between the parts of the panel."""
        return ()

    @property
    def stream(self) -> str:
        strata = "".join(f" where {a}={v}" for a, v in (self.where or {}).items())
        return "&".join(self.attributes) + strata


class WindowRelease(_Release):
    """A fixed-window release: every pattern of the last `width` periods (Bun et al. 2024,
    Algorithm 1)."""

    kind: Literal[Kind.WINDOW]
    """Which kind of release this is."""
    width: Annotated[int, Field(ge=1, strict=True)]
    """How many periods a pattern has."""
    strategy: Strategy | None = None
    """The measurement of every window. By default residuals, or histograms if people may be absent
    or enter late and `width` is over 6."""
    padded: bool | None = None
    """`true`: rows are added to every pattern, so that no noisy count falls below 0; `false`: noisy
    counts are projected onto counts without negative numbers. The plan chooses by default."""

    @property
    def history(self) -> int:
        return self.width

    @property
    def patterns(self) -> WindowRelease:
        return self


class CumulativeRelease(_Release):
    """A cumulative release: how many people have had the event in at least b periods (Bun et al.
    2024, Algorithm 2)."""

    kind: Literal[Kind.CUMULATIVE]
    """Which kind of release this is."""
    event: Annotated[tuple[Symbol | str, ...], Field(min_length=1)]
    """The values that count as the event. For a product of attributes, write a value such as
    `"poverty=1&job=no"`, or a part of a value such as `"job=no"`."""
    counter: CounterKind | None = None
    """The stream counter of each total. By default all totals are one coupled measurement."""
    size_share: Probability | None = None
    """The part of `rho` that measures a private number of people. Without `rows` the number is
    measured once, at the first period. With `rows` the people who have entered are measured in each
    period."""
    ordered: bool | None = None
    """`true`, the default: a monotone regression makes the totals of a period fall with b before
    each total is clamped, which is better unless most totals are 0. `false`: each total is clamped
    separately (Bun et al. 2024, Algorithm 2)."""

    @property
    def totals(self) -> CumulativeRelease:
        return self


class JointRelease(_Release):
    """A panel for both: every pattern of the last `width` periods, and the totals of an event."""

    kind: Literal[Kind.JOINT]
    """Which kind of release this is."""
    width: Annotated[int, Field(ge=1, strict=True)]
    """How many periods a pattern has."""
    event: Annotated[tuple[Symbol | str, ...], Field(min_length=1)]
    """The values that count as the event, as in a cumulative release."""
    window_share: Probability | None = None
    """The part of `rho` that goes to the patterns; the rest goes to the totals. By default the part
    that is best in theory."""
    strategy: Strategy | None = None
    """How the patterns are measured, as in a window release."""
    counter: CounterKind | None = None
    """The stream counter of the totals, as in a cumulative release."""

    @property
    def history(self) -> int:
        return self.width

    @property
    def division(self) -> tuple[str, ...]:
        return () if self.window_share is None else (f"window_share {self.window_share}",)

    @property
    def size_share(self) -> None:
        """The patterns measure the number of people."""

    @property
    def patterns(self) -> JointRelease:
        return self

    @property
    def totals(self) -> JointRelease:
        return self


Release = Annotated[WindowRelease | CumulativeRelease | JointRelease, Field(discriminator="kind")]
