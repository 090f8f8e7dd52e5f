"""Alternatives to a declaration: another budget, another horizon, another release for a query.

Variances of the noise fall as 1 / rho, so standard errors fall as 1 / sqrt(rho), but for the
rounding of the noise to integers. The budget for an error is therefore rounded up, planned again,
and raised until the errors are what was asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

from stream_dp.answers.query import Query, TotalQuery
from stream_dp.continual.mechanisms import mechanism, patterns_part, totals_part
from stream_dp.errors import UserError
from stream_dp.privacy.zcdp import epsilon
from stream_dp.study import (
    Attribute,
    CounterKind,
    CumulativeRelease,
    Kind,
    Release,
    Strategy,
    Study,
    WindowRelease,
)
from stream_dp.study.field_types import ABSENT
from stream_dp.study.periods import Periods
from stream_dp.study.section_faults import contradictions
from stream_dp.study.study import checked_study

from .expected_errors import ExpectedError, expected_errors, parsed_query
from .plan import plan_study

ReleaseAndQuery = tuple[str, str]
_DIGITS = 3  # of a rho that is proposed
_ATTEMPTS = 50
_LEAST, _MOST = Fraction(1, 10**12), 10**6  # of a declared rho


@dataclass(frozen=True)
class Goal:
    """The largest permitted error of answers at every period, on publication.

    queries: releases with a query
    error: half of the interval's width
    quantile: half-width over standard error
    count: whether it is a number of people, not a share
    people: as in `expected_errors`
    """

    queries: Sequence[ReleaseAndQuery]
    error: float
    quantile: float
    count: bool = False
    people: int | None = None

    def __post_init__(self) -> None:
        """Raises UserError for numbers that are not above 0."""
        for name, number in (("error", self.error), ("quantile", self.quantile)):
            sound = isinstance(number, int | float | Fraction) and not isinstance(number, bool)
            if not sound or not 0 < number < math.inf:
                raise UserError(f"{name}: write a number above 0")
        if self.people is not None and (type(self.people) is not int or self.people < 1):
            raise UserError("people: write a whole number from 1 on")

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
        """The budget as JSON: rho by release, and the total as (epsilon, delta)."""
        return {
            "releases": {r.name: str(r.rho) for r in self.study.releases},
            "rho": str(self.study.rho),
            "epsilon": str(epsilon(self.study.rho, self.study.delta)),
            "delta": str(self.study.delta),
            "largest_half_width": self.error,
        }


def needed_budget(study: Study, goal: Goal) -> NeededBudget:
    """The study with the least budget for a goal, to 3 digits of every rho.

    The releases of panels keep their shares of it; what data sets cost stays as it is. An error
    falls with the square root of rho, but for rounding and discrete noise: from that factor on rho
    rises by 0.5 % until the goal is met. Raises UserError.
    """
    worst = goal.worst(checked_study(study))
    factor = Fraction((worst / goal.error) ** 2)
    for _ in range(_ATTEMPTS):
        scaled = _scaled(study, factor)
        error = goal.worst(scaled)
        if error <= goal.error:
            return NeededBudget(scaled, error)
        factor *= Fraction(201, 200)
    raise UserError(f"error: {goal.error:g} is not reached by raising rho; ask for a larger one")


def _scaled(study: Study, factor: Fraction) -> Study:
    """The study with the rho of every panel times a factor, and the resulting total."""
    releases = []
    for release in study.releases:
        rho = _rounded_up(release.rho * factor)
        if not _LEAST <= rho <= _MOST:
            raise UserError(
                f"error: release '{release.name}' would need rho = {float(rho):.3g}, outside"
                f" {float(_LEAST):g} to {_MOST:g}"
            )
        releases.append(release.model_copy(update={"rho": rho}))
    spacious = study.revised(releases=tuple(releases), rho=Fraction(_MOST))
    return spacious.revised(rho=plan_study(spacious).total)


def _rounded_up(rho: Fraction) -> Fraction:
    """The next number of 3 significant digits."""
    unit = Fraction(10) ** (Decimal(float(rho)).adjusted() - (_DIGITS - 1))
    return math.ceil(rho / unit) * unit


MOST_PERIODS = 1000  # of a study that is planned over more of them than it declares


def over_periods(study: Study, count: int) -> Study:
    """The study over `count` periods, at the same rho, possibly with contradictions."""
    periods = {name: getattr(study.periods, name) for name in Periods.model_fields}
    return study.revised(periods=Periods(**periods | {"count": count, "open": None}))


def study_over(study: Study, count: int) -> Study:
    """The study over `count` periods, at the same rho. Raises UserError for contradictions."""
    checked_study(study)
    if type(count) is not int or not 0 < count <= MOST_PERIODS:
        raise UserError(f"periods: write a number from 1 to {MOST_PERIODS}")
    longer = over_periods(study, count)
    faults = contradictions(longer)
    if faults:
        raise UserError(f"periods {count}: {line}" for line in faults)
    plan_study(longer)
    return longer


_SHARES = (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))
_WIDER = 2  # periods beyond those of the query
_WAVES = (2, 3)
_SHARED = ("name", "attribute", "rho", "failure", "where", "first", "last", "rows")


@dataclass(frozen=True)
class Alternative:
    """A release by itself in the study.

    words: the declaration
    periods: the number of periods of the release
    waves: the number of groups of people in turn; a group reports in `periods` alone
    error: the largest half-width over the periods, at the rho of the release; of a wave
    rho: the needed budget for the goal; None without a goal, or out of reach
    """

    words: str
    periods: int
    waves: int
    error: float
    rho: Fraction | None


@dataclass(frozen=True)
class _Variant:
    """A declaration to try. people: the base of shares, or None for the goal's."""

    study: Study
    release: Release
    waves: int = 1
    people: int | None = None


