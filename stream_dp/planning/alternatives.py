"""Other declarations of a release that answer the same query, at the same cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import get_args

from stream_dp.continual import Cumulative, FixedWindow, mechanism
from stream_dp.errors import UserError
from stream_dp.estimate.query import Query, TotalQuery
from stream_dp.plan import plan_study
from stream_dp.study import CumulativeRelease, JointRelease, Release, Study, WindowRelease
from stream_dp.study.faults import contradictions
from stream_dp.study.model import CounterName, Strategy

from .expected import asked_query
from .needed import Goal, needed_budget

_SHARES = (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))
_WIDER = 2  # periods beyond those of the query
_SHARED = ("name", "attribute", "rho", "failure", "where", "first", "last", "rows")


@dataclass(frozen=True)
class Alternative:
    """A release by itself in the study.

    words: how it is declared
    error: the largest half-width over its periods, at the rho of the release
    rho: what the goal needs; None where no error is asked for, or it is out of reach
    """

    words: str
    error: float
    rho: Fraction | None


def alternatives(
    study: Study, name: str, query: str, *, goal: Goal, reach: bool
) -> list[Alternative]:
    """The declarations that can answer a query of a release, the most precise first.

    goal: how errors are measured, and the error that `rho` reaches; what it asks is not read
    reach: whether to compute `rho`

    Each is planned without the study's other releases, from which its answers would gain. Those
    that the study does not allow are left out. Raises UserError where the release cannot answer.
    """
    asked = asked_query(study, name, query)
    rows: dict[str, Alternative] = {}
    own = Goal([(name, query)], goal.error, goal.quantile, count=goal.count, people=goal.people)
    for release in _variants(study.release(name), asked):
        alone = _alone(study, release)
        if alone is None:
            continue
        words = _words(alone, release)
        if words in rows:
            continue
        rho = None
        if reach:
            try:
                rho = needed_budget(alone, own).study.releases[0].rho
            except UserError:
                rho = None
        rows[words] = Alternative(words, own.worst(alone), rho)
    return sorted(rows.values(), key=lambda row: row.error)


def _alone(study: Study, release: Release) -> Study | None:
    """The study with this release alone, None where that is not possible."""
    fields = {name: getattr(study, name) for name in Study.model_fields}
    alone = Study(**{**fields, "releases": (release,), "batches": None, "rho": release.rho})
    if contradictions(alone):
        return None
    try:
        plan_study(alone)
    except UserError:
        return None
    return alone


def _variants(release: Release, asked: Query) -> Iterator[Release]:
    """Every declaration to try, whether the study allows it or not."""
    shared = {name: getattr(release, name) for name in _SHARED}
    yield release
    if isinstance(asked, TotalQuery):
        assert not isinstance(release, WindowRelease)
        size_share = release.size_share if isinstance(release, CumulativeRelease) else None
        for counter in get_args(CounterName):
            yield CumulativeRelease(
                kind="cumulative",
                event=release.event,
                counter=counter,
                size_share=size_share,
                **shared,
            )
    else:
        for width in range(asked.width, asked.width + _WIDER + 1):
            for strategy in get_args(Strategy):
                yield WindowRelease(kind="window", width=width, strategy=strategy, **shared)
    if isinstance(release, JointRelease):
        for share in _SHARES:
            yield release.model_copy(update={"window_share": share})


def _words(study: Study, release: Release) -> str:
    """How a release is declared, with what is chosen for it."""
    chosen = mechanism(study, release)
    if isinstance(chosen, Cumulative):
        return f"cumulative, counter {chosen.counter}"
    window = chosen if isinstance(chosen, FixedWindow) else chosen.window
    words = f"{release.kind}, width {window.width}, {window.strategy}"
    if isinstance(chosen, FixedWindow):
        return words
    share = sum(window.charges) / release.rho
    return f"{words}, window_share {share}, counter {chosen.totals.counter}"
