"""For analysts: releases, panels and estimates, computed from a public log alone.

Standard errors and intervals measure the privacy noise only, not the sampling of people.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TypeVar, cast

import pyarrow as pa

from stream_dp.answers.answering import ANSWERING, Answering, published_tables, tables_by_period
from stream_dp.answers.joint_answers import JointAnswers
from stream_dp.answers.panel_answer import panel_events
from stream_dp.answers.tables.regression import Regression
from stream_dp.answers.tables.table_facts import PublishedTables
from stream_dp.answers.weighted import answered_by_cells, is_weighted
from stream_dp.errors import NotThere, UserError
from stream_dp.log import cache_folder, public_log
from stream_dp.log.log import Damaged, Log, LogError, Missing, Unavailable
from stream_dp.log.message import Message, read_messages
from stream_dp.notebook_html import html_rows
from stream_dp.panel import Panel, PanelCounts, PanelTally
from stream_dp.release import published_panels
from stream_dp.release.answer import LEVEL, Answer, Region, ReleaseQuery
from stream_dp.release.public_reader import (
    AnyPublished,
    PublishedRelease,
    TableFilter,
    at_period,
    checked_growth,
    checked_release,
    declared_study,
    joined_panel,
    keep_all,
    nothing_published,
)
from stream_dp.release.published_sizes import PublishedSizes
from stream_dp.release.published_tables import DataSet
from stream_dp.release.signatures import Signatures, require_head
from stream_dp.release.verified_log import verified_lines
from stream_dp.study import Study
from stream_dp.study.period_texts import period_label
from stream_dp.study.topics import RELEASES

P = TypeVar("P", bound=AnyPublished)

__all__ = ["LEVEL", "Answer", "PublicLog", "PublishedRelease", "open"]


def open(address: str, *, key: str | None = None, head: str | None = None) -> PublicLog:
    """Reads and checks the public log at `sqlite:FILE` or at `kafka://host:port,.../prefix`.

    key, head: see `PublicLog.require`.
    A cluster's settings come from the file that STREAM_DP_KAFKA_SETTINGS names. Raises UserError,
    LogError (Missing where nothing is published there yet), Inconsistent.

    >>> import stream_dp
    >>> stream_dp.open("poverty-public.db")
    Traceback (most recent call last):
    ...
    stream_dp.errors.UserError: log 'poverty-public.db': write it as sqlite:FILE or kafka://host:port/prefix
    """
    with closing(public_log(address)) as log:
        public = PublicLog(log, cache=cache_folder(address, Path()))
    public.require(key=key, head=head)
    return public


class PublicLog:
    """The contents of a public log, read and checked.

    Raises UserError, Inconsistent, Damaged, Unavailable.

    `published` has all releases in their order, and `signatures` what is signed. `messages` has the
    messages of the log that they were read from.
    `weights` has the last weights of each panel's answers (`release/published_panels.py`).
    `reading` says how `run_study` or `window` read the columns of their table, a line each, and is
    empty for every other log.

    log: read by the constructor and by `extend` only, so it can be closed afterwards
    keep: which tables of which releases stay in memory once they are checked; all of them by
        default. A method that needs another table raises ValueError.
    cache: a folder for what takes long to compute, None for none (`answers/linear_system.py`)
    count_panels: whether panels are counted while they are read, so that estimates need no panel
        in memory, and many of them take little time
    until: the hash of the last message to read; None for all

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
        until: str | None = None,
    ) -> None:
        self.cache = cache
        self.reading: tuple[str, ...] = ()
        self._tallies: dict[str, PanelTally] = {}
        self.published: list[AnyPublished] = []
        self._of_panel: dict[str, list[PublishedRelease]] = {}
        self.weights: dict[str, published_panels.PublishedWeights] = {}
        self.messages: list[Message] = []
        self.signatures = Signatures()
        self._keep, self._count_panels = keep, count_panels
        self.extend(log, until)
        if not self.messages:
            raise UserError("public log: nothing is published yet; 'stream-dp run' begins it")

    def extend(self, log: Log, until: str | None = None) -> None:
        """Reads the messages that were published since.

        log, until: as of the constructor. What was read before is not read again.
        """
        self._panels: dict[str, Panel] = {}
        self._families: dict[type[Answering], Answering] = {}
        last = self.messages[-1] if self.messages else None
        if last is not None and last.hash == until:
            return
        try:
            for message in read_messages(log, RELEASES, "public log", after=last):
                self._add(message)
                if message.hash == until:
                    break
        except Missing:
            raise
        except (Damaged, Unavailable) as error:
            raise type(error)(f"public log: {error}") from None
        except LogError as error:
            raise UserError(f"public log: {error}") from None

    def _add(self, message: Message) -> None:
        """Checks the next message, and keeps what it has. Raises UserError, Inconsistent."""
        if not self.messages:
            self.study = declared_study(message)
        if self.signatures.check(message) or not self.messages:
            self.messages.append(message)
        elif message.head.get("type") == published_panels.WEIGHTS_TYPE:
            weights = published_panels.checked_weights(self.study, message)
            self.weights[weights.head.release] = weights
            self.messages.append(replace(message, head={}, parts=(), manifest=b""))
        else:
            release = checked_release(self.study, message, self._keep)
            self.published.append(release)
            self.messages.append(release.message)
            if isinstance(release, PublishedRelease):
                self._of_panel.setdefault(release.certificate.release, []).append(release)
            if self._count_panels and release.new_columns:
                self._count(cast(PublishedRelease, release), message)

    def _count(self, release: PublishedRelease, message: Message) -> None:
        """Counts the new columns of a panel. Raises Inconsistent for columns of another panel."""
        certificate = release.certificate
        declared = self.study.release(certificate.release)
        new = PanelTally(certificate.values, declared.history, panel_events(self.study, declared))
        tally = self._tallies.setdefault(declared.name, new)
        columns = published_panels.read_panel(message.parts).columns
        for label, column in zip(certificate.columns, columns, strict=True):
            try:
                tally.add(label, certificate.values, column.to_numpy())
            except ValueError as error:
                raise release.refusal(str(error)) from None

    def __repr__(self) -> str:
        return (
            f"<PublicLog of study '{self.study.name}': {len(self.published)} releases of"
            f" {', '.join(dict.fromkeys(r.certificate.release for r in self.published)) or 'none'}>"
        )

    @property
    def head(self) -> str:
        """The hash of the last message. A copy outside reveals a restored log later."""
        return self.messages[-1].hash

    def require(self, *, key: str | None = None, head: str | None = None) -> None:
        """Raises Inconsistent unless the log is the one that was pinned.

        key: the public key that message 0 names, `ed25519:...`; UserError for what is none
        head: the hash of a message, the last one when it was kept; None for any
        """
        if key is not None:
            self.signatures.require(key)
        if head is not None:
            require_head(head, {message.hash for message in self.messages})

    @property
    def releases(self) -> list[PublishedRelease]:
        """The releases of panels. `data_set` gives data sets; `release_table` lists both."""
        return self._of_type(PublishedRelease)

    def _of_type(self, published: type[P]) -> list[P]:
        """The publications of a type, in the order of publication."""
        return [release for release in self.published if isinstance(release, published)]

    def release_table(self) -> pa.Table:
        """The releases of panels and groups as rows, in the order of publication.

        release, kind, period, mechanism: from its certificate
        number: of the period, from 1
        time: the scheduled time, in UTC; null if periods are steps without dates
        rows: of the panel, or the number of people of a data set; null for sizes
        groups: of a data set or of sizes; null for a panel
        rho: its cost. rho_spent, epsilon_spent: of all releases up to this one
        hash: of its message

        Costs are rounded to floats; certificates state them exactly.
        """
        return release_rows(self.study, self.published)

    def _repr_html_(self) -> str:
        names = ["release", "kind", "period", "rows", "rho", "rho_spent", "epsilon_spent"]
        newest = release_rows(self.study, self.published[-_SHOWN:]).select(names).to_pylist()
        title = f"Study {self.study.name}: {len(self.published):,} releases, the newest last"
        return html_rows(title, names, [tuple(row.values()) for row in newest])

    def data_set(self, name: str, period: str | None = None) -> DataSet:
        """The data set of a batch release at a period, or the latest. Raises UserError."""
        return at_period(self.study, self._of_type(DataSet), name, period)

    def sizes(self, name: str, period: str | None = None) -> PublishedSizes:
        """The sizes of a release at a period, or the latest. Raises UserError."""
        return at_period(self.study, self._of_type(PublishedSizes), name, period)

    def releases_of(self, name: str) -> list[PublishedRelease]:
        """The releases of a panel so far. Raises UserError without any."""
        self.study.release(name)
        if name not in self._of_panel:
            raise nothing_published(self.study, name)
        return [*self._of_panel[name]]

    def release_at(self, name: str, period: str | None) -> PublishedRelease:
        """The release of a panel at a period, or the latest if `period` is None.

        Raises UserError without any.
        """
        releases = self.releases_of(name)
        if period is None:
            return releases[-1]
        period = period_label(self.study.periods, period)
        for release in releases:
            if release.certificate.period == period:
                return release
        first, last = releases[0].certificate.period, releases[-1].certificate.period
        raise NotThere(f"release '{name}': none at period '{period}'; it has {first} to {last}")

    def estimates(self, name: str) -> pa.Table:
        """The unbiased answers in the releases of a panel: period, query, value, standard_error."""
        releases = self.releases_of(name)
        return tables_by_period([(r.certificate.period, r.estimates) for r in releases])

    def answer_table(self, name: str | None = None) -> pa.Table:
        """All answers (`answers/tidy_rows.py`) of a release, or of all panels and data sets.

        Columns release, period, stratum, query, measure, people, value, standard_error, low, high,
        head; and beside default answers unbiased, unbiased_error, unbiased_low, unbiased_high.
        """
        published = dict.fromkeys(r.certificate.release for r in self.published)
        names = list(published) if name is None else [name]
        tables = [self._answering(release).table(release) for release in names]
        answers = [table for table in tables if table is not None]
        if not answers:
            raise UserError("answers: sizes have no table of all answers; ask 'estimate'")
        return pa.concat_tables(answers)

    def measurements(self, name: str, until: str | None = None) -> pa.Table:
        """The noisy answers in the releases of a panel up to a period.

        A column `period`, and those of `PublishedRelease.measurements`: query, value, variance,
        standard_error. Raises UserError without any.
        """
        last = self.release_at(name, until).certificate.number
        releases = [r for r in self.releases_of(name) if r.certificate.number <= last]
        return tables_by_period([(r.certificate.period, r.measurements) for r in releases])

    def panel(self, name: str, period: str | None = None) -> Panel:
        """The synthetic panel up to a period, or up to the latest; `table()` is in Arrow."""
        return self._panel(name, self.release_at(name, period).certificate.period)

    def counted_panel(self, name: str, period: str) -> Panel | PanelCounts:
        """The panel up to the period of a column, or the counts if panels are counted."""
        tally = self._tallies.get(name)
        return self._panel(name, period) if tally is None else tally.at[period]

    def _panel(self, name: str, last: str) -> Panel:
        """The panel of a release up to `last`, the period of a column.

        The first call reads the columns up to `last`; a later call for more reads all columns.
        """
        panel = self._panels.get(name)
        if panel is None or last not in panel.periods:
            self._panels[name] = self._joined(name, last if panel is None else None)
        return self._panels[name].until(last)

    def _joined(self, name: str, last: str | None) -> Panel:
        """The columns of all releases side by side, or of the releases up to the period `last`."""
        releases = self.grown_releases(name)
        if last is not None:
            end = next(i for i, r in enumerate(releases) if last in r.certificate.columns)
            releases = releases[: end + 1]
        return joined_panel(releases)

    def grown_releases(self, name: str) -> list[PublishedRelease]:
        """The releases of a panel. Raises Inconsistent unless the panel only grows."""
        return checked_growth(self.study, self.releases_of(name))

    def verify(self) -> list[str]:
        """Checks budgets and panels against the study; returns the valid properties in lines.

        Hashes and contents were checked on reading. Raises Inconsistent.
        """
        names = dict.fromkeys(r.certificate.release for r in self.releases)
        growths = ((name, len(self.grown_releases(name))) for name in names)
        return verified_lines(self.study, self.messages, self.published, self.signatures, growths)

    def answer(
        self,
        name: str,
        query: str,
        period: str | None = None,
        *,
        count: bool | None = None,
        region: Region | None = None,
        unbiased: bool = False,
    ) -> Answer:
        """The answer to a query in words, with its error and interval.

        name: of a release; `queries` has examples of what it can be asked
        period: the last one by default
        count: whether as a number of people or groups, not as a share of them; sizes of places are
            asked without it
        region: of sizes of places, a path from the top; all regions together by default
        unbiased: whether the answer is unbiased, and not the default one of a panel or a table

        An answer about a panel uses everything that is published so far of the same people, later
        periods included, so it becomes more certain as the study goes on. All analysts who read the
        same log get the same answer. Raises UserError.
        """
        asked = ReleaseQuery(name, query, period, region)
        if is_weighted(asked):
            return self.answers([asked], count=count).answers[0]
        answer = self._answering(name).answer(asked, count=count)
        return answer.alone() if unbiased else answer

    def answers(
        self,
        queries: Iterable[ReleaseQuery | tuple[str, str, str | None]],
        *,
        count: bool | None = None,
    ) -> JointAnswers:
        """The unbiased answers to several queries, with the covariance of all of them.

        They are not the default answers that `answer` gives about panels and tables. Part of the
        error of those is a bias of unknown sign, so no covariance is right for all their sums and
        differences. `answer` gives each query with less error, and `change` the difference of two.

        queries: release, query and period of each, and of sizes the region; a period None is the
            last. They may be of any releases.

        Raises UserError.
        """
        if not (joint_queries := [ReleaseQuery(*query) for query in queries]):
            raise UserError("answers: ask for one answer at least")
        return answered_by_cells(self.study, joint_queries, self._answering, count=count)

    def change(
        self,
        query: ReleaseQuery,
        since: ReleaseQuery,
        *,
        count: bool | None = None,
        unbiased: bool = False,
    ) -> Answer:
        """The answer to a query less the answer to another, with the error of both together.

        unbiased: as of `answer`
        Of tables of people that are fused, `fused` is the change by the months' joint posterior.
        Raises UserError.
        """
        if query.release != since.release or is_weighted(query) or is_weighted(since):
            return self.answers([query, since], count=count).difference(0, 1)
        change = self._answering(query.release).change(query, since, count=count)
        return change.alone() if unbiased else change

    def regress(
        self,
        name: str,
        formula: str,
        period: str | None = None,
        *,
        logistic: bool = False,
        sampling: bool = False,
    ) -> Regression:
        """A regression about the people of a table, from its noisy measurements.

        name: of the release
        formula: the model in words, such as `income ~ age + sex`
        period: the last one by default
        logistic: whether the model is logistic, not linear
        sampling: whether people are a simple random sample. A declared design counts in any case

        Raises UserError if the measurements do not determine the model.
        """
        return self._answering(name).regress(
            name, formula, period, logistic=logistic, sampling=sampling
        )

    def queries(self, name: str) -> list[str]:
        """Examples of queries to a release; to a data set only after the first publication."""
        return self._answering(name).queries(name)

    def regions(self, name: str) -> list[Region]:
        """A region of every level of published sizes; an empty list for other releases."""
        return self._answering(name).regions(name)

    def periods_of(self, name: str) -> list[str]:
        """The periods of the publications of a release, in order."""
        return [r.certificate.period for r in self.published if r.certificate.release == name]

    def periods_with(self, name: str, query: str | None = None) -> list[str]:
        """The periods at which a query, or any, to a release has an answer so far, in order.

        The first window of a panel answers for the periods before its own, too. Raises UserError.
        """
        return self._answering(name).periods(name, query)

    def published_tables(self, name: str, period: str | None = None) -> PublishedTables:
        """The tables of a data set for answers, by default the latest. Raises UserError."""
        return published_tables(self.study, self.data_set(name, period))

    def _answering(self, name: str) -> Answering:
        """The answering part of a release's family. Raises UserError for an unknown release."""
        declared = self.study.declared(name) or self.study.release(name)
        family = ANSWERING[declared.family]
        if family not in self._families:
            self._families[family] = family(self)
        return self._families[family]


