"""Orders to close a period in parts, or to count for its gate, and manifests, which answer them.

A manifest has the files of all parts at a cut, with their counts and their joint accounting. It is
a file beside the parts' files. A journal entry names it instead of the population's snapshot.

The topics are confidential.

`orders`: a record for each order, appended by the releaser. `manifests`: the name and the hash of
the file of a manifest that answers an order, appended by an aggregator; before it, if reports have
schemas, the schemas in use; or that files of the preceding period are lost, and the order cannot be
answered. All may be appended more than once. A record has no list that grows with the reports: the
schemas are a file, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import BinaryIO

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dp.errors import Inconsistent
from stream_dp.log.log import Log, Positions, Record, Stored, following
from stream_dp.log.message import canonical
from stream_dp.population.cells import Answering, CellCounts, Part
from stream_dp.population.population import Population
from stream_dp.population.population_parts import Counts, join_populations
from stream_dp.population.shapes.record_contents import ReadAs
from stream_dp.study import Study
from stream_dp.study.noisy_gate import GATE
from stream_dp.study.topics import MANIFESTS, ORDERS

from .file_stores import InvalidSeal
from .job_records import SnapshotFile
from .journal import Entry
from .snapshots import Snapshots

_READING, _LOST = b"/reading", b"/lost"  # the ends of keys


class Order(msgspec.Struct, frozen=True, dict=True):
    """The close or the gate of a period: the input to read, and the state to add it to.

    genesis: the hash of the journal's first entry.
    number: of the period.
    begin, cut: by partition, the first offset of the reports to read, and the end.
    before: the manifest, or the snapshot, of the preceding period; None for the first period.
    accounting: of all cells up to `begin`.
    parts: the number of parts.
    letters: whether to append dead letters; false for a repeated close and for a gate.
    attempt: the number of earlier orders whose files were removed.
    read_as: how to read records; None for plain reports. A repeated close uses the schemas in the
        journal's entry only. Another close may use any known schema; these are schemas of closed
        periods, as an id never changes its schema.
    gate: whether the people of the period's gate are counted, and nothing is closed.
    reports: the identity of the topic of reports.
    """

    genesis: str
    number: int
    begin: dict[int, int]
    cut: dict[int, int]
    before: SnapshotFile | None
    accounting: CellCounts
    parts: int
    letters: bool = True
    attempt: int = 0
    read_as: ReadAs | None = None
    gate: bool = False
    reports: str = ""

    @property
    def repeats(self) -> bool:
        """Whether the period was closed before."""
        return not (self.letters or self.gate)

    @cached_property
    def data(self) -> bytes:
        return canonical(msgspec.to_builtins(self, str_keys=True))

    @cached_property
    def id(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @property
    def owner(self) -> str:
        """The beginning of the names of the journal's snapshots."""
        return self.genesis[:12]

    @property
    def ranges(self) -> dict[int, tuple[int, int]]:
        """The offsets of the reports to read, begin and end, by partition with reports."""
        begins = {p: self.begin.get(p, 0) for p in self.cut}  # 0 of a partition that was added
        return {p: (begins[p], end) for p, end in self.cut.items() if begins[p] < end}


class Answer(msgspec.Struct, frozen=True):
    """The manifest of an order, as a file in the folder of snapshots."""

    order: str
    manifest: SnapshotFile


class Reading(msgspec.Struct, frozen=True):
    """The schemas of an order, as a file in the folder of snapshots, the same for every aggregator:
    the first record counts."""

    order: str
    file: SnapshotFile


def order_record(order: Order) -> Record:
    return Record(ORDERS, order.data, order.id.encode(), partition=0)


def answer_record(order: Order, manifest: SnapshotFile) -> Record:
    value = canonical(msgspec.to_builtins(Answer(order.id, manifest)))
    return Record(MANIFESTS, value, order.id.encode(), partition=0)


def reading_record(order: Order, file: SnapshotFile) -> Record:
    value = canonical(msgspec.to_builtins(Reading(order.id, file)))
    return Record(MANIFESTS, value, order.id.encode() + _READING, partition=0)


def lost_record(order: Order) -> Record:
    """The record that says that the state before an order is lost."""
    return Record(MANIFESTS, b"", order.id.encode() + _LOST, partition=0)


