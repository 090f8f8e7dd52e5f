"""What has been spent. A charge is recorded before its noise is drawn, and never given back.

The filter for fully adaptive zCDP is the running sum: refuse what would exceed the total
(Whitehouse, Ramdas, Rogers, Wu 2023).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction


class BudgetExceeded(Exception):
    """A charge that the study's total does not cover. Nothing was drawn for it."""


@dataclass(frozen=True)
class Charge:
    """rho spent by one release at one period (1-based)."""

    release: str
    period: int
    rho: Fraction


@dataclass(frozen=True)
class Ledger:
    """The study's total and every charge so far, in order."""

    total: Fraction
    charges: tuple[Charge, ...] = ()

    @property
    def spent(self) -> Fraction:
        return sum((c.rho for c in self.charges), Fraction(0))

    @property
    def left(self) -> Fraction:
        return self.total - self.spent

    def charge(self, *charges: Charge) -> Ledger:
        """A ledger that holds these charges too; all of them or, with BudgetExceeded, none."""
        if any(c.rho < 0 for c in charges):
            raise ValueError("a charge is never negative")
        after = replace(self, charges=self.charges + charges)
        if after.spent > self.total:
            names = ", ".join(f"{c.release} at period {c.period}" for c in charges)
            raise BudgetExceeded(
                f"{names}: would spend {after.spent} of a total rho of {self.total}; "
                f"{self.left} is left"
            )
        return after