_SHOWN = 10  # releases in a notebook
_COLUMNS = pa.schema(
    dict.fromkeys(("release", "kind", "period"), pa.string())
    | {"number": pa.int64(), "time": pa.timestamp("ms", "UTC")}
    | dict.fromkeys(("rows", "groups"), pa.int64())
    | dict.fromkeys(("rho", "rho_spent", "epsilon_spent"), pa.float64())
    | dict.fromkeys(("mechanism", "hash"), pa.string())
)


def release_rows(study: Study, published: Iterable[AnyPublished]) -> pa.Table:
    """A row per release, in order; `PublicLog.release_table` explains the columns."""
    rows = []
    for release in published:
        certificate = release.certificate
        time = study.periods.release_time(certificate.number)
        people, groups = certificate.synthetic_rows
        rows.append(
            {
                "release": certificate.release,
                "kind": certificate.kind,
                "period": certificate.period,
                "number": certificate.number,
                "time": None if time is None else round(time * 1000),
                "rows": people,
                "groups": groups,
                "rho": float(certificate.rho),
                "rho_spent": float(certificate.rho_spent),
                "epsilon_spent": float(certificate.epsilon_spent),
                "mechanism": certificate.mechanism,
                "hash": release.message.hash,
            }
        )
    return pa.Table.from_pylist(rows, _COLUMNS)
