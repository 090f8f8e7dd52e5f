"""The tasks of a close: decode a range of reports, and close a part. Either may run twice.

A task gets what it works on from the study's file, so that it can run in any process.
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
from stream_dp.log.base import Log, OutOfRange, Stored
from stream_dp.log.message import read_messages
from stream_dp.log.records import Records
from stream_dp.population import Population
from stream_dp.population.cells import Cells
from stream_dp.population.parts import ClosedPart, close_part
from stream_dp.population.rejected import Reason
from stream_dp.population.reports import Decoder, ReadAs
from stream_dp.population.split import Part, packed, split, unpacked
from stream_dp.release.arrow import ipc_stream
from stream_dp.study import Study
from stream_dp.topics import JOURNAL, REPORTS

from .. import journal_checks
from ..deployment import Deployment
from ..following import READ_AT_ONCE, collector_paused, stop_following
from ..groups.bound import bound_roster
from ..groups.places import PlacesTable, bound_places
from ..groups.roster import Roster
from ..jobs.inputs import asks_people, nobody_table, part_table, save_tables
from ..jobs.records import SnapshotFile
from ..journal import Entry
from ..markers import MarkerReader
from ..parts.manifests import KIND, PartFile, read_part
from ..refusing import refuse_records
from ..schema_source import decoder_maker
from ..snapshots import Snapshots


def _nothing(step: str) -> None:
    pass


@dataclass(frozen=True)
class Source:
    """Where tasks find the study. at: called with the name of every step, for tests."""

    file: Path
    owner: str
    at: Callable[[str], None] = _nothing


@dataclass(frozen=True)
class Workplace:
    """What a process works with: the study as its journal began, its key, its logs.

    places: the table of places, whose keys the study has; None where it declares none.
    mapping: the hash of how this process reads records of other shapes; empty for plain reports.
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
        """The table of groups and their members; None where the study declares none.

        Raises Inconsistent where it is not the one that the journal was begun with.
        """
        return bound_roster(self.log, self.study, self.table)

    @cached_property
    def members(self) -> NDArray[np.uint64]:
        """The hashes of the ids of all members of groups, in their order, as two halves."""
        assert self.roster is not None
        return self.decoder.hashes(self.decoder.ids(self.roster.persons))


_OPEN: dict[Source, Workplace] = {}


def workplace(source: Source) -> Workplace:
    """Opened once in each process. Raises Inconsistent for a study file that was changed."""
    if source not in _OPEN:
        _OPEN[source] = _opened(source)
    return _OPEN[source]


def leave() -> None:
    """Closes what tasks have opened in this process."""
    while _OPEN:
        _OPEN.popitem()[1].log.close()


def _opened(source: Source) -> Workplace:
    deployment = Deployment.load(source.file)
    log = deployment.log()
    genesis = first_entry(log)
    study = journal_checks.first_declared(genesis, deployment.study)
    markers = MarkerReader.of(study)
    bound = genesis.genesis.groups
    places = bound_places(log, study, bound)
    if places is not None:
        study = places.of_study(study)
    decoder = decoder_maker(deployment)(study, genesis.key)
    snapshots = deployment.snapshots.of(source.owner)
    mapping = deployment.run.input.hash
    return Workplace(
        study,
        log,
        snapshots,
        decoder,
        markers=markers,
        mapping=mapping,
        places=places,
        table=bound,
    )


def first_entry(log: Log) -> Entry:
    """The journal's first entry. Raises Inconsistent without one, Missing without a journal."""
    first = next(read_messages(log, JOURNAL, "journal"), None)
    stop_following(log, JOURNAL)
    if first is None:
        raise Inconsistent("journal: it is empty; stream-dp run begins it")
    return Entry(first)


