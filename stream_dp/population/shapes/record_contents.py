"""Unpacks records: Kafka Connect's JSON, CloudEvents, and the registry's wire format."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from stream_dp.log.log import Stored

from .avro import AvroSchema

_ID_BYTES = 4
_JSON = ("application/json", "text/json")
_EVENT = "application/cloudevents"

# What says the types of columns: Avro's schema, Kafka Connect's schema in JSON, or nothing.
ContentSchema = AvroSchema | Mapping[str, object] | None


class Content(NamedTuple):
    """The value of a record, or of its key, and the schema that came with it."""

    value: object
    schema: ContentSchema = None


def json_value(data: bytes | None) -> object:
    """Reads JSON. Raises ValueError for anything else."""
    try:
        value: object = msgspec.json.decode(data or b"")
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    return value


def payload(data: bytes | None) -> Content:
    """The payload of Kafka Connect's JSON with schemas; a payload in text is parsed from JSON.

    A connector that reads lines, such as that of files, has text. Raises ValueError.
    """
    value = json_value(data)
    if value is None:
        return Content(None)
    if not isinstance(value, dict) or "payload" not in value:
        raise ValueError("no payload")
    content = opened(value)
    if isinstance(content.value, str):
        return Content(json_value(content.value.encode()))
    return content


def opened(envelope: Mapping[str, object]) -> Content:
    """The payload of an envelope of Kafka Connect, with its schema."""
    schema = envelope.get("schema")
    return Content(envelope["payload"], schema if isinstance(schema, dict) else None)


def schema_id(data: bytes | None) -> int:
    """The schema id of the registry's wire format: a zero byte and four more. Raises ValueError."""
    if data is None or len(data) <= _ID_BYTES or data[0] != 0:
        raise ValueError("no schema id")
    return int.from_bytes(data[1 : _ID_BYTES + 1], "big")


def after_id(data: bytes) -> bytes:
    """The bytes after the schema id."""
    return data[_ID_BYTES + 1 :]


def event_data(record: Stored) -> object:
    """The data of a CloudEvent 1.0, structured or binary, as JSON (Kafka binding 1.0.2).

    Raises ValueError for what is none, or has data of another content type.
    """
    if record.header("ce_specversion"):
        _require(record.header("ce_specversion") == b"1.0")
        _require(_is_json(record.header("content-type").decode("ascii", "replace")))
        return json_value(record.value)
    content = record.header("content-type").decode("ascii", "replace").lower()
    _require(not content.startswith(_EVENT) or content.split(";")[0].strip() == f"{_EVENT}+json")
    event = json_value(record.value)
    if not isinstance(event, dict):
        raise ValueError("not a CloudEvent that can be read")
    _require(event.get("specversion") == "1.0")
    _require(_is_json(event.get("datacontenttype") or ""))
    if "data_base64" not in event:
        _require("data" in event)
        data: object = event["data"]
        return data
    try:
        return json_value(base64.b64decode(event["data_base64"], validate=True))
    except (TypeError, binascii.Error):
        raise ValueError("no base64") from None


def _is_json(content: object) -> bool:
    """Whether a content type is missing or stands for JSON."""
    if not isinstance(content, str):
        return False
    media = content.split(";")[0].strip().lower()
    return media in ("", *_JSON) or media.endswith("+json")


def _require(sound: bool) -> None:
    if not sound:
        raise ValueError("not a CloudEvent that can be read")
