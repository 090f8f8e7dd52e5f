"""Makes a backup of a study while its service runs.

The public log is copied first, then the journal, so that the journal of the copy has decided
every message of the copied public log. The opposite order could copy a public log that is ahead
of the journal, and no study can continue from such a copy. A log's records are copied by offset,
and a later backup copies only new ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from stream_dp import __version__
from stream_dp.errors import Inconsistent, UserError, write_error
from stream_dp.log import address, open_log
from stream_dp.log.log import UNKNOWN_TIME, Forbidden, Log, Missing
from stream_dp.log.message import read_chain
from stream_dp.log.sqlite_file import Row, SqliteRows
from stream_dp.study.topics import (
    CLOCK,
    CLOSES,
    DEAD_LETTERS,
    GROUPS,
    HEARTBEATS,
    JOBS,
    JOURNAL,
    MANIFESTS,
    ORDERS,
    RELEASES,
    REPORTS,
    RESULTS,
    STUDY,
    TRANSCRIPTS,
    topics_of,
)

from . import backup_manifest, journal, journal_checks
from .backup_manifest import (
    LogCopy,
    Manifest,
    Segment,
    SnapshotCopy,
    TopicCopy,
    require_restorable,
    write_file,
)
from .close_orders import SUFFIX, read_manifest
from .deployment import Deployment
from .file_stores import FileStore
from .journal import Entry
from .restored_logs import check_mark
from .snapshots import Snapshots

# A file of a snapshot may go while it is looked for, as the service closes another period.
_ATTEMPTS = 3


@dataclass(frozen=True)
class Backup:
    """The result of a backup.

    entries: the number of journal entries.
    published: the number of public messages.
    written: the number of files that the previous backup did not have.
    size: bytes of the written files.
    """

    manifest: Manifest
    entries: int
    published: int
    written: int
    size: int


def back_up(
    deployment: Deployment, store: FileStore, at: Callable[[str], None] = lambda step: None
) -> Backup:
    """Backs up both logs, the snapshots that the journal names, and the study file.

    Files of an earlier backup in the store are not copied again. The backup is complete when the
    manifest is written; until then the earlier backup is valid. The manifest is written if
    `restore` would accept the backup.

    at: called with the name of every step, for tests.

    Raises UserError, Inconsistent, LogError, OSError.
    """
    if deployment.run.log.startswith("kafka:") and deployment.keys is not None:
        raise UserError(
            "backup: an encrypted log on Kafka cannot be restored from records; take snapshots of"
            " the brokers' disks while the cluster is stopped"
        )
    try:
        store.prepare()
    except OSError as error:
        raise write_error(store.root, error) from None
    store.check()
    previous = backup_manifest.read_manifest(store)
    previous_hashes = {file.sha256 for file in previous.files} if previous is not None else set()
    for attempt in range(_ATTEMPTS):
        made_at = time.time()
        try:
            public = copy_log(
                deployment, store, None if previous is None else previous.public, public=True
            )
            at("public")
            log = copy_log(
                deployment, store, None if previous is None else previous.log, public=False
            )
        except Missing as error:
            deployment.check_unpublished()
            raise UserError(f"{error}: the study has not begun, or its log is gone") from None
        at("log")
        entries, published = _heads(deployment, log, public)
        if previous is not None:
            _check_newer(previous, log, entries, published)
        copies = _snapshots(deployment, store, entries, patient=attempt + 1 < _ATTEMPTS)
        at("snapshots")
        if copies is not None:
            break
    decided = sum(len(entry.published) for entry in entries)
    genesis = entries[0].genesis
    manifest = Manifest(
        format=1,
        study=deployment.study.name,
        study_hash=genesis.study_hash,
        made=made_at,
        code_version=__version__,
        journal=entries[-1].message.hash,
        head=published[-1] if published else "",
        waiting=decided - len(published),
        signer=genesis.signer,
        study_file=backup_manifest.write_file(store, deployment.path.read_bytes()),
        log=log,
        public=public,
        snapshots=copies or [],
    )
    manifest = backup_manifest.decoded_manifest(backup_manifest.encoded_manifest(manifest))
    require_restorable(Deployment.load(deployment.path), manifest, store)
    at("proved")
    backup_manifest.write_manifest(store, manifest)
    new = {file.sha256: file.bytes for file in manifest.files if file.sha256 not in previous_hashes}
    return Backup(manifest, len(entries), len(published), len(new), sum(new.values()))


def _heads(deployment: Deployment, log: LogCopy, public: LogCopy) -> tuple[list[Entry], list[str]]:
    """The entries of the copied journal, and the hashes of the copied public messages.

    Raises Inconsistent if both contradict each other, or the mark beside the log.
    """
    entries = list[Entry]()
    not_begun = f"{deployment.path}: the study has not begun; there is nothing to back up"
    with suppress(Missing), closing(deployment.log(readonly=True)) as opened:
        entries = journal.read_heads(opened)
        if entries:
            check_mark(entries, opened)
    if not entries:
        deployment.check_unpublished()
        raise UserError(not_begun)
    with closing(deployment.public(readonly=True)) as opened:
        chain = read_chain(opened, RELEASES, "public log")
    end, public_end = _end(log, JOURNAL), _end(public, RELEASES)
    entries = [entry for entry in entries if entry.message.start < end]
    published = [message.hash for message in chain if message.start < public_end]
    if not entries:
        raise UserError(not_begun)
    journal_checks.check_public(entries, published)
    return entries, published


def _end(copy: LogCopy, topic: str) -> int:
    segments = copy.partition(topic, 0)
    return segments[-1].next if segments else 0


def _check_newer(
    previous: Manifest, log: LogCopy, entries: Sequence[Entry], published: Sequence[str]
) -> None:
    """Raises Inconsistent if the backup would replace a newer backup or another study's."""
    hashes = {entry.message.hash for entry in entries}
    if (
        previous.log.identity != log.identity
        or previous.study_hash != entries[0].genesis.study_hash
    ):
        raise UserError(
            "backup: another study's or another log's backup is there; name a new place"
        )
    if previous.journal not in hashes or (previous.head and previous.head not in published):
        raise Inconsistent(
            "backup: the one that is there is newer than these logs: an older log was restored;"
            " keep that backup, and find out which logs go on"
        )


