"""Arrow tables in forms that no part of a message has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa


def encoded(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, **options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _compressed(codec: str) -> Callable[[pa.Table], bytes]:
    return lambda table: encoded(table, options=pa.ipc.IpcWriteOptions(compression=codec))


def _changed(change: Callable[[pa.Array], pa.Array]) -> Callable[[pa.Table], bytes]:
    """Its last column, changed."""

    def change_it(table: pa.Table) -> bytes:
        last = table.num_columns - 1
        column = change(table.column(last).combine_chunks())
        return encoded(table.set_column(last, table.column_names[last], column))

    return change_it


def _bad_offsets(table: pa.Table) -> bytes:
    """Strings that end far behind their bytes, but for the last."""
    arrays = []
    for column in table.columns:
        array = column.combine_chunks()
        if pa.types.is_string(array.type):
            _, offsets, data = array.buffers()
            wrong = np.frombuffer(offsets, np.int32).copy()
            wrong[1 : len(array)] = 2**31 - 1
            array = pa.Array.from_buffers(
                array.type, len(array), [None, pa.py_buffer(wrong.tobytes()), data]
            )
        arrays.append(array)
    return encoded(pa.table(arrays, names=table.column_names))


ARROW: dict[str, Callable[[pa.Table], bytes]] = {
    "zstd": _compressed("zstd"),
    "lz4": _compressed("lz4"),
    "dictionary": _changed(lambda a: a.dictionary_encode()),
    "nested": _changed(lambda a: pa.array([[v] for v in a.to_pylist()])),
    "nulls": _changed(lambda a: pa.array([None] * len(a), a.type)),
    "wider": _changed(lambda a: a.cast(pa.float64()) if a.type != pa.string() else a),
    "not numbers": _changed(
        lambda a: pa.array([float("nan")] * len(a)) if a.type == pa.float64() else a
    ),
    "infinite": _changed(
        lambda a: pa.array([float("inf")] * len(a)) if a.type == pa.float64() else a
    ),
    "negative": _changed(lambda a: pa.array([-1e9] * len(a)) if a.type == pa.float64() else a),
    "codes": _changed(lambda a: pa.array([250] * len(a), a.type) if a.type == pa.uint8() else a),
    "offsets": _bad_offsets,
    "metadata": lambda t: encoded(t.replace_schema_metadata({"a": "b"})),
    "extension": lambda t: encoded(
        t.cast(
            pa.schema([f.with_metadata({"ARROW:extension:name": "arrow.json"}) for f in t.schema])
        )
    ),
    "twice": lambda t: encoded(pa.concat_tables([t, t])),
    "fewer": lambda t: encoded(t.slice(0, len(t) // 2)),
    "empty": lambda t: encoded(t.slice(0, 0)),
    "no columns": lambda t: encoded(t.select([])),
    "one more": lambda t: encoded(t.append_column("more", pa.array(range(len(t))))),
    "names": lambda t: encoded(t.rename_columns(["\x1b[31m" + n for n in t.column_names])),
    "one name": lambda t: encoded(t.rename_columns([t.column_names[0]] * t.num_columns)),
    "order": lambda t: encoded(t.select(list(reversed(t.column_names)))),
}
