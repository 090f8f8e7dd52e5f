"""The future standard errors of `estimate`, from the declaration alone.

Weights of the best linear unbiased estimates depend on the variances of the noise and not on the
measured values. So the same system (`answers/linear_system.py`) with zeros as measurements gives
the errors of all answers at any publication.

The noise of a count does not depend on the people who are counted. So the error that hides one
person hides a small group too: the same half-width is a larger part of a smaller group. A group
counts as usable if its 95 % interval is at most `USABLE` of its size, to either side.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np

from stream_dp.answers.estimator import StreamEstimator, StreamMeasurements
from stream_dp.answers.linear_system import Answers
from stream_dp.answers.measured_rows import (
    PeriodMeasurements,
    ReleaseMeasurements,
    releases_of_stream,
)
from stream_dp.answers.panel_answer import PanelQuery, query_weights, release_query
from stream_dp.answers.query import Query, TotalQuery, telling_queries
from stream_dp.continual.mechanisms import mechanism
from stream_dp.errors import UserError
from stream_dp.json_object import Json
from stream_dp.privacy.noise import exact_variance
from stream_dp.study import DataSetRelease, Family, Release, Study
from stream_dp.study.study import checked_study


@dataclass(frozen=True)
class ExpectedError:
    """Standard errors of an answer at a period.

    release, query, period: of which answer
    count: of people, as soon as the period is published
    share: the same of a share; where the number of people is private, the largest of all shares of
        an assumed number, to the first order. None without such a number.
    final_count, final_share: once the whole study is published
    """

    release: str
    query: str
    period: str
    count: float
    share: float | None
    final_count: float
    final_share: float | None

    def measure(self, *, count: bool) -> float:
        """The error of a count, or of a share. Raises UserError without a number of people."""
        if count:
            return self.count
        if self.share is None:
            raise UserError(
                f"release '{self.release}': the number of people is private, so an error of a share"
                " needs an assumed one; name the people, or ask for a count"
            )
        return self.share


def first_publication(study: Study, declared: Release) -> int:
    """The number of the first period with a publication of the release at the close."""
    return study.span(declared)[0] + declared.history - 1


PlannedStreams = dict[tuple[str, int], StreamMeasurements]  # by stream and last period


def planned_stream(study: Study, stream: str, through: int) -> StreamMeasurements:
    """The measurements of a stream up to a period: zeros with the variances of the noise."""
    messages = {
        declared.name: _silent_messages(study, declared, through)
        for declared in study.releases
        if declared.stream == stream
    }
    return StreamMeasurements(tuple(releases_of_stream(study, messages, stream)))


def _silent_messages(study: Study, declared: Release, through: int) -> list[PeriodMeasurements]:
    chosen, (first, last) = mechanism(study, declared), study.span(declared)
    numbers = range(first_publication(study, declared), min(last, through) + 1)
    return [_silent(number, chosen.demand(number - first + 1)) for number in numbers]


def _silent(number: int, demand: Sequence[tuple[Fraction, int]]) -> PeriodMeasurements:
    # With the roundings of `Measurements.standard_errors`.
    errors = np.array([exact_variance(variance) ** 0.5 for variance, _ in demand], np.float64)
    repeated = np.repeat(errors**2, [size for _, size in demand])
    return PeriodMeasurements(number, np.zeros(len(repeated)), repeated)


def parsed_query(study: Study, name: str, query: str) -> Query:
    """The parsed query. Raises UserError if the release cannot answer."""
    declared = study.release(name)
    parsed = release_query(study, declared, query)
    if not isinstance(parsed, TotalQuery):
        first = _silent_messages(study, declared, first_publication(study, declared))
        query_weights(parsed, ReleaseMeasurements(study, declared, tuple(first)))
    return parsed


def expected_errors(
    study: Study, name: str, query: str, *, people: int | None = None
) -> list[ExpectedError]:
    """The errors of a query of a release, at every period with an answer.

    study: as declared
    name: of the release
    query: in words (`answers/query.py`)
    people: the number of people that shares are of; the declared one by default

    Raises UserError.
    """
    declared = checked_study(study).release(name)
    if people is not None and (type(people) is not int or people < 1):
        raise UserError("people: write a whole number from 1 on")
    parsed = parsed_query(study, name, query)
    start, (first, last) = first_publication(study, declared), study.span(declared)
    needed = parsed.threshold if isinstance(parsed, TotalQuery) else parsed.width
    numbers = range(first + needed - 1, last + 1)
    stream = planned_stream(study, declared.stream, study.periods.count)
    final = list(_errors(stream, declared, parsed, numbers, people))
    rows = []
    for number, final_error in zip(numbers, final, strict=True):
        through = max(number, start)
        published = planned_stream(study, declared.stream, through)
        (error,) = _errors(published, declared, parsed, [number], people)
        rows.append(ExpectedError(name, parsed.text, _label(study, number), *error, *final_error))
    return rows


def response_words(study: Study, errors: Sequence[ExpectedError]) -> list[str]:
    """Lines on shares of respondents if people can be absent in an answer; else empty."""
    windows = {e.release for e in errors if e.share is not None and e.query.split()[0] != "total"}
    if all(study.alphabet(study.release(name)).absent is None for name in windows):
        return []
    return [
        f"these shares are of all {study.unit}s; a share of those who answered has about this error"
        " divided by the response rate"
    ]


def last_errors(
    study: Study, queries: Sequence[tuple[str, str]], streams: PlannedStreams | None = None
) -> Iterator[ExpectedError]:
    """The errors of queries, each of a release, at the release's last period.

    streams: the study's planned streams, for queries that are asked together; new ones are added.

    Raises UserError.
    """
    streams = {} if streams is None else streams
    for name, query in queries:
        parsed, declared = parsed_query(study, name, query), study.release(name)
        number = study.span(declared)[1]
        key = declared.stream, number
        if key not in streams:
            streams[key] = planned_stream(study, *key)
        (error,) = _errors(streams[key], declared, parsed, [number], None)
        yield ExpectedError(name, parsed.text, _label(study, number), *error, *error)


def _label(study: Study, number: int) -> str:
    return study.periods.labels[number - 1]


def _errors(
    stream: StreamMeasurements,
    declared: Release,
    parsed: Query,
    numbers: Sequence[int],
    people: int | None,
) -> Iterator[tuple[float, float | None]]:
    """The standard errors of the count and the share at every period, from a planned stream."""
    release = next(r for r in stream.releases if r.declared.name == declared.name)
    best = StreamEstimator(stream, release)
    for number in numbers:
        query = PanelQuery(best, parsed, number)
        size = people or release.study.size
        noisy = None if stream.size is not None else query.people
        value = stream.answers([query.question()])
        count = math.sqrt(value.variance)
        if size is None or (stream.size is None and noisy is None):
            yield count, None
        elif noisy is None:
            yield count, count / size
        else:
            yield count, _largest(value, stream.answers([noisy[0]])) / size


def _largest(value: Answers, people: Answers) -> float:
    """The largest standard error of value - s people for s from 0 to 1: at either end."""
    together = float(value.covariance(people)[0, 0])
    at_one = value.variance - 2 * together + people.variance
    return math.sqrt(max(value.variance, at_one))


GROUP_SIZES = (10, 100, 1_000, 10_000)
USABLE = 0.3
LEVEL = 0.95


Count = Callable[[Study, Any], "GroupError | None"]


@dataclass(frozen=True)
class GroupError:
    """The error of a release's count of people.

    release: its name.
    stratum: the fixed attribute and value of its people, as in "region = north"; empty for all
    query: what is counted, in words.
    unit: of privacy, such as "person".
    half_width: of the interval at `LEVEL`, in people.
    most: how many people there can be, where that is declared.
    """

    release: str
    stratum: str
    query: str
    unit: str
    half_width: float
    most: int | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """The possible sizes of groups."""
        return tuple(n for n in GROUP_SIZES if self.most is None or n <= self.most)

    @property
    def least(self) -> int | None:
        """The size of the smallest usable group; None without a usable group."""
        size = math.ceil(self.half_width / USABLE)
        return size if self.most is None or size <= self.most else None

    @property
    def name(self) -> str:
        """The release and its stratum."""
        return f"{self.release} ({self.stratum})" if self.stratum else self.release

    def relative(self, size: int) -> float:
        """The half-width as a part of a group of `size` people."""
        return self.half_width / size

    def usable(self, size: int) -> bool:
        return self.relative(size) <= USABLE

    def words(self, size: int) -> str:
        """The error of a group in words."""
        verdict = "usable" if self.usable(size) else "not usable"
        return f"a group of {size:,} {self.unit}s: ± {percent(self.relative(size))}: {verdict}"

    def as_dict(self) -> Json:
        """For machines."""
        return {
            "release": self.release,
            "stratum": self.stratum,
            "query": self.query,
            "most": self.most,
            "half_width": self.half_width,
            "usable_from": self.least,
            "groups": [
                {
                    "size": size,
                    "relative_half_width": self.relative(size),
                    "usable": self.usable(size),
                    "words": self.words(size),
                }
                for size in self.sizes
            ],
        }


def percent(part: float) -> str:
    """A part in percent, with two digits at least."""
    return f"{100 * part:,.0f} %" if part >= 0.1 else f"{100 * part:.2g} %"


def least_text(size: int | None) -> str:
    """The size of the smallest usable group in words."""
    return "no size" if size is None else f"{size:,}"


def rule_words(unit: str) -> str:
    """What `usable` means."""
    return (
        f"The noise of a count is the same for small and large groups of {unit}s. A group is called"
        f" usable if the {LEVEL:.0%} interval of its count is at most ± {percent(USABLE)}."
    ).replace("95%", "95 %")


def group_errors(study: Study, counts: Mapping[Family, Count]) -> tuple[GroupError, ...]:
    """The errors of a count of every release, in the order of the study, strata each by itself.

    counts: by family, the row of a release; None if it counts no people
    """
    errors: dict[str, GroupError | None] = {}
    rows = []
    for release in (*study.releases, *(study.batches or ())):
        shape = _shape(study, release)
        if shape not in errors:
            errors[shape] = counts[release.family](study, release)
        if (row := errors[shape]) is not None:
            rows.append(replace(row, release=release.name, stratum=stratum_words(study, release)))
    return tuple(rows)


def group_error(
    study: Study, release: Release | DataSetRelease, query: str, error: float
) -> GroupError:
    """The row of a release's count.

    query: what is counted, in words.
    error: the standard error of the count, in people.
    """
    size = study.size if release.most_people is None else release.most_people
    half_width = NormalDist().inv_cdf((1 + LEVEL) / 2) * error
    stratum = stratum_words(study, release)
    return GroupError(release.name, stratum, query, study.unit, half_width, size)


def stratum_words(study: Study, release: Release | DataSetRelease) -> str:
    """The stratum of a release in words; empty for a release of all people."""
    return " = ".join(study.strata.get(release.name, ()))


def group_lines(rows: Sequence[GroupError]) -> list[str]:
    """The errors as a table of text."""
    wide = max((len(f"{row.name}: {row.query}") for row in rows), default=0)
    lines = [f"  {'':<{wide}}" + "".join(f"{size:>10,}" for size in GROUP_SIZES) + "  usable from"]
    for row in rows:
        cells = (f"± {percent(row.relative(n))}" if n in row.sizes else "-" for n in GROUP_SIZES)
        heading = f"  {f'{row.name}: {row.query}':<{wide}}"
        lines.append(
            heading + "".join(f"{cell:>10}" for cell in cells) + f"  {least_text(row.least)}"
        )
    return lines


def group_table(study: Study, rows: Sequence[GroupError]) -> Json:
    """The errors for machines, with the rule of usable groups."""
    return {
        "unit": study.unit,
        "rule": rule_words(study.unit),
        "confidence": LEVEL,
        "usable_at_most": USABLE,
        "rows": [row.as_dict() for row in rows],
    }


def _shape(study: Study, release: Release | DataSetRelease) -> str:
    """A text that two releases share if their errors are the same: two strata, for instance."""
    others = [r for r in study.releases if r.stream == release.stream and r.name != release.name]
    together: Sequence[Release | DataSetRelease] = (release, *others)
    keys = [r.model_dump(mode="json", exclude={"name", "where"}) for r in together]
    strata = [sorted(getattr(r, "where", None) or ()) for r in together]
    return json.dumps([keys, strata], sort_keys=True)


def panel_count(
    study: Study, release: Release, streams: PlannedStreams | None = None
) -> GroupError:
    """The count of a typical query at the last period of a panel. streams: see `last_errors`."""
    query = telling_queries(study, release)[0]
    (error,) = last_errors(study, [(release.name, query)], streams)
    return group_error(study, release, error.query, error.count)
