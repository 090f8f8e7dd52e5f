"""A preview of a close: what the open periods hold, counted as the releaser would. Confidential.

The numbers are for the operator. The releaser never reads them, and nothing is written: the reports
from the last cut on are folded into a copy of the population, with the releaser's own reader. It
takes the memory of a releaser, which grows with the people and not with the reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass

from tqdm import tqdm

from stream_dp.errors import Inconsistent
from stream_dp.log.log import (
    NEVER,
    Batch,
    Log,
    Missing,
    Positions,
    Record,
    Stored,
    TopicInfo,
    Writer,
)
from stream_dp.log.records import Records
from stream_dp.study import Study
from stream_dp.study.topics import REPORTS

from ..deployment import Deployment
from ..groups.bound_table import bound_table
from ..intake.dead_letters import cells_of
from ..intake.markers import FoundMarkers
from ..intake.rejections import Placing, Rejections, no_rejections, totals
from ..intake.schema_source import decoder_maker, shape_reader
from ..journal import journal
from ..journal.genesis import genesis
from ..journal.journal import Entry
from .input_reading import Inputs
from .recovery import recovered_inputs
from .releaser_facts import Facts

_FEW = 0.5  # of the answers of the period before


@dataclass(frozen=True)
class PeriodPreview:
    """What a period holds.

    label: of the period.
    people: how many have an answer for it, whether or not there is room for them.
    answers: how many answers these people give to what each period asks for anew.
    accepted: cells that count for it.
    given: whether its close is given already.
    """

    label: str
    people: int
    answers: int
    accepted: int
    given: bool


@dataclass(frozen=True)
class Preview:
    """What a close would decide if it were given now.

    before: the last closed period; None where there is none, or its input is no longer there.
    periods: those that would be closed, in order.
    rejected: the cells that were rejected since the last close, or would be by this one.
    obstructed: whether a sender's open transaction hides reports.
    """

    before: PeriodPreview | None
    periods: tuple[PeriodPreview, ...]
    rejected: Rejections
    obstructed: bool

    @property
    def share(self) -> float:
        """The rejected cells' share of the rejected and the accepted; 0 where there are none."""
        rejected = sum(totals(self.rejected).values())
        settled = rejected + sum(period.accepted for period in self.periods)
        return rejected / settled if settled else 0.0

    @property
    def sparse(self) -> list[str]:
        """Which periods to be closed have no cell, or far fewer answers than the one before."""
        lines, before = [], self.before
        for period in self.periods:
            if period.given:
                pass
            elif not period.accepted:
                lines.append(f"{period.label} holds no cell")
            elif before is not None and period.answers < _FEW * before.answers:
                lines.append(f"{period.label} has less than half the answers of {before.label}")
            before = period
        return lines


def preview(deployment: Deployment, number: int) -> Preview:
    """What the open periods up to `number` hold, with a progress bar on a terminal.

    Raises LogError, Inconsistent, UserError or OSError where it cannot be counted.
    """
    study = deployment.study
    with closing(deployment.log(readonly=True)) as log:
        entries: list[Entry] = []
        with suppress(Missing):
            entries = journal.read_heads(log)
        if not entries:
            deployment.check_unpublished()
        closes = journal.closes(entries) or [_unbegun(study, log)]
        copy = _Copy(log, Placing(study, shape_reader(deployment)))
        inputs, before = _at_last_cut(deployment, copy, closes)
        copy.rejected = no_rejections()  # those of earlier periods are not this close's
        periods, left = [], sum(copy.ends[p] - o for p, o in inputs.positions.items())
        with tqdm(total=left, desc="counting", unit=" reports", disable=None, leave=False) as bar:
            for open_number in range(closes[-1].number + 1, number + 1):
                _fold(inputs, open_number, bar)
                periods.append(_closed(study, inputs))
        return Preview(before, tuple(periods), copy.rejected, inputs.obstructed)


def _unbegun(study: Study, log: Log) -> Entry:
    """The first entry of a journal that is not begun; the key counts people and protects nobody."""
    groups = bound_table(study=study, log=log, bound=None)
    return Entry(
        genesis(
            study,
            b"",
            log.describe(REPORTS),
            key=bytes(32),
            simulated=True,
            places={},
            groups=None if groups is None else groups.hash,
        )
    )


