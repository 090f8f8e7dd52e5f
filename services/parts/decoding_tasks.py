"""The first half of a close: the reports of an order are decoded, in tasks.

If reports have schemas, the known schemas are decided once for an order, in a file and a record
for every aggregator. So two aggregators agree, even if a registry learns a schema meanwhile.

Cells lie on disk between decoding and closing, so that memory does not grow with the reports of a
period. A task of decoding writes a file with the cells of one part after another; a task of closing
a part reads its range of every file. The files are confidential, lie beside the files of the parts,
and have their hashes as names, so that a task may run twice. They are not durable: an aggregator
that repeats an order writes them again. They are removed after the order's answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import BinaryIO

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dp.errors import Inconsistent
from stream_dp.log.log import stop_following
from stream_dp.log.message import canonical
from stream_dp.population.population_parts import ReturningPart
from stream_dp.population.shapes.record_contents import ReadAs, SchemaUse
from stream_dp.study.topics import JOURNAL

from ..storage import journal
from ..storage.close_orders import CELLS, SUFFIX, Order, OrderBoard, reading_record
from ..storage.file_stores import InvalidSeal
from ..storage.job_records import SnapshotFile
from ..storage.snapshots import Snapshots
from .close_tasks import (
    Closing,
    Decoded,
    Range,
    Source,
    Written,
    close,
    decode,
    open_workplace,
    returning,
)
from .task_pool import Pool


@dataclass(frozen=True)
class Spilled:
    """A range of reports with its cells in a file.

    file: its name; empty without cells.
    ends: where the cells of the parts begin and end, shape (parts + 1,).
    decoded: the other content of the range.
    """

    file: str
    ends: NDArray[np.int64]
    decoded: Decoded


@dataclass(frozen=True)
class SpilledPart:
    """A part to be closed, with its cells in files.

    closing: the task, but for the cells.
    files: their names.
    spans: by file, the begin and the end of its cells, shape (files, 2).
    """

    closing: Closing
    files: tuple[str, ...]
    spans: NDArray[np.int64]


def spill(source: Source, task: Range) -> Spilled:
    """Decodes a range, see `decode`, and writes its cells to a file. Raises OSError as well."""
    blobs, decoded = decode(source, task)
    ends = np.cumsum([0, *map(len, blobs)])
    file = ""
    if any(len(blob) > 1 for blob in blobs):  # without cells it is the width of a code alone

        def save(opened: BinaryIO) -> None:
            opened.writelines(blobs)

        label = f"{CELLS}-{task.number:05d}-{task.partition:05d}-{task.begin}"
        snapshots = open_workplace(source).snapshots
        file, _ = snapshots.store(label, ".bin", save, durable=False)
    source.at("cells-written")
    return Spilled(file, ends, decoded)


def close_spilled(source: Source, task: SpilledPart) -> Written:
    """Closes a part, see `close`. Raises Inconsistent if a file of cells is gone."""
    return close(source, _with_cells(source, task))


def count_spilled(source: Source, task: SpilledPart) -> ReturningPart:
    """Counts people for the gate, see `returning`. Raises Inconsistent like `close_spilled`."""
    return returning(source, _with_cells(source, task))


def _with_cells(source: Source, task: SpilledPart) -> Closing:
    blobs = list(_ranges(open_workplace(source).snapshots, task))
    source.at("cells-read")
    return replace(task.closing, blobs=blobs)


def _ranges(snapshots: Snapshots, task: SpilledPart) -> Iterator[bytes]:
    """The cells of a part in every file, at a span of bytes. Raises Inconsistent for lost files."""
    for name, (begin, end) in zip(task.files, task.spans.tolist(), strict=True):
        blob = b""
        with snapshots.at(name, whole=False) as file, suppress(InvalidSeal):
            if file is not None:
                file.seek(begin)
                blob = file.read(end - begin)
        if len(blob) < end - begin:
            raise Inconsistent(
                f"snapshot {name}: the cells of a period are gone while it is closed; start the"
                " aggregator again"
            )
        yield blob


class ReadingLost(Inconsistent):
    """The file with the schemas of an order is gone."""


def read_reports(
    order: Order, source: Source, board: OrderBoard, pool: Pool, max_reports: int
) -> tuple[list[Spilled], ReadAs | None]:
    """Decodes the ranges of an order; returns the ranges, and their schemas or None.

    max_reports: reports of a task at most.

    Raises Inconsistent for missing records, changed schemas or another `[run.input]` than the
    releaser's; Unavailable if a schema cannot be had now.
    """
    read_as, settled = first_reading(order, source, board)
    ranges = ranges_of(order, max_reports)
    tasks = [replace(r, read_as=read_as, only=settled) for r in ranges]
    decoded = pool.map(partial(spill, source), tasks)
    if not settled:
        read_as, repeated = settle(order, source, board, [d.decoded for d in decoded])
        tasks = [replace(ranges[i], read_as=read_as, only=True) for i in repeated]
        for i, range_again in zip(repeated, pool.map(partial(spill, source), tasks), strict=True):
            decoded[i] = range_again
    return decoded, read_as


def first_reading(order: Order, source: Source, board: OrderBoard) -> tuple[ReadAs | None, bool]:
    """Returns how to read an order at first, and whether this is settled."""
    if order.read_as is None:
        return None, True
    if order.repeats:
        closes = journal.closes(journal.read_heads(board.log))
        read_as = closes[order.number].read_as
        stop_following(board.log, JOURNAL)
        return read_as, True
    settled = _settled(order, source, board)
    return (order.read_as, False) if settled is None else (settled, True)


def _settled(order: Order, source: Source, board: OrderBoard) -> ReadAs | None:
    """Returns how the reports of an order are read, if this is settled.

    Raises ReadingLost, as after an answer of another aggregator.
    """
    file = board.reading(order)
    if file is None:
        return None
    with open_workplace(source).snapshots.intact(file.name, file.sha256) as opened:
        if opened is None:
            raise ReadingLost(f"snapshot {file.name}: it is gone")
        return msgspec.json.decode(opened.read(), type=ReadAs)


def _write_reading(order: Order, source: Source, read_as: ReadAs) -> SnapshotFile:
    """Writes how the reports of an order are read, durable on return."""

    def save(opened: BinaryIO) -> None:
        opened.write(canonical(msgspec.to_builtins(read_as, str_keys=True)))

    label = f"{CELLS}-{order.number:05d}-schemas"
    return SnapshotFile(*open_workplace(source).snapshots.store(label, SUFFIX, save))


def settle(
    order: Order, source: Source, board: OrderBoard, decoded: Sequence[Decoded]
) -> tuple[ReadAs, list[int]]:
    """Settles how an order is read. Returns it, and the indices of ranges to decode again.

    These are ranges decoded in another way, or with waiting dead letters; see `decode_reports`.
    """
    assert order.read_as is not None
    read_as = _joined_reading(order.read_as.mapping, decoded)
    if not read_as.schemas and not any(d.unknown for d in decoded):
        return read_as, []
    source.at("schemas")
    board.log.append([reading_record(order, _write_reading(order, source, read_as))])
    board.refresh()
    settled = _settled(order, source, board)
    assert settled is not None
    return settled, [i for i, d in enumerate(decoded) if d.unknown or not agrees(d, settled)]


def ranges_of(order: Order, max_reports: int) -> list[Range]:
    """Divides the reports of an order into ranges of at most `max_reports`."""
    return [
        Range(
            partition,
            start,
            min(start + max_reports, end),
            order.number,
            order.parts,
            order.letters,
        )
        for partition, (begin, end) in sorted(order.ranges.items())
        for start in range(begin, end, max_reports)
    ]


def _joined_reading(mapping: str, decoded: Sequence[Decoded]) -> ReadAs:
    """Joins the schemas of all tasks. Raises Inconsistent for two schemas with the same id."""
    schemas = dict[int, SchemaUse]()
    for decoded_range in decoded:
        assert decoded_range.read_as is not None
        for number, use in decoded_range.read_as.schemas.items():
            first_use = schemas.setdefault(number, SchemaUse(use.sha256))
            if first_use.sha256 != use.sha256:
                raise Inconsistent(
                    f"schema {number}: it was another one for some of the reports of a period;"
                    " an id never changes its schema: mend the registry or the folder of schemas"
                )
    return ReadAs(mapping, schemas)


def agrees(decoded: Decoded, settled: ReadAs) -> bool:
    """Tells whether a range was read with the settled schemas, all of them known."""
    assert decoded.read_as is not None
    return not decoded.unknown & settled.schemas.keys() and all(
        settled.schemas.get(number) == use for number, use in decoded.read_as.schemas.items()
    )