@dataclass(frozen=True)
class Range:
    """Reports of a partition to decode for a period, for so many parts.

    letters: whether to append dead letters for what is rejected.
    read_as: with which schemas to read; None for plain reports.
    only: whether with no others; else `read_as` has those that closed periods were read with.
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
    """What is in a range, but for the cells.

    records: how many reports there are.
    rejected: by reason, the cells that cannot be used.
    read_as: with which schemas something was read; None for plain reports.
    unknown: ids of schemas that were not known.
    """

    records: int
    rejected: Tally[Reason]
    read_as: ReadAs | None
    unknown: frozenset[int]


@collector_paused()
def decode(source: Source, task: Range) -> tuple[list[bytes], Decoded]:
    """Decodes a range of reports; by part its cells, and what else is in it.

    Raises Inconsistent where records are gone, schemas are others, or this process began with
    another `[run.input]`; Unavailable where a schema cannot be had now.
    """
    here, position = workplace(source), task.begin
    if here.mapping != ("" if task.read_as is None else task.read_as.mapping):
        raise Inconsistent(
            "run.input: it is not the one of the releaser that ordered the close; start the"
            " aggregator again, with the releaser's study file"
        )
    if task.only:
        here.decoder.repeat(task.read_as)
    else:
        here.decoder.go_on([task.read_as])
    cells, rejected, count = list[Cells](), Tally[Reason](), 0
    while position < task.end:
        try:
            batch = here.log.read(REPORTS, {task.partition: position}, READ_AT_ONCE, 0)
        except OutOfRange:
            raise lost(task.partition, position) from None
        after = batch.next[task.partition]
        if after == position:
            raise lost(task.partition, position, behind=True)
        records = Records.of(batch.records).below({task.partition: task.end})
        some, reasons, reports = decode_reports(source, records, task)
        cells.append(some)
        rejected.update(reasons)
        count, position = count + reports, after
    blobs = [packed(part) for part in split(Cells.joined(cells), task.parts)]
    stop_following(here.log, REPORTS)
    unknown = here.decoder.unknown
    return blobs, Decoded(count, rejected, here.decoder.close_period(), unknown)


def lost(partition: int, position: int, *, behind: bool = False) -> Inconsistent:
    """The error for reports that a period needs, and the log has not.

    position: of the first that is gone; if behind, where the partition ends before the cut.
    """
    what = f"records from position {position} of partition {partition} on are gone, and"
    why = f"{what} a period still needs them"
    if behind:
        why = f"partition {partition} ends at position {position}, before the cut of a period"
    return Inconsistent(f"reports: {why}; restore the confidential log")


def decode_reports(
    source: Source, records: Sequence[Stored], task: Range
) -> tuple[Cells, Tally[Reason], int]:
    """The cells of records of a range, how many are rejected, how many are reports.

    No dead letters are appended once a schema is unknown, unless that is settled: the range is
    then read again.
    """
    here = workplace(source)
    reports = here.markers.without_markers(Records.of(records))
    cells, refused = here.decoder.decode(reports, task.number - 1)
    source.at("decoded")
    if task.letters and refused and (task.only or not here.decoder.unknown):
        refuse_records(here.log, ((reports[r.place], r.cells) for r in refused))
        source.at("letters")
    rejected = Tally[Reason]()
    for record in refused:
        rejected.update(record.cells)
    return cells, rejected, len(reports)


@dataclass(frozen=True)
class MembersOfPart:
    """Members of groups who are in a part: halves of their hashes, rows in the table of members."""

    hi: NDArray[np.uint64]
    lo: NDArray[np.uint64]
    row: NDArray[np.int64]


@dataclass(frozen=True)
class Closing:
    """A part to be closed.

    before: its file at the last close; None at the first one.
    blobs: its cells since then.
    room: how many newcomers it may admit; None for all of them.
    due: names of the data sets that the close begins.
    members: of groups; at the first close, and where a data set of groups is due.
    """

    part: Part
    number: int
    before: PartFile | None
    blobs: list[bytes]
    room: int | None = None
    due: tuple[str, ...] = ()
    members: MembersOfPart | None = None


@dataclass(frozen=True)
class Written:
    """A part that is closed, and its file.

    tables: by data set that asks people, the file of what this part gives to it.
    nobody: by data set, an Arrow stream of what a place that nobody has gives to it; empty where
        it gives nothing.
    """

    closed: ClosedPart
    file: PartFile
    tables: dict[str, SnapshotFile]
    nobody: dict[str, bytes]


def close(source: Source, task: Closing) -> Written:
    """Closes a part and writes its file. Raises Inconsistent where its last file is gone."""
    here = workplace(source)
    if task.before is None:
        population = Population(here.study, task.part)
        if task.members is not None:
            population.enrol(task.members.hi, task.members.lo)
    elif read := read_part(here.study, here.snapshots, task.before, task.part):
        population = read
    else:
        raise Inconsistent(
            f"snapshot: the part {task.part.index} of the last close is gone; start the releaser"
            " again, and the input is read again"
        )
    source.at("part-read")
    closed = close_part(population, unpacked(task.blobs), task.room)
    source.at("part-closed")
    tables, nobody = dict[str, SnapshotFile](), dict[str, bytes]()
    for name in task.due:
        release = here.study.batch(name)
        assert release is not None
        if asks_people(release):
            table = part_table(here.study, release, population, _members(population, task.members))
            tables[name] = _write_table(here.snapshots, population, name, table)
            empty = nobody_table(here.study, release, population)
            nobody[name] = b"" if empty is None else ipc_stream(empty)
            source.at("part-table")
    file = write_part(here.snapshots, population)
    source.at("part-written")
    return Written(closed, file, tables, nobody)


def _members(
    population: Population, members: MembersOfPart | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Slots of members and their rows. Raises Inconsistent where one has no slot."""
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
    what = f"{KIND}-{population.period:05d}-{population.part.index:04d}-{name}"
    return SnapshotFile(*snapshots.store(what, ".parquet", partial(save_tables, [table])))


def write_part(snapshots: Snapshots, population: Population) -> PartFile:
    """Writes the population of a part to a file that is named by its hash."""
    assert population.part is not None
    what = f"{KIND}-{population.period:05d}-{population.part.index:04d}"
    return PartFile(*snapshots.store(what, ".npz", population.save), population.people)
