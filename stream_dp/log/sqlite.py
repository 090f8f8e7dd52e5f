"""The embedded log: topics in one SQLite file.

A confidential file has mode 0600 and a write-ahead log, so that senders, the releaser and
readers work side by side. A public file keeps a rollback journal, so that a reader without
write access can open it. The owner of a role holds a kernel lock on a file beside it
(`role_lock`), which a crash releases.
"""

from __future__ import annotations

import sqlite3
import time as clock_module
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import repeat
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec
import numpy as np

from .log import (
    MAX_BATCH,
    MAX_RECORD,
    NEVER,
    Batch,
    Busy,
    Fenced,
    Headers,
    LogError,
    Missing,
    OutOfRange,
    Positions,
    Record,
    TopicInfo,
    Unavailable,
    UnknownCommit,
    memory_bytes,
    payload_bytes,
)
from .owned_files import (
    RoleLock,
    Taken,
    identity_of_file,
    mark_path,
    read_mark,
    role_lock,
    write_mark,
)
from .records import FIRST_OFFSET, RecordColumns, Records, Texts
from .sealing import Keyring, RecordSeal
from .sqlite_file import (
    block_records,
    headers_number,
    insert_blocks,
    open_file,
    sqlite_errors,
    whole_headers,
)

_HEADERS = msgspec.msgpack.Decoder(tuple[tuple[str, bytes | None], ...])
_MOST_PARTITIONS = 100_000
_ROWS = 64  # that are read at once: each may take a megabyte
_MOST_KNOWN = 256  # decoded headers that are kept during a read
_POLL = 0.05