def alternatives(
    study: Study, name: str, query: str, *, goal: Goal, reach: bool
) -> list[Alternative]:
    """The declarations that can answer a query of a release, the most precise first.

    goal: the measure of errors, and the error that `rho` reaches; its queries are not read
    reach: whether to compute `rho`

    The variants are planned without the study's other releases, although their answers would gain
    from them: other kinds, widths and counters over the same periods; the release over half and
    twice as many periods; and waves of people, with periods and a budget of their own, because a
    person is in a single wave. Variants against the rules of the study are left out. Raises
    UserError if the release cannot answer.
    """
    parsed = parsed_query(checked_study(study), name, query)
    rows: dict[tuple[str, int, int], Alternative] = {}
    release = study.release(name)
    same = (_Variant(study, variant) for variant in _variants(release, parsed))
    for variant in (*same, *_horizons(study, release), *_waves(study, release, goal.people)):
        single = _single_release(variant)
        if single is None:
            continue
        people = goal.people if variant.people is None else variant.people
        variant_goal = replace(goal, queries=[(name, query)], people=people)
        try:
            row = _alternative(single, variant_goal, waves=variant.waves, reach=reach)
        except UserError:
            if variant.study is study:
                raise
            continue  # too few periods for the query, or a share that a wave cannot state
        rows.setdefault((row.words, row.periods, row.waves), row)
    return sorted(rows.values(), key=lambda row: row.error)


def _alternative(study: Study, goal: Goal, *, waves: int, reach: bool) -> Alternative:
    """The row of a study with a single release. Raises UserError without an answer."""
    release = study.releases[0]
    first, last = study.span(release)
    declaration, error, rho = _declaration(study, release), goal.worst(study), None
    if reach:
        with suppress(UserError):
            rho = needed_budget(study, goal).study.releases[0].rho
    return Alternative(declaration, periods=last - first + 1, waves=waves, error=error, rho=rho)


def _single_release(variant: _Variant) -> Study | None:
    """The study with only this release, or None if not possible."""
    release = variant.release
    study = variant.study.revised(releases=(release,), batches=None, rho=release.rho)
    if contradictions(study):
        return None
    try:
        plan_study(study)
    except UserError:
        return None
    return study


def _horizons(study: Study, release: Release) -> Iterator[_Variant]:
    """The release over half and twice as many periods, for releases over the whole study."""
    count = study.periods.count
    for periods in () if study.periods.open else (count // 2, 2 * count):
        if 0 < periods <= MOST_PERIODS and release.first is None and release.last is None:
            yield _Variant(over_periods(study, periods), release)


def _waves(study: Study, release: Release, people: int | None) -> Iterator[_Variant]:
    """The release in 2 and 3 waves in turn, of equally many people."""
    people = people or study.size or release.rows
    if people is None or release.where or release.first or release.last or study.groups:
        return
    name = next(n for n in ("wave", "wave-2", "wave-3") if n not in study.attributes)
    for waves in _WAVES:
        length, members = study.periods.count // waves, math.ceil(people / waves)
        if length < 1:
            continue
        wave = Attribute(values=tuple(range(1, waves + 1)), missing=ABSENT, fixed=True)
        span = {"first": study.periods.labels[0], "last": study.periods.labels[length - 1]}
        update = {"where": {name: 1}, "rows": members, **span}
        divided = study.revised(attributes={**study.attributes, name: wave})
        yield _Variant(divided, release.model_copy(update=update), waves, members)


def _variants(release: Release, query: Query) -> Iterator[Release]:
    """Every declaration to try, allowed by the study or not."""
    shared = {name: getattr(release, name) for name in _SHARED}
    yield release
    if isinstance(query, TotalQuery):
        assert release.totals is not None
        for counter in (None, *CounterKind):
            yield CumulativeRelease(
                kind=Kind.CUMULATIVE,
                event=release.totals.event,
                counter=counter,
                size_share=release.totals.size_share,
                **shared,
            )
    else:
        for width in range(query.width, query.width + _WIDER + 1):
            for strategy in Strategy:
                yield WindowRelease(kind=Kind.WINDOW, width=width, strategy=strategy, **shared)
    if release.patterns is not None and release.totals is not None:
        for share in _SHARES:
            yield release.model_copy(update={"window_share": share})


def _declaration(study: Study, release: Release) -> str:
    """The declaration of a release, with chosen parameters, in words."""
    chosen = mechanism(study, release)
    window, totals = patterns_part(chosen), totals_part(chosen)
    terms = [str(release.kind)]
    if window is not None:
        terms += [f"width {window.width}", window.strategy]
    terms += release.division
    if totals is not None:
        terms.append(f"counter {totals.counter}" if totals.counter else "coupled totals")
    return ", ".join(terms)
