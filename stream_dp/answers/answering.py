"""How each family of releases is asked: its part of `PublicLog.answer`.

The one table of families is `ANSWERING`; nothing else tells them apart to answer a query.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from stream_dp.errors import UserError
from stream_dp.study.families import PANEL_FAMILIES, TABLE_FAMILIES, Family, Registry

from .answer import Answer, Region, ReleaseQuery
from .estimator import StreamEstimator, StreamMeasurements
from .examples import example_queries
from .factor_cache import FactorCache
from .from_releases import published_tables, stream_measurements
from .joint_answers import JointAnswers, joined
from .measured_rows import ReleaseMeasurements
from .panel_answer import PanelQuery, answer_query, joint_panel_answers, release_query
from .published_log import PublishedLog
from .query import TotalQuery
from .size_answers import EXAMPLES
from .tables.table_answer import answering
from .tables.table_covariances import joint_table_answers
from .tables.table_facts import PublishedTables
from .tables.table_rows import table_answers
from .tidy_rows import panel_answers


class Answering(Protocol):
    """The answers of one family of releases of a public log.

    A method raises UserError where the release cannot be asked so, or nothing of it is published.
    """

    def queries(self, name: str) -> list[str]:
        """Examples of queries to a release."""

    def regions(self, name: str) -> list[Region]:
        """A region of each level that a query can be about; none unless sizes are published."""

    def answer(self, asked: ReleaseQuery, *, count: bool | None) -> Answer:
        """The answer to a query.

        count: whether as a number, not as a share; None for what is usual in the family
        """

    def joint(self, asked: Sequence[ReleaseQuery], *, count: bool | None) -> JointAnswers:
        """The answers to several queries, with the covariance of their errors."""

    def table(self, name: str) -> pa.Table | None:
        """All answers of a release as rows (`tidy_rows.py`); None of a family that has none."""


class PanelAnswers:
    """Answers about panels, from the measurements of all releases of the same people."""

    def __init__(self, log: PublishedLog) -> None:
        self._log = log
        self.streams: dict[str, StreamMeasurements] = {}

    def queries(self, name: str) -> list[str]:
        return example_queries(self._log.study, self._log.study.release(name))

    def regions(self, name: str) -> list[Region]:
        return []

    def answer(self, asked: ReleaseQuery, *, count: bool | None) -> Answer:
        query = self._parsed(asked)
        panel = self._log.counted_panel(asked.release, query.period)
        answer = answer_query(query, panel, count=bool(count))
        bias = self._log.release_at(asked.release, None).certificate.panel_bias
        return replace(answer, bias=bias and bias.removesuffix("; use 'estimate'"))

    def joint(self, asked: Sequence[ReleaseQuery], *, count: bool | None) -> JointAnswers:
        return joined(
            [self._parsed(one) for one in asked],
            lambda query: id(query.best.stream),
            lambda queries: joint_panel_answers(queries, count=bool(count)),
        )

    def table(self, name: str) -> pa.Table:
        self._log.releases_of(name)
        return panel_answers(*self._measured(name), self._log.head)

    def _parsed(self, asked: ReleaseQuery) -> PanelQuery:
        _refuse_region(asked)
        study = self._log.study
        query = release_query(study, study.release(asked.release), asked.query)
        period = self._period(asked, early=isinstance(query, TotalQuery))
        best = StreamEstimator(*self._measured(asked.release))
        return PanelQuery(best, query, study.periods.numbers[period])

    def _period(self, asked: ReleaseQuery, *, early: bool) -> str:
        """The period of a query, by default the last release's. Raises UserError.

        early: any period of which the panel has a column, although it has no release
        """
        if early and asked.period is not None:
            for release in self._log.releases_of(asked.release):
                if asked.period in release.certificate.columns:
                    return asked.period
        return self._log.release_at(asked.release, asked.period).certificate.period

    def _measured(self, name: str) -> tuple[StreamMeasurements, ReleaseMeasurements]:
        """What is published of a release, and of its stream."""
        stream = self.stream(self._log.study.release(name).stream)
        return stream, next(r for r in stream.releases if r.declared.name == name)

    def stream(self, stream: str) -> StreamMeasurements:
        """All measurements of a stream that are published; computed once."""
        if stream not in self.streams:
            log = self._log
            names = [r.name for r in log.study.releases if r.stream == stream]
            grown = (r for n in names if log.periods_of(n) for r in log.grown_releases(n))
            cache = None if log.cache is None else FactorCache(log.cache, stream, log.head)
            self.streams[stream] = stream_measurements(log.study, stream, grown, cache)
        return self.streams[stream]


class TableAnswers:
    """Answers about tables of people, or of groups and their members."""

    def __init__(self, log: PublishedLog) -> None:
        self._log = log
        self._tables: dict[tuple[str, str], PublishedTables] = {}

    def published(self, name: str, period: str | None) -> PublishedTables:
        """A data set as its answers need it, by default the last one; checked once."""
        data_set = self._log.data_set(name, period)
        key = name, data_set.certificate.period
        if key not in self._tables:
            self._tables[key] = published_tables(self._log.study, data_set)
        return self._tables[key]

    def queries(self, name: str) -> list[str]:
        published = self.published(name, None)
        return answering(published).examples(published)

    def regions(self, name: str) -> list[Region]:
        return []

    def answer(self, asked: ReleaseQuery, *, count: bool | None) -> Answer:
        _refuse_region(asked)
        published = self.published(asked.release, asked.period)
        return answering(published).answer(published, asked.query, count=bool(count))

    def joint(self, asked: Sequence[ReleaseQuery], *, count: bool | None) -> JointAnswers:
        for one in asked:
            _refuse_region(one)

        def of_one_table(queries: list[tuple[PublishedTables, str]]) -> JointAnswers:
            table, texts = queries[0][0], [text for _, text in queries]
            return joint_table_answers(answering(table), table, texts, count=bool(count))

        queries = [(self.published(one.release, one.period), one.query) for one in asked]
        return joined(queries, lambda query: id(query[0]), of_one_table)

    def table(self, name: str) -> pa.Table:
        periods = self._log.periods_of(name)
        tables = [self.published(name, period) for period in periods]
        return pa.concat_tables([table_answers(t, self._log.head) for t in tables])


class SizesAnswers:
    """Answers about sizes of places. The noise of each region and period is drawn by itself."""

    def __init__(self, log: PublishedLog) -> None:
        self._log = log

    def queries(self, name: str) -> list[str]:
        return list(EXAMPLES)

    def regions(self, name: str) -> list[Region]:
        regions = self._log.sizes(name).regions
        depths = range(1, len(regions[-1]) + 1)
        return [next(path for path in regions if len(path) == depth) for depth in depths]

    def answer(self, asked: ReleaseQuery, *, count: bool | None) -> Answer:
        if count is not None:
            raise UserError(
                f"--share, --count: go with people; '{asked.release}' is of sizes of places"
            )
        sizes, places = self._log.sizes(asked.release, asked.period), self._log.study.places
        answer = sizes.answer(asked.query, *(asked.region or ()))
        return replace(answer, unit="groups" if places is None else f"{places.unit}s")

    def joint(self, asked: Sequence[ReleaseQuery], *, count: bool | None) -> JointAnswers:
        return joined(
            [self.answer(one, count=count) for one in asked],
            lambda answer: (answer.release, answer.period, answer.region),
            _alone,
        )

    def table(self, name: str) -> None:
        return None


def _alone(answers: list[Answer]) -> JointAnswers:
    """One answer with its variance. Raises UserError for several with the same noise."""
    if len(answers) > 1:
        first, second = answers[:2]
        if first.query == second.query:
            raise UserError("--minus: both answers are the same; name another period or region")
        raise UserError(
            f"query '{second.query}': shares its noise with '{first.query}'; ask one by one"
        )
    (answer,) = answers
    variance = np.nan if answer.standard_error is None else answer.standard_error**2
    return JointAnswers((answer,), np.array([[variance]]))


def _refuse_region(asked: ReleaseQuery) -> None:
    if asked.region is not None:
        raise UserError(f"--region: goes with sizes; '{asked.release}' is of none")


ANSWERING: Registry[Family, Callable[[PublishedLog], Answering]] = Registry(
    "answers",
    Family,
    {
        **dict.fromkeys(PANEL_FAMILIES, PanelAnswers),
        **dict.fromkeys(TABLE_FAMILIES, TableAnswers),
        Family.SIZES: SizesAnswers,
    },
)