class SqliteLog:
    """The log in the file at `path`.

    public: rollback journal and a world-readable mode.
    readonly: never writes; the file must exist.
    timed: topics whose records carry the time of appending, whatever their `time` is.
    latest: topics of which each partition keeps its last record alone.
    keys: of a file whose records are encrypted, from its creation on.
    clock: Unix seconds, for append times.
    """

    def __init__(
        self,
        path: Path,
        *,
        public: bool = False,
        readonly: bool = False,
        timed: Iterable[str] = (),
        latest: Iterable[str] = (),
        keys: Keyring | None = None,
        clock: Callable[[], float] = clock_module.time,
    ) -> None:
        self._path, self._clock, self._timed = path, clock, frozenset(timed)
        self._latest, self._writing = frozenset(latest), Lock()
        self._partitions: dict[str, int] = {}
        self._db, self._identity = open_file(path, public=public, readonly=readonly, keys=keys)
        ends = self._select(
            "SELECT CAST(topic AS TEXT), CAST(partition AS INT), CAST(offset AS INT) FROM ends"
            " LIMIT 100000"
        )
        self._ends = {(topic, partition): offset for topic, partition, offset in ends}
        self._seal = RecordSeal(keys, self._identity) if keys else None

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """A transaction that is rolled back after an error."""
        with self._writing:  # threads share the connection, and so its transaction
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # a full disk may have ended it
                    self._db.execute("ROLLBACK")
                raise

    def close(self) -> None:
        self._db.close()

    def name(self, topic: str) -> str:
        return topic

    @property
    def file_identity(self) -> str:
        return identity_of_file(self._path)

    def mark(self, name: str) -> bytes:
        return read_mark(mark_path(self._path, name))

    def create(self, topics: Mapping[str, int]) -> None:
        missing = [
            (name, count) for name, count in topics.items() if not self._partition_count(name)
        ]
        if missing:
            with sqlite_errors(self._path, "no topic was created"), self._transaction():
                self._db.executemany("INSERT OR IGNORE INTO topics VALUES (?, ?)", missing)

    def _select(self, query: str, *values: object) -> list[Any]:
        with sqlite_errors(self._path, "cannot be read"):
            return self._db.execute(query, values).fetchall()

    def _partition_count(self, topic: str) -> int:
        """Returns the topic's number of partitions, 0 if the topic does not exist."""
        if topic not in self._partitions:
            rows = self._select("SELECT partitions FROM topics WHERE name = ?", topic)
            if not rows:
                return 0
            count = rows[0][0]
            if not isinstance(count, int) or not 0 < count <= _MOST_PARTITIONS:
                raise LogError(f"{self._path}: the topics are not those of stream-dp")
            self._partitions[topic] = count
        return self._partitions[topic]

    def _count(self, topic: str) -> int:
        count = self._partition_count(topic)
        if not count:
            raise Missing(f"{self._path}: no topic '{topic}'")
        return count

    def faults(self, topics: Mapping[str, int]) -> list[str]:
        return [
            f"{self._path}: topic '{name}' has {self._partition_count(name)} partitions,"
            f" not {count}"
            for name, count in topics.items()
            if self._partition_count(name) != count
        ]

    def hazards(self, topics: Iterable[str]) -> list[str]:
        return []

    def describe_all(self, topics: Iterable[str]) -> dict[str, TopicInfo]:
        return {topic: self.describe(topic) for topic in topics if self._partition_count(topic)}

    def describe(self, topic: str) -> TopicInfo:
        first = {}
        for partition in range(self._count(topic)):
            offset = self._first_offset(topic, partition)
            first[partition] = 0 if offset is None else offset
        return TopicInfo(self._identity, len(first), first)

    def _end(self, topic: str, partition: int) -> int:
        return self._last_record(topic, partition)[0] + 1

    def _first_offset(self, topic: str, partition: int, time: int | None = None) -> int | None:
        """Returns the first offset of a record, appended at or after `time` in milliseconds."""
        query = f"SELECT {FIRST_OFFSET} FROM records WHERE topic = ? AND partition = ?"
        if time is not None:
            query += " AND time >= ?"
        values = (topic, partition) if time is None else (topic, partition, time)
        rows = self._select(f"{query} ORDER BY offset LIMIT 1", *values)
        if not all(isinstance(offset, int) for (offset,) in rows):
            raise LogError(f"{self._path}: a record is not one of stream-dp")
        return rows[0][0] if rows else None

    def stable(self, topic: str) -> Positions:
        return self.cut(topic, NEVER)

    def cut(self, topic: str, time: float) -> Positions:
        # Append times never decrease inside a partition. So the last time tells whether a record
        # is late enough, and a scan gives the first offset.
        positions: Positions = {}
        for partition in range(self._count(topic)):
            last, newest = self._last_record(topic, partition)
            positions[partition] = last + 1
            if newest >= round(time * 1000):
                offset = self._first_offset(topic, partition, round(time * 1000))
                positions[partition] = last + 1 if offset is None else offset
        return positions

    def now(self, topic: str) -> float:
        return self._clock()

    def read(self, topic: str, positions: Positions, limit: int, timeout: float) -> Batch:
        count = self._count(topic)
        for partition, position in positions.items():
            if partition >= count or position > self._end(topic, partition):
                raise OutOfRange(
                    f"{self._path}: topic '{topic}' ends before position {position} of "
                    f"partition {partition}"
                )
        deadline = clock_module.monotonic() + timeout
        while True:
            batch = self._read(topic, positions, limit)
            if batch.records or clock_module.monotonic() >= deadline:
                return batch
            clock_module.sleep(min(_POLL, max(0.0, deadline - clock_module.monotonic())))

    def _read(self, topic: str, positions: Positions, limit: int) -> Batch:
        """The records that are there now, partition by partition, up to the limits of a batch."""
        records, next_offsets = Records(), dict(positions)
        room, at_end = MAX_BATCH, True
        for partition in sorted(positions):
            remaining, first = limit - len(records) if room > 0 else 0, len(records)
            for piece in self._stored(topic, partition, positions[partition], remaining):
                rest = remaining - (len(records) - first)
                if rest < len(piece[0]):
                    piece = tuple(column[:rest] for column in piece)
                fitting, room = _fitting(piece, room)
                records.add(*piece if fitting == len(piece[0]) else [c[:fitting] for c in piece])
                if room <= 0 or fitting == rest:
                    break
            if len(records) > first:
                next_offsets[partition] = records.offsets[-1] + 1
            at_end = at_end and len(records) - first < remaining and room > 0
        return Batch(records, next_offsets, at_end)

    def _stored(
        self, topic: str, partition: int, first: int, limit: int
    ) -> Iterator[tuple[Sequence[Any], ...]]:
        """Yields columns of a partition's records, as bytes, whatever types a hostile file has."""
        query = (
            "SELECT offset, time, CASE typeof(key) WHEN 'integer' THEN key ELSE CAST(key AS BLOB)"
            " END, CAST(value AS BLOB),"
            " CASE typeof(headers) WHEN 'integer' THEN headers ELSE CAST(headers AS BLOB) END"
            " FROM records WHERE topic = ? AND partition = ? AND offset >= ?"
            " ORDER BY offset LIMIT ?"
        )
        known: dict[int | bytes | None, Headers | None] = {None: (), b"": ()}
        with sqlite_errors(self._path, "cannot be read"):
            with closing(self._db.execute(query, (topic, partition, first, limit))) as rows:
                for offsets, times, keys, values, raws in self._pieces(rows, first):
                    for raw in set(raws).difference(known):
                        known[raw] = self._decoded(raw)
                    headers: Sequence[Headers | None] = [known[raw] for raw in raws]
                    if self._seal is not None:
                        places = zip(offsets, times, values, strict=True)
                        opened = [
                            self._seal.open(
                                value,
                                _context(topic, partition, offset, time),
                                f"{self._path}: record {offset} of topic '{topic}'",
                            )
                            for offset, time, value in places
                        ]
                        keys, values, headers = zip(*opened, strict=True)
                    partitions = array("q", [partition]) * len(offsets)
                    yield partitions, offsets, times, keys, values, headers
                    if len(known) > _MOST_KNOWN:
                        known = {None: (), b"": ()}

    def _pieces(self, rows: sqlite3.Cursor, first: int) -> Iterator[tuple[Sequence[Any], ...]]:
        """Yields offsets, times, keys, values and encoded headers of the records in rows.

        first: the offset of the first record; earlier records of its block are left out.
        """
        at_once = 1  # a block has many records
        while several := rows.fetchmany(at_once):
            columns: tuple[Sequence[Any], ...] = tuple(zip(*several, strict=True))
            offsets, times, keys, _, _ = columns
            if {*map(type, offsets), *map(type, times)} != {int}:
                raise LogError(f"{self._path}: a record is not one of stream-dp")
            if self._seal is not None or int not in {*map(type, keys)}:
                at_once, first = _ROWS, offsets[-1] + 1
                yield columns
                continue
            at_once = 1
            for offset, time, key, value, raw in several:
                if not isinstance(key, int):
                    yield [offset], [time], [key], [value], [raw]
                else:
                    numbers, *strings = block_records(self._path, offset, key, value, raw)
                    columns = (numbers, array("q", [time]) * key, *strings)
                    # Each record may name a megabyte of shared headers.
                    most = _ROWS if isinstance(strings[-1], Texts) else key
                    for start in range(max(0, first - numbers[0]), key, most):
                        whole = most == key and not start
                        part = slice(start, start + most)
                        yield columns if whole else tuple(column[part] for column in columns)
                first = offset + 1

    def _decoded(self, raw: int | bytes) -> Headers | None:
        """Returns the headers of a record from the contents of its column."""
        whole = whole_headers(self._db, raw)
        return None if whole is None else _headers(whole)

    def append(self, records: Iterable[Record]) -> None:
        with sqlite_errors(self._path, "nothing was written"), self._transaction():
            self._insert(records)

    def _insert(self, records: Iterable[Record]) -> None:
        """Inserts records at the next offsets of their partitions, inside a transaction.

        A record keeps its own time. A record without one, or of a topic in `timed`, gets the append
        time, which never decreases in a partition. Times are in Unix milliseconds. Of the topics in
        `latest` only the last record of a partition stays.
        """
        if isinstance(records, RecordColumns) and self._is_plain(records):
            self._insert_columns(records)
            return
        append_time = round(self._clock() * 1000)
        last: dict[tuple[str, int], tuple[int, int]] = {}  # offset and time, by partition
        rows = []
        for record in records:
            topic, partition = record.topic, self._partition(record)
            offset, time = last.get((topic, partition)) or self._last_record(topic, partition)
            if (length := payload_bytes(record)) > MAX_RECORD:
                raise LogError(f"{self._path}: a record of {length} bytes is over {MAX_RECORD}")
            offset += 1
            if record.time is None or topic in self._timed:
                time = max(append_time, time)
            else:
                time = record.time
            last[topic, partition] = offset, time
            contents = self._contents(record, partition, offset, time)
            rows.append((topic, partition, offset, time, *contents))
        self._db.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        kept = [
            (topic, partition, offset)
            for (topic, partition), (offset, _) in last.items()
            if topic in self._latest
        ]
        self._db.executemany(
            "DELETE FROM records WHERE topic = ? AND partition = ? AND offset < ?", kept
        )

    def _is_plain(self, records: RecordColumns) -> bool:
        """Tells whether the writer accepts the records in columns."""
        unusual = self._seal is not None or records.topic in self._latest
        return not unusual and records.most_bytes() <= MAX_RECORD

    def _insert_columns(self, records: RecordColumns) -> None:
        """Inserts records partition by partition, by the CRC-32 of their keys."""
        topic, count = records.topic, self._count(records.topic)
        number, own_headers = None, list[bytes]()
        # What varies elsewhere and is equal in many records here is shared.
        equal = {n: v[0] for n, v in records.varying.items() if 1 < len(v) == v.count(v[0])}
        if records.headers or records.varying:
            shared = (*records.headers, *((name, equal.get(name)) for name in records.varying))
            number = headers_number(self._db, msgspec.msgpack.encode(shared))
        if varying := [v for name, v in records.varying.items() if name not in equal]:
            contents = zip(repeat(number), *varying)
            own_headers = list(map(msgspec.msgpack.Encoder().encode, contents))
        append_time = round(self._clock() * 1000)
        columns = [Texts.of(records.keys), Texts.of(records.values)]
        columns += [Texts.of(own_headers)] if own_headers else []
        partition_of = np.zeros(len(records), np.int64)
        if count > 1:
            hashes = (zlib.crc32(key or b"") for key in records.keys)
            partition_of += np.fromiter(hashes, np.int64) % count
        for partition in sorted({*partition_of.tolist()}):
            rows = np.flatnonzero(partition_of == partition).tolist()
            offset, time = self._last_record(topic, partition)
            insert_blocks(
                self._db,
                (topic, partition, max(append_time, time), number),
                offset + 1,
                columns if count == 1 else [c.take(rows) for c in columns],
            )

    def _contents(
        self, record: Record, partition: int, offset: int, time: int
    ) -> tuple[bytes | None, bytes | None, bytes | None]:
        """Returns key, value and headers in the encoding of the file."""
        if self._seal is None:
            headers = msgspec.msgpack.encode(record.headers) if record.headers else None
            return record.key, record.value, headers
        context = _context(record.topic, partition, offset, time)
        return None, self._seal.seal(record.key, record.value, record.headers, context), None

    def _last_record(self, topic: str, partition: int) -> list[int]:
        """Returns offset and time of a partition's last record; -1 and 0 before the first.

        In a restored partition the offset is the last that a cluster had given.
        """
        rows = self._select(
            "SELECT offset, time FROM records WHERE topic = ? AND partition = ? "
            "ORDER BY offset DESC LIMIT 1",
            topic,
            partition,
        )
        offset, time = rows[0] if rows else (-1, 0)
        if not (isinstance(offset, int) and isinstance(time, int)):
            raise LogError(f"{self._path}: a record is not one of stream-dp")
        return [max(offset, self._ends.get((topic, partition), 0) - 1), time]

    def _partition(self, record: Record) -> int:
        """The declared partition of a record, or that of its key's CRC-32. Raises LogError."""
        count = self._count(record.topic)
        if record.partition is not None:
            if not 0 <= record.partition < count:
                raise LogError(f"{self._path}: '{record.topic}' has {count} partitions")
            return record.partition
        return zlib.crc32(record.key) % count if record.key is not None else 0

    @contextmanager
    def own(self, name: str, topic: str | None = None) -> Iterator[_Owner]:
        try:
            with role_lock(self._path.with_name(f"{self._path.name}.{name}.lock")) as lock:
                owner = _Owner(self, lock, name)
                try:
                    yield owner
                finally:
                    owner.over = True
        except Taken:
            raise Busy(
                f"{self._path}: another process is its {name}; stop that one first"
            ) from None


