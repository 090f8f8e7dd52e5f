"""The budget for an error.

Variances of the noise fall as 1 / rho, so standard errors fall as 1 / sqrt(rho), but for the
rounding of the noise to integers. The budget that follows is rounded up, planned again, and raised
until the errors are what was asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from stream_dp.errors import UserError
from stream_dp.privacy.zcdp import epsilon
from stream_dp.study import Study
from stream_dp.study.call_arguments import checked_study

from .expected import ExpectedError, expected_errors
from .plan import plan_study

Asked = tuple[str, str]
_DIGITS = 3  # of a rho that is proposed
_ATTEMPTS = 50
_LEAST, _MOST = Fraction(1, 10**12), 10**6  # of a declared rho


@dataclass(frozen=True)
class Goal:
    """The largest permitted error of answers at each period, on publication.

    queries: releases with a query
    error: half of the interval's width
    quantile: half-width over standard error
    count: whether it is a number of people, not a share
    people: as in `expected_errors`
    """

    queries: Sequence[Asked]
    error: float
    quantile: float
    count: bool = False
    people: int | None = None

    def __post_init__(self) -> None:
        """Raises UserError for numbers that are not above 0."""
        for name, number in (("error", self.error), ("quantile", self.quantile)):
            sound = isinstance(number, int | float | Fraction) and not isinstance(number, bool)
            if not sound or not 0 < number < math.inf:
                raise UserError(f"--{name}: write a number above 0")
        if self.people is not None and (type(self.people) is not int or self.people < 1):
            raise UserError("--people: write a whole number from 1 on")

    def worst(self, study: Study) -> float:
        """The largest half-width of the answers. Raises UserError."""
        rows: list[ExpectedError] = []
        for name, query in self.queries:
            rows += expected_errors(study, name, query, people=self.people)
        return self.quantile * max(row.measure(count=self.count) for row in rows)


@dataclass(frozen=True)
class NeededBudget:
    """The least budget for a goal.

    study: with the needed rho of each panel and the needed total
    error: the largest half-width in this study
    """

    study: Study
    error: float

    def as_dict(self) -> dict[str, object]:
        return {
            "releases": {r.name: str(r.rho) for r in self.study.releases},
            "rho": str(self.study.rho),
            "epsilon": str(epsilon(self.study.rho, self.study.delta)),
            "delta": str(self.study.delta),
            "largest_half_width": self.error,
        }


def needed_budget(study: Study, goal: Goal) -> NeededBudget:
    """The study with the least budget for a goal, to 3 digits of every rho.

    The releases of panels keep their shares of it; what data sets cost stays as it is. Raises
    UserError.
    """
    worst = goal.worst(checked_study(study))
    factor = Fraction((worst / goal.error) ** 2)
    for _ in range(_ATTEMPTS):
        scaled = _scaled(study, factor)
        error = goal.worst(scaled)
        if error <= goal.error:
            return NeededBudget(scaled, error)
        factor *= Fraction(201, 200)
    raise UserError(f"--error: {goal.error:g} is not reached by raising rho; ask for a larger one")


def _scaled(study: Study, factor: Fraction) -> Study:
    """The study with the rho of every panel times a factor, and the resulting total."""
    releases = []
    for release in study.releases:
        rho = _rounded_up(release.rho * factor)
        if not _LEAST <= rho <= _MOST:
            raise UserError(
                f"--error: release '{release.name}' would need rho = {float(rho):.3g}, outside"
                f" {float(_LEAST):g} to {_MOST:g}"
            )
        releases.append(release.model_copy(update={"rho": rho}))
    spacious = study.revised(releases=tuple(releases), rho=Fraction(_MOST))
    return spacious.revised(rho=plan_study(spacious).total)


def _rounded_up(rho: Fraction) -> Fraction:
    """The next number of 3 significant digits."""
    unit = Fraction(10) ** (Decimal(float(rho)).adjusted() - (_DIGITS - 1))
    return math.ceil(rho / unit) * unit
