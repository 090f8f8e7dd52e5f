"""For analysts: releases, panels and estimates, computed from a public log alone.

Standard errors and intervals measure the privacy noise only, not the sampling of people.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from .errors import UserError
from .estimate.answer import Estimate, answer_query, panel_events, release_query
from .estimate.data_sets.answer import DataSetEstimate, answering
from .estimate.data_sets.every import every_data_set_estimate
from .estimate.data_sets.joint import AskedTables, joint_answers
from .estimate.data_sets.published import PublishedTables
from .estimate.estimator import StreamEstimator, StreamMeasurements
from .estimate.every import every_estimate
from .estimate.examples import example_queries
from .estimate.factor_cache import FactorCache
from .estimate.joint import Asked, Compared, JointEstimates
from .estimate.level import LEVEL
from .estimate.measurements import ReleaseMeasurements
from .estimate.query import TotalQuery
from .log.base import Damaged, Log, LogError, Missing, Unavailable
from .log.message import Message, read_messages
from .log.public import cache_folder, public_log
from .panel import Panel
from .panel_counts import PanelTally
from .published_answers import published_tables, stream_measurements, tables_by_period
from .release.data_sets import DataSet
from .release.growth import checked_growth, joined_panel
from .release.overview import release_rows
from .release.panels import read_panel
from .release.published import (
    AnyPublished,
    PublishedRelease,
    TableFilter,
    at_period,
    checked_release,
    declared_study,
    keep_all,
    refusal,
)
from .release.signatures import Signatures
from .release.sizes import PublishedSizes
from .release.statements import checked_certificates
from .study import CumulativeRelease
from .topics import RELEASES

__all__ = ["LEVEL", "DataSetEstimate", "Estimate", "PublicLog", "PublishedRelease", "open"]


def open(address: str) -> PublicLog:
    """Reads and checks the public log at `sqlite:FILE` or at `kafka://host:port,.../prefix`.

    A cluster's settings come from the file that STREAM_DP_KAFKA_SETTINGS names. Raises UserError,
    LogError (Missing where nothing is published there yet), Inconsistent.

    >>> import stream_dp
    >>> stream_dp.open("poverty-public.db")
    Traceback (most recent call last):
    ...
    stream_dp.errors.UserError: log 'poverty-public.db': write it as sqlite:FILE or kafka://host:port/prefix
    """
    with closing(public_log(address)) as log:
        return PublicLog(log, cache=cache_folder(address, Path()))


class PublicLog:
    """The contents of a public log, read and checked.

    Raises UserError, Inconsistent, Damaged, Unavailable.

    log: read by the constructor only, so it can be closed afterwards
    keep: which tables of which releases stay in memory once they are checked; all of them by
        default. A method that needs another table raises ValueError.
    cache: a folder for what takes long to compute, None for none (`estimate/kept.py`)
    count_panels: whether panels are counted while they are read, so that estimates need no panel
        in memory, and many of them take little time

    >>> import pyarrow, stream_dp
    >>> study = stream_dp.parse_study({
    ...     "study": {"name": "work", "unit": "person", "neighbours": "replace_one",
    ...               "rho": 1, "delta": "1/1000000", "population": {"size": 2},
    ...               "periods": {"first": "2026-01", "every": "month", "count": 2}},
    ...     "attributes": {"work": {"values": ["no", "yes"], "missing": "no"}},
    ...     "releases": [{"name": "now", "kind": "window", "attribute": "work", "width": 1,
    ...                   "rho": 1}],
    ... })
    >>> reports = pyarrow.table({"person": ["a", "b"], "period": ["2026-01"] * 2,
    ...                          "work": ["yes", "no"]})
    >>> public = stream_dp.run_study(study, reports, simulation_seed=1)
    >>> [release.certificate.period for release in public.releases]
    ['2026-01', '2026-02']
    >>> public.panel("now").table().column_names
    ['row', '2026-01', '2026-02']
    >>> public.estimates("now").column_names
    ['period', 'query', 'value', 'standard_error']
    >>> public.release_table().select(["release", "period", "rows", "rho_spent"]).to_pylist()[-1]
    {'release': 'now', 'period': '2026-02', 'rows': 2, 'rho_spent': 1.0}
    """

    def __init__(
        self,
        log: Log,
        keep: TableFilter = keep_all,
        *,
        cache: Path | None = None,
        count_panels: bool = False,
    ) -> None:
        self._cache = cache
        self._tallies: dict[str, PanelTally] = {}
        self.published: list[AnyPublished] = []
        self.messages: list[Message] = []
        self.signatures = Signatures()
        try:
            for message in read_messages(log, RELEASES, "public log"):
                if not self.messages:
                    self.study = declared_study(message)
                if self.signatures.check(message) or not self.messages:
                    self.messages.append(message)
                    continue
                release = checked_release(self.study, message, keep)
                self.published.append(release)
                self.messages.append(release.message)
                if count_panels and isinstance(release, PublishedRelease):
                    self._count(release, message)
        except Missing:
            raise
        except (Damaged, Unavailable) as error:
            raise type(error)(f"public log: {error}") from None
        except LogError as error:
            raise UserError(f"public log: {error}") from None
        if not self.messages:
            raise UserError("public log: nothing is published yet; 'stream-dp run' begins it")
        self._panels: dict[str, Panel] = {}
        self._streams: dict[str, StreamMeasurements] = {}
        self._data_sets: dict[tuple[str, str], PublishedTables] = {}

    def _count(self, release: PublishedRelease, message: Message) -> None:
        """Counts the new columns of a panel. Raises Inconsistent where they are of another one."""
        certificate = release.certificate
        declared = self.study.release(certificate.release)
        width = 1 if isinstance(declared, CumulativeRelease) else declared.width
        tally = self._tallies.get(declared.name)
        if tally is None:
            tally = PanelTally(certificate.values, width, panel_events(self.study, declared))
            self._tallies[declared.name] = tally
        columns = read_panel(message.parts).columns
        for label, column in zip(certificate.columns, columns, strict=True):
            try:
                tally.add(label, certificate.values, column.to_numpy())
            except ValueError as error:
                where = f"{certificate.release} at {certificate.period}"
                raise refusal(message, f"{where}: {error}") from None

    @property
    def head(self) -> str:
        """The hash of the last message. Kept elsewhere, it shows later that a log was restored."""
        return self.messages[-1].hash

    @cached_property
    def releases(self) -> list[PublishedRelease]:
        """The releases of panels. `data_set` gives those of groups; `release_table` lists both."""
        return [r for r in self.published if isinstance(r, PublishedRelease)]

    def release_table(self) -> pa.Table:
        """A row for each release of panels or groups, in the order of publication.

        release, kind, period, mechanism: from its certificate
        number: of the period, from 1
        time: the scheduled time, in UTC; null if periods are steps without dates
        rows: of the panel, or the number of people of a data set; null for sizes
        groups: of a data set or of sizes; null for a panel
        rho, rho_spent: its cost, and the cost of all releases up to this one
        epsilon_spent: epsilon of rho_spent at the study's delta
        hash: of its message

        Costs are rounded to floats; certificates state them exactly.
        """
        return release_rows(self.study, self.published)

    def data_set(self, name: str, period: str | None = None) -> DataSet:
        """The data set of a batch release at a period, or the last one. Raises UserError."""
        every = [r for r in self.published if isinstance(r, DataSet)]
        return at_period(self.study, every, name, period)

    def sizes(self, name: str, period: str | None = None) -> PublishedSizes:
        """The sizes of a release at a period, or the last ones. Raises UserError."""
        every = [r for r in self.published if isinstance(r, PublishedSizes)]
        return at_period(self.study, every, name, period)

    def releases_of(self, name: str) -> list[PublishedRelease]:
        """The releases of that name so far. Raises UserError where there are none."""
        self.study.release(name)
        releases = [r for r in self.releases if r.certificate.release == name]
        if not releases:
            raise UserError(f"release '{name}': nothing is published of it yet")
        return releases

    def release_at(self, name: str, period: str | None) -> PublishedRelease:
        """The release of that name at a period, or the last one where `period` is None.

        Raises UserError where there is none.
        """
        releases = self.releases_of(name)
        if period is None:
            return releases[-1]
        for release in releases:
            if release.certificate.period == period:
                return release
        first, last = releases[0].certificate.period, releases[-1].certificate.period
        raise UserError(f"release '{name}': none at period '{period}'; it has {first} to {last}")

    def estimates(self, name: str) -> pa.Table:
        """The unbiased answers that every release of that name was published with.

        Columns period, query, value, standard_error; later ones make `estimate` more certain.
        """
        of_each = [(r.certificate.period, r.estimates) for r in self.releases_of(name)]
        return tables_by_period(of_each)

    def all_estimates(self, name: str | None = None) -> pa.Table:
        """All answers (`estimate/every.py`) of one release, or of all panels and data sets.

        Columns release, period, stratum, query, measure, value, standard_error, low, high, head.
        """
        releases = [r for r in self.published if not isinstance(r, PublishedSizes)]
        of_each = {r.certificate.release: r for r in releases}
        if name is not None and name not in of_each:
            self.releases_of(name)
        tables = []
        for each in of_each if name is None else [name]:
            if isinstance(of_each[each], PublishedRelease):
                tables.append(every_estimate(*self._measured(each), self.head))
                continue
            for period in [r.certificate.period for r in releases if r.certificate.release == each]:
                tables.append(
                    every_data_set_estimate(self.published_tables(each, period), self.head)
                )
        return pa.concat_tables(tables)

    def measurements(self, name: str, until: str | None = None) -> pa.Table:
        """The noisy answers that the releases of that name, up to a period, were published with.

        A column `period`, and those of `PublishedRelease.measurements`: query, value, variance,
        standard_error. Raises UserError where there are none.
        """
        last = self.release_at(name, until).certificate.number
        releases = [r for r in self.releases_of(name) if r.certificate.number <= last]
        return tables_by_period([(r.certificate.period, r.measurements) for r in releases])

    def panel(self, name: str, period: str | None = None) -> Panel:
        """The synthetic panel up to a period, or up to the last one; `table()` is in Arrow."""
        return self._panel(name, self.release_at(name, period).certificate.period)

    def _panel(self, name: str, last: str) -> Panel:
        """The panel of a release up to `last`, a period of one of its columns.

        The first call reads the columns up to `last`; a later call for more reads all of them.
        """
        known = self._panels.get(name)
        if known is None or last not in known.periods:
            self._panels[name] = self._joined(name, last if known is None else None)
        return self._panels[name].until(last)

    def _joined(self, name: str, last: str | None) -> Panel:
        """The columns of all releases side by side, or of those up to the period `last`."""
        releases = self._grown(name)
        if last is not None:
            end = next(i for i, r in enumerate(releases) if last in r.certificate.columns)
            releases = releases[: end + 1]
        return joined_panel(releases)

    def _grown(self, name: str) -> list[PublishedRelease]:
        """The releases of that name. Raises Inconsistent unless the panel only grows."""
        return checked_growth(self.study, self.releases_of(name))

    def verify(self) -> list[str]:
        """Check budgets and panels against the study; a line for each property that holds.

        Hashes and contents were checked on reading. Raises Inconsistent.
        """
        if self.messages[0].head.get("study_hash") != self.study.hash:
            raise refusal(self.messages[0], "the study's declaration does not have its hash")
        spent = checked_certificates(self.study, self.published)
        lines = [
            f"chain: {len(self.messages)} messages, every hash and part as its manifest says",
            self.signatures.line(),
            f"budget: {spent} of {self.study.rho} spent, as the certificates say",
        ]
        for name in dict.fromkeys(r.certificate.release for r in self.releases):
            grown = len(self._grown(name))
            lines.append(f"{name}: {grown} releases, every panel a prefix of the next")
        others = [r for r in self.published if not isinstance(r, PublishedRelease)]
        sets = Counter(r.certificate.release for r in others)
        lines += [f"{n}: {c} data sets, each as its certificate says" for n, c in sets.items()]
        return lines

    def estimate(
        self, name: str, query: str, period: str | None = None, *, count: bool = False
    ) -> Estimate:
        """The answer to a query in words (query.py) at a period, as a share or a count.

        Uses everything that is published so far of the release's stream, later periods included,
        so that an answer becomes more certain as the study goes on. All analysts who read the same
        log get the same answer. Raises UserError.
        """
        declared = self.study.release(name)
        asked = release_query(self.study, declared, query)
        asked_period = self._queried_period(name, period, early=isinstance(asked, TotalQuery))
        stream, release = self._measured(name)
        number = self.study.periods.numbers[asked_period]
        tally = self._tallies.get(name)
        panel = self._panel(name, asked_period) if tally is None else tally.at[asked_period]
        return answer_query(stream, release, asked, number=number, panel=panel, count=count)

    def data_set_estimate(
        self, name: str, query: str, period: str | None = None, *, count: bool = False
    ) -> DataSetEstimate:
        """The answer of a data set to a query in words (`estimate/data_sets`), by default the last.

        Its standard error is None where no published measurement says it. Raises UserError.
        """
        published = self.published_tables(name, period)
        return answering(published).answer(published, query, count=count)

    def published_tables(self, name: str, period: str | None = None) -> PublishedTables:
        """A data set as its answers need it, by default the last one. Raises UserError."""
        data_set = self.data_set(name, period)
        key = name, data_set.certificate.period
        if key not in self._data_sets:
            self._data_sets[key] = published_tables(self.study, data_set)
        return self._data_sets[key]

    def change(
        self, name: str, query: str, periods: tuple[str, str], *, count: bool = False
    ) -> Compared:
        """The answer at the first period less that at the second, as `joint` compares them."""
        asked = [(name, query, period) for period in periods]
        return self.joint(asked, count=count).difference(0, 1)

    def joint(
        self, questions: Sequence[tuple[str, str, str | None]], *, count: bool = False
    ) -> JointEstimates:
        """The answers to (release, query, period) each, with the covariance of all of them.

        Releases and periods may differ; a period None is the last. Raises UserError.
        """
        if not questions:
            raise UserError("joint: ask for one answer at least")
        return joint_answers([self._asked(*question) for question in questions], count=count)

    def _asked(self, name: str, query: str, period: str | None) -> Asked | AskedTables:
        if self.study.batch(name) is not None:
            return AskedTables(self.published_tables(name, period), query)
        parsed = release_query(self.study, self.study.release(name), query)
        label = self._queried_period(name, period, early=isinstance(parsed, TotalQuery))
        best = StreamEstimator(*self._measured(name))
        return best, parsed, self.study.periods.numbers[label]

    def _queried_period(self, name: str, period: str | None, *, early: bool) -> str:
        """The period of a query, by default the last release's. Raises UserError.

        early: any period of which the panel has a column, although it has no release
        """
        if early and period is not None:
            for release in self.releases_of(name):
                if period in release.certificate.columns:
                    return period
        return self.release_at(name, period).certificate.period

    def _measured(self, name: str) -> tuple[StreamMeasurements, ReleaseMeasurements]:
        """What is published of a release, and of its stream."""
        stream = self._stream(self.study.release(name).stream)
        return stream, next(r for r in stream.releases if r.declared.name == name)

    def _stream(self, stream: str) -> StreamMeasurements:
        """All measurements of a stream that are published; computed once."""
        if stream not in self._streams:
            published = {r.certificate.release for r in self.releases}
            names = [r.name for r in self.study.releases if r.stream == stream]
            grown = (r for name in names if name in published for r in self._grown(name))
            cache = None if self._cache is None else FactorCache(self._cache, stream, self.head)
            self._streams[stream] = stream_measurements(self.study, stream, grown, cache)
        return self._streams[stream]

    def queries(self, name: str) -> list[str]:
        """Examples of queries of a release; of a data set only once one is published."""
        if self.study.batch(name) is not None:
            published = self.published_tables(name)
            return answering(published).examples(published)
        return example_queries(self.study, self.study.release(name))
