"""Dead letters: copies of rejected records, with the reasons in headers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from stream_dp.log.log import MAX_RECORD, Headers, Record, Stored
from stream_dp.population.rejection_reasons import REASONS, Reason
from stream_dp.study.topics import DEAD_LETTERS, REPORTS

SOURCE = "stream-dp-source"  # the header that names the file that a report came from
_MOST_SOURCE = 255  # bytes of that name
_CELLS = "stream-dp-cells"  # the header that counts rejected cells by reason
_MOST_LETTER = MAX_RECORD - 10_000  # bytes of the rejected record, beside the headers


def source_header(path: Path) -> Headers:
    """The headers of reports that name the file they come from."""
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


def reasons_of(letters: Sequence[Stored]) -> dict[Reason, int]:
    """Rejected cells by reason.

    A letter that was written again after a crash counts once. A record may have two letters, for
    the cells that were unusable when it was read and for those that a close could not use.
    """
    total: Counter[Reason] = Counter()
    for letter in {(letter.key, letter.header(_CELLS)): letter for letter in letters}.values():
        total += Counter(cells_of(letter))
    return {reason: total[reason] for reason in REASONS if total[reason]}


def cells_of(letter: Stored) -> dict[Reason, int]:
    """Rejected cells of a dead letter by reason; empty for a record that is no dead letter."""
    items = letter.header(_CELLS).decode("utf-8", "replace").split(",")
    counts = {reason: count for reason, _, count in (item.partition("=") for item in items)}
    return {
        reason: int(counts[reason])
        for reason in REASONS
        if counts.get(reason, "").isdecimal() and len(counts[reason]) < 10
    }
