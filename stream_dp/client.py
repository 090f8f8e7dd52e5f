"""For analysts: releases, panels and estimates, from a public log and nothing else.

Standard errors and intervals cover the privacy noise only, not the sampling of people.
"""

from __future__ import annotations

import shlex
from collections import Counter
from contextlib import closing
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from .errors import UserError
from .estimate.answer import LEVEL, Estimate, answer_query, release_query
from .estimate.estimator import StreamMeasurements
from .estimate.measurements import PeriodMeasurements as Measurements
from .estimate.measurements import releases_of_stream
from .estimate.query import TotalQuery
from .log import open_log
from .log.base import Damaged, Log, LogError, Missing, Unavailable
from .log.message import Message, read_messages
from .log.settings import settings_from_environment
from .panel import Panel
from .privacy.ledger import BudgetExceeded, Charge, Ledger
from .release.data_sets import DataSet
from .release.panels import TOPIC, read_panel
from .release.published import (
    PublishedRelease,
    TableFilter,
    checked_release,
    declared_study,
    keep_all,
    refusal,
)
from .study import CumulativeRelease, WindowRelease
from .study.alphabet import ABSENT

__all__ = ["LEVEL", "Estimate", "PublicLog", "PublishedRelease", "open"]


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
    settings, insecure = settings_from_environment(Path())
    with closing(
        open_log(address, Path(), public=True, readonly=True, kafka=settings, insecure=insecure)
    ) as log:
        return PublicLog(log)