def _snapshots(
    deployment: Deployment, store: FileStore, entries: Sequence[Entry], *, patient: bool
) -> list[SnapshotCopy] | None:
    """Copies of the newest snapshot of the population and of the inputs of open jobs.

    A population without a snapshot is no fault, as it is made again from the reports; the inputs
    of an abandoned job are gone for good.

    patient: whether to return None for a removed file.
    """
    snapshots = deployment.snapshots.of(entries[0].message.hash[:12])
    names = [file.name for job in journal.outstanding(entries) for file in job.files.values()]
    for entry in reversed(journal.closes(entries)[1:]):
        population = _population(snapshots, entry)
        if population is not None:
            names += population
            break
    copies, stored = list[SnapshotCopy](), snapshots.as_stored()
    for name in dict.fromkeys(names):
        with stored.at(name) as file:
            if file is not None:
                copies.append(SnapshotCopy(name, backup_manifest.write_file(store, file.read())))
            elif patient:
                return None
    return copies


def _population(snapshots: Snapshots, entry: Entry) -> list[str] | None:
    """The files of the population at a close; None for a removed population."""
    name, digest = entry.snapshot
    if not name.endswith(SUFFIX):
        return [name] if snapshots.holds(name) else None
    manifest = read_manifest(snapshots, name, digest)
    return None if manifest is None else [name, *(file.name for file in manifest.parts)]


# A cluster's topics are copied one after the other. A job's records follow its close, so they come
# before the journal; what the journal refers to comes after it.
_ORDER = (
    *(STUDY, JOBS, TRANSCRIPTS, RESULTS, JOURNAL, GROUPS),
    *(REPORTS, CLOSES, ORDERS, MANIFESTS, DEAD_LETTERS, CLOCK),
)
_SEGMENT = 16_000_000  # bytes of one, about
_SMALL = 1_000_000  # bytes; a last segment below it is copied again, with what came after it
_AT_ONCE = 5_000  # records of one read


def copy_log(
    deployment: Deployment, store: FileStore, previous: LogCopy | None, *, public: bool
) -> LogCopy:
    """Copies a log's records to the store.

    previous: the copy in the previous backup, whose segments are kept.

    Raises LogError.
    """
    url = deployment.run.public if public else deployment.run.log
    name, prefix = address(url)
    if prefix is None:
        return _copy_file(deployment.base / name, store, previous)
    run = deployment.run
    settings = run.kafka_public if public and run.kafka_public is not None else run.kafka
    with closing(
        # Opened as a public one, a log's records stay as they are.
        open_log(
            url,
            deployment.base,
            public=True,
            readonly=True,
            kafka=settings,
            insecure=run.insecure,
            replication=run.replication,
        )
    ) as log:
        private, _ = topics_of(deployment.study, run.partitions, run.engine != "here")
        needed = {RELEASES} if public else private.keys()
        return _copy_topics(log, store, previous, [RELEASES] if public else _ORDER, needed)


