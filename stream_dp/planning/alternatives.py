"""Other declarations of a release that answer the same query, at the same cost."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction

from stream_dp.answers.query import Query, TotalQuery
from stream_dp.continual import mechanism, patterns_part, totals_part
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
    has_totals,
)
from stream_dp.study.alphabet import ABSENT
from stream_dp.study.faults import contradictions

from .expected import asked_query
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

    words: how it is declared
    periods: over how many it runs
    waves: how many groups of people follow each other, each of whom report in `periods` alone
    error: the largest half-width over its periods, at the rho of the release; of one wave
    rho: what the goal needs; None where no error is asked for, or it is out of reach
    """

    words: str
    periods: int
    waves: int
    error: float
    rho: Fraction | None


@dataclass(frozen=True)
class _Variant:
    """A declaration to try. people: those that a share is of; None for what the goal says."""

    study: Study
    release: Release
    waves: int = 1
    people: int | None = None


def alternatives(
    study: Study, name: str, query: str, *, goal: Goal, reach: bool
) -> list[Alternative]:
    """The declarations that can answer a query of a release, the most precise first.

    goal: how errors are measured, and the error that `rho` reaches; what it asks is not read
    reach: whether to compute `rho`

    Each is planned without the study's other releases, from which its answers would gain: other
    kinds, widths and counters over the same periods; the release as it is over half and twice as
    many; and in waves of people, each with periods and a budget of its own, as a person is in one
    wave alone. Those that the study does not allow are left out. Raises UserError where the release
    cannot answer.
    """
    asked = asked_query(study, name, query)
    rows: dict[tuple[str, int, int], Alternative] = {}
    release = study.release(name)
    same = (_Variant(study, other) for other in _variants(release, asked))
    for variant in (*same, *_horizons(study, release), *_waves(study, release, goal.people)):
        alone = _alone(variant)
        if alone is None:
            continue
        of = goal.people if variant.people is None else variant.people
        own = replace(goal, asked=[(name, query)], people=of)
        try:
            row = _alternative(alone, own, waves=variant.waves, reach=reach)
        except UserError:
            if variant.study is study:
                raise
            continue  # too few periods for the query, or a share that a wave cannot state
        rows.setdefault((row.words, row.periods, row.waves), row)
    return sorted(rows.values(), key=lambda row: row.error)


def _alternative(alone: Study, goal: Goal, *, waves: int, reach: bool) -> Alternative:
    """The row of a study with one release. Raises UserError where that has no answer."""
    release = alone.releases[0]
    first, last = alone.span(release)
    words, error, rho = _words(alone, release), goal.worst(alone), None
    if reach:
        with suppress(UserError):
            rho = needed_budget(alone, goal).study.releases[0].rho
    return Alternative(words, periods=last - first + 1, waves=waves, error=error, rho=rho)


def _alone(variant: _Variant) -> Study | None:
    """The study with this release alone, None where that is not possible."""
    release = variant.release
    fields = {name: getattr(variant.study, name) for name in Study.model_fields}
    alone = Study(**{**fields, "releases": (release,), "batches": None, "rho": release.rho})
    if contradictions(alone):
        return None
    try:
        plan_study(alone)
    except UserError:
        return None
    return alone


def _horizons(study: Study, release: Release) -> Iterator[_Variant]:
    """The release over half and twice as many periods, where it runs to the end of the study."""
    count = study.periods.count
    for other in (count // 2, 2 * count):
        if 0 < other <= MOST_PERIODS and release.first is None and release.last is None:
            yield _Variant(over_periods(study, other), release)


def _waves(study: Study, release: Release, people: int | None) -> Iterator[_Variant]:
    """The release in 2 and 3 waves, one after the other, of equally many people."""
    people = people or study.size or release.rows
    if people is None or release.where or release.first or release.last or study.groups:
        return
    name = next(n for n in ("wave", "wave-2", "wave-3") if n not in study.attributes)
    fields = {field: getattr(study, field) for field in Study.model_fields}
    for waves in _WAVES:
        length, each = study.periods.count // waves, math.ceil(people / waves)
        if length < 1:
            continue
        wave = Attribute(values=tuple(range(1, waves + 1)), missing=ABSENT, fixed=True)
        span = {"first": study.periods.labels[0], "last": study.periods.labels[length - 1]}
        update = {"where": {name: 1}, "rows": each, **span}
        divided = Study(**{**fields, "attributes": {**study.attributes, name: wave}})
        yield _Variant(divided, release.model_copy(update=update), waves, each)


def _variants(release: Release, asked: Query) -> Iterator[Release]:
    """Every declaration to try, whether the study allows it or not."""
    shared = {name: getattr(release, name) for name in _SHARED}
    yield release
    if isinstance(asked, TotalQuery):
        assert has_totals(release)
        size_share = release.size_share if release.kind is Kind.CUMULATIVE else None
        for counter in CounterKind:
            yield CumulativeRelease(
                kind=Kind.CUMULATIVE,
                event=release.event,
                counter=counter,
                size_share=size_share,
                **shared,
            )
    else:
        for width in range(asked.width, asked.width + _WIDER + 1):
            for strategy in Strategy:
                yield WindowRelease(kind=Kind.WINDOW, width=width, strategy=strategy, **shared)
    if release.kind is Kind.JOINT:
        for share in _SHARES:
            yield release.model_copy(update={"window_share": share})


def _words(study: Study, release: Release) -> str:
    """How a release is declared, with what is chosen for it."""
    chosen = mechanism(study, release)
    window, totals = patterns_part(chosen), totals_part(chosen)
    words = [str(release.kind)]
    if window is not None:
        words += [f"width {window.width}", window.strategy]
    if window is not None and totals is not None:
        words.append(f"window_share {sum(window.charges) / release.rho}")
    if totals is not None:
        words.append(f"counter {totals.counter}")
    return ", ".join(words)
