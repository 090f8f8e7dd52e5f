"""From a query in words to an answer with its error, and the panel's own answer beside it.

A share is of the declared number of people; where that is private, or the release is of people who
come and go, of a noisy number: those present at the period, or those who have entered by it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_dp.errors import Inconsistent, UserError
from stream_dp.panel import Panel
from stream_dp.panel_counts import PanelCounts
from stream_dp.study import CumulativeRelease, Release, Study, WindowRelease

from .estimator import StreamEstimator, StreamMeasurements, fieller_share, number_of_people
from .level import LEVEL, QUANTILE
from .measurements import ReleaseMeasurements
from .query import TotalQuery, WindowQuery, parse_query
from .system import Answers

Floats = NDArray[np.float64]
Interval = tuple[float, float]

METHOD = "best linear unbiased"


@dataclass(frozen=True)
class Estimate:
    """An unbiased answer from noisy measurements, and the panel's answer."""

    release: str
    query: str
    period: str
    # "count" or "share".
    measure: str
    # Whom a share is of: the declared number, or the noisy number of a period, in words.
    people: str
    value: float
    # The standard error, and the interval of this level, of the privacy noise alone.
    standard_error: float
    interval: Interval
    level: float
    # The answer of the synthetic rows, which padding, clamping and repairs may bias.
    panel: float
    # What of it are rows of the panel's padding.
    padding: float
    # "best linear unbiased", from all measurements of the source releases up to the period
    # `through`.
    method: str
    sources: tuple[str, ...]
    through: str

    def as_dict(self) -> dict[str, Any]:
        return {**self.__dict__, "interval": list(self.interval), "sources": list(self.sources)}


def release_query(study: Study, declared: Release, query: str) -> WindowQuery | TotalQuery:
    """The parsed query of a release. Raises UserError where the release cannot answer it."""
    if isinstance(declared, CumulativeRelease) and query.split()[:1] != ["total"]:
        raise UserError(f"query '{query}': ask a cumulative release 'total at-least B'")
    alphabet = study.alphabet(declared)
    asked = parse_query(query, alphabet.name, alphabet.values)
    if isinstance(asked, WindowQuery):
        return asked
    if declared.kind == "window":
        raise UserError(f"query '{asked.text}': ask a window release for a pattern instead")
    first, last = study.span(declared)
    if not 1 <= asked.least <= last - first + 1:
        raise UserError(f"query '{asked.text}': ask for 1 to {last - first + 1} periods")
    return asked


def answer_query(
    stream: StreamMeasurements,
    release: ReleaseMeasurements,
    asked: WindowQuery | TotalQuery,
    *,
    number: int,
    panel: Panel | PanelCounts,
    count: bool,
) -> Estimate:
    """The best answer to a query.

    stream: the releases of the stream
    release: the release that the query is about
    asked: the query
    number: the period's number in the study
    panel: the release's panel up to that period
    count: whether the answer is a number of people, not a share

    Raises UserError where there is no such share, Inconsistent where measurements are missing.
    """
    study, name = release.study, release.declared.name
    weights = query_weights(asked, release) if isinstance(asked, WindowQuery) else None
    chosen = StreamEstimator(stream, release)
    value = _value(chosen, asked, weights, number)
    if value is None:
        where = f"public log: {name} at {panel.periods[-1]}"
        raise Inconsistent(f"{where}: not the measurements that it declares")
    error = math.sqrt(value.variance)
    whose, estimate, own = "declared", value.value, float(_panel(asked, release, panel))
    people_counted = None
    interval = (estimate - QUANTILE * error, estimate + QUANTILE * error)
    padding = _padding(asked, release)
    if stream.size is None:
        noisy_people = number_of_people(stream, chosen, release, number, totals=weights is None)
        people_counted, whose = noisy_people or (None, "private and not measured")
        if not count:
            if people_counted is None:
                raise UserError(f"share: the number of people is {whose}; ask for --count")
            estimate, error, interval = fieller_share(value, people_counted, QUANTILE)
    elif not count:
        estimate, error = estimate / stream.size, error / stream.size
        interval = (interval[0] / stream.size, interval[1] / stream.size)
    sources = stream.releases
    rows = 1.0 if count else max(_rows(release, panel, people_counted), 1.0)
    return Estimate(
        release=name,
        query=asked.text,
        period=panel.periods[-1],
        measure="count" if count else "share",
        people=whose,
        value=estimate,
        standard_error=error,
        interval=interval,
        level=LEVEL,
        panel=own / rows,
        padding=padding / rows,
        method=METHOD,
        sources=tuple(source.declared.name for source in sources),
        through=study.periods.labels[max(source.last for source in sources) - 1],
    )


def _value(
    chosen: StreamEstimator, asked: WindowQuery | TotalQuery, weights: Floats | None, number: int
) -> Answers | None:
    if isinstance(asked, TotalQuery):
        return chosen.total(asked.least, number)
    assert weights is not None
    return chosen.patterns(number, weights)


def query_weights(asked: WindowQuery, release: ReleaseMeasurements) -> Floats:
    """The query's patterns as weights, (q^j,) for its j periods.

    Raises UserError where the release does not measure them.
    """
    window = release.window
    assert window is not None
    width = window.width
    if asked.width > width:
        raise UserError(
            f"query '{asked.text}': looks at {asked.width} periods and the release at {width};"
            " the exported panel can be asked, without a guarantee on the error"
        )
    if window.absent_pattern is not None and asked.over(window.bins)[window.absent_pattern]:
        raise UserError(
            f"query '{asked.text}': people absent in all of {width} periods are never counted,"
            " and it would count them; ask for other values in some period"
        )
    return asked.mask.astype(float)


def _panel(
    asked: WindowQuery | TotalQuery, release: ReleaseMeasurements, panel: Panel | PanelCounts
) -> int:
    """How many synthetic rows answer the query."""
    if isinstance(asked, WindowQuery):
        return panel.matching(asked.mask, asked.width)
    return panel.reaching(panel_events(release.study, release.declared), asked.least)


def _padding(asked: WindowQuery | TotalQuery, release: ReleaseMeasurements) -> float:
    """How many of these rows are padding: as many for each pattern."""
    window = release.window
    if window is None or not isinstance(asked, WindowQuery):
        return 0.0
    return float(window.padding * asked.over(window.bins).sum())


def panel_events(study: Study, declared: Release) -> tuple[int, ...]:
    """The codes of a panel's symbols that are the event of its totals."""
    if isinstance(declared, WindowRelease):
        return ()
    return (1,) if isinstance(declared, CumulativeRelease) else study.event_codes(declared)


def _rows(
    release: ReleaseMeasurements, panel: Panel | PanelCounts, people: Answers | None
) -> float:
    """The rows that a share of the panel is of: all, or those present, or those who have entered.

    Where rows are a bound on the people and all alike, the noisy number of people.
    """
    window, totals = release.window, release.totals
    if window is not None:
        absent = window.absent
    else:
        assert totals is not None
        absent = len(panel.values) - 1 if totals.present else None
        if absent is None and release.declared.rows is not None and people is not None:
            return people.value
    if absent is None:
        return float(panel.rows)
    return float(panel.rows - panel.newest(absent))
