"""Unpacks records: Kafka Connect's JSON, CloudEvents, the registry's wire format, Debezium."""

from __future__ import annotations

import base64
import binascii

import msgspec

from stream_dp.log.log import Stored

from .row_mapping import MappedReport, RowReader

_ID_BYTES = 4
_JSON = ("application/json", "text/json")
_EVENT = "application/cloudevents"


def json_value(data: bytes | None) -> object:
    """Reads JSON. Raises ValueError for anything else."""
    try:
        value: object = msgspec.json.decode(data or b"")
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    return value


def payload(data: bytes | None) -> object:
    """The payload of Kafka Connect's JSON with schemas; a payload in text is parsed from JSON.

    A connector that reads lines, such as that of files, has text. Raises ValueError.
    """
    value = json_value(data)
    if not isinstance(value, dict) or "payload" not in value:
        raise ValueError("no payload")
    packed = value["payload"]
    return json_value(packed.encode()) if isinstance(packed, str) else packed


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


def change_reports(change: object, rows: RowReader) -> list[MappedReport | None]:
    """The reports of a Debezium change, in the order of their effect, with None for an unreadable
    report.

    An insert, a read or an update is the row after it; an update that moves a row to another
    person or period first clears the old one's cells. A deletion clears the cells of the row.
    """
    if isinstance(change, dict) and "op" not in change and "payload" in change:
        change = change["payload"]
    if change is None:
        return []  # the tombstone that follows a deletion
    if not isinstance(change, dict):
        return [None]
    operation, before, after = (change.get(key) for key in ("op", "before", "after"))
    if operation == "d":
        return [rows.withdrawal(before)]
    if operation not in ("c", "r", "u"):
        return [None]
    if operation == "u" and rows.has_moved(before, after):
        return [rows.withdrawal(before), rows.report(after)]
    return [rows.report(after)]
