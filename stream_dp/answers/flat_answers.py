"""The answers of a publication in flat records, for tables in other systems.

They follow from the bytes of that publication alone, so that everybody computes the same. Panels
have the estimates that the release states. Tables have each value of each column. Sizes have the
examples of queries for every region. An answer without a value is left out. Answers after the first
`MOST` are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from stream_dp.release.answer import LEVEL, QUANTILE, Answer
from stream_dp.release.certificate import SEEDED_NOISE
from stream_dp.release.public_reader import AnyPublished, PublishedRelease
from stream_dp.release.published_sizes import PublishedSizes
from stream_dp.release.published_tables import DataSet
from stream_dp.release.size_answers import EXAMPLES
from stream_dp.study import Study
from stream_dp.study.families import PANEL_FAMILIES, TABLE_FAMILIES, Family, Registry

from .answering import published_tables
from .tables.table_answer import answering

MOST = 5000  # answers of a publication


class FlatAnswer(NamedTuple):
    """An answer.

    study, release, period, region, query, measure: of which answer; together they occur once
    region: of sizes, the path from the top with slashes; empty otherwise
    unit: what is counted, in words
    error: the standard error of the privacy noise; None where no measurement says it
    lower, upper: the interval of the level `level`; None without one
    message: the hash of the publication
    simulated: whether the noise came from a seed
    """

    study: str
    release: str
    period: str
    region: str
    query: str
    measure: str
    unit: str
    value: float
    error: float | None
    lower: float | None
    upper: float | None
    level: float
    message: str
    simulated: bool


def flat_answers(study: Study, published: AnyPublished) -> list[FlatAnswer]:
    """The answers of a publication, in a fixed order."""
    certificate = published.certificate
    declared = study.declared(certificate.release)
    assert declared is not None
    every = _ANSWERS[declared.family](study, published)
    answers = islice((answer for answer in every if math.isfinite(answer.value)), MOST)
    simulated = certificate.noise == SEEDED_NOISE
    return [_flat(study, a, published.message.hash, simulated) for a in answers]


def _flat(study: Study, answer: Answer, message: str, simulated: bool) -> FlatAnswer:
    low, high = answer.interval or (None, None)
    return FlatAnswer(
        study=study.name,
        release=answer.release,
        period=answer.period,
        region="/".join(answer.region or ()),
        query=answer.query,
        measure=answer.measure,
        unit=answer.unit,
        value=_rounded(answer.value),
        error=None if answer.standard_error is None else _rounded(answer.standard_error),
        lower=None if low is None else _rounded(low),
        upper=None if high is None else _rounded(high),
        level=LEVEL,
        message=message,
        simulated=simulated,
    )


def _rounded(value: float) -> float:
    """The value to 9 digits, which is the same on every machine."""
    return float(f"{value:.9g}")


def _panel_answers(study: Study, published: PublishedRelease) -> Iterator[Answer]:
    """The stated estimates in numbers of people, and in shares of a public number of people."""
    certificate = published.certificate
    declared = study.release(certificate.release)
    whole = study.size if declared.where is None else None
    for row in published.estimates.to_pylist():
        for measure, people in (("count", 1), *((("share", whole),) if whole else ())):
            value, error = row["value"] / people, row["standard_error"] / people
            yield Answer(
                release=certificate.release,
                query=row["query"],
                period=certificate.period,
                measure=measure,
                unit=f"{study.unit}s",
                value=value,
                standard_error=error,
                interval=(value - QUANTILE * error, value + QUANTILE * error),
                method="unbiased, from the measurements of this release alone",
            )


def _table_answers(study: Study, published: DataSet) -> Iterator[Answer]:
    tables = published_tables(study, published)
    return answering(tables).every(tables, paired=False)


def _size_answers(study: Study, published: PublishedSizes) -> Iterator[Answer]:
    for region in published.regions:
        for query in EXAMPLES:
            yield published.answer(query, *region)


_ANSWERS: Registry[Family, Callable[..., Iterator[Answer]]] = Registry(
    "answers of a publication",
    Family,
    {
        **dict.fromkeys(PANEL_FAMILIES, _panel_answers),
        **dict.fromkeys(TABLE_FAMILIES, _table_answers),
        Family.SIZES: _size_answers,
    },
)
