"""Tables of reports on their way in: `send`, and the known panel that `evaluate` compares with."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from stream_dp.errors import UserError
from stream_dp.log.base import Record, Stored, memory_bytes
from stream_dp.population import Population
from stream_dp.population.reports import LARGEST_REPORT, REASONS, Decoder
from stream_dp.population.tables import TableLayout, count_rows, read_reports
from stream_dp.study import Study

from ..dead_letters import source_header
from ..deployment import Deployment
from ..groups.members import Members
from ..groups.roster import Roster
from ..output import Output
from ..topics import REPORTS


def send(options: argparse.Namespace) -> Output:
    deployment = Deployment.load(options.study)
    how = layout(options)
    sent = {str(path): deliver(deployment, path, how) for path in options.files}
    text = [f"{path}: {count} reports sent" for path, count in sent.items()]
    return Output({"sent": sent}, "\n".join(text))


def layout(options: argparse.Namespace) -> TableLayout:
    columns: dict[str, str] = {}
    for pair in (options.columns or "").split(",") if options.columns else []:
        name, equals, meant = pair.partition("=")
        if not equals:
            raise UserError(f"--columns: write COL=NAME,COL=NAME, not '{pair}'")
        columns[name] = meant
    return TableLayout(options.person, options.period, options.attribute, columns)


def deliver(deployment: Deployment, path: Path, how: TableLayout, *, quiet: bool = False) -> int:
    """Send the reports of a table; how many they were."""
    with closing(deployment.log()) as log:
        log.create({REPORTS: deployment.run.partitions})
        count, source = 0, source_header(path)
        for batch in encoded(path, deployment.study, how, quiet=quiet):
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


def encoded(
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


def truth(study: Study, path: Path, how: TableLayout) -> dict[str, NDArray[np.uint8]]:
    """A known panel by attribute, (people, periods), the missing rules applied.

    The table goes through the decoder and the population, as reports do. People who enter late
    under add_remove have the missing rule's symbol before.
    """
    return _known(study, path, how, ())[0]


def joined(
    study: Study, path: Path, how: TableLayout, groups: Roster
) -> tuple[dict[str, NDArray[np.uint8]], Members]:
    """The same with the members of groups, who have a place before everybody else.

    Raises UserError where the table says nothing of a member.
    """
    found, slots = _known(study, path, how, groups.persons)
    return found, Members(groups.codes(study), slots, groups.group_of, groups.role_codes(study))


def _known(
    study: Study, path: Path, how: TableLayout, members: Sequence[str]
) -> tuple[dict[str, NDArray[np.uint8]], NDArray[np.int64]]:
    """The panel, and where its members are."""
    decoder, population = Decoder(study, bytes(32)), Population(study)
    ids = decoder.ids(members)
    hashes, unheard = decoder.hashes(ids), set(ids)
    population.enrol(hashes[:, 0], hashes[:, 1])
    offset = 0
    for batch in encoded(path, study, how):
        records = [Stored(0, offset + i, 0, None, value, ()) for i, (_, value) in enumerate(batch)]
        population.fold(*decoder.decode(records, 0))
        unheard.difference_update(person for person, _ in batch)
        offset += len(batch)
    columns: dict[str, list[NDArray[np.uint8]]] = {name: [] for name in study.attributes}
    for _ in study.periods.labels:
        for name, symbols in population.close().symbols.items():
            columns[name].append(symbols)
    if refused := dict(population.accounting.rejected):
        reasons = ", ".join(f"{count} cells: {REASONS[r]}" for r, count in refused.items())
        print(f"stream-dp: {path}: left out: {reasons}", file=sys.stderr)
    if not population.accounting.accepted:
        raise UserError(f"{path}: no value of it fits the study")
    if unheard:
        raise UserError(
            f"{path}: {len(unheard)} of {len(members)} members of groups are not in it; the truth"
            " needs everybody's answers"
        )
    found = {
        name: np.stack(
            [_filled(c, population.size, study.attributes[name].first_code) for c in found], axis=1
        )
        for name, found in columns.items()
    }
    return found, population.slots(hashes[:, 0], hashes[:, 1])


def _filled(column: NDArray[np.uint8], size: int, code: int) -> NDArray[np.uint8]:
    return np.append(column, np.full(size - column.shape[0], code, np.uint8))
