"""The tasks of an order: decode a range of reports, and close or count a part.

A task may run twice.

A task reads its context from the study's file, so that it can run in any process.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_dp.errors import Inconsistent
from stream_dp.log.log import (
    READ_AT_ONCE,
    Log,
    OutOfRange,
    Stored,
    collector_paused,
    stop_following,
)
from stream_dp.log.message import read_messages
from stream_dp.log.records import Records
from stream_dp.population.cells import Cells, Part, Reason, packed, split, unpacked
from stream_dp.population.population import Population
from stream_dp.population.population_parts import (
    ClosedPart,
    ReturningPart,
    close_part,
    returning_part,
)
from stream_dp.population.report_decoding import Decoder
from stream_dp.population.shapes.record_contents import ReadAs
from stream_dp.release.arrow_parts import ipc_stream
from stream_dp.study import Study
from stream_dp.study.topics import JOURNAL, REPORTS

from ..intake.dead_letters import refuse_records
from ..intake.group_tables import PlacesTable, Roster, bound_table_of
from ..intake.input_decoders import decoder_maker
from ..intake.markers import MarkerReader
from ..releaser.job_families import JOB_FAMILIES
from ..releaser.table_results import save_tables
from ..storage import journal_checks
from ..storage.close_orders import KIND, PartFile, read_part
from ..storage.deployment import Deployment
from ..storage.job_records import SnapshotFile
from ..storage.journal import Entry
from ..storage.snapshots import Snapshots


def no_step(step: str) -> None:
    pass


@dataclass(frozen=True)
class Source:
    """The location of the study for tasks.

    file: the study file.
    owner: begins the names of the journal's snapshots.
    at: called with the name of every step, for tests.
    """

    file: Path
    owner: str
    at: Callable[[str], None] = no_step


@dataclass(frozen=True)
class Workplace:
    """The context of a process: the study as its journal began, its key, its logs.

    places: the table of places, whose keys the study has; None if it declares none.
    mapping: the hash of the mapping for records of other shapes; empty for plain reports.
    table: the hash of the table of groups or of places that the journal was begun with.
    """

    study: Study
    log: Log
    snapshots: Snapshots
    decoder: Decoder
    markers: MarkerReader
    mapping: str
    places: PlacesTable | None
    table: str | None

    @cached_property
    def roster(self) -> Roster | None:
        """The table of groups and their members, if the study declares them.

        Raises Inconsistent unless it is the table that the journal was begun with.
        """
        return bound_table_of(Roster, self.log, self.study, self.table)

    @cached_property
    def members(self) -> NDArray[np.uint64]:
        """The hashes of the ids of all members of groups, in their order, as two halves."""
        assert self.roster is not None
        return self.decoder.hashes(self.decoder.ids(self.roster.persons))


_OPEN: dict[Source, Workplace] = {}


def open_workplace(source: Source) -> Workplace:
    """Opens the workplace of this process, once. Raises Inconsistent for a changed study file."""
    if source not in _OPEN:
        _OPEN[source] = _opened(source)
    return _OPEN[source]


def leave() -> None:
    """Closes the workplaces of this process."""
    while _OPEN:
        _OPEN.popitem()[1].log.close()


def _opened(source: Source) -> Workplace:
    """Reads the study file and opens the log, for the tasks of this process."""
    deployment = Deployment.load(source.file)
    log = deployment.log()
    genesis = first_entry(log)
    study = journal_checks.first_declared(genesis, deployment.study)
    markers = MarkerReader.of(study)
    bound = genesis.genesis.groups
    places = bound_table_of(PlacesTable, log, study, bound)
    if places is not None:
        study = places.of_study(study)
    decoder = decoder_maker(deployment)(study, genesis.key)
    snapshots, mapping = deployment.snapshots.of(source.owner), deployment.run.input.hash
    return Workplace(study, log, snapshots, decoder, markers, mapping, places, bound)


def first_entry(log: Log) -> Entry:
    """The journal's first entry. Raises Inconsistent for an empty journal, Missing without one."""
    first = next(read_messages(log, JOURNAL, "journal"), None)
    stop_following(log, JOURNAL)
    if first is None:
        raise Inconsistent("journal: it is empty; stream-dp run begins it")
    return Entry(first)


