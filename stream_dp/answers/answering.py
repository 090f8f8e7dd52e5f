"""The answers of every family of releases, for `PublicLog.answer`.

`ANSWERING` is the only table of families that decides how a query is answered.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa

from stream_dp.errors import UserError
from stream_dp.panel import Panel, PanelCounts
from stream_dp.release.answer import EXAMPLES, Answer, Fused, Region, ReleaseQuery
from stream_dp.release.public_reader import PublishedRelease
from stream_dp.release.published_panels import ADVICE, PublishedWeights
from stream_dp.release.published_sizes import PublishedSizes
from stream_dp.release.published_tables import DataSet, binned
from stream_dp.study import Study
from stream_dp.study.families import PANEL_FAMILIES, TABLE_FAMILIES, Family, Registry
from stream_dp.study.period_texts import period_label
from stream_dp.study.scale import Numbers

from .estimator import StreamEstimator, StreamMeasurements
from .joint_answers import JointAnswers, joined
from .least_error_answers import LeastErrorAnswers
from .linear_system import FactorCache
from .measured_rows import PeriodMeasurements, ReleaseMeasurements, releases_of_stream
from .panel_answer import PanelCurve, PanelQuery, joint_panel_answers, share_query
from .query import EVERYBODY, WindowQuery, example_queries, query_words, survey_examples
from .tables.conjunction import example_conjunctions, survey_conjunctions
from .tables.fused_answer import FusedTables, MeasuredTable
from .tables.limited_records import limited_records
from .tables.regression import Regression, regress
from .tables.table_answer import Conjunctions, table_answers
from .tables.table_facts import PublishedTables, Weights
from .tidy_rows import panel_answers


def stream_measurements(
    study: Study, stream: str, releases: Iterable[PublishedRelease], cache: FactorCache | None
) -> StreamMeasurements:
    """The measurements of the releases of a stream. Raises Inconsistent.

    releases: all, in the order of publication for every name
    cache: of the stream's factor
    """
    messages: dict[str, list[PeriodMeasurements]] = {}
    for release in releases:
        certificate, table = release.certificate, release.measurements
        values, errors = (
            table[column].to_numpy().astype(float) for column in ("value", "standard_error")
        )
        answers = PeriodMeasurements(certificate.number, values, errors**2)
        messages.setdefault(certificate.release, []).append(answers)
    return StreamMeasurements(tuple(releases_of_stream(study, messages, stream)), cache)


def published_tables(study: Study, data_set: DataSet) -> PublishedTables:
    """A checked data set with numbers in bins. Raises Inconsistent."""
    certificate = data_set.certificate
    declared = study.batch(certificate.release)
    assert declared is not None
    exact = data_set.check()
    columns, tables = binned(certificate.columns, exact)
    columns_of_people, order = certificate.columns["people"], exact["people"].column_names
    values = {name: columns_of_people[name] for name in order if name in columns_of_people}
    numbers = {name: scale for name, scale in values.items() if isinstance(scale, Numbers)}
    return PublishedTables(
        study=study,
        declared=declared,
        period=certificate.period,
        columns=columns,
        tables=tables,
        measurements=data_set.measurements,
        numbers=numbers,
        fused_with=tuple(sorted(certificate.ancestors, key=study.periods.labels.index)),
        number_codes={n: exact["people"][n].to_numpy().astype(np.int64) for n in numbers},
    )


def tables_by_period(tables: list[tuple[str, pa.Table]]) -> pa.Table:
    """Stacks tables, with their periods in the first column."""
    return pa.concat_tables(
        table.add_column(0, "period", pa.array([period] * table.num_rows, pa.string()))
        for period, table in tables
    )


class PublishedLog(Protocol):
    """A public log after reading and checking, like `stream_dp.client.PublicLog`.

    cache: a folder for factors that take long to compute, None for no cache
    """

    study: Study
    cache: Path | None
    weights: dict[str, PublishedWeights]

    @property
    def head(self) -> str: ...

    def periods_of(self, name: str) -> list[str]:
        """The periods with a published release of a name, in order of publication."""

    def releases_of(self, name: str) -> list[PublishedRelease]: ...
    def release_at(self, name: str, period: str | None) -> PublishedRelease: ...
    def grown_releases(self, name: str) -> list[PublishedRelease]: ...
    def panel(self, name: str, period: str | None = None) -> Panel: ...
    def counted_panel(self, name: str, period: str) -> Panel | PanelCounts: ...
    def data_set(self, name: str, period: str | None = None) -> DataSet: ...
    def sizes(self, name: str, period: str | None = None) -> PublishedSizes: ...


class Answering(ABC):
    """The answers of a family of releases of a public log.

    A method raises UserError where the release has no such answer, or is not published.
    """

    def __init__(self, log: PublishedLog) -> None:
        self._log = log

    @abstractmethod
    def queries(self, name: str) -> list[str]:
        """Examples of queries to a release."""

    def regions(self, name: str) -> list[Region]:
        """A region of every level, for examples of queries. Empty for releases without sizes."""
        return []

    def periods(self, name: str, query: str | None) -> list[str]:
        """The periods at which a query, or any, has an answer so far, in order."""
        return self._log.periods_of(name)

    @abstractmethod
    def answer(self, query: ReleaseQuery, *, count: bool | None) -> Answer:
        """The answer to a query.

        count: whether as a number, not as a share; None for what is usual in the family
        """

    def change(self, query: ReleaseQuery, since: ReleaseQuery, *, count: bool | None) -> Answer:
        """The answer to a query less the answer to another, with the error of both together."""
        return self.joint([query, since], count=count).difference(0, 1)

    @abstractmethod
    def joint(self, queries: Sequence[ReleaseQuery], *, count: bool | None) -> JointAnswers:
        """The answers to several queries, with the covariance of their errors."""

    def regress(
        self, name: str, formula: str, period: str | None, *, logistic: bool, sampling: bool
    ) -> Regression:
        """A regression model of the people of a table."""
        raise UserError(f"release '{name}': a regression needs a table of people")

    def table(self, name: str) -> pa.Table | None:
        """All answers of a release in rows (`tidy_rows.py`), or None for a family without rows."""
        return None


_KEPT = 32  # curves


class PanelAnswers(Answering):
    """Answers about panels, from the measurements of all releases of the same people."""

    def __init__(self, log: PublishedLog) -> None:
        super().__init__(log)
        self.streams: dict[str, StreamMeasurements] = {}
        self._least: dict[str, LeastErrorAnswers | None] = {}
        self._curves: dict[tuple[str, str, bool], PanelCurve] = {}
        self._last_joint: tuple[tuple[tuple[ReleaseQuery, ...], bool], JointAnswers] | None = None

    def queries(self, name: str) -> list[str]:
        study, declared = self._log.study, self._log.study.release(name)
        examples = example_queries(study, declared) + survey_examples(study, declared)
        return list(dict.fromkeys(examples))

    def periods(self, name: str, query: str | None) -> list[str]:
        """All periods of the panel with as many periods before as the query looks at."""
        columns = (r.certificate.columns for r in self._log.releases_of(name))
        labels = [label for of_release in columns for label in of_release]
        if query is None:
            return labels
        curve = self._curve(name, query, count=False)
        widths = [p.width for p in (curve.query, curve.among) if isinstance(p, WindowQuery)]
        return labels[max(widths, default=1) - 1 :]

    def answer(self, query: ReleaseQuery, *, count: bool | None) -> Answer:
        _refuse_region(query)
        curve = self._curve(query.release, query.query, count=bool(count))
        parsed = curve.at(self._log.study.periods.numbers[self._period(query)])
        panel = self._log.counted_panel(query.release, parsed.period)
        bias = self._log.release_at(query.release, None).certificate.panel_bias
        bias = bias and bias.removesuffix(f"; {ADVICE}")
        answer = curve.answer(parsed.number, panel, bias)
        least = self.least(query.release)
        return answer if least is None else least.answer(parsed, answer)

    def change(self, query: ReleaseQuery, since: ReleaseQuery, *, count: bool | None) -> Answer:
        change = super().change(query, since, count=count)
        least = self.least(query.release)
        if least is None or query.release != since.release:
            return change
        last, first = (self._parsed(each, count=bool(count)) for each in (query, since))
        return least.change(last, first, change)

    def least(self, name: str) -> LeastErrorAnswers | None:
        """The answers of least error of a release. None until its weights are published."""
        if name not in self._least:
            published = self._log.weights.get(name)
            measured = None if published is None else self.measured(name)
            self._least[name] = (
                None
                if published is None or measured is None
                else LeastErrorAnswers.of(*measured, published)
            )
        return self._least[name]

    def joint(self, queries: Sequence[ReleaseQuery], *, count: bool | None) -> JointAnswers:
        key, last = (tuple(queries), bool(count)), self._last_joint
        if last is not None and last[0] == key:
            return last[1]
        answers = joined(
            [self._parsed(query, count=bool(count)) for query in queries],
            lambda query: id(query.best.stream),
            lambda queries: joint_panel_answers(queries, count=bool(count)),
        )
        self._last_joint = key, answers
        return answers

    def table(self, name: str) -> pa.Table:
        return panel_answers(*self.measured(name), self._log.head, self.least(name))

    def _parsed(self, query: ReleaseQuery, *, count: bool) -> PanelQuery:
        _refuse_region(query)
        curve = self._curve(query.release, query.query, count=count)
        return curve.at(self._log.study.periods.numbers[self._period(query)])

    def _curve(self, name: str, text: str, *, count: bool) -> PanelCurve:
        """A query to a release at all periods, parsed once. Raises UserError."""
        key = name, text, count
        if (curve := self._curves.get(key)) is None:
            study = self._log.study
            query, among = share_query(study, study.release(name), text, count=count)
            curve = PanelCurve(StreamEstimator(*self.measured(name)), query, among, count)
            if len(self._curves) >= _KEPT:
                self._curves.clear()
            self._curves[key] = curve
        return curve

    def _period(self, query: ReleaseQuery) -> str:
        """The period of a query, by default the last release's. Raises UserError.

        A period before the first release has answers if the panel has a column for it.
        """
        if query.period is None:
            return self._log.release_at(query.release, None).certificate.period
        period = period_label(self._log.study.periods, query.period)
        if period not in (labels := self.periods(query.release, None)):
            raise UserError(
                f"release '{query.release}': none at period '{period}'; it has {labels[0]} to"
                f" {labels[-1]}"
            )
        return period

    def measured(self, name: str) -> tuple[StreamMeasurements, ReleaseMeasurements]:
        """The published measurements of a release and of its stream. Raises UserError without."""
        self._log.releases_of(name)
        stream = self.stream(self._log.study.release(name).stream)
        return stream, next(r for r in stream.releases if r.declared.name == name)

    def stream(self, stream: str) -> StreamMeasurements:
        """All published measurements of a stream; computed once."""
        if stream not in self.streams:
            log = self._log
            names = [r.name for r in log.study.releases if r.stream == stream]
            grown = (r for n in names if log.periods_of(n) for r in log.grown_releases(n))
            cache = None if log.cache is None else FactorCache(log.cache, stream, log.head)
            self.streams[stream] = stream_measurements(log.study, stream, grown, cache)
        return self.streams[stream]


class TableAnswers(Answering):
    """Answers about tables of people, or of groups and their members."""

    def __init__(self, log: PublishedLog) -> None:
        super().__init__(log)
        self._tables: dict[tuple[str, str], PublishedTables] = {}
        self._with_earlier: dict[tuple[str, str], FusedTables] = {}

    def published(self, name: str, period: str | None) -> PublishedTables:
        """A data set, checked and prepared for answers. The default is the last data set."""
        data_set = self._log.data_set(name, period)
        key = name, data_set.certificate.period
        if key not in self._tables:
            self._tables[key] = published_tables(self._log.study, data_set)
        return self._tables[key]

    def queries(self, name: str) -> list[str]:
        published = self.published(name, None)
        return [*example_conjunctions(published), *survey_conjunctions(published)]

    def answer(self, query: ReleaseQuery, *, count: bool | None) -> Answer:
        _refuse_region(query)
        published = self.published(query.release, query.period)
        answer = Conjunctions(published).answer(query.query, count=bool(count))
        fused = None if _names_people(query) else self._fused(published)
        if fused is not None and answer.standard_error is not None:
            weights = self._weights(published, query.query, count=bool(count))
            answer = replace(answer, fused=fused.answer(answer, *weights))
        return limited_records(answer)

    def change(self, query: ReleaseQuery, since: ReleaseQuery, *, count: bool | None) -> Answer:
        answer = super().change(query, since, count=count)
        return limited_records(
            replace(answer, fused=self._fused_change(query, since, answer, bool(count)))
        )

    def _fused_change(
        self, query: ReleaseQuery, since: ReleaseQuery, answer: Answer, count: bool
    ) -> Fused | None:
        """The change of a query by the months' joint posterior. answer: by both months alone"""
        last, first = (self.published(q.release, q.period) for q in (query, since))
        fused = self._fused(last)
        if fused is None or query.release != since.release or query.query != since.query:
            return None
        if _names_people(query):
            return None
        numbers = {table.published.period: table.number for table in fused.tables[:-1]}
        if answer.standard_error is None or first.period not in numbers:
            return None
        now, then = (self._weights(table, query.query, count=count) for table in (last, first))
        return fused.change(answer, now, then, numbers[first.period])

    def _weights(
        self, published: PublishedTables, text: str, *, count: bool
    ) -> tuple[Weights, Weights | None]:
        """The weights of a measured answer and, if a share is not of all rows, of its base.

        Without rules, whose use depends on each month's noise.
        """
        answers = Conjunctions(published)
        query, among = answers.asked(text, count=count)
        weights = answers.measured(query, ruled=False)
        assert weights is not None  # the answer has an error
        return weights, None if among is None else answers.measured(among, ruled=False)

    def _fused(self, published: PublishedTables) -> FusedTables | None:
        """A table of people with the earlier tables of its fit. None without earlier tables or
        with an unpublished table.
        """
        name, key = published.declared.name, (published.declared.name, published.period)
        earlier = {*published.fused_with}
        if not earlier or published.link is not None:
            return None
        if not earlier <= {*self._log.periods_of(name)}:
            return None
        if key not in self._with_earlier:
            study = self._log.study
            due = study.due_periods(published.declared)
            tables = [self.published(name, period) for period in published.fused_with]
            self._with_earlier[key] = FusedTables(
                tuple(
                    MeasuredTable(1 + due.index(study.periods.numbers[table.period]), table)
                    for table in (*tables, published)
                )
            )
        return self._with_earlier[key]

    def joint(self, queries: Sequence[ReleaseQuery], *, count: bool | None) -> JointAnswers:
        for query in queries:
            _refuse_region(query)

        def of_one_table(pairs: list[tuple[PublishedTables, str]]) -> JointAnswers:
            table, texts = pairs[0][0], [text for _, text in pairs]
            return Conjunctions(table).joint(texts, count=bool(count))

        pairs = [(self.published(query.release, query.period), query.query) for query in queries]
        return joined(pairs, lambda pair: id(pair[0]), of_one_table)

    def regress(
        self, name: str, formula: str, period: str | None, *, logistic: bool, sampling: bool
    ) -> Regression:
        published = self.published(name, period)
        return regress(published, formula, logistic=logistic, sampling=sampling)

    def table(self, name: str) -> pa.Table:
        periods = self._log.periods_of(name)
        tables = [self.published(name, period) for period in periods]
        return pa.concat_tables([table_answers(t, self._log.head) for t in tables])


