"""The releaser's input: reports and markers up to a cut, and dead letters for rejected cells.

Records beyond a period's cut are not used before the period is closed: a partition stops at its
cut, and the rest of its batch waits in memory. Positions do not include that rest, so that a
releaser that starts again reads it from the log and decides the same. The population at the last
cut is recovered from a snapshot, and from the reports after it.
"""

from __future__ import annotations

import math
import time as clock_module
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from stream_dp.errors import Inconsistent
from stream_dp.log.log import (
    MAX_BATCH,
    NEVER,
    READ_AT_ONCE,
    Batch,
    Log,
    OutOfRange,
    Positions,
    Stored,
    collector_paused,
    memory_bytes,
)
from stream_dp.log.records import Records
from stream_dp.population.cells import CellCounts, Cells, Reason
from stream_dp.population.population import Population
from stream_dp.population.report_decoding import Decoder, DecoderMaker
from stream_dp.study import Study
from stream_dp.study.topics import REPORTS

from ..intake.dead_letters import refuse_cells, refuse_records
from ..intake.markers import FoundMarkers, hides_records
from ..storage.close_orders import newest_complete_close, read_population
from ..storage.job_records import SnapshotFile
from ..storage.journal import ClosedPeriod, Entry
from ..storage.journal_heads import PeriodInput
from ..storage.log_guard import check_unread
from ..storage.snapshots import Snapshots
from .releaser_facts import MEASURE, MEASURE_SHARE, SILENCE, Context, Facts, InputFacts

if TYPE_CHECKING:
    from ..intake.group_tables import Members, PlacesTable, Roster
    from .batch_jobs import Jobs

_ASK = SILENCE / 3  # seconds without an answer after which the log is asked


class InputMeter:
    """Checks that the log answers, and measures the unread input for the metrics, now and then."""

    def __init__(self, log: Log, facts: Facts) -> None:
        self._log, self._facts = log, facts
        self._next_measurement = -math.inf  # on the monotonic clock

    def check_log(self) -> None:
        """Asks the log for an answer after a silence. Raises LogError."""
        if self._facts.silence > _ASK:
            self._log.describe(REPORTS)
            self._facts.answer()

    def measure(self, positions: Positions, facts_of: Callable[[int], InputFacts]) -> None:
        """Sets the facts of the input unless they are new.

        positions: by partition, the first unread record.
        facts_of: gives the facts from the number of unread records.

        Raises LogError.
        """
        begun = clock_module.monotonic()
        if begun < self._next_measurement:
            return
        ends = self._log.cut(REPORTS, NEVER)
        unread = sum(max(0, ends[p] - position) for p, position in positions.items())
        self._facts.input = facts_of(unread)
        now = clock_module.monotonic()
        self._next_measurement = now + max(MEASURE, MEASURE_SHARE * (now - begun))


