"""Creates, checks and opens the file of the embedded log, and words the errors of SQLite.

For a copy with the same offsets it reads and writes records in the encoding of the file.
"""

from __future__ import annotations

import os
import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import msgspec
import numpy as np

from stream_dp.errors import write_error
from stream_dp.privacy.noise import system_entropy

from .log import MAX_RECORD, Damaged, LogError, Missing, Stored, Unavailable
from .owned_files import sync_folder
from .records import FIRST_OFFSET, Texts, decode_block, encode_blocks
from .sealing import KEY_ID, NO_KEY, Keyring

# Not valid msgpack: readers find headers that cannot be read.
_UNREADABLE = b"\xc1"
_HEADERS = msgspec.msgpack.Decoder(list[tuple[str, bytes | None]])
# The number of the shared headers, and the record's values for those that have none.
_OWN_HEADERS = msgspec.msgpack.Decoder(list[int | bytes])


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
        query = f"SELECT {FIRST_OFFSET} FROM records WHERE topic = ? AND partition = ?"
        with sqlite_errors(self._path, "cannot be read"):
            row = self._db.execute(
                f"{query} ORDER BY offset LIMIT 1", (topic, partition)
            ).fetchone()
        return row[0] if row else 0

    def rows(self, topic: str, partition: int, first: int) -> Iterator[Row]:
        """Yields the rows of a partition from the offset `first` on."""
        query = (
            "SELECT offset, time, key, value, headers"
            " FROM records WHERE topic = ? AND partition = ? AND offset >= ? ORDER BY offset"
        )
        with sqlite_errors(self._path, "cannot be read"):
            with closing(self._db.execute(query, (topic, partition, first))) as rows:
                for offset, time, key, value, raw in rows:
                    columns: tuple[Sequence[Any], ...] = ([offset], [key], [value], [raw])
                    if isinstance(key, int) and not self.sealed:
                        columns = block_records(self._path, offset, key, value, raw)
                    for number, one, content, stored in zip(*columns, strict=True):
                        if number >= first:
                            headers = None if stored is None else whole_headers(self._db, stored)
                            yield Row(number, time, one, content, headers)


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


# `ends`: the end of a partition that was restored from a cluster; a cluster gives offsets to
# control records, too. `records`: a row has a record, or a block of them.
# `shared_headers`: of records that were written together; in place of their
# headers the records have the number. A shared header without a value has another one in each
# record: these records have a list of the number and of their own values.
SCHEMA = """
CREATE TABLE IF NOT EXISTS log (version INTEGER NOT NULL, identity TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS topics (name TEXT PRIMARY KEY, partitions INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS records (
    topic TEXT NOT NULL, partition INTEGER NOT NULL, offset INTEGER NOT NULL,
    time INTEGER NOT NULL, key BLOB, value BLOB, headers BLOB,
    PRIMARY KEY (topic, partition, offset)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS shared_headers (number INTEGER PRIMARY KEY, content BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS ends (
    topic TEXT NOT NULL, partition INTEGER NOT NULL, offset INTEGER NOT NULL,
    PRIMARY KEY (topic, partition)
) WITHOUT ROWID;
"""
VERSION = 1
SEALED_VERSION = 2  # of a file whose records are encrypted
_MOST_ROW = 4 * MAX_RECORD  # of a row with its headers' names
_SMALLEST = 1 << 16  # bytes: of a log that is opened, with its files
_MAGIC = b"SQLite format 3\0"  # how its files begin
# Primary codes: no room, a read-only file system, a device that fails; and a file that was changed.
_TRANSIENT = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_READONLY,
}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def open_file(
    path: Path, *, public: bool, readonly: bool, keys: Keyring | None = None
) -> tuple[sqlite3.Connection, str]:
    """Opens the log's file. Returns a connection and the log's identity. Raises LogError.

    public: rollback journal and a world-readable mode, for a file that is created.
    readonly: never writes; the file must exist.
    keys: of the records of a file that is created, or that was created with the oldest of them.
    """
    if readonly:
        if not path.is_file():
            raise Missing(f"{path}: no such log")
    elif not path.exists():
        if not path.parent.is_dir():
            raise LogError(f"{path.parent}: no such folder")
        _create_file(path, keys, public=public)
    _check_access(path, readonly)
    db = connect(path, path.resolve().as_uri() + ("?mode=ro" if readonly else ""))
    try:
        with sqlite_errors(path, "cannot be opened"):
            _check_schema(path, db)
            if not readonly:
                set_journal(db, public=public)
                db.execute(f"PRAGMA synchronous={'EXTRA' if public else 'FULL'}")
            row = db.execute("SELECT version, identity FROM log").fetchone()
        if row is None or row[0] not in (VERSION, SEALED_VERSION):
            raise LogError(
                f"{path}: not a log of a version that this code reads; use a newer stream-dp"
            )
        _check_keys(path, row[0] == SEALED_VERSION, str(row[1]), keys)
    except LogError:
        db.close()
        raise
    identity: str = row[1]
    return db, identity


