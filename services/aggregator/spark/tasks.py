"""What Spark's tasks do: ranges of reports to cells by part, and a part's cells to its file.

Rows between them are (part, content, members of groups). Besides the parts there are rows for what
decoding counted, and for an error that another attempt would only repeat.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import msgspec
import numpy as np
import pyarrow as pa

from stream_dp.errors import Inconsistent, UserError
from stream_dp.log.base import Unavailable
from stream_dp.population.rejected import Reason
from stream_dp.population.reports import ReadAs
from stream_dp.population.split import Part

from ...parts.manifests import PartFile
from ..tasks import Closing, Decoded, MembersOfPart, Range, Source, Written, close, decode

ROWS = "part int, content binary, members binary"
COUNTED, FAILED = -1, -2  # rows that are of no part
_SCHEMA = pa.schema([("part", pa.int32()), ("content", pa.binary()), ("members", pa.binary())])
_ERRORS = {kind.__name__: kind for kind in (Unavailable, Inconsistent, UserError)}

Batches = Iterator[pa.RecordBatch]
_Kind = TypeVar("_Kind", Written, MembersOfPart)


class Counted(msgspec.Struct, frozen=True):
    """What a task has decoded, but for the cells.

    place: of its range among all.
    """

    place: int
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
class Decoding:
    """Decodes ranges.

    wanted: the parts that are to be closed.
    members: by part, bytes of its members of groups where they are needed.
    """

    source: Source
    ranges: Sequence[Range]
    wanted: frozenset[int]
    members: Mapping[int, bytes]

    def rows(self, batches: Batches) -> Batches:
        """Of the places of ranges, for each part a row with its cells, and one of what was counted.

        Behind the last range is the place of a row for each part, so that one without cells is
        closed, too.
        """
        for batch in batches:
            for place in batch.column(0).to_pylist():
                if place == len(self.ranges):
                    yield _batch((i, b"", self.members.get(i)) for i in sorted(self.wanted))
                else:
                    yield from _guarded(partial(self._decoded, place))

    def _decoded(self, place: int) -> pa.RecordBatch:
        blobs, done = decode(self.source, self.ranges[place])
        rejected = dict(done.rejected)
        counted = Counted(place, done.records, rejected, done.read_as, done.unknown)
        rows = [(i, blob, None) for i, blob in enumerate(blobs) if i in self.wanted]
        return _batch([*rows, (COUNTED, msgspec.msgpack.encode(counted), None)])


@dataclass(frozen=True)
class Parting:
    """Closes parts.

    count: how many parts there are.
    before: their files at the last close; None at the first one.
    due: names of the data sets that the close begins.
    rooms: by part, how many newcomers it may admit; None for all of them.
    """

    source: Source
    number: int
    count: int
    before: Sequence[PartFile] | None
    due: tuple[str, ...]
    rooms: Mapping[int, int | None]

    def closed(self, key: tuple[Any, ...], rows: pa.Table) -> pa.Table:
        """What closing a part gave, as a row; rows of no part as they are."""
        index = int(key[0].as_py())
        if index < 0:
            return rows.select(_SCHEMA.names).cast(_SCHEMA)
        return pa.Table.from_batches(_guarded(lambda: self._closed(index, rows)), _SCHEMA)

    def _closed(self, index: int, rows: pa.Table) -> pa.RecordBatch:
        members = [data for data in rows.column("members").to_pylist() if data is not None]
        task = Closing(
            part=Part(index, self.count),
            number=self.number,
            before=None if self.before is None else self.before[index],
            blobs=[blob for blob in rows.column("content").to_pylist() if blob],
            room=self.rooms[index],
            due=self.due,
            members=received(members[0], MembersOfPart) if members else None,
        )
        return _batch([(index, sent(close(self.source, task)), None)])


def _guarded(work: Callable[[], pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows that work gives, or one for an error of this product."""
    try:
        yield work()
    except (UserError, Unavailable) as error:
        kind = next(name for name, kind in _ERRORS.items() if isinstance(error, kind))
        lines = list(error.lines) if isinstance(error, UserError) else [str(error)]
        yield _batch([(FAILED, msgspec.msgpack.encode(Failed(kind, lines)), None)])


def _batch(rows: Iterable[tuple[int, bytes, bytes | None]]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return pa.record_batch([list(column) for column in columns], schema=_SCHEMA)


def sent(value: Written | MembersOfPart) -> bytes:
    """What a task gives or gets as bytes."""

    def plain(array: Any) -> tuple[str, bytes]:
        assert isinstance(array, np.ndarray)
        return array.dtype.newbyteorder("<").str, array.tobytes()

    return msgspec.msgpack.encode(value, enc_hook=plain)


def received(data: bytes, kind: type[_Kind]) -> _Kind:
    """The value of which `sent` made these bytes."""

    def array(_: type, value: Any) -> Any:
        return np.frombuffer(value[1], value[0])

    return msgspec.msgpack.decode(data, type=kind, dec_hook=array)
