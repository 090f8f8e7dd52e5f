"""Alternative declarations of a release for the same query, at the same cost."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction

from stream_dp.answers.query import Query, TotalQuery
from stream_dp.continual.mechanisms import mechanism, patterns_part, totals_part
from stream_dp.errors import UserError
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
from stream_dp.study.alphabet import ABSENT
from stream_dp.study.call_arguments import checked_study
from stream_dp.study.faults import contradictions

from .expected import parsed_query
from .horizon import MOST_PERIODS, over_periods
from .needed import Goal, needed_budget
from .plan import plan_study

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
    for periods in (count // 2, 2 * count):
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
        separate = ((kind, None) for kind in CounterKind)
        for counter, refined in ((None, None), (None, True), *separate):
            yield CumulativeRelease(
                kind=Kind.CUMULATIVE,
                event=release.totals.event,
                counter=counter,
                refined=refined,
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
        coupled = "refined totals" if totals.refined else "coupled totals"
        terms.append(f"counter {totals.counter}" if totals.counter else coupled)
    return ", ".join(terms)
