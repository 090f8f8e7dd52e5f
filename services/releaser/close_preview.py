"""A preview of a close: the contents of the open periods, counted by the releaser's reader.

Confidential, for the operator alone: the releaser never reads a preview. Nothing is written: the
reports from the last cut on are folded into a copy of the population. The copy takes the memory of
a releaser, which grows with the people and not with the reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from stream_dp.log.log import NEVER, Batch, Log, Missing, Positions, Record, Stored
from stream_dp.log.records import Records
from stream_dp.study import Study
from stream_dp.study.topics import REPORTS

from ..intake.dead_letters import Placing, Rejections, cells_of, no_rejections, totals
from ..intake.input_decoders import decoder_maker, shape_reader
from ..storage import journal
from ..storage.deployment import Deployment
from ..storage.journal import Entry, open_gate
from .input_reading import Inputs, recovered_inputs
from .releaser_facts import Context

if TYPE_CHECKING:
    from ..intake.group_tables import PlacesTable, Roster

_FEW = 0.5  # of the answers of the preceding period
_READING = {"file_identity", "mark", "name", "describe", "stable"}  # members of a log


@dataclass(frozen=True)
class PeriodPreview:
    """The contents of a period.

    people: the number of people with an answer, whether or not there is room for them.
    answers: the number of their answers to the attributes that each period asks for anew.
    accepted: the number of cells that count.
    is_given: whether the close is given already.
    """

    label: str
    people: int
    answers: int
    accepted: int
    is_given: bool


@dataclass(frozen=True)
class Preview:
    """The outcome of a close now.

    last_closed: the last closed period; None without a closed period.
    periods: the periods to be closed, in order.
    rejected: the cells that were rejected since the last close, or would be by this close.
    obstructed: whether a sender's open transaction hides reports.
    """

    last_closed: PeriodPreview | None
    periods: tuple[PeriodPreview, ...]
    rejected: Rejections
    obstructed: bool

    @property
    def share(self) -> float:
        """The rejected cells as a share of rejected and accepted cells; 0 without cells."""
        rejected = sum(totals(self.rejected).values())
        settled = rejected + sum(period.accepted for period in self.periods)
        return rejected / settled if settled else 0.0

    @property
    def sparse(self) -> list[str]:
        """Lines about periods without a cell, or with far fewer answers than the preceding one."""
        lines, previous = [], self.last_closed
        for period in self.periods:
            if not period.is_given and not period.accepted:
                lines.append(f"{period.label} holds no cell")
            elif not period.is_given and previous and period.answers < _FEW * previous.answers:
                lines.append(f"{period.label} has less than half the answers of {previous.label}")
            previous = period
        return lines


def preview(deployment: Deployment, number: int) -> Preview:
    """Counts the open periods up to `number`, with a progress bar on a terminal.

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
        inputs = _at_last_cut(deployment, cast(Log, copy), closes)
        if (gate := open_gate(entries)) is not None:
            inputs.read_to_gate(study, gate)
        copy.rejected = no_rejections()  # those of earlier periods are not this close's
        periods, unread = [], sum(copy.ends[p] - o for p, o in inputs.positions.items())
        with _shown(unread) as show:
            for open_number in range(closes[-1].number + 1, number + 1):
                _fold(inputs, open_number, show)
                periods.append(_closed(study, inputs))
        last_closed, obstructed = _last_closed(study, closes), inputs.markers.obstructed
        return Preview(last_closed, tuple(periods), copy.rejected, obstructed)


def _declared_table(log: Log, study: Study, bound: str | None) -> Roster | PlacesTable | None:
    """The table of groups or of places, see `bound_table`."""
    if study.groups is None and study.places is None:
        return None
    from ..intake.group_tables import bound_table

    return bound_table(log, study, bound)