class SizesAnswers(Answering):
    """Answers about sizes of places. The noise of every region and period is independent."""

    def queries(self, name: str) -> list[str]:
        return list(EXAMPLES)

    def regions(self, name: str) -> list[Region]:
        regions = self._log.sizes(name).regions
        depths = range(1, len(regions[-1]) + 1)
        return [next(path for path in regions if len(path) == depth) for depth in depths]

    def answer(self, query: ReleaseQuery, *, count: bool | None) -> Answer:
        if count is not None:
            raise UserError(
                f"share, count: go with people; '{query.release}' is of sizes of places"
            )
        sizes, declared = self._log.sizes(query.release, query.period), self._log.study.places
        answer = sizes.answer(query.query, *(query.region or ()))
        return replace(answer, unit="groups" if declared is None else f"{declared.unit}s")

    def joint(self, queries: Sequence[ReleaseQuery], *, count: bool | None) -> JointAnswers:
        return joined(
            [self.answer(query, count=count) for query in queries],
            lambda answer: (answer.release, answer.period, answer.region),
            _alone,
        )


def _names_people(query: ReleaseQuery) -> bool:
    """Whether a query says of whom its share is, other than of everybody."""
    return query_words(query.query).among not in (None, EVERYBODY)


def _alone(answers: list[Answer]) -> JointAnswers:
    """A single answer with its variance. Raises UserError for several with common noise."""
    if len(answers) > 1:
        first, second = answers[:2]
        if first.query == second.query:
            raise UserError("difference: both answers are the same; name another period or region")
        raise UserError(
            f"query '{second.query}': shares its noise with '{first.query}'; ask one by one"
        )
    (answer,) = answers
    variance = np.nan if answer.standard_error is None else answer.standard_error**2
    return JointAnswers((answer,), np.array([[variance]]))


def _refuse_region(query: ReleaseQuery) -> None:
    if query.region is not None:
        raise UserError(f"region: goes with sizes; '{query.release}' is of none")


ANSWERING: Registry[Family, type[Answering]] = Registry(
    "answers",
    Family,
    {
        **dict.fromkeys(PANEL_FAMILIES, PanelAnswers),
        **dict.fromkeys(TABLE_FAMILIES, TableAnswers),
        Family.SIZES: SizesAnswers,
    },
)