class PublicLog:
    """What a public log holds, checked as it was read.

    Raises UserError, Inconsistent, Damaged, Unavailable.

    log: only read here, so that it can be closed afterwards.
    keep: which tables of which releases stay in memory once they are checked; all of them by
        default. An answer that needs another one raises ValueError.

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
    """

    def __init__(self, log: Log, keep: TableFilter = keep_all) -> None:
        self.published: list[PublishedRelease | DataSet] = []
        first: Message | None = None
        try:
            for message in read_messages(log, TOPIC, "public log"):
                if first is None:
                    first, self.study = message, declared_study(message)
                else:
                    self.published.append(checked_release(self.study, message, keep))
        except Missing:
            raise
        except (Damaged, Unavailable) as error:
            raise type(error)(f"public log: {error}") from None
        except LogError as error:
            raise UserError(f"public log: {error}") from None
        if first is None:
            raise UserError("public log: nothing is published yet; 'stream-dp run' begins it")
        self.messages = [first, *(one.message for one in self.published)]
        self._panels: dict[str, Panel] = {}
        self._streams: dict[str, StreamMeasurements] = {}

    @property
    def head(self) -> str:
        """The hash of the last message: keep it elsewhere to notice a restored log later."""
        return self.messages[-1].hash

    @cached_property
    def releases(self) -> list[PublishedRelease]:
        """Those of panels."""
        return [r for r in self.published if isinstance(r, PublishedRelease)]

    def data_set(self, name: str, period: str | None = None) -> DataSet:
        """The data set of a batch release at a period, or the last one. Raises UserError."""
        every = [r for r in self.published if isinstance(r, DataSet)]
        found = {d.certificate.period: d for d in every if d.certificate.release == name}
        if not found:
            raise UserError(f"release '{name}': nothing is published of it yet")
        if period is not None and period not in found:
            there = ", ".join(found)
            raise UserError(f"release '{name}': none at period '{period}'; it has {there}")
        # A result may be late: the last is that of the latest period.
        numbers = self.study.periods.numbers
        return found[period or max(found, key=lambda label: numbers[label])]

    def of(self, name: str) -> list[PublishedRelease]:
        """The releases of that name so far. Raises UserError where there are none."""
        self.study.release(name)
        found = [r for r in self.releases if r.certificate.release == name]
        if not found:
            raise UserError(f"release '{name}': nothing is published of it yet")
        return found

    def at(self, name: str, period: str | None) -> PublishedRelease:
        """The release at a period, or the last one."""
        found = self.of(name)
        if period is None:
            return found[-1]
        for release in found:
            if release.certificate.period == period:
                return release
        first, last = found[0].certificate.period, found[-1].certificate.period
        raise UserError(f"release '{name}': none at period '{period}'; it has {first} to {last}")

    def estimates(self, name: str) -> pa.Table:
        """The unbiased answers that every release of that name was published with.

        A column `period`, and those of `PublishedRelease.estimates`: query, value,
        standard_error. Later measurements make `estimate` more certain. Raises UserError where
        there are none.
        """
        return _by_period([(r.certificate.period, r.estimates) for r in self.of(name)])

    def measurements(self, name: str) -> pa.Table:
        """The noisy answers that every release of that name was published with.

        A column `period`, and those of `PublishedRelease.measurements`: query, value, variance,
        standard_error. Raises UserError where there are none.
        """
        return _by_period([(r.certificate.period, r.measurements) for r in self.of(name)])

    def panel(self, name: str, period: str | None = None) -> Panel:
        """The synthetic panel up to a period, or up to the last one; `table()` is in Arrow."""
        return self._panel(name, self.at(name, period).certificate.period)

    def _panel(self, name: str, last: str) -> Panel:
        """The panel up to a period that it has a column of, and no further where it is the first
        that is asked for."""
        known = self._panels.get(name)
        if known is None or last not in known.periods:
            self._panels[name] = self._joined(name, last if known is None else None)
        return self._panels[name].until(last)

    def _joined(self, name: str, last: str | None) -> Panel:
        """The columns of all releases side by side, or of those up to a period's."""
        releases = self._grown(name)
        if last is not None:
            end = next(i for i, r in enumerate(releases) if last in r.certificate.columns)
            releases = releases[: end + 1]
        periods = [label for r in releases for label in r.certificate.columns]
        held = releases[-1].certificate
        # Column by column, as they are read and written.
        symbols = np.empty((held.rows, len(periods)), np.uint8, order="F")
        columns = (column for r in releases for column in read_panel(r.message.parts).columns)
        for i, column in enumerate(columns):
            start = 0
            for chunk in column.chunks:
                symbols[start : start + len(chunk), i] = chunk
                start += len(chunk)
        return Panel(symbols, tuple(periods), held.values)

    def _grown(self, name: str) -> list[PublishedRelease]:
        """The releases of that name. Raises Inconsistent unless every one adds columns of its
        next periods, and nothing else, to the rows of the one before."""
        releases = self.of(name)
        first, _ = self.study.span(self.study.release(name))
        end = first - 1
        for one in releases:
            held = one.certificate
            start, end = end, end + len(held.columns)
            where = f"{name} at {held.period}"
            labels = self.study.periods.labels
            if held.rows != releases[0].certificate.rows:
                raise refusal(one.message, f"{where}: not the rows of the panel before it")
            if set(labels[first - 1 : start]) & set(held.columns):
                raise refusal(
                    one.message, f"{where}: a period of the panel cannot be released again"
                )
            if (held.columns, held.number) != (labels[start:end], end):
                raise refusal(one.message, f"{where}: not the columns of its periods")
        return releases

    def verify(self) -> list[str]:
        """What holds, one line each: hashes and contents were checked on reading.

        Raises Inconsistent.
        """
        study = self.study
        ledger = Ledger(study.rho, study.strata)
        if self.messages[0].head.get("study_hash") != study.hash:
            raise refusal(self.messages[0], "the study's declaration does not have its hash")
        for one in self.published:
            held = one.certificate
            where = f"{held.release} at {held.period}"
            try:
                ledger = ledger.charge(Charge(held.release, held.number, held.rho))
            except (BudgetExceeded, ValueError):
                raise refusal(one.message, f"{where}: over the budget") from None
            if held.study_hash != study.hash:
                raise refusal(one.message, f"{where}: of another study")
            if ledger.spent != held.rho_spent:
                raise refusal(one.message, f"{where}: its budget does not add up")
        lines = [
            f"chain: {len(self.messages)} messages, every hash and part as its manifest says",
            f"budget: {ledger.spent} of {study.rho} spent, as the certificates say",
        ]
        for name in dict.fromkeys(r.certificate.release for r in self.releases):
            count = len(self._grown(name))
            lines.append(f"{name}: {count} releases, every panel a prefix of the next")
        sets = Counter(
            one.certificate.release for one in self.published if isinstance(one, DataSet)
        )
        for name, count in sets.items():
            lines.append(f"{name}: {count} data sets, each as its certificate says")
        return lines

    def estimate(
        self, name: str, query: str, period: str | None = None, *, count: bool = False
    ) -> Estimate:
        """The answer to a query in words (query.py) at a period, as a share or a count.

        From everything that is published so far of the release's stream, later periods included:
        they say something about earlier answers too, so an answer becomes more certain as the
        study goes on. At every moment it is the same for everybody.
        """
        declared = self.study.release(name)
        asked = release_query(self.study, declared, query)
        held = self._asked(name, period, early=isinstance(asked, TotalQuery))
        stream = self._stream(declared.stream)
        (release,) = (r for r in stream.releases if r.declared is declared)
        number = self.study.periods.numbers[held]
        panel = self._panel(name, held)
        return answer_query(stream, release, asked, number, panel, count=count)

    def _asked(self, name: str, period: str | None, *, early: bool) -> str:
        """The period that is meant; early: of all those that the panel has a column of."""
        if early and period is not None:
            for release in self.of(name):
                if period in release.certificate.columns:
                    return period
        return self.at(name, period).certificate.period

    def _stream(self, stream: str) -> StreamMeasurements:
        """Everything that is published of a stream; put together once."""
        if stream not in self._streams:
            names = [r.name for r in self.study.releases if r.stream == stream]
            messages: dict[str, list[Measurements]] = {name: [] for name in names}
            published = {r.certificate.release for r in self.releases}
            for one in (r for name in names if name in published for r in self._grown(name)):
                held, table = one.certificate, one.measurements
                values, errors = (
                    table[column].to_numpy().astype(float) for column in ("value", "standard_error")
                )
                messages[held.release].append(Measurements(held.number, values, errors**2))
            self._streams[stream] = StreamMeasurements(
                tuple(releases_of_stream(self.study, messages, stream))
            )
        return self._streams[stream]

    def queries(self, name: str) -> list[str]:
        """Examples of what can be asked of a release, and the values it knows."""
        declared = self.study.release(name)
        alphabet = self.study.alphabet(declared)
        totals = []
        if not isinstance(declared, WindowRelease):
            first, last = self.study.span(declared)
            top = last - first + 1
            totals = [f"total at-least {b}" for b in dict.fromkeys((1, min(3, top), top))]
        if isinstance(declared, CumulativeRelease):
            return totals
        known = [v for v in alphabet.values if ABSENT not in str(v).replace("=", "&").split("&")]
        value, width = shlex.quote(str(known[-1])), declared.width
        what = shlex.quote(
            f"{alphabet.name}={known[-1]}" if len(alphabet.parts) == 1 else str(known[-1])
        )
        return [
            "pattern " + " ".join([value] * width),
            f"pattern {value}" + " ?" * (width - 1),
            f"at-least 1 of last {width} {what}",
            f"consecutive {min(2, width)} of last {width} {what}",
            *totals,
        ]


def _by_period(tables: list[tuple[str, pa.Table]]) -> pa.Table:
    """The tables below each other, with a first column that says of which period each is."""
    return pa.concat_tables(
        table.add_column(0, "period", pa.array([period] * table.num_rows, pa.string()))
        for period, table in tables
    )