@dataclass(frozen=True)
class Range:
    """Reports of a partition to decode for a period.

    parts: the number of parts.
    letters: whether to append dead letters for rejected records.
    read_as: the schemas to read with; None for plain reports.
    only: whether no other schema may be used; else `read_as` has the schemas of closed periods.
    """

    partition: int
    begin: int
    end: int
    number: int
    parts: int
    letters: bool
    read_as: ReadAs | None = None
    only: bool = False


@dataclass(frozen=True)
class Decoded:
    """The content of a range, but for the cells.

    records: the number of reports.
    rejected: by reason, the number of unusable cells.
    read_as: the schemas in use; None for plain reports.
    unknown: ids of unknown schemas.
    """

    records: int
    rejected: Tally[Reason]
    read_as: ReadAs | None
    unknown: frozenset[int]


@collector_paused()
def decode(source: Source, task: Range) -> tuple[list[bytes], Decoded]:
    """Decodes a range of reports. Returns its cells by part, and its other content.

    Raises Inconsistent if records are gone, schemas are others, or this process began with
    another `[run.input]`; Unavailable if a schema cannot be had now.
    """
    workplace, position = open_workplace(source), task.begin
    if workplace.mapping != ("" if task.read_as is None else task.read_as.mapping):
        raise Inconsistent(
            "run.input: it is not the one of the releaser that ordered the close; start the"
            " aggregator again, with the releaser's study file"
        )
    if task.only:
        workplace.decoder.repeat(task.read_as)
    else:
        workplace.decoder.go_on([task.read_as])
    cells, rejected, count = list[Cells](), Tally[Reason](), 0
    while position < task.end:
        try:
            batch = workplace.log.read(REPORTS, {task.partition: position}, READ_AT_ONCE, 0)
        except OutOfRange:
            raise lost(task.partition, position) from None
        next_position = batch.next[task.partition]
        if next_position == position:
            raise lost(task.partition, position, behind=True)
        records = Records.of(batch.records).below({task.partition: task.end})
        batch_cells, reasons, reports = decode_reports(source, records, task)
        cells.append(batch_cells)
        rejected.update(reasons)
        count, position = count + reports, next_position
    blobs = [packed(part_cells) for part_cells in split(Cells.joined(cells), task.parts)]
    stop_following(workplace.log, REPORTS)
    unknown = workplace.decoder.unknown
    return blobs, Decoded(count, rejected, workplace.decoder.close_period(), unknown)


def lost(partition: int, position: int, *, behind: bool = False) -> Inconsistent:
    """Makes the error for missing reports of a period.

    position: of the first missing report; if `behind`, the end of the partition before the cut.
    """
    gone = f"records from position {position} of partition {partition} on are gone, and"
    why = f"{gone} a period still needs them"
    if behind:
        why = f"partition {partition} ends at position {position}, before the cut of a period"
    return Inconsistent(f"reports: {why}; restore the confidential log")


def decode_reports(
    source: Source, records: Sequence[Stored], task: Range
) -> tuple[Cells, Tally[Reason], int]:
    """Decodes records of a range. Returns cells, rejected cells by reason, and a number of reports.

    No dead letters are appended once a schema is unknown, unless the schemas are settled: the range
    is then read again.
    """
    workplace = open_workplace(source)
    reports = workplace.markers.without_markers(Records.of(records))
    cells, refused = workplace.decoder.decode(reports, task.number - 1)
    source.at("decoded")
    if task.letters and refused and (task.only or not workplace.decoder.unknown):
        refuse_records(workplace.log, reports, refused)
        source.at("letters")
    rejected = Tally[Reason]()
    for record in refused:
        rejected.update(record.cells)
    return cells, rejected, len(reports)


