"""Types of columns that a schema names: dates, times, decimals and short floats.

Avro writes them as logical types, Kafka Connect as names of schemas. Debezium has names of its own
for times without a zone, which no schema else tells from times in UTC.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

from ..report_judging import whole_number
from .record_contents import LOGICAL, AvroSchema, ContentSchema

_CONNECT = "org.apache.kafka.connect.data."
_DEBEZIUM = "io.debezium.time."
_NAMES = {
    f"{_CONNECT}Date": "date",
    f"{_CONNECT}Timestamp": "timestamp-millis",
    f"{_CONNECT}Decimal": "decimal",
    f"{_DEBEZIUM}Date": "date",
    f"{_DEBEZIUM}Timestamp": "local-timestamp-millis",
    f"{_DEBEZIUM}MicroTimestamp": "local-timestamp-micros",
    f"{_DEBEZIUM}NanoTimestamp": "local-timestamp-nanos",
}
TIMES = frozenset(
    f"{local}timestamp-{unit}" for local in ("", "local-") for unit in ("millis", "micros", "nanos")
)
_KINDS = {"date", "decimal", *TIMES}
_LONGEST = 32  # bytes of a decimal
_MOST_SCALE = 64
_MOST_SHORT = 2**24  # the largest number all of whose digits a float of 32 bits holds


class ColumnType(NamedTuple):
    """The type of a column.

    kind: Avro's name of a logical type; `float` for floats of 32 bits; empty for any other type.
    scale: of decimals.
    default: of the column.
    """

    kind: str = ""
    scale: int = 0
    default: object = None


_Node: TypeAlias = object


def column_type(schema: ContentSchema, path: Sequence[str]) -> ColumnType:
    """Returns the type of the column at a path through a schema."""
    if isinstance(schema, AvroSchema):
        return _of_avro(schema, path)
    node: _Node = schema
    for name in path:
        node = next((field for field in _fields(node) if field.get("field") == name), None)
    if not isinstance(node, dict):
        return ColumnType()
    parameters = node.get("parameters")
    scale = parameters.get("scale") if isinstance(parameters, dict) else None
    kind = _NAMES.get(str(node.get("name")), "")
    return ColumnType(kind or _short(node.get("type")), _scale(scale), node.get("default"))


def column_defaults(schema: ContentSchema, path: Sequence[str]) -> Mapping[str, object] | None:
    """Returns the defaults of a row's columns. None if nothing says them.

    path: of the row in the content.
    """
    if schema is None:
        return None
    if isinstance(schema, AvroSchema):
        node = schema.branch(schema.root)
        name = "name"
    else:
        node, name = schema, "field"
    for step in path:
        field = next((f for f in _fields(node) if f.get(name) == step), None)
        node = schema.branch(field["type"]) if field and isinstance(schema, AvroSchema) else field
    return {str(field.get(name)): field.get("default") for field in _fields(node)}


def _fields(node: object) -> Sequence[Mapping[str, Any]]:
    fields = node.get("fields") if isinstance(node, dict) else None
    return [f for f in fields if isinstance(f, dict)] if isinstance(fields, list) else []


def _of_avro(schema: AvroSchema, path: Sequence[str]) -> ColumnType:
    """The type of the column at a path through a schema of Avro.

    Avro writes a field that may be empty as a union of null and a type. `AvroSchema.branch` gives
    that type. The default is the field's own. An unknown column and a union of several types have
    no type.
    """
    node, default = schema.root, None
    for name in path:
        record = schema.branch(node)
        field = next((field for field in _fields(record) if field["name"] == name), None)
        if field is None:
            return ColumnType()
        node, default = field["type"], field.get("default")
    node = schema.branch(node)
    if not isinstance(node, dict):
        return ColumnType(_short(node), 0, default)
    kind = _NAMES.get(str(node.get("connect.name")), "") or str(node.get(LOGICAL, ""))
    scale = _scale(node.get("scale", 0))
    return ColumnType(kind if kind in _KINDS else _short(node.get("type")), scale, default)


def _short(name: object) -> str:
    return "float" if name == "float" else ""


def _scale(value: object) -> int:
    """A scale, as a number or as Kafka Connect's text."""
    text = str(value).removeprefix("-")
    return int(str(value)) if text.isdecimal() and len(text) <= 2 else 0


def plain_value(value: object, kind: ColumnType) -> object:
    """Returns a column's value as text or a whole number where the type and the value have one.

    A float without a fraction becomes a whole number, unless it is so large that digits are lost.
    """
    if isinstance(value, float):
        return whole_number(value, _MOST_SHORT) if kind.kind == "float" else whole_number(value)
    if kind.kind == "decimal":
        return _decimal(value, kind.scale)
    if kind.kind == "date" and value.__class__ is int:
        return iso_date(value)
    if isinstance(value, dict) and value.keys() == {"scale", "value"}:  # Debezium's numeric
        scale = value["scale"]
        return _decimal(value["value"], scale if scale.__class__ is int else _MOST_SCALE + 1)
    return value


def iso_date(days: object) -> object:
    """The date so many days after 1970 began, or the value itself outside of the calendar."""
    try:
        return (date(1970, 1, 1) + timedelta(days=days)).isoformat()  # type: ignore[arg-type]
    except (OverflowError, TypeError):
        return days


def _decimal(value: object, scale: int) -> object:
    """Reads the bytes of a decimal, or their text in base64. Returns further types unchanged."""
    data = value
    if isinstance(value, str):
        try:
            data = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            return value
    if not isinstance(data, bytes) or not 0 < len(data) <= _LONGEST or abs(scale) > _MOST_SCALE:
        return value
    number = Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-scale)
    integral = number.to_integral_value()
    return int(integral) if integral == number else format(number.normalize(), "f")
