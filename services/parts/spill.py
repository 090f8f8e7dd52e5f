"""Cells on disk between decoding and closing, so that memory does not grow with a period's reports.

A task of decoding writes a file with the cells of one part after another; a task of closing a part
reads its range of every file. The files are confidential, lie beside the files of the parts, and
have their hashes as names, so that a task may run twice. They are not durable: an aggregator that
repeats an order writes them again. They are removed after the order's answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from stream_dp.errors import Inconsistent
from stream_dp.population.population_parts import ReturningPart

from ..releaser.manifests import CELLS
from ..storage.sealed_files import InvalidSeal
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
    if any(len(blob) > 1 for blob in blobs):

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