@dataclass(frozen=True)
class MembersOfPart:
    """Members of groups in a part: halves of their hashes, rows in the table of members."""

    hi: NDArray[np.uint64]
    lo: NDArray[np.uint64]
    row: NDArray[np.int64]


@dataclass(frozen=True)
class Closing:
    """The task of closing a part, or of counting people in it for the gate.

    previous_file: its file at the last close; None at the first close.
    blobs: its cells since then.
    room: how many newcomers it may admit; None for all of them.
    due: names of the data sets that the close begins.
    members: of groups; at the first close, and if a data set of groups is due.
    """

    part: Part
    number: int
    previous_file: PartFile | None
    blobs: list[bytes]
    room: int | None = None
    due: tuple[str, ...] = ()
    members: MembersOfPart | None = None


@dataclass(frozen=True)
class Written:
    """A closed part, and its file.

    tables: by data set that asks people, the file of this part's contribution.
    nobody: by data set, an Arrow stream with the contribution of an unclaimed place; empty without
        a contribution.
    """

    closed: ClosedPart
    file: PartFile
    tables: dict[str, SnapshotFile]
    nobody: dict[str, bytes]


def returning(source: Source, task: Closing) -> ReturningPart:
    """Counts the people of a part for the gate. Raises Inconsistent if its last file is gone."""
    population = _last_state(open_workplace(source), task)
    source.at("part-counted")
    return returning_part(population, unpacked(task.blobs))


def close(source: Source, task: Closing) -> Written:
    """Closes a part and writes its file. Raises Inconsistent if its last file is gone."""
    workplace = open_workplace(source)
    population = _last_state(workplace, task)
    source.at("part-read")
    closed = close_part(population, unpacked(task.blobs), task.room)
    source.at("part-closed")
    tables, nobody = dict[str, SnapshotFile](), dict[str, bytes]()
    for name in task.due:
        release = workplace.study.batch(name)
        assert release is not None
        family = JOB_FAMILIES[release.family]
        if family.asks_people(release):
            members = _members(population, task.members)
            table = family.part(workplace.study, release, population, members)
            tables[name] = _write_table(workplace.snapshots, population, name, table)
            empty = family.nobody(workplace.study, release, population)
            nobody[name] = b"" if empty is None else ipc_stream(empty)
            source.at("part-table")
    file = write_part(workplace.snapshots, population)
    source.at("part-written")
    return Written(closed, file, tables, nobody)


def _last_state(workplace: Workplace, task: Closing) -> Population:
    """The population of a part at the last close. Raises Inconsistent if its file is gone."""
    if task.previous_file is None:
        population = Population(workplace.study, task.part)
        if task.members is not None:
            population.enrol(task.members.hi, task.members.lo)
        return population
    read = read_part(workplace.study, workplace.snapshots, task.previous_file, task.part)
    if read is None:
        raise Inconsistent(
            f"snapshot: the part {task.part.index} of the last close is gone; start the releaser"
            " again, and the input is read again"
        )
    return read


def _members(
    population: Population, members: MembersOfPart | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Returns slots of members and their rows. Raises Inconsistent for a member without a slot."""
    if members is None:
        return None
    slots = population.slots(members.hi, members.lo)
    if (slots < 0).any():
        raise Inconsistent("snapshot: a member of a group has no place; remove it to replay")
    return slots, members.row


def _write_table(
    snapshots: Snapshots, population: Population, name: str, table: pa.Table
) -> SnapshotFile:
    assert population.part is not None
    label = f"{KIND}-{population.period:05d}-{population.part.index:04d}-{name}"
    return SnapshotFile(*snapshots.store(label, ".parquet", partial(save_tables, [table])))


def write_part(snapshots: Snapshots, population: Population) -> PartFile:
    """Writes the population of a part to a file named by its hash."""
    assert population.part is not None
    label = f"{KIND}-{population.period:05d}-{population.part.index:04d}"
    return PartFile(*snapshots.store(label, ".npz", population.save), population.people)
