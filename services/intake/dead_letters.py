"""Dead letters: copies of rejected records, with the reasons in headers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from stream_dp.log.following import READ_AT_ONCE
from stream_dp.log.log import (
    MAX_BATCH,
    MAX_RECORD,
    Headers,
    Log,
    OutOfRange,
    Record,
    Stored,
    memory_bytes,
)
from stream_dp.population.arrow_tables import TableSource
from stream_dp.population.cells import Cells
from stream_dp.population.rejection_reasons import REASONS, Reason
from stream_dp.study.topics import DEAD_LETTERS, REPORTS

SOURCE = "stream-dp-source"  # the header that names the file that a report came from
_MOST_SOURCE = 255  # bytes of that name
_CELLS = "stream-dp-cells"  # the header that counts rejected cells by reason
_MOST_LETTER = MAX_RECORD - 10_000  # bytes of the rejected record, beside the headers


def source_header(path: TableSource) -> Headers:
    """The headers of reports with the name of a file."""
    return ((SOURCE, path.name.encode("utf-8", "backslashreplace")[:_MOST_SOURCE]),)


def dead_letter(record: Stored, cells: dict[Reason, int], topic: str) -> Record:
    """The dead letter of a rejected record: its value, with the header names of Kafka Connect.

    The message in the headers gives reasons and no content. A value that leaves no room for the
    headers is cut; the headers say where the record is.

    cells: how many of its cells are rejected, by reason.
    topic: the log's name of the reports topic.
    """
    message = "; ".join(REASONS[reason] for reason in sorted(cells))
    counts = ",".join(f"{reason}={count}" for reason, count in sorted(cells.items()))
    key = f"{REPORTS}/{record.partition}/{record.offset}"
    source = record.header(SOURCE)[:_MOST_SOURCE]
    headers = (
        ("__connect.errors.topic", topic.encode()),
        ("__connect.errors.partition", str(record.partition).encode()),
        ("__connect.errors.offset", str(record.offset).encode()),
        ("__connect.errors.stage", b"VALUE_CONVERTER"),
        ("__connect.errors.exception.message", message.encode()),
        (_CELLS, counts.encode()),
        *([(SOURCE, source)] if source else []),
    )
    value = None if record.value is None else record.value[:_MOST_LETTER]
    return Record(DEAD_LETTERS, value, key.encode(), headers, partition=0)


def cells_of(letter: Stored) -> dict[Reason, int]:
    """Rejected cells of a dead letter by reason; empty for a record that is no dead letter."""
    items = letter.header(_CELLS).decode("utf-8", "replace").split(",")
    counts = {reason: count for reason, _, count in (item.partition("=") for item in items)}
    return {
        reason: int(counts[reason])
        for reason in REASONS
        if counts.get(reason, "").isdecimal() and len(counts[reason]) < 10
    }


def refuse_records(log: Log, records: Iterable[tuple[Stored, dict[Reason, int]]]) -> None:
    """Appends dead letters for records and their rejected cells, in writes of bounded size."""
    topic, letters, room = log.name(REPORTS), list[Record](), MAX_BATCH
    for record, cells in records:
        letters.append(dead_letter(record, cells, topic))
        room -= memory_bytes(letters[-1].key, letters[-1].value, letters[-1].headers)
        if room <= 0:
            log.append(letters)
            letters, room = [], MAX_BATCH
    log.append(letters)


def refuse_cells(log: Log, refused: Cells, reason: Reason) -> None:
    """Appends dead letters for cells that a close could not use, with their records."""
    counted = Counter(zip(refused.partition.tolist(), refused.offset.tolist(), strict=True))
    positions = sorted(counted)
    while positions:
        partition, first = positions[0]
        try:
            batch = log.read(REPORTS, {partition: first}, READ_AT_ONCE, 0)
            records, end = batch.records, max(batch.next[partition], first + 1)
        except OutOfRange:
            # The report itself has expired; its position and the reason are still known.
            expired = Stored(
                partition=partition, offset=first, time=0, key=None, value=None, headers=()
            )
            records, end = [expired], first + 1
        cells = {offset: counted[p, offset] for p, offset in positions if p == partition}
        rejected = ((r, {reason: cells[r.offset]}) for r in records if r.offset in cells)
        refuse_records(log, rejected)
        positions = [position for position in positions if position >= (partition, end)]
