"""Dead letters: copies of rejected records, with the reasons in headers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from stream_dp.log.log import (
    MAX_RECORD,
    READ_AT_ONCE,
    Headers,
    Log,
    OutOfRange,
    Stored,
)
from stream_dp.log.records import RecordColumns, Records
from stream_dp.population.cells import REASONS, Cells, Reason, RejectedRecord
from stream_dp.study.topics import DEAD_LETTERS, REPORTS

if TYPE_CHECKING:
    from stream_dp.population.arrow_tables import TableSource

SOURCE = "stream-dp-source"  # the header that names the file that a report came from
_MOST_SOURCE = 255  # bytes of that name
_CELLS = "stream-dp-cells"  # the header that counts rejected cells by reason
_MOST_LETTER = MAX_RECORD - 10_000  # bytes of the rejected record, beside the headers


def source_header(path: TableSource) -> Headers:
    """The headers of reports with the name of a file."""
    return ((SOURCE, path.name.encode("utf-8", "backslashreplace")[:_MOST_SOURCE]),)


def cells_of(letter: Stored) -> dict[Reason, int]:
    """Rejected cells of a dead letter by reason; empty for a record that is no dead letter."""
    items = letter.header(_CELLS).decode("utf-8", "replace").split(",")
    counts = {reason: count for reason, _, count in (item.partition("=") for item in items)}
    return {
        reason: int(counts[reason])
        for reason in REASONS
        if counts.get(reason, "").isdecimal() and len(counts[reason]) < 10
    }


def refuse_records(log: Log, records: Records, rejected: Iterable[RejectedRecord]) -> None:
    """Appends a dead letter for each rejected record: its value, with headers of Kafka Connect.

    The message in the headers gives reasons and no content. A value that leaves no room for the
    headers is cut; the headers say where the record is. Letters with equal reasons are written
    together, so that many bad records cost little more than good ones.

    records: those that a read has given; `rejected` has rows of them.
    """
    headers = records.headers
    alike = not headers or headers.count(headers[0]) == len(headers)
    sources = [
        record.header(SOURCE)[:_MOST_SOURCE] for record in (records[:1] if alike else records)
    ]
    rows_of = dict[tuple[tuple[tuple[Reason, int], ...], bool], list[int]]()
    for row, cells in rejected:
        has_source = bool(sources[0 if alike else row])
        rows_of.setdefault((tuple(cells.items()), has_source), []).append(row)
    topic = log.name(REPORTS)
    for (cells_of_record, has_source), rows in rows_of.items():
        named = [sources[0 if alike else row] for row in rows] if has_source else []
        log.append(_letters(records.take(rows), dict(cells_of_record), topic, named))


def _letters(
    records: Records, cells: dict[Reason, int], topic: str, sources: list[bytes]
) -> RecordColumns:
    """Makes the dead letters of records whose cells are rejected alike.

    topic: the log's name of the reports topic.
    sources: of the records, empty if they have none.
    """
    message = "; ".join(REASONS[reason] for reason in sorted(cells))
    counts = ",".join(f"{reason}={count}" for reason, count in sorted(cells.items()))
    headers: Headers = (
        ("__connect.errors.topic", topic.encode()),
        ("__connect.errors.stage", b"VALUE_CONVERTER"),
        ("__connect.errors.exception.message", message.encode()),
        (_CELLS, counts.encode()),
    )
    varying = {
        "__connect.errors.partition": [b"%d" % partition for partition in records.partitions],
        "__connect.errors.offset": [b"%d" % offset for offset in records.offsets],
        **({SOURCE: sources} if sources else {}),
    }
    places = zip(records.partitions, records.offsets, strict=True)
    return RecordColumns(
        DEAD_LETTERS,
        [b"%b/%d/%d" % (REPORTS.encode(), *place) for place in places],
        [None if value is None else value[:_MOST_LETTER] for value in records.values],
        headers,
        varying,
    )


def refuse_cells(log: Log, refused: Cells, reason: Reason) -> None:
    """Appends dead letters for cells that a close could not use, with their records."""
    counted = Counter(zip(refused.partition.tolist(), refused.offset.tolist(), strict=True))
    positions = sorted(counted)
    while positions:
        partition, first = positions[0]
        try:
            batch = log.read(REPORTS, {partition: first}, READ_AT_ONCE, 0)
            records, end = Records.of(batch.records), max(batch.next[partition], first + 1)
        except OutOfRange:
            # The report itself has expired; its position and the reason are still known.
            expired = Stored(
                partition=partition, offset=first, time=0, key=None, value=None, headers=()
            )
            records, end = Records.of([expired]), first + 1
        cells = {offset: counted[p, offset] for p, offset in positions if p == partition}
        rejected = [
            RejectedRecord(row, {reason: cells[offset]})
            for row, offset in enumerate(records.offsets)
            if offset in cells
        ]
        refuse_records(log, records, rejected)
        positions = [position for position in positions if position >= (partition, end)]
