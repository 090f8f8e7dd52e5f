"""The manifest of a backup: the files with hashes, and the heads of both logs.

The name of every file of a backup is the SHA-256 of the file's content, so no name in a manifest
is a path. The manifest is written last: other files are not part of the backup.

The logs of a backup are written as drafts and checked: `restore` puts the drafts in their place.
`backup` does the same with its new backup before the backup counts, so that no backup is left that
`restore` would refuse.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from stream_dp.errors import Inconsistent, UserError, write_error
from stream_dp.log.message import read_messages
from stream_dp.log.sqlite import SqliteLog
from stream_dp.log.sqlite_file import Row, write_rows
from stream_dp.study import topics as names
from stream_dp.study.topics import JOURNAL, RELEASES, REPORTS

from . import backup_manifest, journal, journal_checks
from .deployment import Deployment
from .file_stores import FileStore, put
from .journal import Entry

MANIFEST = "manifest.json"
_FORMAT = 1
_MOST_MANIFEST = 64_000_000  # bytes
_TOPICS = {
    *(names.STUDY, names.RELEASES, names.REPORTS, names.DEAD_LETTERS, names.JOURNAL, names.CLOCK),
    *names.JOB_TOPICS,
    *names.PART_TOPICS,
}

Hash = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
Count = Annotated[int, Meta(ge=0, le=1 << 62)]
# Names of snapshots begin with the part of a hash that names the journal.
SnapshotName = Annotated[str, Meta(pattern=r"\A[0-9a-f]{12}-[A-Za-z0-9_.+-]{1,200}\Z")]


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class File(_Part, frozen=True):
    """A file of the backup, named by the hash of the content."""

    sha256: Hash
    bytes: Count


class Segment(_Part, frozen=True):
    """The records of a partition from `first` on, below `next`."""

    first: Count
    next: Count
    file: File


class TopicCopy(_Part, frozen=True):
    """A copied topic. partitions: by partition, the segments."""

    name: str
    partitions: Annotated[list[list[Segment]], Meta(min_length=1, max_length=100_000)]


class LogCopy(_Part, frozen=True):
    """A log.

    identity: of the file, or of the topic `reports` on a cluster.
    sealed: whether its records are encrypted.
    """

    kind: Literal["sqlite", "kafka"]
    identity: Annotated[str, Meta(max_length=200)]
    sealed: bool
    topics: list[TopicCopy]

    def partition(self, topic: str, partition: int) -> list[Segment]:
        """The segments of a partition; empty for a partition that is not in the copy."""
        partitions = next((copy.partitions for copy in self.topics if copy.name == topic), [])
        return partitions[partition] if partition < len(partitions) else []


class SnapshotCopy(_Part, frozen=True):
    """A file of the folder of snapshots."""

    name: SnapshotName
    file: File


class Manifest(_Part, frozen=True):
    """The content of a backup.

    made: the time of the backup, in Unix seconds.
    journal: the hash of the journal's last entry.
    head: the hash of the last message in the public log; empty without messages.
    waiting: the number of decided messages that were not public yet.
    signer: the public key of the study's signatures, whose private key no backup holds.
    """

    format: Annotated[int, Meta(ge=_FORMAT, le=_FORMAT)]
    study: Annotated[str, Meta(max_length=200)]
    study_hash: Hash
    made: float
    code_version: Annotated[str, Meta(max_length=100)]
    journal: Hash
    head: Annotated[str, Meta(pattern=r"\A([0-9a-f]{64})?\Z")]
    waiting: Count
    signer: str | None
    study_file: File
    log: LogCopy
    public: LogCopy
    snapshots: list[SnapshotCopy]

    @property
    def files(self) -> Iterator[File]:
        """Every file of the backup."""
        yield self.study_file
        for log in (self.public, self.log):
            for topic in log.topics:
                for segments in topic.partitions:
                    yield from (segment.file for segment in segments)
        yield from (snapshot.file for snapshot in self.snapshots)


def read_manifest(store: FileStore) -> Manifest | None:
    """Reads the manifest of a backup; None if no backup exists. Raises Inconsistent."""
    data = store.read(MANIFEST, _MOST_MANIFEST)
    return None if data is None else decoded_manifest(data)


def decoded_manifest(data: bytes) -> Manifest:
    """The manifest in a file's bytes. Raises Inconsistent."""
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        raise Inconsistent(
            f"backup: {MANIFEST} is damaged or not one that this version of stream-dp reads; use"
            " another backup"
        ) from None
    for log in (manifest.log, manifest.public):
        copied = [topic.name for topic in log.topics]
        if not _TOPICS.issuperset(copied) or len(set(copied)) < len(copied):
            raise Inconsistent(f"backup: {MANIFEST} names topics that are none of stream-dp's")
        for topic in log.topics:
            for segments in topic.partitions:
                _check_order(segments, topic.name)
    return manifest


