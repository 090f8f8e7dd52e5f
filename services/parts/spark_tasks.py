"""Spark's tasks: from ranges of reports to cells by part, and from a part's cells to its result.

Rows between them are (part, content, members of groups). Besides the parts there are rows for the
counts of decoding, and for an error that another attempt would only repeat.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import msgspec
import numpy as np
import pyarrow as pa

from stream_dp.errors import Inconsistent, UserError
from stream_dp.log.log import Unavailable
from stream_dp.population.cells import Reason
from stream_dp.population.population_parts import ReturningPart
from stream_dp.population.shapes.record_contents import ReadAs

from .close_tasks import Closing, Decoded, MembersOfPart, Range, Source, Written, decode

ROWS = "part int, content binary, members binary"
COUNTED, FAILED = -1, -2  # part numbers of rows without a part
_SCHEMA = pa.schema([("part", pa.int32()), ("content", pa.binary()), ("members", pa.binary())])
_ERRORS = {kind.__name__: kind for kind in (Unavailable, Inconsistent, UserError)}

Batches = Iterator[pa.RecordBatch]
_Kind = TypeVar("_Kind", Written, ReturningPart, MembersOfPart)
PartWork = Callable[[Source, Closing], Written | ReturningPart]


class Counted(msgspec.Struct, frozen=True):
    """The counts of a decoded range.

    range_index: of its range among all ranges.
    """

    range_index: int
    records: int
    rejected: dict[Reason, int]
    read_as: ReadAs | None
    unknown: frozenset[int]

    @property
    def decoded(self) -> Decoded:
        return Decoded(self.records, Tally(self.rejected), self.read_as, self.unknown)


class Failed(msgspec.Struct, frozen=True):
    """An error of this product. kind: the name of its class."""

    kind: str
    lines: list[str]

    @property
    def error(self) -> Exception:
        kind = _ERRORS[self.kind]
        return kind(self.lines) if issubclass(kind, UserError) else kind(*self.lines)


@dataclass(frozen=True)
class RangeDecoder:
    """Decodes ranges.

    closing_parts: the parts to be closed.
    members: by part, bytes of its members of groups if needed.
    """

    source: Source
    ranges: Sequence[Range]
    closing_parts: frozenset[int]
    members: Mapping[int, bytes]

    def rows(self, batches: Batches) -> Batches:
        """Decodes ranges by index. Yields a row of cells for each part, and a row of counts.

        The index behind the last range gives a row for each part, so that parts without cells are
        closed, too.
        """
        for batch in batches:
            for range_index in batch.column(0).to_pylist():
                if range_index == len(self.ranges):
                    yield _batch((i, b"", self.members.get(i)) for i in sorted(self.closing_parts))
                else:
                    yield from _guarded(partial(self._decoded, range_index))

    def _decoded(self, range_index: int) -> pa.RecordBatch:
        """The rows of one range: the cells of every part, and the counts."""
        blobs, done = decode(self.source, self.ranges[range_index])
        rejected = dict(done.rejected)
        counted = Counted(range_index, done.records, rejected, done.read_as, done.unknown)
        rows = [(i, blob, None) for i, blob in enumerate(blobs) if i in self.closing_parts]
        return _batch([*rows, (COUNTED, msgspec.msgpack.encode(counted), None)])


@dataclass(frozen=True)
class PartCloser:
    """Closes or counts parts.

    work: `close` or `returning`.
    tasks: by part, the task without cells and members.
    """

    source: Source
    work: PartWork
    tasks: Mapping[int, Closing]

    def closed(self, key: tuple[Any, ...], rows: pa.Table) -> pa.Table:
        """Returns the result of a part as a row; rows without a part stay unchanged."""
        index = int(key[0].as_py())
        if index < 0:
            return rows.select(_SCHEMA.names).cast(_SCHEMA)
        return pa.Table.from_batches(_guarded(lambda: self._closed(index, rows)), _SCHEMA)

    def _closed(self, index: int, rows: pa.Table) -> pa.RecordBatch:
        members = [data for data in rows.column("members").to_pylist() if data is not None]
        task = replace(
            self.tasks[index],
            blobs=[blob for blob in rows.column("content").to_pylist() if blob],
            members=received(members[0], MembersOfPart) if members else None,
        )
        return _batch([(index, sent(self.work(self.source, task)), None)])


def _guarded(work: Callable[[], pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a function, or a row for an error of this product."""
    try:
        yield work()
    except (UserError, Unavailable) as error:
        kind = next(name for name, kind in _ERRORS.items() if isinstance(error, kind))
        lines = list(error.lines) if isinstance(error, UserError) else [str(error)]
        yield _batch([(FAILED, msgspec.msgpack.encode(Failed(kind, lines)), None)])


def _batch(rows: Iterable[tuple[int, bytes, bytes | None]]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return pa.record_batch([list(column) for column in columns], schema=_SCHEMA)


def sent(value: Written | ReturningPart | MembersOfPart) -> bytes:
    """Encodes a task's input or result as bytes."""

    def plain(array: Any) -> tuple[str, bytes]:
        assert isinstance(array, np.ndarray)
        return array.dtype.newbyteorder("<").str, array.tobytes()

    return msgspec.msgpack.encode(value, enc_hook=plain)


def received(data: bytes, kind: type[_Kind]) -> _Kind:
    """Decodes the bytes of `sent`."""

    def array(_: type, value: Any) -> Any:
        return np.frombuffer(value[1], value[0])

    return msgspec.msgpack.decode(data, type=kind, dec_hook=array)
