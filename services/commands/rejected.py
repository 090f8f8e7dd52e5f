"""`stream-dp rejected`: dead letters by reason, and where the cells of each were said."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

import msgspec

from stream_dp.log.base import Log, Missing, Stored
from stream_dp.population.reports import REASONS, Reason, plain_text
from stream_dp.study import Study

from ..dead_letters import SOURCE, cells_of
from ..deployment import Deployment
from ..options import study_file
from ..output import Output
from ..topics import DEAD_LETTERS

_MOST_LINES = 20  # for a reason; --json has them all


class Where(NamedTuple):
    """Of a rejected cell: attribute and period where they are declared, and its report's file;
    empty where they are not known. Nothing here quotes an id or a value."""

    attribute: str
    period: str
    file: str


def options(parser: argparse.ArgumentParser) -> None:
    study_file(parser)


def run(options: argparse.Namespace) -> Output:
    deployment = Deployment.load(options.study)
    letters_read: set[object] = set()
    places: dict[Reason, Counter[Where]] = {reason: Counter() for reason in REASONS}
    keys: set[bytes | None] = set()
    try:
        with closing(deployment.log(readonly=True)) as log:
            for letter in _all(log, DEAD_LETTERS):
                cells = cells_of(letter)
                # A letter that was written again after a crash counts once.
                if (same := (letter.key, tuple(cells.items()))) in letters_read:
                    continue
                letters_read.add(same)
                keys.add(letter.key)
                for reason, where in _where(deployment.study, letter, cells):
                    places[reason] += where
    except Missing:
        pass
    totals = {reason: several.total() for reason, several in places.items() if several}
    data: dict[str, Any] = {
        "confidential": True,
        "rejected": totals,
        "records": len(keys),
        "cells": [
            {"reason": reason, "cells": count, **where._asdict()}
            for reason in totals
            for where, count in sorted(places[reason].items())
        ],
    }
    lines = []
    for reason, total in totals.items():
        lines.append(f"{total:>9} cells  {reason}: {REASONS[reason]}")
        most = places[reason].most_common()
        lines += [f"{count:>13}  {_words(where)}" for where, count in most[:_MOST_LINES]]
        if len(most) > _MOST_LINES:
            lines.append(f"{'':>15}and {len(most) - _MOST_LINES} more places; --json has them all")
    return Output(data, "\n".join(["CONFIDENTIAL", *(lines or ["nothing was rejected"])]))


def _words(where: Where) -> str:
    return (
        f"attribute {where.attribute or 'unknown'}, period {where.period or 'unknown'},"
        f" file {where.file or 'unknown'}"
    )


def _where(
    study: Study, letter: Stored, cells: dict[Reason, int]
) -> Iterator[tuple[Reason, Counter[Where]]]:
    """Where a letter's rejected cells belong, by reason, as far as its report can be read."""
    source = letter.header(SOURCE).decode("utf-8", "backslashreplace")
    file = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in source)
    report: Any = None
    try:
        report = msgspec.json.decode(letter.value or b"")
        period, values = plain_text(report["period"]), dict(report["values"])
    except (msgspec.DecodeError, TypeError, KeyError, ValueError, RecursionError):
        period, values = None, {}
    number = study.periods.numbers.get(period or "")
    label = "" if number is None else study.periods.labels[number - 1]
    for reason, count in cells.items():
        names = [name for name in values if _concerns(study, reason, name, values[name])]
        if len(names) != count:
            yield reason, Counter({Where("", label, file): count})
            continue
        known = (name if name in study.attributes else "" for name in names)
        yield reason, Counter(Where(name, label, file) for name in known)


def _concerns(study: Study, reason: Reason, name: str, value: Any) -> bool:
    """Whether a report's value of that name is one that is rejected for this reason."""
    attribute = study.attributes.get(name)
    if reason in ("person", "period", "late"):
        return True
    if attribute is None or reason in ("attribute", "unreadable"):
        return attribute is None and reason == "attribute"
    text = isinstance(value, str | int) and not isinstance(value, bool)
    sound = value is None or (text and value in attribute.codes)
    if reason == "fixed":
        return sound and attribute.fixed is True
    return sound == (reason == "full")


def _all(log: Log, topic: str) -> Iterator[Stored]:
    position = dict(log.describe(topic).first)
    while True:
        batch = log.read(topic, position, 10_000, 0)
        yield from batch.records
        position = batch.next
        if batch.at_end:
            return