class Inputs:
    """Positions in the reports topic, and the population of the reports before them.

    This process is the only part of the population: see `open_period.Parts`.

    markers: the markers that were found.
    positions: by partition, the first unread record.
    snapshots: of the population; None if no period is closed, as in a preview.
    """

    def __init__(
        self,
        log: Log,
        decoder: Decoder,
        population: Population,
        *,
        markers: FoundMarkers,
        positions: Positions,
        context: Context,
        snapshots: Snapshots | None = None,
    ) -> None:
        self._log, self._decoder, self.population = log, decoder, population
        self.markers, self.positions = markers, dict(positions)
        self._context, self._snapshots = context, snapshots
        self._rests: dict[int, Batch] = {}  # by partition, read beyond its position
        self._meter = InputMeter(log, context.facts)
        self._read_until: float | None = None  # an append time

    def read_to(self, cut: Positions, timeout: float = 0, *, replay: bool = False) -> bool:
        """Reads everything below a known cut; returns whether all of it was read.

        It is not while a sender's transaction is open below the cut: its records, and those sent
        after it began, belong to the period if it is committed.

        cut: by partition, the position to read to; of a partition that was added later, nothing.
        timeout: seconds to wait for records.
        replay: whether the records were read before a restart, so that their dead letters exist.

        Raises Inconsistent where the topic ends before the cut.
        """
        while behind := {p: o for p, o in self.positions.items() if o < cut.get(p, 0)}:
            with collector_paused():
                batch = self._read(behind, timeout)
                self._take(batch, {p: min(cut[p], end) for p, end in batch.next.items()}, replay)
            stuck = any(self.positions[p] < cut[p] for p in behind)
            if stuck and batch.at_end and not batch.records:
                if replay or self._beyond(cut):
                    raise Inconsistent(
                        "reports: the topic ends before the cut of a closed period: records are"
                        " gone; restore the confidential log"
                    )
                return False
        return True

    def replay_to(self, entry: Entry) -> None:
        """Reads the input of a closed period again, with its schemas. Raises Inconsistent.

        entry: closes the period after the population's.
        """
        self._decoder.repeat(entry.read_as)
        self.read_to(entry.input.cut, replay=True)

    def read_to_gate(self, study: Study, gate: Entry) -> None:
        """Reads the input again that the gate of the open period counted. Raises Inconsistent."""
        self.read_to(gate.input.cut, replay=True)
        self.markers = FoundMarkers.at_gate(study, gate, self.positions)

    def _beyond(self, cut: Positions) -> bool:
        """Whether a cut is beyond the end of the topic."""
        ends = self._log.cut(REPORTS, NEVER)
        return any(ends[p] < position for p, position in cut.items())

    @collector_paused()
    def read_to_marker(self, number: int, timeout: float) -> bool:
        """Reads one batch on the way to markers for period `number` or later.

        Returns True when every partition has one, or when there is nothing more to read now.
        """
        waiting = self.markers.missing(number)
        if not waiting:
            return True
        batch = self._read(waiting, timeout)
        self._take(batch, {**batch.next, **self.markers.find(batch.records, number)})
        missing = self.markers.missing(number)
        self.markers.obstructed = batch.at_end and hides_records(self._log, missing)
        return batch.at_end

    @collector_paused()
    def read_before(self, time: float, timeout: float) -> bool:
        """Reads a batch of records appended before `time`; True where there are no more now."""
        reached = {p for p, rest in self._rests.items() if _from(rest.records[:1], time)}
        batch = self._read(self.positions.keys() - reached, timeout)
        ends = dict(batch.next)
        for record in _from(batch.records, time):
            ends[record.partition] = min(ends[record.partition], record.offset)
        self._take(batch, ends)
        return batch.at_end

    def _read(self, partitions: Collection[int], timeout: float) -> Batch:
        """The records of partitions that wait in memory, or else new records from the log."""
        if not partitions:
            clock_module.sleep(timeout)
            self.check_log()
            return Batch([], {}, True)
        rests = [self._rests.pop(p) for p in partitions if p in self._rests]
        if not rests:
            positions = {p: self.positions[p] for p in partitions}
            batch = self._log.read(REPORTS, positions, READ_AT_ONCE, timeout)
            self._context.facts.answer()
            return batch
        records = Records()
        for rest in rests:
            records.extend(rest.records)
        return Batch(records, {p: end for rest in rests for p, end in rest.next.items()}, False)

    def check_log(self) -> None:
        """Asks the log for an answer after a silence; measures. Raises LogError."""
        self._meter.check_log()
        self._meter.measure(self.positions, self._input_facts)

    def _input_facts(self, unread: int) -> InputFacts:
        if not unread:
            self._read_until = clock_module.time()
        since = self._read_until if unread else None
        return InputFacts(unread, since, self.population.open_cells)

    def _take(self, batch: Batch, ends: Positions, replay: bool = False) -> None:
        """Folds the records below the end of every partition into the population."""
        records, rests = Records.of(batch.records), dict[int, Batch]()
        if beyond := {p: o for p, o in batch.next.items() if ends[p] < o}:
            rests = {p: Batch(records.beyond(p, ends[p]), {p: o}, False) for p, o in beyond.items()}
            records = records.below(ends)
        reports = self.markers.reader.without_markers(records)
        cells, rejected = self._decoder.decode(reports, self.population.period)
        self._context.at("read")
        if rejected and not replay:
            refuse_records(self._log, reports, rejected)
            self._context.at("dead-letters")
        self.population.fold(cells, rejected)
        self.positions.update(ends)
        room = MAX_BATCH // len(self.positions)
        self._rests.update({p: _first(rest, p, room) for p, rest in rests.items()})
        self._context.facts.count(len(reports), self.population.accounting)
        if reports:
            self._read_until = max(self._read_until or 0.0, reports.times[-1] / 1000)
        self._meter.measure(self.positions, self._input_facts)

    @property
    def accounting(self) -> CellCounts:
        return self.population.accounting

    @property
    def unread(self) -> Positions:
        return self.positions

    @property
    def busy(self) -> bool:
        return False

    def catch_up(self, wait: float) -> bool:
        return True

    def counted(self, number: int, cut: Positions, wait: float, *, gate: bool) -> bool:
        return True

    def returning(self) -> int:
        return self.population.returning()

    def pass_gate(self) -> None:
        """The people of the gate are counted in memory."""

    def close(self, number: int, period: PeriodInput, jobs: Jobs | None) -> ClosedPeriod:
        assert self._snapshots is not None
        closed = self.population.close()
        self._context.at("closed")
        for reason, cells in closed.refused.items():
            if len(cells):
                self.refuse(cells, reason)
        self._context.at("refused")
        snapshot = SnapshotFile(*self._snapshots.write(self.population))
        self._context.at("snapshot")
        begun = () if jobs is None else jobs.snapshot(number, self.population)
        self._context.facts.count(0, self.accounting)
        self.check_log()
        read_as = self._decoder.close_period()
        counted = replace(
            period, accounting=self.accounting, answering=closed.answering, read_as=read_as
        )
        return ClosedPeriod(number, counted, closed, snapshot, begun)

    def refuse(self, refused: Cells, reason: Reason) -> None:
        """Appends dead letters for a close's unusable cells, with their records."""
        refuse_cells(self._log, refused, reason)