def _copy_file(path: Path, store: FileStore, previous: LogCopy | None) -> LogCopy:
    with closing(SqliteRows(path)) as source:
        topics = [
            TopicCopy(
                topic,
                [
                    _segments(source, topic, partition, store, previous)
                    for partition in range(count)
                ],
            )
            for topic, count in sorted(source.topics.items())
            if topic != HEARTBEATS  # what processes say now
        ]
        return LogCopy("sqlite", source.identity, source.sealed, topics)


def _segments(
    source: SqliteRows, topic: str, partition: int, store: FileStore, previous: LogCopy | None
) -> list[Segment]:
    lowest = source.first(topic, partition)
    kept_segments, first = _unchanged_segments(previous, topic, partition, lowest)
    return [*kept_segments, *_write_segments(source.rows(topic, partition, first), first, store)]


def _copy_topics(
    log: Log,
    store: FileStore,
    previous: LogCopy | None,
    order: Sequence[str],
    needed: Collection[str],
) -> LogCopy:
    """Copies the topics that exist.

    needed: the topics that the study declares. A user without rights on any other topic has none of
        its records.

    Raises LogError; Forbidden without the right to see a needed topic.
    """
    topics = []
    for topic in order:
        with suppress(Missing) if topic in needed else suppress(Missing, Forbidden):
            info = log.describe(topic)
            copies = []
            for partition in range(info.partitions):
                kept_segments, first = _unchanged_segments(
                    previous, topic, partition, info.first[partition]
                )
                positions = {partition: first}
                new_segments = list(_write_segments(_records(log, topic, positions), first, store))
                if new_segments and positions[partition] > new_segments[-1].next:
                    new_segments[-1] = msgspec.structs.replace(
                        new_segments[-1], next=positions[partition]
                    )
                elif not new_segments and positions[partition] > first:
                    empty = write_file(store, msgspec.msgpack.encode([]))
                    new_segments = [Segment(first, positions[partition], empty)]
                copies.append([*kept_segments, *new_segments])
            topics.append(TopicCopy(topic, copies))
    named = REPORTS if JOURNAL in order else RELEASES
    return LogCopy("kafka", log.describe(named).identity, False, topics)


def _records(log: Log, topic: str, positions: dict[int, int]) -> Iterator[Row]:
    """Reads the records of a partition to the end; moves `positions`."""
    time = 0
    while True:
        batch = log.read(topic, positions, _AT_ONCE, 0)
        for record in batch.records:
            # A record of unknown time stands among those of about the same time.
            time = time if record.time == UNKNOWN_TIME else record.time
            yield Row.of(record, time)
        positions.update(batch.next)
        if batch.at_end:
            return


def _unchanged_segments(
    previous: LogCopy | None, topic: str, partition: int, lowest: int
) -> tuple[list[Segment], int]:
    """The segments of the previous backup that need no new copy, and the first offset after them.

    A small last segment is copied again, together with the records after it.

    lowest: the first offset that the partition still has.
    """
    segments = [] if previous is None else previous.partition(topic, partition)
    if segments and segments[-1].next < lowest:
        segments = []
    if segments and segments[-1].file.bytes < _SMALL and segments[-1].first >= lowest:
        segments = segments[:-1]
    return segments, segments[-1].next if segments else lowest


def _write_segments(rows: Iterable[Row], first: int, store: FileStore) -> Iterator[Segment]:
    """Writes rows as segments. first: the offset of the first segment."""
    buffered, size, end = list[Row](), 0, first
    for row in rows:
        buffered.append(row)
        size += 64 + sum(len(content or b"") for content in row[2:])
        end = row.offset + 1
        if size >= _SEGMENT:
            yield Segment(first, end, write_file(store, msgspec.msgpack.encode(buffered)))
            buffered, size, first = [], 0, end
    if buffered:
        yield Segment(first, end, write_file(store, msgspec.msgpack.encode(buffered)))