@dataclass
class OrderBoard:
    """The orders and the answers in the topics, up to the last refresh.

    Records of another format are skipped.

    last: the order that was appended last, the only order in work.
    """

    log: Log
    last: Order | None = None
    _answers: dict[str, set[SnapshotFile]] = field(default_factory=dict)  # by order
    _readings: dict[str, SnapshotFile] = field(default_factory=dict)  # by order
    _lost: set[str] = field(default_factory=set)  # orders
    _positions: dict[str, Positions] = field(default_factory=dict)  # by topic

    def refresh(self) -> None:
        """Reads the new records. Raises LogError; Missing before the releaser's first start."""
        for topic, read in ((ORDERS, self._read_order), (MANIFESTS, self._read_answer)):
            if topic not in self._positions:
                self._positions[topic] = dict(self.log.describe(topic).first)
            for record in following(self.log, topic, self._positions[topic]):
                with suppress(msgspec.MsgspecError):
                    read(record)

    def wait(self, topic: str, seconds: float) -> bool:
        """Waits for a new record of a topic. Returns whether it came.

        Raises LogError; Missing before the releaser's first start.
        """
        if topic not in self._positions:
            self._positions[topic] = dict(self.log.describe(topic).first)
        return bool(self.log.read(topic, self._positions[topic], 1, seconds).records)

    def _read_order(self, record: Stored) -> None:
        self.last = msgspec.json.decode(record.value or b"", type=Order)

    def _read_answer(self, record: Stored) -> None:
        """Takes an answer, the settled schemas of an order, or the loss of its files."""
        if (record.key or b"").endswith(_READING):
            reading = msgspec.json.decode(record.value or b"", type=Reading)
            self._readings.setdefault(reading.order, reading.file)
            return
        if (record.key or b"").endswith(_LOST):
            self._lost.add((record.key or b"").removesuffix(_LOST).decode("ascii", "replace"))
            return
        answer = msgspec.json.decode(record.value or b"", type=Answer)
        self._answers.setdefault(answer.order, set()).add(answer.manifest)

    def reading(self, order: Order) -> SnapshotFile | None:
        """Returns the file that says how the reports of an order are read, if this is settled."""
        return self._readings.get(order.id)

    def lost(self, order: Order) -> bool:
        """Returns whether an order cannot be answered, as the state before it is lost."""
        return order.id in self._lost

    def answer(self, order: Order) -> SnapshotFile | None:
        """Returns the manifest of an order, if it exists.

        Raises Inconsistent for two different manifests: the same input gives the same bytes.
        """
        answers = self._answers.get(order.id, set())
        if len(answers) > 1:
            raise Inconsistent(
                f"manifests: two of period {order.number} differ, and the same input gives the"
                " same bytes: aggregators of different versions, or with different study files,"
                " work on one study; stop all but one, and remove the topic of manifests"
            )
        return next(iter(answers), None)


KIND, SUFFIX = "part", ".json"  # of the files of parts, and of their manifests
CELLS = "cells"  # the kind of files of cells that are on their way to parts


class PartFile(msgspec.Struct, frozen=True):
    """The file of a part's population. people: the number of people in it."""

    name: str
    sha256: str
    people: int


class Manifest(msgspec.Struct, frozen=True, dict=True):
    """The result of closing a period in parts, or of counting people for its gate.

    order: the id of the order.
    parts: in their order; none for a gate.
    counted: by release, the true counts, see `encoded_counts`. For a gate, the number of people by
        the name of the gate's charges.
    accounting: of all cells since the study began.
    records: the number of reports for the period.
    answering: the people with an answer, and their answers.
    read_as: how the reports were read; None for plain reports.
    jobs: by data set and table, the files of the inputs of jobs that the close begins.
    """

    order: str
    number: int
    parts: list[PartFile]
    counted: dict[str, bytes]
    accounting: CellCounts
    records: int
    answering: Answering = Answering()
    read_as: ReadAs | None = None
    jobs: dict[str, dict[str, SnapshotFile]] = {}

    @cached_property
    def counts(self) -> dict[str, NDArray[np.int64]]:
        """By release, the counts for its mechanism, to be read after the noise is drawn."""
        return {n: np.frombuffer(d, "<i8").astype(np.int64) for n, d in self.counted.items()}

    @property
    def files(self) -> list[str]:
        """The names of the files of all parts and of the inputs of data sets."""
        inputs = [file.name for tables in self.jobs.values() for file in tables.values()]
        return [*(part_file.name for part_file in self.parts), *inputs]

    @property
    def people(self) -> int:
        return sum(part_file.people for part_file in self.parts)

    def answers(
        self, order: Order, lengths: Mapping[str, int], tables: Mapping[str, set[str]]
    ) -> bool:
        """Whether this is an answer to an order, without a look at the counts.

        lengths: by release, bytes of its counts.
        tables: by data set that the close begins, the names of its inputs.
        """
        return (
            (self.order, self.number) == (order.id, order.number)
            and len(self.parts) == (0 if order.gate else order.parts)
            and {name: len(data) for name, data in self.counted.items()}
            == ({GATE: 8} if order.gate else lengths)
            and self._reads_as(order)
            and {name: set(files) for name, files in self.jobs.items()} == tables
        )

    def _reads_as(self, order: Order) -> bool:
        """Whether the reports were read with the ordered mapping."""
        if order.read_as is None or self.read_as is None:
            return order.read_as == self.read_as
        return order.read_as.mapping == self.read_as.mapping

    def save(self, file: BinaryIO) -> None:
        fields = msgspec.to_builtins(self, str_keys=True)
        file.write(msgspec.json.encode(fields, order="sorted"))