def _unbegun(study: Study, log: Log) -> Entry:
    """The first entry of a journal before its start; the key counts people, without protection."""
    from .recovery import genesis

    groups = _declared_table(log, study, None)
    return Entry(
        genesis(
            study,
            {},
            b"",
            log.describe(REPORTS),
            key=bytes(32),
            simulated=True,
            places={},
            groups=None if groups is None else groups.hash,
        )
    )


def _at_last_cut(deployment: Deployment, copy: Log, closes: Sequence[Entry]) -> Inputs:
    """The input at the last cut."""
    study = deployment.study
    inputs, _ = recovered_inputs(
        study,
        copy,
        deployment.snapshots.of(closes[0].message.hash[:12]),
        closes,
        groups=_declared_table(copy, study, closes[0].genesis.groups),
        context=Context.of(study),
        decoder_of=decoder_maker(deployment),
    )
    return inputs


def _last_closed(study: Study, closes: Sequence[Entry]) -> PeriodPreview | None:
    """The contents of the last closed period, as the journal counted them."""
    if len(closes) == 1:
        return None
    before, last = closes[-2].input.accounting, closes[-1].input
    assert last.accounting is not None
    return PeriodPreview(
        label=study.periods.labels[closes[-1].number - 1],
        people=last.answering.people,
        answers=last.answering.answers,
        accepted=last.accounting.accepted - (before.accepted if before else 0),
        is_given=True,
    )


@contextmanager
def _shown(unread: int) -> Iterator[Callable[[int], object]]:
    """Gives a function that shows the reports read, on a terminal."""
    if not unread:
        yield lambda reports: None
        return
    from tqdm import tqdm  # a command that reads nothing does not wait for it

    with tqdm(total=unread, desc="counting", unit=" reports", disable=None, leave=False) as bar:
        yield bar.update


def _fold(inputs: Inputs, number: int, show: Callable[[int], object]) -> None:
    """Reads until a marker for period `number`, or to the end, in every partition.

    show: called with the number of records after every read.
    """
    while True:
        start = sum(inputs.positions.values())
        is_done = inputs.read_to_marker(number, 0)
        show(sum(inputs.positions.values()) - start)
        if is_done:
            return


def _closed(study: Study, inputs: Inputs) -> PeriodPreview:
    """Closes the next period of the copy of the population."""
    population = inputs.population
    is_given = not inputs.markers.missing(population.period + 1)
    accepted = population.accounting.accepted
    closed = population.close()
    for reason, cells in closed.refused.items():
        inputs.refuse(cells, reason)
    return PeriodPreview(
        label=study.periods.labels[population.period - 1],
        people=closed.answering.people,
        answers=closed.answering.answers,
        accepted=population.accounting.accepted - accepted,
        is_given=is_given,
    )


class _Copy:
    """A read-only view of a log up to its present ends.

    Dead letters that are appended are counted in `rejected`; anything else is refused.
    """

    def __init__(self, log: Log, placing: Placing) -> None:
        self._log, self._placing = log, placing
        self.ends = log.cut(REPORTS, NEVER)
        self.rejected = no_rejections()

    def __getattr__(self, name: str) -> Any:
        if name not in _READING:
            raise NotImplementedError(name)
        return getattr(self._log, name)

    def cut(self, topic: str, time: float) -> Positions:
        return self._log.cut(topic, time) if topic != REPORTS else dict(self.ends)

    def read(self, topic: str, positions: Positions, limit: int, timeout: float) -> Batch:
        batch = self._log.read(topic, positions, limit, timeout)
        if topic != REPORTS:
            return batch
        records = Records.of(batch.records).below(self.ends)
        following = {p: max(positions[p], min(o, self.ends[p])) for p, o in batch.next.items()}
        ended = all(o >= self.ends[p] for p, o in following.items())
        return Batch(records, following, batch.at_end or ended)

    def append(self, records: Iterable[Record]) -> None:
        for record in records:
            letter = Stored(0, 0, 0, record.key, record.value, record.headers)
            for reason, origins in self._placing.places(letter, cells_of(letter)):
                self.rejected[reason] += origins
