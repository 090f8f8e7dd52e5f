"""The records of a SQLite log in the encoding of its file, for a copy with the same offsets."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import msgspec

from .log import Missing, Stored
from .sqlite_file import SCHEMA, SEALED_VERSION, VERSION, connect, set_journal, sqlite_errors

# Not valid msgpack: readers find headers that cannot be read.
_UNREADABLE = b"\xc1"


class Row(NamedTuple):
    """A record of a partition. headers: encoded for the file, or None."""

    offset: int
    time: int
    key: bytes | None
    value: bytes | None
    headers: bytes | None

    @classmethod
    def of(cls, record: Stored, time: int) -> Row:
        """Makes the row of a record that was read. time: milliseconds."""
        headers = _UNREADABLE
        if record.headers is not None:
            headers = msgspec.msgpack.encode(record.headers)
        return cls(
            record.offset, time, record.key, record.value, headers if headers != b"\x90" else None
        )


class SqliteRows:
    """A consistent view of the rows of a log's file during writes by other processes.

    identity: of the log.
    sealed: whether its records are encrypted.
    topics: the number of partitions by name.

    Raises LogError.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise Missing(f"{path}: no such log")
        self._path = path
        self._db = connect(path, path.resolve().as_uri() + "?mode=ro")
        with sqlite_errors(path, "cannot be read"):
            self._db.execute("BEGIN")
            version, self.identity = self._db.execute(
                "SELECT version, identity FROM log"
            ).fetchone()
            self.sealed = version == SEALED_VERSION
            self.topics: dict[str, int] = dict(
                self._db.execute("SELECT name, partitions FROM topics")
            )

    def close(self) -> None:
        self._db.close()

    def first(self, topic: str, partition: int) -> int:
        """Returns the first offset of a partition."""
        query = "SELECT min(offset) FROM records WHERE topic = ? AND partition = ?"
        with sqlite_errors(self._path, "cannot be read"):
            (offset,) = self._db.execute(query, (topic, partition)).fetchone()
        return offset or 0

    def rows(self, topic: str, partition: int, first: int) -> Iterator[Row]:
        """Yields the rows of a partition from the offset `first` on."""
        query = (
            "SELECT offset, time, key, value, headers FROM records"
            " WHERE topic = ? AND partition = ? AND offset >= ? ORDER BY offset"
        )
        with sqlite_errors(self._path, "cannot be read"):
            with closing(self._db.execute(query, (topic, partition, first))) as rows:
                yield from map(Row._make, rows)


def write_rows(
    path: Path,
    *,
    public: bool,
    identity: str,
    sealed: bool,
    topics: Mapping[str, int],
    rows: Iterable[tuple[str, int, Row]],
    ends: Iterable[tuple[str, int, int]],
) -> None:
    """Writes a new file of a log with this identity and these rows, durable on return.

    rows: each with its topic and partition.
    ends: by topic and partition, the offset of the next record.

    Raises LogError, OSError.
    """
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o644 if public else 0o600))
    with (
        sqlite_errors(path, "cannot be written"),
        closing(sqlite3.connect(path, isolation_level=None)) as db,
    ):
        db.execute("PRAGMA synchronous=EXTRA")
        db.execute("BEGIN IMMEDIATE")
        for statement in SCHEMA.split(";"):
            db.execute(statement)
        db.execute(
            "INSERT INTO log VALUES (?, ?)", (SEALED_VERSION if sealed else VERSION, identity)
        )
        db.executemany("INSERT INTO topics VALUES (?, ?)", topics.items())
        db.executemany(
            "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?)",
            ((topic, partition, *row) for topic, partition, row in rows),
        )
        db.executemany("INSERT INTO ends VALUES (?, ?, ?)", ends)
        db.execute("COMMIT")
        set_journal(db, public=public)
