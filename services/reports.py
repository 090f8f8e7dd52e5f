"""Tables of reports on their way into the log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
from tqdm import tqdm

from stream_dp.errors import UserError
from stream_dp.log.base import Record, memory_bytes
from stream_dp.population.reports import LARGEST_REPORT
from stream_dp.population.tables import TableLayout, count_rows, read_reports
from stream_dp.study import Study

from .dead_letters import source_header
from .deployment import Deployment
from .topics import REPORTS


def send_table(deployment: Deployment, path: Path, how: TableLayout, *, quiet: bool = False) -> int:
    """Send the reports of a table; how many they were."""
    with closing(deployment.log()) as log:
        log.create({REPORTS: deployment.run.partitions})
        count, source = 0, source_header(path)
        for batch in encoded_reports(path, deployment.study, how, quiet=quiet):
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
    path: Path, study: Study, how: TableLayout, *, quiet: bool = False
) -> Iterator[list[tuple[str, bytes]]]:
    """Reports of a table as (id, JSON) in batches, with a progress bar on a terminal.

    The id is the person's by the study's rule, so that all reports of one lie in one partition.
    """
    encode = msgspec.json.encode
    normal = str if study.ids is None else study.ids.normal
    # A wide table gives several reports a row; how many is known when it has been read.
    total = count_rows(path) if path.is_file() and how.attribute is None else None
    shown = True if quiet else None
    with tqdm(total=total, desc=path.name, unit=" rows", disable=shown, leave=False) as bar:
        for batch in read_reports(path, study, how):
            yield [
                (normal(person), encode({"person": person, "period": period, "values": values}))
                for person, period, values in batch
            ]
            bar.update(len(batch))
