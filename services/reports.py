"""Sends tables of reports to the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import msgspec
from tqdm import tqdm

from stream_dp.errors import UserError
from stream_dp.log.base import Record, memory_bytes
from stream_dp.population.reports import LARGEST_REPORT
from stream_dp.population.tables import TableLayout, count_rows, read_reports
from stream_dp.study import Study
from stream_dp.topics import REPORTS

from .binding import bind
from .dead_letters import source_header
from .deployment import Deployment
from .replacement import cells_of_table, encoded_withdrawals


def require_plain_reports(deployment: Deployment) -> None:
    """That the releaser reads what `send` writes. Raises UserError."""
    shape = deployment.run.input.format
    if shape != "report":
        raise UserError(
            f"{deployment.path}: run.input: the releaser reads records as '{shape}', and send"
            " writes plain reports, which it would reject; write such records instead, or remove"
            " [run.input]"
        )


def send_table(
    deployment: Deployment, path: Path, layout: TableLayout, *, quiet: bool = False
) -> int:
    """Sends the reports of a table; returns how many. Raises UserError."""
    return _send(deployment, path, encoded_reports(path, deployment.study, layout, quiet=quiet))


def withdraw_cells(
    deployment: Deployment, earlier: Path, path: Path, layout: TableLayout, closed: int
) -> int:
    """Sends reports that clear the cells of an earlier table that a newer one lacks.

    path: of the newer one, which is sent already.
    closed: the last closed period, of which nothing can be withdrawn.

    Returns how many reports they were.
    """
    study = deployment.study
    cells = cells_of_table(path, study, layout)
    return _send(
        deployment,
        path,
        encoded_withdrawals(path=earlier, study=study, layout=layout, cells=cells, closed=closed),
    )


def _send(deployment: Deployment, path: Path, batches: Iterable[list[tuple[str, bytes]]]) -> int:
    """Sends reports under the name of a file; returns how many. Raises UserError."""
    with closing(deployment.log()) as log:
        bind(log, deployment.study)
        log.create({REPORTS: deployment.run.partitions})
        count, source = 0, source_header(path)
        for batch in batches:
            records = [Record(REPORTS, value, key.encode(), source) for key, value in batch]
            if any(memory_bytes(r.key, r.value, r.headers) > LARGEST_REPORT for r in records):
                last = count + len(batch)
                raise UserError(
                    f"{path}: one of reports {count + 1} to {last} is over {LARGEST_REPORT} bytes;"
                    " those before are sent, and sending them again is harmless"
                )
            log.append(records)
            count += len(batch)
    return count


def encoded_reports(
    path: Path, study: Study, layout: TableLayout, *, quiet: bool = False
) -> Iterator[list[tuple[str, bytes]]]:
    """The reports of a table as (id, JSON) in batches, with a progress bar on a terminal.

    The id is normalised by the study's rule, so that a person's reports are in one partition.
    """
    encode = msgspec.json.encode
    normal = str if study.ids is None else study.ids.normal
    # A row of a wide table gives several reports; their number is not known in advance.
    total = count_rows(path) if layout.attribute is None else None
    disabled = True if quiet else None  # None: only on a terminal
    with tqdm(total=total, desc=path.name, unit=" rows", disable=disabled, leave=False) as bar:
        for batch in read_reports(path, study, layout):
            yield [
                (normal(person), encode({"person": person, "period": period, "values": values}))
                for person, period, values in batch
            ]
            bar.update(len(batch))