def _at_last_cut(
    deployment: Deployment, copy: _Copy, closes: Sequence[Entry]
) -> tuple[Inputs, PeriodPreview | None]:
    """The input at the last cut, and what the period that was closed there holds."""
    study = deployment.study
    groups = bound_table(copy, study, closes[0].genesis.groups)
    snapshots = deployment.snapshots.of(closes[0].message.hash[:12])

    decoder = decoder_maker(deployment)(study, closes[0].key)

    def recovered(entries: Sequence[Entry]) -> Inputs:
        inputs, _ = recovered_inputs(
            study,
            copy,
            snapshots,
            entries,
            groups=groups,
            facts=Facts(study),
            at=lambda name: None,
            decoder_of=lambda study, key: decoder,
        )
        return inputs

    if len(closes) > 1:
        # The input of the last closed period is gone where an old snapshot and its reports are.
        with suppress(Inconsistent):
            inputs = recovered(closes[:-1])
            inputs.replay_to(closes[-1])
            before = _closed(study, inputs)
            decoder.go_on([entry.read_as for entry in closes])
            inputs.markers = FoundMarkers.at(study, closes[-1])
            return inputs, before
    return recovered(closes), None


def _fold(inputs: Inputs, number: int, bar: tqdm[object]) -> None:
    """Reads until a marker for period `number`, or to the end, in every partition."""
    while True:
        before = sum(inputs.positions.values())
        done = inputs.fold_to_marker(number, 0)
        bar.update(sum(inputs.positions.values()) - before)
        if done:
            return


def _closed(study: Study, inputs: Inputs) -> PeriodPreview:
    """Closes the next period of the copy of the population."""
    population = inputs.population
    given = not inputs.markers.missing(population.period + 1)
    (people, answers), accepted = population.answering(), population.accounting.accepted
    for reason, cells in population.close().refused.items():
        inputs.refuse(cells, reason)
    label = study.periods.labels[population.period - 1]
    return PeriodPreview(
        label=label,
        people=people,
        answers=answers,
        accepted=population.accounting.accepted - accepted,
        given=given,
    )


class _Copy:
    """A log that reads another up to its present ends and writes nothing.

    Dead letters that are appended are counted in `rejected`; anything else is refused.
    """

    def __init__(self, log: Log, placing: Placing) -> None:
        self._log, self._placing = log, placing
        self.ends = log.cut(REPORTS, NEVER)
        self.rejected = no_rejections()

    @property
    def file_identity(self) -> str:
        return self._log.file_identity

    def mark(self, name: str) -> bytes:
        return self._log.mark(name)

    def name(self, topic: str) -> str:
        return self._log.name(topic)

    def describe(self, topic: str) -> TopicInfo:
        return self._log.describe(topic)

    def cut(self, topic: str, time: float) -> Positions:
        return self._log.cut(topic, time) if topic != REPORTS else dict(self.ends)

    def stable(self, topic: str) -> Positions:
        raise NotImplementedError

    def read(self, topic: str, positions: Positions, limit: int, timeout: float) -> Batch:
        batch = self._log.read(topic, positions, limit, timeout)
        if topic != REPORTS:
            return batch
        records = Records.of(batch.records).below(self.ends)
        after = {p: max(positions[p], min(o, self.ends[p])) for p, o in batch.next.items()}
        ended = all(o >= self.ends[p] for p, o in after.items())
        return Batch(records, after, batch.at_end or ended)

    def append(self, records: Iterable[Record]) -> None:
        for record in records:
            letter = Stored(
                partition=0,
                offset=0,
                time=0,
                key=record.key,
                value=record.value,
                headers=record.headers,
            )
            for reason, where in self._placing.places(letter, cells_of(letter)):
                self.rejected[reason] += where

    def create(self, topics: Mapping[str, int]) -> None:
        raise NotImplementedError

    def faults(self, topics: Mapping[str, int]) -> list[str]:
        raise NotImplementedError

    def now(self, topic: str) -> float:
        raise NotImplementedError

    def own(self, name: str, topic: str | None = None) -> AbstractContextManager[Writer]:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError
