"""Copies of a log's records by their positions, of those that a former backup lacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

import msgspec

from stream_dp.log import address, open_log
from stream_dp.log.base import UNKNOWN_TIME, Log, Missing
from stream_dp.log.sqlite_rows import Row, SqliteRows
from stream_dp.topics import (
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
)

from ..deployment import Deployment
from .contents import LogCopy, Segment, TopicCopy, write_file
from .store import BackupStore

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
    deployment: Deployment, store: BackupStore, before: LogCopy | None, *, public: bool
) -> LogCopy:
    """Copies a log's records to the store.

    before: the copy in a former backup, whose segments are kept.

    Raises LogError.
    """
    url = deployment.run.public if public else deployment.run.log
    name, prefix = address(url)
    if prefix is None:
        return _copy_file(deployment.base / name, store, before)
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
        return _copy_topics(log, store, before, [RELEASES] if public else _ORDER)


def _copy_file(path: Path, store: BackupStore, before: LogCopy | None) -> LogCopy:
    with closing(SqliteRows(path)) as source:
        topics = [
            TopicCopy(
                topic,
                [_segments(source, topic, part, store, before) for part in range(count)],
            )
            for topic, count in sorted(source.topics.items())
            if topic != HEARTBEATS  # what processes say now
        ]
        return LogCopy("sqlite", source.identity, source.sealed, topics)


def _segments(
    source: SqliteRows, topic: str, part: int, store: BackupStore, before: LogCopy | None
) -> list[Segment]:
    lowest = source.first(topic, part)
    kept = _kept(before, topic, part, lowest)
    first = kept[-1].next if kept else lowest
    more = list(_written(source.rows(topic, part, first), first, store))
    return [*kept, *more]


def _copy_topics(
    log: Log, store: BackupStore, before: LogCopy | None, order: Sequence[str]
) -> LogCopy:
    topics = []
    for topic in order:
        with suppress(Missing):
            info = log.describe(topic)
            copies = []
            for part in range(info.partitions):
                kept = _kept(before, topic, part, info.first[part])
                first = kept[-1].next if kept else info.first[part]
                positions = {part: first}
                more = list(_written(_records(log, topic, positions), first, store))
                if more and positions[part] > more[-1].next:
                    more[-1] = msgspec.structs.replace(more[-1], next=positions[part])
                elif not more and positions[part] > first:
                    empty = write_file(store, msgspec.msgpack.encode([]))
                    more = [Segment(first, positions[part], empty)]
                copies.append([*kept, *more])
            topics.append(TopicCopy(topic, copies))
    named = REPORTS if JOURNAL in order else RELEASES
    return LogCopy("kafka", log.describe(named).identity, False, topics)


def _records(log: Log, topic: str, positions: dict[int, int]) -> Iterator[Row]:
    """The records of a partition from a position on, which moves to its end."""
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


def _kept(before: LogCopy | None, topic: str, part: int, lowest: int) -> list[Segment]:
    """The segments of a former backup that stay as they are.

    lowest: the first position that the partition still has.
    """
    segments = [] if before is None else before.partition(topic, part)
    if segments and segments[-1].next < lowest:
        return []
    if segments and segments[-1].file.bytes < _SMALL and segments[-1].first >= lowest:
        return segments[:-1]
    return segments


def _written(rows: Iterable[Row], first: int, store: BackupStore) -> Iterator[Segment]:
    """Writes rows as segments, the first of which begins at `first`."""
    held, size, end = list[Row](), 0, first
    for row in rows:
        held.append(row)
        size += 64 + sum(len(content or b"") for content in row[2:])
        end = row.offset + 1
        if size >= _SEGMENT:
            yield Segment(first, end, write_file(store, msgspec.msgpack.encode(held)))
            held, size, first = [], 0, end
    if held:
        yield Segment(first, end, write_file(store, msgspec.msgpack.encode(held)))
