"""What Spark's tasks do: rows of Kafka to cells by part, and a part's cells to its file.

Rows between them are (part, content, members of groups). Besides the parts there are rows for what
decoding counted, and for an error that another attempt would only repeat.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import msgspec
import numpy as np
import pyarrow as pa

from stream_dp.errors import Inconsistent, UserError
from stream_dp.log.base import HEADER_BYTES, Headers, Log, Stored
from stream_dp.log.records import Records
from stream_dp.population.cells import Cells
from stream_dp.population.rejected import Reason
from stream_dp.population.reports import LARGEST_REPORT
from stream_dp.population.split import Part, packed, split
from stream_dp.topics import REPORTS

from ...following import collector_paused
from ...parts.manifests import PartFile
from ..tasks import (
    Closing,
    MembersOfPart,
    Range,
    Source,
    Written,
    close,
    decode,
    decode_reports,
    workplace,
)

# What is used of a record of Spark's source. One that is larger than any report comes without its
# content, so that little of what others send is in memory at once.
_HEADER = f"octet_length(h.key) + coalesce(octet_length(h.value), 0) + {HEADER_BYTES}L"
_SIZES = f"aggregate(transform(headers, h -> {_HEADER}), 0L, (a, b) -> a + b)"
LARGE = (
    "coalesce(octet_length(key), 0L) + coalesce(octet_length(value), 0L)"
    f" + coalesce({_SIZES}, 0L) > {LARGEST_REPORT}"
)
COLUMNS = [
    *("partition", "offset", "large"),
    *(f"if(large, null, {name}) as {name}" for name in ("key", "value", "headers")),
]
BATCH = 1000  # records of one batch at most
ROWS = "part int, content binary, members binary"
COUNTED, FAILED = -1, -2  # rows that are of no part
_SCHEMA = pa.schema([("part", pa.int32()), ("content", pa.binary()), ("members", pa.binary())])
_UNSURE = ("\ufffd", "\0")  # what Java and C read differently in the name of a header

Batches = Iterator[pa.RecordBatch]
_Kind = TypeVar("_Kind", Written, MembersOfPart)


class Counted(msgspec.Struct, frozen=True):
    """What a task has decoded. rejected: by reason, the cells that cannot be used."""

    records: int
    rejected: dict[Reason, int]


class Failed(msgspec.Struct, frozen=True):
    """An error of this product. inconsistent: whether it is Inconsistent, and not UserError."""

    lines: list[str]
    inconsistent: bool


@dataclass(frozen=True)
class Decoding:
    """Decodes rows of Kafka, or of ranges that are read without Spark's source.

    parts: how many parts there are.
    letters: whether to append dead letters for what is rejected.
    """

    source: Source
    number: int
    parts: int
    letters: bool

    def rows(self, batches: Batches) -> Batches:
        """For each part a row with its cells, and one of what was counted."""
        return _guarded(lambda: self._rows(batches))

    def _rows(self, batches: Batches) -> pa.RecordBatch:
        here = workplace(self.source)
        cells, rejected, count = list[Cells](), Tally[Reason](), 0
        for batch in batches:
            with collector_paused():
                records = records_of(batch, here.log)
                some, reasons, read = decode_reports(
                    self.source, records, self.number, self.letters
                )
            cells.append(some)
            rejected.update(reasons)
            count += read
        parts = split(Cells.joined(cells), self.parts)
        blobs = {part: packed(some) for part, some in enumerate(parts) if len(some)}
        return _batch({**blobs, COUNTED: _counted(count, rejected)})

    def ranges(self, batches: Batches) -> Batches:
        """The same for rows (partition, begin, end), which this process reads by itself."""
        for batch in batches:
            for row in batch.to_pylist():
                yield from _guarded(partial(self._range, **row))

    def _range(self, partition: int, begin: int, end: int) -> pa.RecordBatch:
        task = Range(partition, begin, end, self.number, self.parts, self.letters)
        blobs, done = decode(self.source, task)
        rows = dict(enumerate(blobs))
        return _batch({**rows, COUNTED: _counted(done.records, done.rejected)})


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
        return _batch({index: sent(close(self.source, task))})


def records_of(batch: pa.RecordBatch, log: Log) -> Records:
    """The records of a batch of Spark's source."""
    records, headers = Records(), _headers(batch.column("headers"))
    partitions, offsets, large, keys, values = (
        batch.column(name).to_pylist() for name in ("partition", "offset", "large", "key", "value")
    )
    for place, (without, several) in enumerate(zip(large, headers, strict=True)):
        if without or any(mark in name for name, _ in several or () for mark in _UNSURE):
            again = _again(partitions[place], offsets[place], log)
            keys[place], values[place], headers[place] = again.key, again.value, again.headers
    # No decoder looks at times.
    records.add(partitions, offsets, [0] * len(offsets), keys, values, headers)
    return records


def _headers(column: pa.Array) -> list[Headers | None]:
    if column.null_count == len(column):
        return [()] * len(column)
    return [
        tuple((one["key"], one["value"] or b"") for one in several or ())
        for several in column.to_pylist()
    ]


def _again(partition: int, offset: int, log: Log) -> Stored:
    """The record as every engine reads it, whatever is strange about it."""
    batch = log.read(REPORTS, {partition: offset}, 1, 0)
    return next(record for record in batch.records if record.offset == offset)


def _guarded(work: Callable[[], pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows that work gives, or one for an error that every attempt would end with."""
    try:
        yield work()
    except UserError as error:
        failed = Failed(list(error.lines), isinstance(error, Inconsistent))
        yield _batch({FAILED: msgspec.msgpack.encode(failed)})


def _batch(rows: Mapping[int, bytes]) -> pa.RecordBatch:
    columns = [list(rows), list(rows.values()), [None] * len(rows)]
    return pa.record_batch(columns, schema=_SCHEMA)


def _counted(records: int, rejected: Tally[Reason]) -> bytes:
    return msgspec.msgpack.encode(Counted(records, dict(rejected)))


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