def _from(records: Sequence[Stored], time: float) -> Records:
    """The records appended at or after a time, in Unix seconds."""
    columns = Records.of(records)
    return columns.take(row for row, at in enumerate(columns.times) if at >= time * 1000)


def _first(rest: Batch, partition: int, room: int) -> Batch:
    """The first records of a partition's rest, at least one, until they take `room` bytes.

    The records after them are read again.
    """
    for count, record in enumerate(rest.records):
        if room <= 0:
            return Batch(rest.records[:count], {partition: record.offset}, False)
        room -= memory_bytes(record.key, record.value, record.headers)
    return rest


def recovered_inputs(
    study: Study,
    log: Log,
    snapshots: Snapshots,
    closes: Sequence[Entry],
    *,
    groups: Roster | PlacesTable | None,
    context: Context,
    decoder_of: DecoderMaker = Decoder,
) -> tuple[Inputs, Members | PlacesTable | None]:
    """The input with the population at the last cut, and the members of groups or the places.

    The population is read from the newest snapshot that exists, and the reports after it are
    replayed.

    closes: genesis and the entries that close a period.
    groups: the table of groups or of places, if the study declares one.
    decoder_of: makes the decoder from the study and the key of the hash of ids.

    Raises Inconsistent for other reports or snapshots than the journal's.
    """
    last = closes[-1]
    markers = FoundMarkers.at(study, last)
    places = cast("PlacesTable", groups) if study.places is not None else None
    roster = cast("Roster | None", groups) if places is None else None
    if places is not None:
        study = places.of_study(study)
    decoder = decoder_of(study, closes[0].key)
    hashes = None if roster is None else decoder.hashes(decoder.ids(roster.persons))
    start, population = _latest_snapshot(study, closes, snapshots)
    if start.number == 0 and hashes is not None:
        population.enrol(hashes[:, 0], hashes[:, 1])
    inputs = Inputs(
        log,
        decoder,
        population,
        markers=markers,
        positions=start.next_begin,
        context=context,
        snapshots=snapshots,
    )
    check_reach(log, closes, start)
    for entry in closes[start.number + 1 :]:
        inputs.replay_to(entry)
        inputs.positions = entry.next_begin
        population.close()
    decoder.go_on([entry.read_as for entry in closes])
    check_end(log, inputs.positions)
    context.facts.answer()
    accounting = population.accounting
    check_counted(last, accounting)
    count_closed(context.facts, closes, accounting)
    if roster is None or hashes is None:
        return inputs, places
    from ..intake.group_tables import Members  # only studies with groups need it

    slots = population.slots(hashes[:, 0], hashes[:, 1])
    if (slots < 0).any():
        raise Inconsistent("snapshot: a member of a group has no place; remove it to replay")
    return inputs, Members(roster.codes(study), slots, roster.group_of, roster.role_codes(study))


def count_closed(facts: Facts, closes: Sequence[Entry], accounting: CellCounts) -> None:
    """Sets the facts to the counts of the closed periods."""
    facts.count(0, accounting)
    if closes[-1].number:
        previous = closes[-2].input.accounting
        facts.closed_accepted = accounting.accepted - (previous.accepted if previous else 0)


def check_counted(entry: Entry, accounting: CellCounts) -> None:
    """Raises Inconsistent unless the input up to a close has the counts of its entry.

    entry: of the close; genesis has no counts.
    """
    if entry.number and accounting != entry.input.accounting:
        raise Inconsistent(
            "reports: what is below the last cut is not what the journal counted; the topic"
            " was changed"
        )


def check_reach(log: Log, closes: Sequence[Entry], start: Entry) -> None:
    """Raises Inconsistent if reports after a close are gone.

    start: the close from which the closes after it are repeated.
    """
    first, repeated = log.describe(REPORTS).first, closes[start.number + 1 :]
    elsewhere = any(e.reading is not None and e.reading.another for e in repeated)
    if elsewhere or any(first[p] > position for p, position in start.next_begin.items()):
        if repeated:
            raise Inconsistent(
                f"reports: no snapshot is left and the topic no longer reaches back to period"
                f" {start.number + 1}; restore a snapshot named in the journal"
            )
        check_unread(first, start.next_begin)


def check_end(log: Log, cut: Positions) -> None:
    """Raises Inconsistent if the topic ends before the last cut."""
    try:
        log.read(REPORTS, cut, 1, 0)
    except OutOfRange:
        raise Inconsistent(
            "reports: the topic ends before the last cut of the journal: an older confidential"
            " log was restored; bring back the newer one"
        ) from None


def _latest_snapshot(
    study: Study, closes: Sequence[Entry], snapshots: Snapshots
) -> tuple[Entry, Population]:
    """The newest close with a sound snapshot, and its population."""
    while (entry := newest_complete_close(closes, snapshots)).number:
        population = read_population(study, snapshots, *entry.snapshot)
        if population is not None:
            return entry, population
        # A damaged file was set aside, or a file has gone: an older close, then.
    return closes[0], Population(study)
