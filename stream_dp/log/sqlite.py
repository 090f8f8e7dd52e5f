"""The embedded log: topics in one SQLite file.

A confidential file has mode 0600 and a write-ahead log, so that senders, the releaser and
readers work side by side. A public file keeps a rollback journal, so that a reader without
write access can open it. The owner of a role holds a kernel lock on a file beside it
(`role_lock`), which a crash releases.
"""

from __future__ import annotations

import time as clock_module
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Lock
from types import NoneType
from typing import Any

import msgspec

from .base import (
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
    Stored,
    TopicInfo,
    Unavailable,
    UnknownCommit,
    memory_bytes,
    payload_bytes,
)
from .mark import mark_path, read_mark, write_mark
from .place import file_place
from .role_lock import RoleLock, Taken, role_lock
from .sealing import Keyring, RecordSeal
from .sqlite_file import open_file, sqlite_errors

_HEADERS = msgspec.msgpack.Decoder(tuple[tuple[str, bytes | None], ...])
_MOST_PARTITIONS = 100_000
_POLL = 0.05


class SqliteLog:
    """The log in the file at `path`.

    public: rollback journal and a world-readable mode. readonly: never writes, must exist.
    timed: topics whose records carry the time of appending, whatever time they are given.
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
            "SELECT CAST(topic AS TEXT), CAST(part AS INT), CAST(place AS INT) FROM ends"
            " LIMIT 100000"
        )
        self._ends = {(topic, part): place for topic, part, place in ends}
        self._seal = RecordSeal(keys, self._identity) if keys else None

    @contextmanager
    def _transaction(self) -> Iterator[None]:
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
    def place(self) -> str:
        return file_place(self._path)

    def mark(self, name: str) -> bytes:
        return read_mark(mark_path(self._path, name))

    def create(self, topics: Mapping[str, int]) -> None:
        missing = [(name, count) for name, count in topics.items() if not self._known(name)]
        if missing:
            with sqlite_errors(self._path, "no topic was created"), self._transaction():
                self._db.executemany("INSERT OR IGNORE INTO topics VALUES (?, ?)", missing)

    def _select(self, query: str, *values: object) -> list[Any]:
        with sqlite_errors(self._path, "cannot be read"):
            return self._db.execute(query, values).fetchall()

    def _known(self, topic: str) -> int:
        """The topic's number of partitions; 0 where it does not exist."""
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
        count = self._known(topic)
        if not count:
            raise Missing(f"{self._path}: no topic '{topic}'")
        return count

    def faults(self, topics: Mapping[str, int]) -> list[str]:
        return [
            f"{self._path}: topic '{name}' has {self._known(name)} partitions, not {count}"
            for name, count in topics.items()
            if self._known(name) != count
        ]

    def describe(self, topic: str) -> TopicInfo:
        query = "SELECT min(place) FROM records WHERE topic = ? AND part = ?"
        first = {}
        for part in range(self._count(topic)):
            place = self._place(query, topic, part)
            first[part] = 0 if place is None else place
        return TopicInfo(self._identity, len(first), first)

    def _end(self, topic: str, part: int) -> int:
        return self._last(topic, part)[0] + 1

    def _place(self, query: str, *values: object) -> int | None:
        ((place,),) = self._select(query, *values)
        if not isinstance(place, (int, NoneType)):
            raise LogError(f"{self._path}: a record is not one of stream-dp")
        return place

    def stable(self, topic: str) -> Positions:
        return self.cut(topic, NEVER)

    def cut(self, topic: str, time: float) -> Positions:
        # Append times never fall inside a partition: the last one tells whether there is any, and
        # one scan gives the first place.
        query = "SELECT min(place) FROM records WHERE topic = ? AND part = ? AND time >= ?"
        positions: Positions = {}
        for part in range(self._count(topic)):
            last, newest = self._last(topic, part)
            positions[part] = last + 1
            if newest >= round(time * 1000):
                place = self._place(query, topic, part, round(time * 1000))
                positions[part] = last + 1 if place is None else place
        return positions

    def now(self, topic: str) -> float:
        return self._clock()

    def read(self, topic: str, positions: Positions, limit: int, timeout: float) -> Batch:
        count = self._count(topic)
        for part, position in positions.items():
            if part >= count or position > self._end(topic, part):
                raise OutOfRange(
                    f"{self._path}: topic '{topic}' ends before position {position} of "
                    f"partition {part}"
                )
        deadline = clock_module.monotonic() + timeout
        while True:
            batch = self._read(topic, positions, limit)
            if batch.records or clock_module.monotonic() >= deadline:
                return batch
            clock_module.sleep(min(_POLL, max(0.0, deadline - clock_module.monotonic())))

    def _read(self, topic: str, positions: Positions, limit: int) -> Batch:
        records: list[Stored] = []
        after, room, at_end = dict(positions), MAX_BATCH, True
        for part in sorted(positions):
            left = limit - len(records) if room > 0 else 0
            for record in self._stored(topic, part, positions[part], left):
                records.append(record)
                left -= 1
                room -= memory_bytes(record.key, record.value, record.headers)
                if room <= 0:
                    break
            if records and records[-1].partition == part:
                after[part] = records[-1].offset + 1
            at_end = at_end and left > 0 and room > 0
        return Batch(records, after, at_end)

    def _stored(self, topic: str, part: int, first: int, limit: int) -> Iterator[Stored]:
        """Records of a partition, one by one; bytes, whatever types a hostile file has."""
        query = (
            "SELECT place, time, CAST(key AS BLOB), CAST(value AS BLOB), CAST(headers AS BLOB)"
            " FROM records WHERE topic = ? AND part = ? AND place >= ? ORDER BY place LIMIT ?"
        )
        with sqlite_errors(self._path, "cannot be read"):
            with closing(self._db.execute(query, (topic, part, first, limit))) as rows:
                for place, time, key, value, raw in rows:
                    if not (isinstance(place, int) and isinstance(time, int)):
                        raise LogError(f"{self._path}: a record is not one of stream-dp")
                    headers = _headers(raw) if raw else ()
                    if self._seal is not None:
                        what = f"{self._path}: record {place} of topic '{topic}'"
                        key, value, headers = self._seal.open(
                            value, _bound(topic, part, place, time), what
                        )
                    yield Stored(
                        partition=part,
                        offset=place,
                        time=time,
                        key=key,
                        value=value,
                        headers=headers,
                    )

    def append(self, records: Iterable[Record]) -> None:
        with sqlite_errors(self._path, "nothing was written"), self._transaction():
            self._insert(records)

    def _insert(self, records: Iterable[Record]) -> None:
        now = round(self._clock() * 1000)
        ends: dict[tuple[str, int], list[int]] = {}
        rows = []
        for record in records:
            part = self._partition(record)
            end = ends.get((record.topic, part))
            if end is None:
                end = ends[record.topic, part] = self._last(record.topic, part)
            if (length := payload_bytes(record)) > MAX_RECORD:
                raise LogError(f"{self._path}: a record of {length} bytes is over {MAX_RECORD}")
            end[0] += 1
            if record.time is None or record.topic in self._timed:
                end[1] = max(now, end[1])
            else:
                end[1] = record.time
            rows.append((record.topic, part, *end, *self._contents(record, part, *end)))
        self._db.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        kept = [(*key, end[0]) for key, end in ends.items() if key[0] in self._latest]
        self._db.executemany("DELETE FROM records WHERE topic = ? AND part = ? AND place < ?", kept)

    def _contents(
        self, record: Record, part: int, place: int, time: int
    ) -> tuple[bytes | None, bytes | None, bytes | None]:
        """Key, value and headers as they stand in the file."""
        if self._seal is None:
            headers = msgspec.msgpack.encode(record.headers) if record.headers else None
            return record.key, record.value, headers
        bound = _bound(record.topic, part, place, time)
        return None, self._seal.seal(record.key, record.value, record.headers, bound), None

    def _last(self, topic: str, part: int) -> list[int]:
        """Place and time of a partition's last record; -1 and 0 before the first.

        In a restored partition it is the last place that a cluster had given.
        """
        rows = self._select(
            "SELECT place, time FROM records WHERE topic = ? AND part = ? "
            "ORDER BY place DESC LIMIT 1",
            topic,
            part,
        )
        place, time = rows[0] if rows else (-1, 0)
        if not (isinstance(place, int) and isinstance(time, int)):
            raise LogError(f"{self._path}: a record is not one of stream-dp")
        return [max(place, self._ends.get((topic, part), 0) - 1), time]

    def _partition(self, record: Record) -> int:
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
    """The owner of a role: commits as long as it has the lock."""

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


def _bound(topic: str, part: int, place: int, time: int) -> str:
    return f"{topic}/{part}/{place}/{time}"


def _headers(raw: bytes) -> Headers | None:
    try:
        return tuple([(name, value or b"") for name, value in _HEADERS.decode(raw)])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
