"""The ledger of a study's budget.

A charge is recorded before its noise is drawn, and is never refunded.

The filter for fully adaptive zCDP is the running sum: a charge that would exceed the total is
refused (Whitehouse, Ramdas, Rogers, Wu 2023).

Strata compose in parallel. Releases that are each of one value of the same fixed attribute
together cost the largest of the values' sums, if each release is charged max(R, c A). R is its cost
of a replacement inside the value, and A its cost of a person's coming or going.
- Several values are released, and c = 2. A person of v who is replaced by a person of w costs
  A_v + A_w <= (sum_v + sum_w) / 2 <= max(sum_v, sum_w).
- One value is released, a lone stratum, and c = 1. A replacement is inside the value and costs R,
  or only one of both people is inside and it costs A, or neither is and it costs nothing.
Under `add_remove` a release is charged A.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

StrataOfReleases = Mapping[str, tuple[str, str]]


class BudgetExceeded(Exception):
    """A charge exceeds the rest of the study's total. No noise was drawn for the charge."""


@dataclass(frozen=True)
class Charge:
    """The rho of a release at a period (1-based)."""

    release: str
    period: int
    rho: Fraction


def composed_cost(strata: StrataOfReleases, costs: Mapping[str, Fraction]) -> Fraction:
    """Computes the total cost of releases.

    strata: the fixed attribute and its value, for each release of a stratum.
    costs: by release.
    """
    by_value: dict[str, dict[str, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    total = Fraction(0)
    for release, rho in costs.items():
        if release in strata:
            attribute, value = strata[release]
            by_value[attribute][value] += rho
        else:
            total += rho
    return total + sum((max(values.values()) for values in by_value.values()), Fraction(0))


def crossed_strata(strata: StrataOfReleases, release: str) -> int:
    """Counts the strata that a replaced person leaves or enters, at most: c above.

    strata: as in `composed_cost`.

    Returns 0 for a release that is not of a stratum, 1 for a lone stratum, else 2.
    """
    if release not in strata:
        return 0
    attribute, _ = strata[release]
    return min(2, len({stratum for stratum in strata.values() if stratum[0] == attribute}))


@dataclass(frozen=True)
class Ledger:
    """The budget of a study.

    total: the study's rho.
    strata: as in `composed_cost`.
    costs: the rho spent by each release.
    """

    total: Fraction
    strata: StrataOfReleases = field(default_factory=dict)
    costs: Mapping[str, Fraction] = field(default_factory=dict)

    @property
    def spent(self) -> Fraction:
        return composed_cost(self.strata, self.costs)

    @property
    def left(self) -> Fraction:
        return self.total - self.spent

    def charge(self, *charges: Charge) -> Ledger:
        """Adds charges and returns the new ledger.

        Raises BudgetExceeded if all of them together exceed the total.
        """
        if any(c.rho < 0 for c in charges):
            raise ValueError("a charge is never negative")
        charged = replace(self, costs=_added(self.costs, charges))
        if charged.spent > self.total:
            names = ", ".join(f"{c.release} at period {c.period}" for c in charges)
            raise BudgetExceeded(
                f"{names}: would spend {charged.spent} of a total rho of {self.total}; "
                f"{self.left} is left"
            )
        return charged


def _added(costs: Mapping[str, Fraction], charges: Iterable[Charge]) -> dict[str, Fraction]:
    total = dict(costs)
    for charge in charges:
        total[charge.release] = total.get(charge.release, Fraction(0)) + charge.rho
    return total
