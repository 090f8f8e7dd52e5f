"""What every declared release says of itself, of a panel or of data sets."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Self

from .families import Family, Kind, Neighbours
from .field_types import Declaration

if TYPE_CHECKING:
    from .panel_releases import CumulativeRelease, JointRelease, WindowRelease
    from .periods import Periods


class DeclaredRelease(Declaration):
    """A release of a study file.

    priced_by: the key from which `rho` follows where it is not declared.
    """

    if TYPE_CHECKING:
        name: str
        kind: Kind
        rho: Fraction
    priced_by: ClassVar[str] = "rho"

    @property
    def family(self) -> Family:
        """The family of the kind."""
        return self.kind.family

    @property
    def counts_people(self) -> bool:
        """Whether its rows or counts are of people or their groups."""
        return True

    @property
    def questions(self) -> tuple[str, ...]:
        """The attributes of people in the release."""
        return ()

    @property
    def cells(self) -> tuple[str, ...]:
        """The attributes whose values tell people of the release apart, for weights."""
        return self.questions

    @property
    def patterns(self) -> WindowRelease | JointRelease | None:
        """The part of a panel that counts patterns of the last `width` periods."""
        return None

    @property
    def totals(self) -> CumulativeRelease | JointRelease | None:
        """The part of a panel that counts in how many periods people have had an event."""
        return None

    @property
    def most_people(self) -> int | None:
        """The declared bound on the people of a panel, whose number is private."""
        return None

    @property
    def stream(self) -> str:
        """The name of a panel's counted symbols and people, which releases may share."""
        return ""

    def first_number(self, periods: Periods) -> int:
        """The number of the first period at which the release publishes."""
        raise NotImplementedError

    def priced(self, neighbours: Neighbours) -> Self:
        """The release with the rho that follows from the key `priced_by`."""
        return self