def encoded_manifest(manifest: Manifest) -> bytes:
    """The bytes of a manifest's file. Raises UserError if no `restore` would read so many."""
    data = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
    if len(data) >= _MOST_MANIFEST:
        raise UserError(
            f"backup: its {MANIFEST} has {len(data)} bytes, which is too many; begin a new backup"
            " in another place, whose segments are larger"
        )
    return data


def write_manifest(store: FileStore, manifest: Manifest) -> None:
    """Completes the backup by writing the manifest, then removes unused files."""
    _put(store, MANIFEST, encoded_manifest(manifest))
    valid_names = {MANIFEST, *(file.sha256 for file in manifest.files)}
    for name in store.names():
        if name not in valid_names:
            store.remove(name)


def write_file(store: FileStore, data: bytes) -> File:
    """Writes a file of a backup unless the file exists."""
    file = File(hashlib.sha256(data).hexdigest(), len(data))
    if store.size(file.sha256) != file.bytes:
        _put(store, file.sha256, data)
    return file


def _put(store: FileStore, name: str, data: bytes) -> None:
    try:
        put(store, name, data)
    except OSError as error:
        raise write_error(f"{store.root}/{name}", error) from None


def read_file(store: FileStore, file: File) -> bytes:
    """Reads a file. Raises Inconsistent for a missing or changed file."""
    data = store.read(file.sha256, file.bytes + 1)
    if data is None:
        raise Inconsistent(f"backup: the file {file.sha256} is gone; use another backup")
    if len(data) != file.bytes or hashlib.sha256(data).hexdigest() != file.sha256:
        raise Inconsistent(f"backup: the file {file.sha256} is damaged; use another backup")
    return data


_ROWS = msgspec.msgpack.Decoder(list[tuple[int, int, bytes | None, bytes | None, bytes | None]])


def segment_rows(store: FileStore, segment: Segment) -> list[Row]:
    """The rows of a segment. Raises Inconsistent."""
    try:
        rows = [Row(*row) for row in _ROWS.decode(read_file(store, segment.file))]
    except msgspec.MsgspecError:
        rows = [Row(-1, 0, None, None, None)]
    offsets = [segment.first - 1, *(row.offset for row in rows), segment.next]
    if any(following <= previous for previous, following in pairwise(offsets)):
        raise Inconsistent(
            f"backup: the file {segment.file.sha256} does not hold the records that {MANIFEST}"
            " says; use another backup"
        )
    return rows


def _check_order(segments: list[Segment], topic: str) -> None:
    ends = [segment.next for segment in segments]
    starts = [segment.first for segment in segments[1:]]
    if starts != ends[:-1] or any(s.next < s.first for s in segments):
        raise Inconsistent(f"backup: {MANIFEST} has a gap in topic '{topic}'; use another backup")


def missing_backup(location: str) -> UserError:
    """The error for a location without a backup."""
    return UserError(f"{location}: no backup is there (no {MANIFEST})")


LOG_DRAFT, PUBLIC_DRAFT = "log", "public"  # the names of the drafts in their folder


