"""Dead letters: rejected records as they came, with the reasons in headers of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from stream_dp.log.base import MAX_RECORD, Headers, Record, Stored
from stream_dp.population.reports import REASONS, Reason

from .topics import DEAD_LETTERS, REPORTS

SOURCE = "stream-dp-source"  # the header that names the file that a report came from
_MOST_SOURCE = 255
_CELLS = "stream-dp-cells"
_MOST_LETTER = MAX_RECORD - 10_000  # of the rejected record, beside the headers


def source_header(path: Path) -> Headers:
    """The name of the file that reports come from, for their dead letters."""
    return ((SOURCE, path.name.encode("utf-8", "backslashreplace")[:_MOST_SOURCE]),)


def dead_letter(record: Stored, cells: dict[Reason, int], topic: str) -> Record:
    """The rejected record as it came, under the header names of Kafka Connect.

    topic: the name of the record's in the log. The message gives reasons, never the record's
    content. A record that leaves no room for the headers is cut short: the whole of it is where
    the headers say. The name of the file that it came from stays a header of its own.
    """
    message = "; ".join(REASONS[reason] for reason in sorted(cells))
    counts = ",".join(f"{reason}={count}" for reason, count in sorted(cells.items()))
    place = f"{REPORTS}/{record.partition}/{record.offset}"
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
    return Record(DEAD_LETTERS, value, place.encode(), headers, 0)


def reasons_of(letters: Sequence[Stored]) -> dict[Reason, int]:
    """Rejected cells by reason; a letter that was written again after a crash counts once.

    A record may have two letters: one for what was unusable, one for what found no place.
    """
    total: Counter[Reason] = Counter()
    for letter in {(x.key, x.header(_CELLS)): x for x in letters}.values():
        total += Counter(cells_of(letter))
    return {reason: total[reason] for reason in REASONS if total[reason]}


def cells_of(letter: Stored) -> dict[Reason, int]:
    """Rejected cells of a dead letter by reason; empty for a record that nobody of ours wrote."""
    items = letter.header(_CELLS).decode("utf-8", "replace").split(",")
    counts = {reason: count for reason, _, count in (item.partition("=") for item in items)}
    return {
        reason: int(counts[reason])
        for reason in REASONS
        if counts.get(reason, "").isdecimal() and len(counts[reason]) < 10
    }
