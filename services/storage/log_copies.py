"""Incremental copies of a log's records, by offset."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

import msgspec

from stream_dp.log import address, open_log
from stream_dp.log.log import UNKNOWN_TIME, Forbidden, Log, Missing
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

from .backup_manifest import LogCopy, Segment, TopicCopy, write_file
from .deployment import Deployment
from .file_stores import FileStore

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