@contextmanager
def sqlite_errors(path: Path, failure: str) -> Iterator[None]:
    """Turns SQLite's errors into the right kind of LogError. failure: what has failed."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0)
        if code == sqlite3.SQLITE_READONLY_ROLLBACK:
            raise Unavailable(
                f"{path}: a publication was interrupted; the releaser completes it when"
                " it starts again"
            ) from None
        if code == sqlite3.SQLITE_NOTADB and _is_foreign(path):
            raise LogError(f"{path}: not a log of stream-dp ({error})") from None
        if code & 0xFF in _DAMAGED:
            raise Damaged(f"{path}: is damaged ({error}); restore a backup") from None
        if code & 0xFF not in _TRANSIENT:
            raise LogError(f"{path}: {failure} ({error})") from None
        # SQLite says of a file beside the log, which has no room, only that it cannot be opened.
        if code & 0xFF == sqlite3.SQLITE_FULL or _is_full(path.parent):
            failure += ": the disk is full"
        raise Unavailable(f"{path}: {failure} ({error})") from None
    except OverflowError as error:
        raise LogError(f"{path}: {failure} ({error})") from None


def _is_full(folder: Path) -> bool:
    """Tells whether a disk has no room for the smallest file of a log, or for a file's name."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    no_names = disk.f_files > 0 and disk.f_favail == 0
    return no_names or disk.f_bavail * disk.f_frsize < _SMALLEST


def _check_keys(path: Path, sealed: bool, identity: str, keys: Keyring | None) -> None:
    """Checks that a file is encrypted exactly if `keys` exist, with a key of the ring.

    So no record is written that the file's other programs cannot read. Raises LogError.
    """
    if keys is None:
        if sealed:
            raise LogError(f"{path}: {NO_KEY}")
    elif not sealed:
        raise LogError(
            f"{path}: was begun without encryption and goes on without; remove run.encryption, or"
            " begin a new study with new logs"
        )
    elif identity[: 2 * KEY_ID] not in {key_id.hex() for key_id in keys.ids}:
        raise LogError(
            f"{path}: is encrypted with a key that run.encryption does not have; keep every older"
            " key there, after the newest one"
        )


def _create_file(path: Path, keys: Keyring | None, *, public: bool) -> None:
    """Makes the file in one step: an empty file must have been emptied later.

    The file has its kind of journal from the beginning. A change of the kind would be interrupted
    by a loss of power, and no reader could open the file before the next writer.
    """
    target, mode = path.resolve(), 0o644 if public else 0o600
    try:
        with (
            sqlite_errors(path, "cannot be created"),
            TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as folder,
        ):
            draft = Path(folder) / target.name
            os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode))
            with closing(sqlite3.connect(draft, isolation_level=None)) as db:
                db.execute("PRAGMA synchronous=EXTRA")
                db.execute("BEGIN IMMEDIATE")
                for statement in SCHEMA.split(";"):
                    db.execute(statement)
                identity = system_entropy(16).hex()
                row = (VERSION, identity)
                if keys:  # the key is named first, so that a wrong one is refused
                    row = (SEALED_VERSION, keys.ids[0].hex() + identity)
                db.execute("INSERT INTO log VALUES (?, ?)", row)
                db.execute("COMMIT")
                set_journal(db, public=public)
            with suppress(FileExistsError):  # another process has created it meanwhile
                os.link(draft, target)
            sync_folder(target.parent)
    except OSError as error:
        raise write_error(path, error) from None


def _check_access(path: Path, readonly: bool) -> None:
    """Checks the file's type, size and permissions before it is opened. Raises LogError."""
    if not path.is_file():
        raise LogError(f"{path}: not a file")
    if path.stat().st_size == 0:
        raise Damaged(
            f"{path}: is empty, so it was emptied; restore a backup (a public log may be"
            " removed instead: the releaser publishes again what its journal holds)"
        )
    if not os.access(path, os.R_OK if readonly else os.R_OK | os.W_OK):
        if not readonly and os.statvfs(path).f_flag & os.ST_RDONLY:
            raise Unavailable(f"{path}: is on a read-only file system")
        raise LogError(f"{path}: no permission to {'read' if readonly else 'write'} it")


def set_journal(db: sqlite3.Connection, *, public: bool) -> None:
    """Gives a file the kind of journal of a public or a confidential log."""
    db.execute(f"PRAGMA journal_mode={'DELETE' if public else 'WAL'}")


