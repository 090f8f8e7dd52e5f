"""For analysts: releases, panels and estimates, from a public log and nothing else.

Standard errors and intervals cover the privacy noise only, not the sampling of people.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from pydantic import ValidationError

from .alphabet import ABSENT
from .answering import LEVEL, Estimate, answered, question
from .dataset import BATCH_TYPE, BatchCertificate, DataSet, valid
from .errors import Inconsistent, UserError
from .estimator import Stream
from .log.base import Log, LogError, Missing
from .log.message import Message, messages
from .measured import Message as Measurements
from .measured import whole
from .panel import Panel
from .privacy.ledger import BudgetExceeded, Charge, Ledger
from .query import TotalQuery
from .release import STUDY_TYPE, TOPIC, Certificate, read_columns, read_estimates, read_measurements
from .study import Cumulative, Study, Window

__all__ = ["LEVEL", "Estimate", "Public", "Release"]


@dataclass(frozen=True)
class Release:
    """One published release."""

    certificate: Certificate
    message: Message

    @property
    def measurements(self) -> pa.Table:
        """Noisy answers: query, value, variance, standard_error."""
        return read_measurements(self.message.parts)

    @property
    def estimates(self) -> pa.Table:
        """Unbiased answers: query, value, standard_error."""
        return read_estimates(self.message.parts)


class Public:
    """What a public log holds. Raises UserError, Inconsistent."""

    def __init__(self, log: Log) -> None:
        try:
            self.messages = list(messages(log, TOPIC, "public log"))
        except Missing:
            raise
        except LogError as error:
            raise UserError(f"public log: {error}") from None
        self._whole: dict[str, Panel] = {}
        self._streams: dict[str, Stream] = {}
        if not self.messages:
            raise UserError("public log: nothing is published yet; 'stream-dp run' begins it")

    @cached_property
    def study(self) -> Study:
        head = self.messages[0].head
        try:
            if head.get("type") != STUDY_TYPE:
                raise ValueError
            return Study.model_validate(head["study"])
        except (ValidationError, ValueError, KeyError):
            raise Inconsistent("public log: it does not begin with a study's declaration") from None

    @property
    def head(self) -> str:
        """The hash of the last message: keep it elsewhere to notice a restored log later."""
        return self.messages[-1].hash

    @cached_property
    def published(self) -> list[Release | DataSet]:
        """Every release, in the order of the chain."""
        try:
            return [
                DataSet(BatchCertificate.model_validate(m.head), m)
                if m.head.get("type") == BATCH_TYPE
                else Release(Certificate.model_validate(m.head), m)
                for m in self.messages[1:]
            ]
        except ValidationError:
            raise Inconsistent("public log: a certificate cannot be read") from None

    @cached_property
    def releases(self) -> list[Release]:
        """Those of panels."""
        return [r for r in self.published if isinstance(r, Release)]

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

    def of(self, name: str) -> list[Release]:
        """The releases of that name so far. Raises UserError where there are none."""
        self.study.release(name)
        found = [r for r in self.releases if r.certificate.release == name]
        if not found:
            raise UserError(f"release '{name}': nothing is published of it yet")
        return found

    def at(self, name: str, period: str | None) -> Release:
        """The release at a period, or the last one."""
        found = self.of(name)
        if period is None:
            return found[-1]
        for release in found:
            if release.certificate.period == period:
                return release
        first, last = found[0].certificate.period, found[-1].certificate.period
        raise UserError(f"release '{name}': none at period '{period}'; it has {first} to {last}")

    def panel(self, name: str, period: str | None = None) -> Panel:
        """The synthetic panel up to a period, or up to the last one."""
        last = self.at(name, period).certificate.period
        if name not in self._whole:
            *_, (_, self._whole[name]) = self._panels(name)
        return self._whole[name].until(last)

    def _panels(self, name: str) -> Iterator[tuple[int, Panel]]:
        """The panel as it grew: after each release, with its number."""
        panel: Panel | None = None
        for release in self.of(name):
            held = release.certificate
            columns, periods = read_columns(release.message.parts)
            if (columns.shape[0], periods) != (held.rows, held.columns):
                raise Inconsistent(f"{name} at {held.period}: not the columns of its certificate")
            try:
                panel = (
                    Panel(columns, periods, held.values)
                    if panel is None
                    else panel.extended(columns, periods)
                )
            except ValueError as error:
                raise Inconsistent(f"{name} at {held.period}: {error}") from None
            yield held.number, panel

    def verify(self) -> list[str]:
        """What holds, one line each: the chain was checked on reading. Raises Inconsistent."""
        study = self.study
        ledger = Ledger(study.rho, study.strata)
        if self.messages[0].head.get("study_hash") != study.hash:
            raise Inconsistent("public log: the study's declaration does not have its hash")
        for release in self.published:
            held = release.certificate
            try:
                ledger = ledger.charge(Charge(held.release, held.number, held.rho))
            except (BudgetExceeded, ValueError):
                raise Inconsistent(f"{held.release} at {held.period}: over the budget") from None
            if held.study_hash != study.hash:
                raise Inconsistent(f"{held.release} at {held.period}: of another study")
            if ledger.spent != held.rho_spent:
                raise Inconsistent(f"{held.release} at {held.period}: its budget does not add up")
        lines = [
            f"chain: {len(self.messages)} messages, every hash and part as its manifest says",
            f"budget: {ledger.spent} of {study.rho} spent, as the certificates say",
        ]
        for name in dict.fromkeys(r.certificate.release for r in self.releases):
            count = sum(1 for _ in self._panels(name))
            lines.append(f"{name}: {count} releases, every panel a prefix of the next")
        sets = [r for r in self.published if isinstance(r, DataSet)]
        for found in sets:
            if not valid(study, found.check()):
                at = f"{found.certificate.release} at {found.certificate.period}"
                raise Inconsistent(f"{at}: a group has not the roles that the study declares")
        for name, count in Counter(d.certificate.release for d in sets).items():
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
        asked = question(self.study, declared, query)
        held = self._asked(name, period, early=isinstance(asked, TotalQuery))
        stream = self._stream(declared.stream)
        (release,) = (r for r in stream.releases if r.declared is declared)
        number = self.study.periods.numbers[held]
        panel = self.panel(name).until(held)
        return answered(stream, release, asked, number, panel, count=count)

    def _asked(self, name: str, period: str | None, *, early: bool) -> str:
        """The period that is meant; early: of all those that the panel has a column of."""
        if early and period is not None:
            for release in self.of(name):
                if period in release.certificate.columns:
                    return period
        return self.at(name, period).certificate.period

    def _stream(self, stream: str) -> Stream:
        """Everything that is published of a stream; put together once."""
        if stream not in self._streams:
            names = [r.name for r in self.study.releases if r.stream == stream]
            messages: dict[str, list[Measurements]] = {name: [] for name in names}
            for release in self.releases:
                held = release.certificate
                if held.release in messages:
                    table = release.measurements
                    values, errors = (
                        table[column].to_numpy().astype(float)
                        for column in ("value", "standard_error")
                    )
                    messages[held.release].append(Measurements(held.number, values, errors**2))
            self._streams[stream] = Stream(tuple(whole(self.study, messages, stream)))
        return self._streams[stream]

    def queries(self, name: str) -> list[str]:
        """Examples of what can be asked of a release, and the values it knows."""
        declared = self.study.release(name)
        alphabet = self.study.alphabet(declared)
        totals = []
        if not isinstance(declared, Window):
            first, last = self.study.span(declared)
            top = last - first + 1
            totals = [f"total at-least {b}" for b in dict.fromkeys((1, min(3, top), top))]
        if isinstance(declared, Cumulative):
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
