"""Sends tables of reports to the log, and finds facts about earlier reports.

A table that replaces an earlier one withdraws the cells that the new table lacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from stream_dp.errors import UserError
from stream_dp.log.log import NEVER, READ_AT_ONCE, Forbidden, Log, Missing, memory_bytes
from stream_dp.log.records import RecordColumns
from stream_dp.population.arrow_tables import TableSource
from stream_dp.population.report_judging import LONGEST_ID, plain_text
from stream_dp.population.tables import (
    SentRecords,
    TableLayout,
    count_rows,
    read_columns,
    read_reports,
    records_of,
)
from stream_dp.population.tables.id_shapes import IdShapes
from stream_dp.study import Study
from stream_dp.study.topics import REPORTS

from ..storage import journal
from ..storage.deployment import Deployment, bind
from ..storage.log_guard import check_readable
from .dead_letters import source_header
from .group_tables import study_with_places
from .markers import has_close_markers

_DIGEST = 16  # bytes of a cell's hash: two cells that share one do not occur


class CellSet:
    """The cells (person, period, attribute) of a table, 16 bytes each."""

    def __init__(self, study: Study) -> None:
        self._normal = study.id_rule.normal
        self._digests = bytearray()
        self._sorted: NDArray[Any] | None = None

    def add(self, person: str, period: str, attribute: str) -> None:
        self._digests += self._digest(person, period, attribute)

    def lacks(self, person: str, period: str, attribute: str) -> bool:
        """Whether a cell was never added. Call only after the last `add`."""
        if self._sorted is None:
            self._sorted = np.sort(np.frombuffer(self._digests, f"V{_DIGEST}").view(f"S{_DIGEST}"))
        digest = np.frombuffer(self._digest(person, period, attribute), f"S{_DIGEST}")
        index = int(np.searchsorted(self._sorted, digest)[0])
        return index == len(self._sorted) or bool(self._sorted[index] != digest[0])

    def _digest(self, person: str, period: str, attribute: str) -> bytes:
        # Lengths in front, so that no two cells have the same text.
        fields = (self._normal(person), period, attribute)
        text = "".join(f"{len(field)}:{field}" for field in fields)
        return blake2b(text.encode(), digest_size=_DIGEST).digest()


def cells_of_table(path: TableSource, study: Study, layout: TableLayout) -> CellSet:
    """The cells of a table. Raises UserError."""
    cells = CellSet(study)
    for batch in read_reports(path, study, layout):
        for person, period, values in batch:
            for attribute in values:
                cells.add(person, period, attribute)
    return cells


def encoded_withdrawals(
    path: TableSource, study: Study, layout: TableLayout, cells: CellSet, closed: int
) -> Iterator[SentRecords]:
    """Reports that clear the cells of an earlier table missing in `cells`.

    closed: the last closed period, of which nothing can be withdrawn.
    """
    encode = msgspec.json.encode
    normal, numbers = study.id_rule.normal, study.periods.numbers
    for batch in read_reports(path, study, layout):
        reports = []
        for person, period, values in batch:
            if numbers.get(period, 0) <= closed or not 0 < len(normal(person)) <= LONGEST_ID:
                continue
            gone = {name: None for name in values if cells.lacks(person, period, name)}
            if gone:
                report = {"person": person, "period": period, "values": gone}
                reports.append((normal(person), encode(report)))
        yield SentRecords.of(reports)


def require_plain_reports(deployment: Deployment) -> None:
    """Raises UserError if the releaser does not read plain reports."""
    shape = deployment.run.input.format
    if shape != "report":
        raise UserError(
            f"{deployment.path}: run.input: the releaser reads records as '{shape}', and send"
            " writes plain reports, which it would reject; write such records instead, or remove"
            " [run.input]"
        )


def send_table(
    deployment: Deployment, path: TableSource, layout: TableLayout, *, quiet: bool = False
) -> int:
    """Sends the reports of a table; returns how many. Raises UserError, Inconsistent."""
    study = study_with_places(deployment)
    return _send(deployment, path, encoded_reports(path, study, layout, quiet=quiet))


def withdraw_cells(
    deployment: Deployment,
    earlier: TableSource,
    path: TableSource,
    layout: TableLayout,
    closed: int,
) -> int:
    """Sends reports that clear the cells of an earlier table missing in a newer table.

    path: of the newer one, which is sent already.
    closed: the last closed period, of which nothing can be withdrawn.

    Returns how many reports they were.
    """
    study = study_with_places(deployment)
    cells = cells_of_table(path, study, layout)
    return _send(
        deployment,
        path,
        encoded_withdrawals(path=earlier, study=study, layout=layout, cells=cells, closed=closed),
    )


def _send(deployment: Deployment, path: TableSource, batches: Iterable[SentRecords]) -> int:
    """Sends reports under the name of a file; returns how many. Raises UserError."""
    with closing(deployment.log()) as log:
        bind(log, deployment.study)
        log.create({REPORTS: deployment.run.partitions})
        check_readable(deployment, log)
        count, source = 0, source_header(path)
        for batch in batches:
            log.append(RecordColumns(REPORTS, batch.keys, batch.values, source))
            count += len(batch)
    return count


def encoded_reports(
    path: TableSource, study: Study, layout: TableLayout, *, quiet: bool = False
) -> Iterator[SentRecords]:
    """The records of a table, in batches, with a progress bar on a terminal.

    A row that makes no report has a record too, which whoever reads it rejects as unreadable.
    """
    overhead = record_overhead(path)
    with (
        tqdm(
            total=count_rows(path),
            desc=path.name,
            unit=" rows",
            disable=True if quiet else None,  # None: only on a terminal
            leave=False,
        ) as bar,
        closing(read_columns(path, study, layout)) as source,
    ):
        for columns in source:
            yield from records_of(columns, study.id_rule, overhead)
            bar.update(len(columns))


def record_overhead(path: TableSource) -> int:
    """Bytes of a record of that file beside its key and its value."""
    return memory_bytes(None, None, source_header(path))


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
