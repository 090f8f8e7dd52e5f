"""Unpacks records and maps their rows to reports, deleted rows to reports that clear their cells.

Records are Kafka Connect's JSON, CloudEvents, the registry's wire format, or Debezium's changes.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from enum import Enum
from operator import itemgetter
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from stream_dp.log.log import Stored
from stream_dp.study import Study
from stream_dp.study.run_settings import Input

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


Row: TypeAlias = Mapping[str, object]


class Odd(Enum):
    """Stands for a value other than text, whole numbers and null: every attribute rejects the
    value.
    """

    VALUE = "odd"


_PLAIN = {str, int, type(None)}
Said: TypeAlias = str | int | Odd | UnsetType | None  # UNSET for what a record does not have


class MappedReport(NamedTuple):
    """A report from a record of another shape.

    person: the person's id.
    said: the period, then the value of every attribute of the study.
    undeclared: how many values have names that are no attributes of the study.
    """

    person: Said
    said: tuple[Said, ...]
    undeclared: int = 0

    @property
    def readable(self) -> bool:
        """Whether the record has a person and a period."""
        return self.person is not UNSET and self.said[0] is not UNSET

    def values(self, names: tuple[str, ...]) -> Mapping[str, Said]:
        """Returns the present values by name, with blank names for undeclared names.

        names: of the study's attributes.
        """
        pairs = zip(names, self.said[1:], strict=True)
        values = {name: value for name, value in pairs if value is not UNSET}
        # No attribute has a name that begins with a blank.
        return values | {f" {number}": Odd.VALUE for number in range(self.undeclared)}


class RowReader:
    """Reads rows from JSON objects or from Avro's records."""

    def __init__(self, study: Study, declared: Input) -> None:
        columns = declared.attributes or {name: name for name in study.attributes}
        self._person, self._period = _column(declared.person), _column(declared.period)
        self._columns = [
            None if name not in columns else (_column(columns[name]), declared.mapped_values(name))
            for name in study.attributes
        ]
        used = (declared.person, declared.period, *columns.values())
        self._used = {_pointed(c)[0] if c.startswith("/") else c for c in used}
        self._refuses_extra = declared.extra == "refuse"
        # Reads the period and every attribute at once, where each is a column as it stands.
        self._whole: Callable[[Row], tuple[object, ...]] | None = None
        names = [declared.period, *(columns[n] for n in study.attributes if n in columns)]
        pointed = any(name.startswith("/") for name in names)
        if len(columns) == len(study.attributes) and not pointed and not declared.values:
            self._whole = itemgetter(*names)

    def report(self, row: object) -> MappedReport | None:
        """Returns the report of a row, or None for a value other than a row."""
        if not isinstance(row, dict):
            return None
        extra = len(row.keys() - self._used) if self._refuses_extra else 0
        return MappedReport(_said(self._person(row)), self._values(row), extra)

    def _values(self, row: Row) -> tuple[Said, ...]:
        """Returns the period and the value of every attribute in a row."""
        if self._whole is not None:
            try:
                values = self._whole(row)
            except KeyError:
                values = (UNSET,)
            if _PLAIN.issuperset(map(type, values)):
                return values  # type: ignore[return-value]
        said = [_said(self._period(row))]
        for column in self._columns:
            value = UNSET if column is None else column[0](row)
            said.append(_mapped(value, column[1]) if column and column[1] else _said(value))
        return tuple(said)

    def withdrawal(self, row: object) -> MappedReport | None:
        """Returns the report that clears the cells of a row, or None for a value other than a row.

        These are the attributes whose columns the row has. A row that is cut down to its key has
        none of them: then all that are mapped are cleared.
        """
        if not isinstance(row, dict):
            return None
        had = [column is not None and column[0](row) is not UNSET for column in self._columns]
        if not any(had):
            had = [column is not None for column in self._columns]
        cleared = (None if clears else UNSET for clears in had)
        return MappedReport(_said(self._person(row)), (_said(self._period(row)), *cleared))

    def has_moved(self, before: object, after: object) -> bool:
        """Tells whether a changed row had cells of another person or period before the change."""
        if not isinstance(before, dict) or not isinstance(after, dict):
            return False
        old, new = ([self._person(row), self._period(row)] for row in (before, after))
        sound = all(_said(value).__class__ in (str, int) for value in old)
        return sound and list(map(str, old)) != list(map(str, new))


def report_in_envelope(value: object, names: tuple[str, ...]) -> MappedReport | None:
    """Returns a plain report in an envelope, or None for a value other than a report.

    names: of the study's attributes.
    """
    if not isinstance(value, dict):
        return None
    values = value.get("values")
    if not isinstance(values, dict):
        return None
    said = [_said(values.get(name, UNSET)) for name in names]
    undeclared = len(values) - len(said) + said.count(UNSET)
    period = _said(value.get("period", UNSET))
    return MappedReport(_said(value.get("person", UNSET)), (period, *said), undeclared)


def _said(value: object) -> Said:
    """Keeps text, whole numbers and null."""
    if value.__class__ in _PLAIN or value is UNSET:
        return value  # type: ignore[return-value]
    return Odd.VALUE


def _mapped(value: object, mapped: dict[str, int | str]) -> Said:
    """Returns the study's value for a column's value, or the value itself if it is not mapped.

    mapped: the study's values by the text of the column's values; Booleans are true and false.
    """
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, str | int | float):
        text = str(value)
    else:
        return _said(value)
    return mapped[text] if text in mapped else _said(value)


def _column(name: str) -> Callable[[Row], object]:
    """Makes what reads a column, by its name or by a JSON Pointer (RFC 6901) through objects.

    It returns UNSET for a row without the column.
    """
    if not name.startswith("/"):
        return lambda row: row.get(name, UNSET)
    path = _pointed(name)

    def read(row: object) -> object:
        for key in path:
            if not isinstance(row, dict) or key not in row:
                return UNSET
            row = row[key]
        return row

    return read


def _pointed(pointer: str) -> list[str]:
    """Splits a JSON Pointer into names."""
    parts = pointer[1:].split("/")
    return [part.replace("~1", "/").replace("~0", "~") for part in parts]