class _Owner:
    """The owner of a role. The owner commits while its process has the lock."""

    def __init__(self, log: SqliteLog, lock: RoleLock, name: str) -> None:
        self._log, self._lock, self._name, self.over = log, lock, name, False

    def commit(self, records: Iterable[Record]) -> None:
        if self.over or not self._lock.holds():
            raise Fenced("this writer's ownership is over: another process may have its role")
        try:
            with sqlite_errors(self._log._path, "a commit failed"), self._log._transaction():
                self._log._insert(records)
        except Unavailable as error:
            raise UnknownCommit(str(error)) from None

    def mark(self, content: bytes) -> None:
        write_mark(mark_path(self._log._path, self._name), content)


def _fitting(piece: Sequence[Sequence[Any]], room: int) -> tuple[int, int]:
    """Returns how many of some records a read takes, and the bytes that are left.

    A read takes the record that fills it.
    """
    *_, keys, values, headers = piece
    shared = (
        memory_bytes(None, None, headers[0]) if headers.count(headers[0]) == len(keys) else room
    )
    size = _length(keys) + _length(values) + len(keys) * shared
    if size < room:
        return len(keys), room - size
    for row, (key, value, several) in enumerate(zip(keys, values, headers, strict=True)):
        room -= memory_bytes(key, value, several)
        if room <= 0:
            return row + 1, room
    return len(keys), room


def _length(strings: Sequence[bytes | None]) -> int:
    """Returns the bytes of all strings."""
    if isinstance(strings, Texts):
        return int(strings.lengths().sum())
    return sum(map(len, filter(None, strings)))


def _context(topic: str, partition: int, offset: int, time: int) -> str:
    return f"{topic}/{partition}/{offset}/{time}"


def _headers(raw: bytes) -> Headers | None:
    try:
        return tuple([(name, value or b"") for name, value in _HEADERS.decode(raw)])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