def gate_manifest(order: Order, people: int, records: int, read_as: ReadAs | None) -> Manifest:
    """The answer to the order of a gate. people: whom the gate counts."""
    counted = encoded_counts({GATE: np.array([people], np.int64)})
    return Manifest(order.id, order.number, [], counted, order.accounting, records, read_as=read_as)


def encoded_counts(counts: Counts) -> dict[str, bytes]:
    """Counts by release as little-endian 64-bit integers."""
    return {name: array.astype("<i8").tobytes() for name, array in counts.items()}


def write_manifest(snapshots: Snapshots, manifest: Manifest) -> SnapshotFile:
    """Writes a manifest, durable on return."""
    label = f"period-{manifest.number:05d}"
    return SnapshotFile(*snapshots.store(label, SUFFIX, manifest.save))


def read_manifest(snapshots: Snapshots, name: str, digest: str) -> Manifest | None:
    """Reads a manifest. Raises Inconsistent.

    Returns None if the file is gone, or is damaged and set aside.
    """
    with snapshots.intact(name, digest) as file:
        if file is None:
            return None
        try:
            return msgspec.json.decode(file.read(), type=Manifest)
        except msgspec.MsgspecError:
            raise Inconsistent(f"snapshot {name}: no manifest that this version reads") from None


def read_part(study: Study, snapshots: Snapshots, file: PartFile, part: Part) -> Population | None:
    """Reads the population of a part.

    Returns None if its file is gone, or is damaged and set aside.
    """
    with snapshots.intact(file.name, file.sha256) as opened:
        return None if opened is None else Population.load(study, opened, part)


def read_population(
    study: Study, snapshots: Snapshots, name: str, digest: str
) -> Population | None:
    """Reads the population of everybody, from its snapshot or from all of its parts.

    Returns None if a file is gone, or is damaged and set aside. Raises Inconsistent.
    """
    if not name.endswith(SUFFIX):
        with snapshots.intact(name, digest) as file:
            return None if file is None else Population.load(study, file)
    manifest = read_manifest(snapshots, name, digest)
    if manifest is None:
        return None
    populations: list[Population] = []
    for index, listed in enumerate(manifest.parts):
        population = read_part(study, snapshots, listed, Part(index, len(manifest.parts)))
        if population is None:
            return None
        populations.append(population)
    return join_populations(study, populations, manifest.accounting)


def keep_files(snapshots: Snapshots, names: Iterable[str], upto: int) -> None:
    """Keeps these snapshots of the population, with the parts of manifests; removes the rest.

    Files of cells go, too: no closed period needs them.

    upto: the last closed period; files of the open period may belong to a close under way.
    """
    names, part_names = set(names), set[str]()
    for name in names:
        with snapshots.at(name) as file:
            if file is not None and name.endswith(SUFFIX):
                # A damaged manifest is of no use, and neither are its parts.
                with suppress(msgspec.MsgspecError, InvalidSeal):
                    manifest = msgspec.json.decode(file.read(), type=Manifest)
                    part_names |= {part_file.name for part_file in manifest.parts}
    snapshots.keep(names, upto=upto)
    snapshots.keep(part_names, KIND, upto)
    snapshots.keep(set(), CELLS, upto)


def newest_complete_close(closes: Sequence[Entry], snapshots: Snapshots) -> Entry:
    """Returns the journal entry of the newest close with a complete snapshot.

    Without such a close, returns the genesis entry, the first of `closes`.
    """
    complete = (e for e in reversed(closes[1:]) if is_complete(snapshots, *e.snapshot))
    return next(complete, closes[0])


def is_complete(snapshots: Snapshots, name: str, digest: str) -> bool:
    """Tells whether a snapshot is there, with all parts of a manifest. Raises Inconsistent."""
    if not snapshots.holds(name):
        return False
    if not name.endswith(SUFFIX):
        return True
    manifest = read_manifest(snapshots, name, digest)
    return manifest is not None and all(snapshots.holds(part.name) for part in manifest.parts)