def connect(path: Path, uri: str) -> sqlite3.Connection:
    """Connects to a file without running code of its schema. Raises LogError."""
    with sqlite_errors(path, "cannot be opened"):
        db = sqlite3.connect(
            uri, uri=True, timeout=60, isolation_level=None, check_same_thread=False
        )
        # A public file may come from anybody: its schema must not make SQLite run anything.
        db.execute("PRAGMA trusted_schema=OFF")
        db.execute("PRAGMA cell_size_check=ON")
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_ROW)
        return db


def _is_foreign(path: Path) -> bool:
    """Tells whether the file's first bytes come neither from SQLite nor from the file system."""
    # Only for a file that no connection uses: closing it ends this process's locks on it.
    with path.open("rb") as file:
        first = file.read(len(_MAGIC))
    return bool(first.strip(b"\0")) and not _MAGIC.startswith(first)


def _check_schema(path: Path, db: sqlite3.Connection) -> None:
    """Refuses another program's database before any change to the file. Raises LogError."""
    columns = {row[1] for row in db.execute("PRAGMA table_info(log)")}
    if db.execute("SELECT 1 FROM sqlite_master").fetchone() is None:
        raise Damaged(f"{path}: is damaged (nothing is in it); restore a backup")
    if not {"version", "identity"} <= columns:
        raise LogError(f"{path}: not a log of stream-dp")
    # A computed table could be of any size, and take for ever to read.
    computed = db.execute(
        "SELECT 1 FROM sqlite_master WHERE type IN ('view', 'trigger') OR rootpage = 0 OR"
        " (type = 'index' AND sql IS NOT NULL) UNION ALL SELECT 1 FROM sqlite_master AS entry"
        " JOIN pragma_table_xinfo(entry.name) AS column WHERE column.hidden"
    )
    if computed.fetchone() is not None:
        raise LogError(f"{path}: not a log of stream-dp: it has more than plain tables")


def headers_number(db: sqlite3.Connection, content: bytes) -> int:
    """Returns the number of headers that records share; adds headers that are new."""
    find = "SELECT number FROM shared_headers WHERE content = ?"
    if (row := db.execute(find, (content,)).fetchone()) is None:
        db.execute("INSERT INTO shared_headers (content) VALUES (?)", (content,))
        row = db.execute(find, (content,)).fetchone()
    return int(row[0])


def whole_headers(db: sqlite3.Connection, stored: int | bytes) -> bytes | None:
    """Returns the encoded headers of a record from the contents of its column.

    Returns None if the shared headers are not there.
    """
    number: object = stored
    contents: Sequence[object] = ()
    if isinstance(stored, bytes):
        with suppress(msgspec.DecodeError, ValueError):
            number, *contents = _OWN_HEADERS.decode(stored)
        if number is stored:
            return stored
    if not isinstance(number, int) or number.bit_length() > 63:
        return None
    query = "SELECT CAST(content AS BLOB) FROM shared_headers WHERE number = ?"
    found = db.execute(query, (number,)).fetchone()
    if found is None or not contents:
        return None if found is None else bytes(found[0])
    with suppress(msgspec.DecodeError, UnicodeDecodeError):
        shared, values = _HEADERS.decode(found[0]), iter(contents)
        if len(contents) != [value for _, value in shared].count(None):
            return None
        whole = [(name, next(values) if value is None else value) for name, value in shared]
        return msgspec.msgpack.encode(whole)
    return None


def insert_blocks(
    db: sqlite3.Connection,
    shared: tuple[str, int, int, int | None],
    first: int,
    columns: Sequence[Sequence[bytes | None]],
) -> None:
    """Inserts records of a partition with consecutive offsets, many in a row.

    shared: topic, partition and time of every record, and the number of its headers.
    first: the first offset.
    columns: keys and values; and headers, if they are not the shared ones.
    """
    topic, partition, time, headers = shared
    for count, block in encode_blocks(columns):
        first += count
        db.execute(
            "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?)",
            (topic, partition, first - 1, time, count, block, headers),
        )


def block_records(
    path: Path, offset: int, count: int, block: bytes, headers: Any
) -> tuple[Sequence[int], Texts, Texts, Sequence[Any]]:
    """Returns offsets, keys, values and encoded headers of the records of a block.

    offset, count, headers: of the row, in place of a key the number of records.

    Raises LogError for a damaged block.
    """
    if (columns := decode_block(count, block)) is None:
        raise LogError(f"{path}: a record is not one of stream-dp")
    keys, values, *own = columns
    offsets = array("q", (np.arange(count) + (offset - count + 1)).tobytes())
    return offsets, keys, values, own[0] if own else [headers] * count
