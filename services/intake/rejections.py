"""The attributes, periods and files of rejected cells, from their dead letters. Confidential."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from stream_dp.errors import UserError
from stream_dp.log.log import READ_AT_ONCE, Log, LogError, Stored, following
from stream_dp.population.cells import REASONS, Reason
from stream_dp.population.report_judging import plain_text
from stream_dp.study import Study
from stream_dp.study.topics import DEAD_LETTERS

from .dead_letters import SOURCE, cells_of

if TYPE_CHECKING:
    from stream_dp.population.shapes.decoder import ShapeReader

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