def write_drafts(
    deployment: Deployment,
    manifest: Manifest,
    store: FileStore,
    folder: Path,
    *,
    whole: bool = True,
) -> tuple[list[Entry], list[str]]:
    """Writes drafts of both logs; returns the journal and the hashes of the public messages.

    Every file of the backup is read.

    folder: for the drafts.
    whole: whether the drafts become the logs. Otherwise the draft of the confidential log has the
        records of the journal alone; those of other topics are read and checked all the same.

    Raises Inconsistent for a backup that cannot be restored, UserError, LogError, OSError.
    """
    for file in (manifest.study_file, *(copy.file for copy in manifest.snapshots)):
        backup_manifest.read_file(store, file)
    entries = _journal(deployment, manifest, store, folder / LOG_DRAFT, whole=whole)
    published = _public(manifest, store, folder / PUBLIC_DRAFT)
    journal_checks.check_public(entries, published)
    owner = f"{entries[0].message.hash[:12]}-"
    if not all(copy.name.startswith(owner) for copy in manifest.snapshots):
        raise Inconsistent("backup: it has snapshots of another journal; use another")
    return entries, published


def require_restorable(deployment: Deployment, manifest: Manifest, store: FileStore) -> None:
    """Raises UserError or Inconsistent if `restore` would refuse a backup.

    Drafts go to the folder for temporary files, and do not stay.
    """
    try:
        with TemporaryDirectory(prefix=".backup-") as folder:
            write_drafts(deployment, manifest, store, Path(folder), whole=False)
    except UserError as error:
        refused = "backup: not completed, because restore would refuse it"
        advice = "if a file of the backup is at fault, name a new place"
        raise type(error)(f"{refused}: {line}; {advice}" for line in error.lines) from None
    except OSError as error:
        raise write_error(gettempdir(), error) from None


def _journal(
    deployment: Deployment, manifest: Manifest, store: FileStore, draft: Path, *, whole: bool
) -> list[Entry]:
    """Writes the draft of the confidential log; returns the checked entries of the journal."""
    _write_log(manifest.log, store, draft, public=False, whole=whole)
    with closing(SqliteLog(draft, readonly=True, keys=deployment.keys)) as log:
        entries = journal.read_heads(log)
        for entry in entries:
            entry.read()
        if not entries or entries[-1].message.hash != manifest.journal:
            raise Inconsistent("backup: its journal does not end as its manifest says; use another")
        plan = journal_checks.begun_plan(entries, deployment.study)
        journal_checks.check_journal(entries, plan, log.describe(REPORTS))
    return entries


def _public(manifest: Manifest, store: FileStore, draft: Path) -> list[str]:
    """Writes the draft of the public log; returns the checked hashes of the messages."""
    _write_log(manifest.public, store, draft, public=True, whole=True)
    with closing(SqliteLog(draft, public=True, readonly=True)) as log:
        hashes = [message.hash for message in read_messages(log, RELEASES, "public log")]
    if (hashes[-1] if hashes else "") != manifest.head:
        raise Inconsistent("backup: its public log does not end as its manifest says; use another")
    return hashes


def _write_log(copy: LogCopy, store: FileStore, path: Path, *, public: bool, whole: bool) -> None:
    """Writes the SQLite file of a copied log. whole: see `write_drafts`."""

    def rows() -> Iterator[tuple[str, int, Row]]:
        for topic in copy.topics:
            for partition, segments in enumerate(topic.partitions):
                for segment in segments:
                    read = backup_manifest.segment_rows(store, segment)
                    if whole or topic.name == JOURNAL:
                        yield from ((topic.name, partition, row) for row in read)

    write_rows(
        path,
        public=public,
        identity=copy.identity,
        sealed=copy.sealed,
        topics={topic.name: len(topic.partitions) for topic in copy.topics},
        rows=rows(),
        ends=[
            (topic.name, partition, segments[-1].next)
            for topic in copy.topics
            for partition, segments in enumerate(topic.partitions)
            if segments
        ],
    )
