"""The answers of a publication in flat records, for tables in other systems.

They follow from the bytes of that publication alone, so that everybody computes the same. Panels
have the estimates that the release states. Once the weights of a panel are published, the answers
of its last period follow again, as an analyst gets them by default. Tables have each value of each
column. Sizes have the examples of queries for every region. An answer without a value is left out.
Answers after the first `MOST` are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dp.continual.mechanisms import mechanism, patterns_part
from stream_dp.errors import UserError
from stream_dp.release.answer import DECLARED, EXAMPLES, LEVEL, QUANTILE, RESPONDENTS, Answer
from stream_dp.release.certificate import SEEDED_NOISE
from stream_dp.release.public_reader import AnyPublished, PublishedRelease
from stream_dp.release.published_sizes import PublishedSizes
from stream_dp.release.published_tables import DataSet
from stream_dp.study import Release, Study
from stream_dp.study.families import PANEL_FAMILIES, TABLE_FAMILIES, Family, Registry

from .answering import PanelAnswers, PublishedLog, published_tables
from .estimator import StreamEstimator
from .joint_answers import Ratios, fieller_ratio, with_error
from .measurement_blocks import Floats
from .panel_answer import (
    PanelQuery,
    among_respondents,
    joint_panel_answers,
    release_query,
    share_query,
)
from .query import WindowQuery
from .tables.limited_records import limited_records
from .tables.table_answer import Conjunctions

MOST = 5000  # answers of a publication


class FlatAnswer(NamedTuple):
    """An answer.

    study, release, period, region, query, measure: of which answer; together they occur once
    region: of sizes, the path from the top with slashes; empty otherwise
    unit: what is counted, in words
    people: of whom a share is, in words; None for what is no share
    error: the standard error of the privacy noise; None where no measurement says it. Of a share
        among respondents in a joint release, an upper bound
    lower, upper: the interval of the level `level`; None without one
    method: how the value was computed, in words
    unbiased, unbiased_error, unbiased_lower, unbiased_upper: the unbiased answer beside the default
        one; else None
    message: the hash of the publication, or of the weights of its answers
    simulated: whether the noise came from a seed
    """

    study: str
    release: str
    period: str
    region: str
    query: str
    measure: str
    unit: str
    people: str | None
    value: float
    error: float | None
    lower: float | None
    upper: float | None
    level: float
    method: str
    unbiased: float | None
    unbiased_error: float | None
    unbiased_lower: float | None
    unbiased_upper: float | None
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
    value, error, lower, upper = _numbers(answer)
    unbiased = (None,) * 4 if answer.unbiased is None else _numbers(answer.unbiased)
    assert value is not None
    return FlatAnswer(
        study=study.name,
        release=answer.release,
        period=answer.period,
        region="/".join(answer.region or ()),
        query=answer.query,
        measure=answer.measure,
        unit=answer.unit,
        people=answer.base if answer.measure == "share" else None,
        value=value,
        error=error,
        lower=lower,
        upper=upper,
        level=LEVEL,
        method=answer.method,
        unbiased=unbiased[0],
        unbiased_error=unbiased[1],
        unbiased_lower=unbiased[2],
        unbiased_upper=unbiased[3],
        message=message,
        simulated=simulated,
    )


def _numbers(answer: Answer) -> tuple[float | None, ...]:
    """The value, the error and both ends, to 9 digits, which are the same on every machine."""
    low, high = answer.interval or (None, None)
    numbers = (answer.value, answer.standard_error, low, high)
    return tuple(None if number is None else float(f"{number:.9g}") for number in numbers)


_AT_ONCE = 100  # answers whose covariance is computed


def weighted_answers(log: PublishedLog, name: str, message: str) -> list[FlatAnswer]:
    """The answers of a panel's last period, as an analyst gets them by default, in a fixed order.

    log: up to the weights of this panel. message: their hash. Empty for weights that are older
    than the last publication about the people.
    """
    study, declared = log.study, log.study.release(name)
    published, panels = log.release_at(name, None), PanelAnswers(log)
    least = panels.least(name)
    if least is None:
        return []
    best, number = StreamEstimator(*panels.measured(name)), published.certificate.number
    stated, found = flat_answers(study, published), dict[tuple[str, str], FlatAnswer]()
    for count in (True, False):
        texts = [
            a.query
            for a in stated
            if (a.measure == "count") == count and a.query.startswith(("pattern ", "total "))
        ]
        for start in range(0, len(texts), _AT_ONCE):
            parsed = [
                PanelQuery(best, query, number, among)
                for text in texts[start : start + _AT_ONCE]
                for query, among in [share_query(study, declared, text, count=count)]
            ]
            unbiased = joint_panel_answers(parsed, count=count).answers
            for text, query, answer in zip(texts[start:], parsed, unbiased, strict=False):
                flat = _flat(study, least.answer(query, answer), message, stated[0].simulated)
                found[text, flat.measure] = flat
    keys = [(answer.query, answer.measure) for answer in stated]
    return [found[key] for key in keys if key in found]


METHOD = "unbiased, from the measurements of this release alone"


def _panel_answers(study: Study, published: PublishedRelease) -> Iterator[Answer]:
    """The stated estimates in numbers of people and in shares: of those who answered in the period
    where people can be absent, else of the public number of people.
    """
    certificate = published.certificate
    declared = study.release(certificate.release)
    whole = study.size if declared.where is None else None
    respondents = _Respondents.of(study, declared, published)
    for row in published.estimates.to_pylist():
        answer = with_error(
            Answer(
                release=certificate.release,
                query=row["query"],
                period=certificate.period,
                measure="count",
                unit=f"{study.unit}s",
                value=row["value"],
                standard_error=None,
                interval=None,
                method=METHOD,
            ),
            row["standard_error"],
        )
        yield answer
        base: WindowQuery | None = None
        if respondents is not None and row["query"].startswith("pattern "):
            query = release_query(study, declared, row["query"])
            answered, base = among_respondents(study, declared, query)
        if base is None and whole:
            share = replace(answer, measure="share", value=answer.value / whole, people=DECLARED)
            yield with_error(share, row["standard_error"] / whole)
        elif base is not None and isinstance(answered, WindowQuery):
            assert respondents is not None
            yield from respondents.share(answer, answered.mask)


@dataclass(frozen=True, eq=False)
class _Respondents:
    """The people who answered in a period, as the base of shares.

    mask: of their patterns, (q^k,).
    number: how many they are, by the stated estimates.
    variance: of the estimate of weights @ histogram. Where totals were measured beside the
        windows, an upper bound: what is reconciled has no linear answer with more noise.
    """

    mask: Floats
    number: float
    variance: Callable[[Floats], float]

    @classmethod
    def of(
        cls, study: Study, declared: Release, published: PublishedRelease
    ) -> _Respondents | None:
        """None for a release without windows, or in which nobody can be absent."""
        window, absent = patterns_part(mechanism(study, declared)), study.alphabet(declared).absent
        if window is None or absent is None:
            return None
        mask = (np.arange(window.bins) % window.q != absent).astype(float)
        estimates = published.estimates["value"].to_numpy()[: window.measured.size]
        t = published.certificate.number - study.span(declared)[0] + 1
        return cls(
            mask,
            float(mask[window.measured] @ estimates),
            lambda weights: window.functional(t, weights)[1],
        )

    def share(self, answer: Answer, counted: NDArray[np.bool_]) -> Iterator[Answer]:
        """The count `answer` over the number of respondents, with the interval of Fieller.

        counted: which patterns the answer counts, (q^k,).

        Yields nothing where the number of respondents is not clearly positive. The covariance of
        count X and number Y is (Var X + Var Y - Var(X - Y)) / 2.
        """
        weights = counted.astype(float)
        count_variance, number_variance = self.variance(weights), self.variance(self.mask)
        difference_variance = self.variance(weights - self.mask)
        covariance = (count_variance + number_variance - difference_variance) / 2
        ratio = Ratios.of(answer.value, count_variance, self.number, number_variance, covariance)
        with suppress(UserError):
            value, error, interval = fieller_ratio(ratio, QUANTILE)
            yield replace(
                answer,
                measure="share",
                value=value,
                standard_error=error,
                interval=interval,
                people=f"among {RESPONDENTS}",
            )


def _table_answers(study: Study, published: DataSet) -> Iterator[Answer]:
    tables = published_tables(study, published)
    return map(limited_records, Conjunctions(tables).every(paired=False))


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
