"""Orders to close a period in parts, or to count for its gate, and the answers to them.

The topics are confidential.

`orders`: a record for each order, appended by the releaser. `manifests`: the name and the hash of
the file of a manifest that answers an order, appended by an aggregator; before it, if reports have
schemas, the schemas in use; or that files of the preceding period are lost, and the order cannot be
answered. All may be appended more than once. A record has no list that grows with the reports: the
schemas are a file, too.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

import msgspec

from stream_dp.errors import Inconsistent
from stream_dp.log.following import following
from stream_dp.log.log import Log, Positions, Record, Stored
from stream_dp.log.message import canonical
from stream_dp.population.accounting import CellCounts
from stream_dp.population.report_decoding import ReadAs
from stream_dp.study.topics import MANIFESTS, ORDERS

from .job_records import SnapshotFile

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
