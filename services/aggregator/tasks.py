"""The tasks of a close: decode a range of reports, and close a part. Either may run twice.

A task gets what it works on from the study's file, so that it can run in any process.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from stream_dp.errors import Inconsistent
from stream_dp.log.base import Log, OutOfRange, Stored
from stream_dp.log.message import read_messages
from stream_dp.population import Population
from stream_dp.population.cells import Cells
from stream_dp.population.parts import ClosedPart, close_part
from stream_dp.population.rejected import Reason
from stream_dp.population.reports import Decoder, ReadAs
from stream_dp.population.split import Part, packed, split, unpacked
from stream_dp.study import Study
from stream_dp.topics import JOURNAL, REPORTS

from .. import journal_checks
from ..deployment import Deployment
from ..following import READ_AT_ONCE, collector_paused
from ..journal import Entry
from ..markers import closed_by
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
    """What a process works with: the study as its journal began, its key, its logs."""

    study: Study
    log: Log
    snapshots: Snapshots
    decoder: Decoder


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
    study = journal_checks.first_declared_plan([genesis], deployment.plan).study
    snapshots = deployment.snapshots.of(source.owner)
    return Workplace(study, log, snapshots, decoder_maker(deployment)(study, genesis.key))


def first_entry(log: Log) -> Entry:
    """The journal's first entry. Raises Inconsistent without one, Missing without a journal."""
    first = next(read_messages(log, JOURNAL, "journal"), None)
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
    """What is in a range.

    blobs: by part, its cells.
    records: how many reports there are.
    rejected: by reason, the cells that cannot be used.
    read_as: with which schemas something was read; None for plain reports.
    unknown: ids of schemas that were not known.
    """

    blobs: list[bytes]
    records: int
    rejected: Tally[Reason]
    read_as: ReadAs | None
    unknown: frozenset[int]


@collector_paused()
def decode(source: Source, task: Range) -> Decoded:
    """Decodes a range of reports.

    Raises Inconsistent where records are gone or schemas are others, Unavailable where a schema
    cannot be had now.
    """
    here, position = workplace(source), task.begin
    if task.only:
        here.decoder.repeat(task.read_as)
    else:
        here.decoder.go_on([task.read_as])
    cells, rejected, count = list[Cells](), Tally[Reason](), 0
    while position < task.end:
        try:
            batch = here.log.read(REPORTS, {task.partition: position}, READ_AT_ONCE, 0)
        except OutOfRange:
            raise Inconsistent(
                f"reports: records from position {position} of partition {task.partition} on are"
                " gone, and a period still needs them; restore the confidential log"
            ) from None
        after = batch.next[task.partition]
        if after == position:
            raise Inconsistent(
                f"reports: partition {task.partition} ends at position {position}, before the cut"
                " of a period; restore the confidential log"
            )
        records = [r for r in batch.records if r.offset < task.end]
        some, reasons, reports = decode_reports(source, records, task.number, task.letters)
        cells.append(some)
        rejected.update(reasons)
        count, position = count + reports, after
    blobs = [packed(part) for part in split(Cells.joined(cells), task.parts)]
    unknown = here.decoder.unknown
    return Decoded(blobs, count, rejected, here.decoder.close_period(), unknown)


def decode_reports(
    source: Source, records: Sequence[Stored], number: int, letters: bool
) -> tuple[Cells, Tally[Reason], int]:
    """The cells of records that came for a period, how many are rejected, how many are reports."""
    here, reports = workplace(source), [r for r in records if not _marks(r)]
    cells, refused = here.decoder.decode(reports, number - 1)
    source.at("decoded")
    if letters and refused:
        refuse_records(here.log, ((reports[r.place], r.cells) for r in refused))
        source.at("letters")
    rejected = Tally[Reason]()
    for record in refused:
        rejected.update(record.cells)
    return cells, rejected, len(reports)


def _marks(record: Stored) -> bool:
    return record.value is None and closed_by(record) > 0


@dataclass(frozen=True)
class Closing:
    """A part to be closed.

    before: its file at the last close; None at the first one.
    blobs: its cells since then.
    room: how many newcomers it may admit; None for all of them.
    """

    part: Part
    number: int
    before: PartFile | None
    blobs: list[bytes]
    room: int | None


@dataclass(frozen=True)
class Written:
    """A part that is closed, and its file."""

    closed: ClosedPart
    file: PartFile


def close(source: Source, task: Closing) -> Written:
    """Closes a part and writes its file. Raises Inconsistent where its last file is gone."""
    here = workplace(source)
    if task.before is None:
        population: Population | None = Population(here.study, task.part)
    else:
        population = read_part(here.study, here.snapshots, task.before, task.part)
    if population is None:
        raise Inconsistent(
            f"snapshot: the part {task.part.index} of the last close is gone; start the releaser"
            " again, and the input is read again"
        )
    source.at("part-read")
    closed = close_part(population, unpacked(task.blobs), task.room)
    source.at("part-closed")
    file = write_part(here.snapshots, population)
    source.at("part-written")
    return Written(closed, file)


def write_part(snapshots: Snapshots, population: Population) -> PartFile:
    """Writes the population of a part to a file that is named by its hash."""
    assert population.part is not None
    what = f"{KIND}-{population.period:05d}-{population.part.index:04d}"
    return PartFile(*snapshots.store(what, ".npz", population.save), population.people)
