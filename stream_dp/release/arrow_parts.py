"""Tables in named parts, as Arrow IPC streams, safe to read from anybody.

Tables have neither compressed, dictionary-encoded, nested, extension-typed nor null columns, and
any such column is refused. So a table in memory is never larger than its parts.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from stream_dp.log.message import MAX_PART
from stream_dp.privacy.noise import Measurements

NamedParts = Sequence[tuple[str, bytes]]

MEASUREMENTS = pa.schema(
    {
        "query": pa.string(),
        "value": pa.int64(),
        "variance": pa.string(),
        "standard_error": pa.float64(),
    }
)
_FRAMING = 65_536  # bytes of a part that are reserved for Arrow's schema and framing

# Slots of the tables Message and RecordBatch in Arrow's Message.fbs.
_HEADER, _COMPRESSION = 2, 3


def ipc_stream(table: pa.Table) -> bytes:
    """The table as an IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def sliced(
    name: str, rows: int, row_bytes: int, rows_from: Callable[[int, int], pa.Table]
) -> list[tuple[str, bytes]]:
    """A table as the parts NAME/0, NAME/1, ..., all within a record.

    rows: the number of rows.
    row_bytes: the largest size of a row.
    rows_from: gives at most `count` rows from an offset, as `Table.slice`.
    """
    count = max(1, (MAX_PART - _FRAMING) // row_bytes)
    starts = range(0, max(1, rows), count)
    return [(f"{name}/{i}", ipc_stream(rows_from(start, count))) for i, start in enumerate(starts)]


def sliced_answers(name: str, table: pa.Table) -> list[tuple[str, bytes]]:
    """A table of queries with a few numbers, as the parts NAME/0, NAME/1, ..."""
    longest = max((len(query.encode()) for query in table["query"].to_pylist()), default=0)
    return sliced(name, table.num_rows, longest + 200, table.slice)


def measurement_table(measurements: Measurements) -> pa.Table:
    """Noisy answers for publication: query, value, variance, standard_error."""
    return pa.table(
        {
            "query": measurements.queries,
            "value": measurements.values,
            "variance": measurements.of_variances(str),
            "standard_error": measurements.standard_errors(),
        },
        MEASUREMENTS,
    )


def read_measurements(parts: NamedParts) -> pa.Table:
    """The noisy answers in a release's parts, as in `measurement_table`.

    Raises ValueError for any other bytes.
    """
    return read_table(parts, "measurements", MEASUREMENTS.equals)


def read_table(parts: NamedParts, name: str, fits: Callable[[pa.Schema], bool]) -> pa.Table:
    """The table in the parts NAME/0, NAME/1, ..., with shared memory.

    fits: whether a schema is as expected.

    Raises ValueError for parts that are missing or out of order, for another schema, and for bytes
    that `ipc_stream` would not write.
    """
    table_parts = [(title, data) for title, data in parts if title.startswith(f"{name}/")]
    if not table_parts or [title for title, _ in table_parts] != [
        f"{name}/{i}" for i in range(len(table_parts))
    ]:
        raise ValueError(f"{name}: its parts are not numbered from 0")
    try:
        return pa.concat_tables([_table(data, fits) for _, data in table_parts])
    except (pa.ArrowException, OSError, struct.error, ValueError):
        raise ValueError(f"{name}: not the table that is expected") from None


def _table(data: bytes, fits: Callable[[pa.Schema], bool]) -> pa.Table:
    """The table in an Arrow stream. Raises ValueError for metadata, or more data than was sent."""
    messages = iter(pa.ipc.MessageReader.open_stream(pa.py_buffer(data)))
    first = next(messages, None)
    if first is None or first.type != "schema":
        raise ValueError
    schema = pa.ipc.read_schema(first)
    if any((schema.metadata, *(field.metadata for field in schema))) or not fits(schema):
        raise ValueError
    batches = list(_batches(messages, schema))
    if sum(batch.nbytes for batch in batches) > len(data):
        raise ValueError
    return pa.Table.from_batches(batches, schema)


def _batches(messages: Iterator[pa.ipc.Message], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The batches of a stream. Raises ValueError for compressed or invalid ones, or with nulls."""
    for message in messages:
        if message.type != "record batch" or _compressed(message.metadata):
            raise ValueError
        batch = pa.ipc.read_record_batch(message, schema)
        batch.validate(full=True)
        if any(column.null_count for column in batch.columns):
            raise ValueError
        yield batch


def _compressed(metadata: pa.Buffer) -> bool:
    """Whether a record batch declares compressed buffers, before any is decompressed."""
    (root,) = struct.unpack_from("<I", metadata)
    at = _slot(metadata, root, _HEADER)
    if at is None:
        raise ValueError
    (batch,) = struct.unpack_from("<I", metadata, at)
    return _slot(metadata, at + batch, _COMPRESSION) is not None


def _slot(metadata: pa.Buffer, table: int, slot: int) -> int | None:
    """The offset of a field of a FlatBuffers table; None for an omitted field."""
    (back,) = struct.unpack_from("<i", metadata, table)
    (size,) = struct.unpack_from("<H", metadata, table - back)
    if 4 + 2 * slot >= size:
        return None
    (offset,) = struct.unpack_from("<H", metadata, table - back + 4 + 2 * slot)
    return table + offset if offset else None
