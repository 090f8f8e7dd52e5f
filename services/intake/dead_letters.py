"""Dead letters: copies of rejected records, with the reasons in headers.

From them follow the attributes, periods and files of rejected cells. Confidential.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from stream_dp.errors import UserError
from stream_dp.log.log import (
    MAX_RECORD,
    READ_AT_ONCE,
    Headers,
    Log,
    LogError,
    OutOfRange,
    Stored,
    following,
)
from stream_dp.log.records import RecordColumns, Records
from stream_dp.population.cells import REASONS, Cells, Reason, RejectedRecord
from stream_dp.population.report_judging import plain_text
from stream_dp.study import Study
from stream_dp.study.topics import DEAD_LETTERS, REPORTS

if TYPE_CHECKING:
    from stream_dp.population.arrow_tables import TableSource
if TYPE_CHECKING:
    from stream_dp.population.shapes.decoder import ShapeReader


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


_MOST_LINES = 20  # for a reason; --json has them all


class Where(NamedTuple):
    """The declared attribute, period and file of a rejected cell; empty texts if unknown.

    Nothing here quotes an id or a value.
    """

    attribute: str
    period: str
    file: str


Rejections = Mapping[Reason, Counter[Where]]


def no_rejections() -> dict[Reason, Counter[Where]]:
    """An empty count for every reason, for adding the results of `Placing.places`."""
    return {reason: Counter() for reason in REASONS}


def read_rejections(log: Log, placing: Placing) -> tuple[Rejections, int]:
    """The rejected cells of all dead letters by reason, and the number of rejected records.

    A letter that was written again after a crash counts once. Raises LogError, Missing among them.
    """
    letters_read: set[object] = set()
    keys: set[bytes | None] = set()
    rejections = no_rejections()
    positions = dict(log.describe(DEAD_LETTERS).first)
    for letter in following(log, DEAD_LETTERS, positions, READ_AT_ONCE):
        cells = cells_of(letter)
        if (duplicate_key := (letter.key, tuple(cells.items()))) in letters_read:
            continue
        letters_read.add(duplicate_key)
        keys.add(letter.key)
        for reason, counts in placing.places(letter, cells):
            rejections[reason] += counts
    return rejections, len(keys)


def totals(rejections: Rejections) -> dict[Reason, int]:
    """Rejected cells by reason, without the reasons that did not occur."""
    return {reason: locations.total() for reason, locations in rejections.items() if locations}


def rejections_data(rejections: Rejections) -> list[dict[str, object]]:
    """For JSON: a table per reason and place."""
    return [
        {"reason": reason, "cells": count, **cell._asdict()}
        for reason in totals(rejections)
        for cell, count in sorted(rejections[reason].items())
    ]


def rejections_text(rejections: Rejections) -> list[str]:
    """Lines for an operator: reasons, each with the most frequent places."""
    lines = []
    for reason, total in totals(rejections).items():
        lines.append(f"{total:>9} cells  {reason}: {REASONS[reason]}")
        ranked = rejections[reason].most_common()
        lines += [f"{count:>13}  {_words(cell)}" for cell, count in ranked[:_MOST_LINES]]
        if len(ranked) > _MOST_LINES:
            lines.append(
                f"{'':>15}and {len(ranked) - _MOST_LINES} more places; --json has them all"
            )
    return lines


def _words(cell: Where) -> str:
    return (
        f"attribute {cell.attribute or 'unknown'}, period {cell.period or 'unknown'},"
        f" file {cell.file or 'unknown'}"
    )


class Placing:
    """Finds the places of rejected cells. reader: of records that are no plain reports."""

    def __init__(self, study: Study, reader: ShapeReader | None) -> None:
        self._study, self._reader = study, reader

    def places(
        self, letter: Stored, cells: Mapping[Reason, int]
    ) -> Iterator[tuple[Reason, Counter[Where]]]:
        """The attributes, periods and file of a letter's rejected cells, by reason.

        They are known as far as the report can be read.

        cells: how many of its cells are rejected, by reason.
        """
        try:
            period, values = _said(self._study, letter, self._reader)
        except (LogError, UserError):
            # A registry that does not answer hides where cells belong, and no more.
            self._reader, period, values = None, None, {}
        return _where(self._study, letter, cells, period, values)


def _said(
    study: Study, letter: Stored, reader: ShapeReader | None
) -> tuple[str | None, dict[str, object]]:
    """Returns the period and the values of a letter's report; None and {} for an unreadable report.

    Raises LogError, UserError where its schema cannot be had.
    """
    if reader is not None:
        from stream_dp.population.shapes.row_mapping import MappedReport

        reports = [r for r in reader.looked_up(letter) if isinstance(r, MappedReport)]
        if not reports:
            return None, {}
        return plain_text(reports[-1].said[0]), dict(reports[-1].values(tuple(study.attributes)))
    try:
        report = msgspec.json.decode(letter.value or b"")
        return plain_text(report["period"]), dict(report["values"])
    except (msgspec.DecodeError, TypeError, KeyError, ValueError, RecursionError):
        return None, {}


def _where(
    study: Study,
    letter: Stored,
    cells: Mapping[Reason, int],
    period: str | None,
    values: Mapping[str, object],
) -> Iterator[tuple[Reason, Counter[Where]]]:
    source = letter.header(SOURCE).decode("utf-8", "backslashreplace")
    file = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in source)
    number = study.periods.numbers.get(period or "")
    label = "" if number is None else study.periods.labels[number - 1]
    for reason, count in cells.items():
        names = [name for name in values if _concerns(study, reason, name, values[name])]
        if len(names) != count:
            yield reason, Counter({Where("", label, file): count})
            continue
        declared_names = (name if name in study.attributes else "" for name in names)
        yield reason, Counter(Where(name, label, file) for name in declared_names)


def _concerns(study: Study, reason: Reason, name: str, value: object) -> bool:
    """Whether a report's value of that name is rejected for this reason."""
    attribute = study.attributes.get(name)
    if reason in ("person", "period", "zone", "late"):
        return True
    if attribute is None or reason in ("attribute", "unreadable"):
        return attribute is None and reason == "attribute"
    fault: int | str = "value"
    if isinstance(value, str | int) and not isinstance(value, bool):
        fault = 0 if value in attribute.no_answers else attribute.read(value)
    sound = value is None or isinstance(fault, int)
    if reason == "fixed":
        return sound and attribute.fixed is True
    return sound if reason in ("full", "closed") else not sound and fault == reason
