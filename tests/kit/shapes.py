"""Reports in every shape that `[run.input]` can declare."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import fastavro

from stream_dp.log.log import Headers, Record
from stream_dp.study import Input

Packed = tuple[bytes | None, Headers]
NUMBER = 7  # of the schema in every registry

_CELL = ["null", "boolean", "long", "double", "string"]


def avro_row(names: Iterable[str]) -> dict[str, Any]:
    """The schema of flat rows with these columns."""
    fields = [{"name": name, "type": _CELL, "default": None} for name in names]
    return {"type": "record", "name": "Row", "fields": fields}


AVRO_REPORT = {
    "type": "record",
    "name": "Report",
    "fields": [
        {"name": "person", "type": _CELL},
        {"name": "period", "type": _CELL},
        {"name": "values", "type": {"type": "map", "values": _CELL}},
    ],
}


def avro_bytes(schema: Any, value: Any, number: int = NUMBER) -> bytes:
    """A value in the registry's wire format."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return b"\0" + number.to_bytes(4, "big") + stream.getvalue()


def row(report: dict[str, Any]) -> dict[str, Any]:
    """A report as a flat row, its person and period in columns `id` and `month`."""
    return {"id": report["person"], "month": report["period"], **report["values"]}


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _structured(data: dict[str, Any]) -> Packed:
    event = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", **data}
    return _json(event), (("content-type", b"application/cloudevents+json; charset=UTF-8"),)


_BINARY = (
    ("ce_specversion", b"1.0"),
    ("ce_id", b"1"),
    ("ce_source", b"/s"),
    ("ce_type", b"t"),
    ("content-type", b"application/json"),
)


@dataclass(frozen=True)
class Shape:
    """A declaration and what packs a report as it says.

    declared: `[run.input]`.
    pack: a report's value and headers.
    schema: in the registry under NUMBER.
    """

    declared: dict[str, Any]
    pack: Callable[[dict[str, Any]], Packed]
    schema: Any = None

    @property
    def input(self) -> Input:
        return Input.model_validate(self.declared)

    def shaped(self, record: Record) -> Record:
        """A plain report in this shape; a marker, and what is no report, in none."""
        if record.value is None and not record.headers and self.declared.get("rows") != "report":
            return replace(record, value=b"x")  # rows have a reason of their own for no value
        if record.headers or record.value is None or record.value[:1] != b"{":
            return record
        content = json.loads(record.value)
        if "values" in content:
            value, headers = self.pack(content)
            return replace(record, value=value, headers=headers)
        return replace(record, value=json.dumps(content).encode())


_FLAT = {"person": "id", "period": "month", "extra": "refuse"}


def shapes(columns: Iterable[str]) -> dict[str, Shape]:
    """By name. columns: of attributes, declared or not, that Avro rows may have."""
    flat_schema = avro_row(["id", "month", *columns])

    def change(operation: str, row: dict[str, Any]) -> dict[str, Any]:
        return {"op": operation, "before": None, "after": row, "source": {"table": "t"}}

    return {
        "flat": Shape({"format": "flat", **_FLAT}, lambda r: (_json(row(r)), ())),
        "connect": Shape(
            {"format": "connect", **_FLAT},
            lambda r: (_json({"schema": {"type": "struct"}, "payload": row(r)}), ()),
        ),
        "connect lines": Shape(
            {"format": "connect", **_FLAT},
            lambda r: (_json({"schema": {"type": "string"}, "payload": json.dumps(row(r))}), ()),
        ),
        "connect reports": Shape(
            {"format": "connect", "rows": "report"},
            lambda r: (_json({"schema": None, "payload": r}), ()),
        ),
        "debezium": Shape(
            {"format": "debezium", **_FLAT}, lambda r: (_json(change("c", row(r))), ())
        ),
        "debezium with schema": Shape(
            {"format": "debezium", **_FLAT},
            lambda r: (_json({"schema": {}, "payload": change("r", row(r))}), ()),
        ),
        "avro": Shape(
            {"format": "avro", "schemas": "schemas", **_FLAT},
            lambda r: (avro_bytes(flat_schema, row(r)), ()),
            flat_schema,
        ),
        "avro reports": Shape(
            {"format": "avro", "rows": "report", "schemas": "schemas"},
            lambda r: (avro_bytes(AVRO_REPORT, r), ()),
            AVRO_REPORT,
        ),
        "json registry": Shape(
            {"format": "json-registry", **_FLAT},
            lambda r: (b"\0" + NUMBER.to_bytes(4, "big") + _json(row(r)), ()),
        ),
        "structured event": Shape(
            {"format": "cloudevents", **_FLAT}, lambda r: _structured({"data": row(r)})
        ),
        "structured event in base64": Shape(
            {"format": "cloudevents", "rows": "report"},
            lambda r: _structured(
                {
                    "datacontenttype": "application/json",
                    "data_base64": base64.b64encode(_json(r)).decode(),
                }
            ),
        ),
        "binary event": Shape(
            {"format": "cloudevents", "rows": "report"}, lambda r: (_json(r), _BINARY)
        ),
    }
