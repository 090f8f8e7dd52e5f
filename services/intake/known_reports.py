"""Facts about earlier reports for a sender: closed periods, and the shapes of ids."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from stream_dp.log.log import NEVER, READ_AT_ONCE, Forbidden, Log, Missing
from stream_dp.population.report_judging import plain_text
from stream_dp.population.tables.id_shapes import IdShapes
from stream_dp.study import Study
from stream_dp.study.topics import REPORTS

from ..storage import journal
from ..storage.deployment import Deployment
from .markers import has_close_markers

_LOOK = 1.0  # seconds in which a close is looked for among what is not read yet


@dataclass(frozen=True)
class KnownReports:
    """Facts about earlier reports.

    closed: the last period that is closed, or whose close was given.
    shapes: of the ids in the first and the last reports of each partition.
    readable: whether this user may read the log; a sender may only write.
    """

    closed: int = 0
    shapes: IdShapes = field(default_factory=IdShapes)
    readable: bool = True


def known_reports(deployment: Deployment) -> KnownReports:
    """Reads closed periods and shapes of ids from the confidential log.

    Raises Inconsistent where the log belongs to another study or contradicts itself, LogError.
    """
    study = deployment.study
    deployment.check_bound()
    try:
        with closing(deployment.log(readonly=True)) as log:
            shapes = IdShapes.of(_ids(log, study))
            entries: list[journal.Entry] = []
            with suppress(Missing):
                entries = journal.read_heads(log)
            closes = journal.closes(entries) if entries else []
            closed = closes[-1].number if closes else 0
            if study.periods.close == "marker" and has_close_markers(log, study, entries, _LOOK):
                closed += 1
            return KnownReports(closed, shapes)
    except Missing:
        return KnownReports()
    except Forbidden:
        return KnownReports(readable=False)


def _ids(log: Log, study: Study) -> Iterator[str]:
    """Ids of the first and the last reports of every partition, by the study's rule."""
    normal = study.id_rule.normal
    first, ends = log.describe(REPORTS).first, log.cut(REPORTS, NEVER)
    for partition, start in first.items():
        last = max(start, ends[partition] - READ_AT_ONCE)
        for position in {start, last}:
            for record in log.read(REPORTS, {partition: position}, READ_AT_ONCE, 0).records:
                with suppress(msgspec.DecodeError, TypeError, KeyError, RecursionError):
                    report: Any = msgspec.json.decode(record.value or b"")
                    if person := plain_text(report["person"]):
                        yield normal(person)
