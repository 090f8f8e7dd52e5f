"""How records of other shapes become reports: the declaration `[run.input]`."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from .numbers import Declaration, Name, Symbol

Rows = Literal["flat", "report", "debezium"]
# What may lie in a record of each format, the default first.
ROWS: dict[str, tuple[Rows, ...]] = {
    "report": ("report",),
    "flat": ("flat",),
    "debezium": ("debezium",),
    "connect": ("flat", "report", "debezium"),
    "avro": ("flat", "report", "debezium"),
    "json-registry": ("flat", "report", "debezium"),
    "cloudevents": ("flat", "report", "debezium"),
}


def _url(value: str) -> str:
    fault = ValueError("write a URL such as https://registry:8081, without user and password")
    try:
        parts = urlsplit(value)
        sound = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        raise fault from None
    if not sound or "@" in parts.netloc or parts.query or parts.fragment:
        raise fault
    if not value.isascii() or any(c <= " " for c in value):
        raise fault
    return value.rstrip("/")


Column = Annotated[str, Field(min_length=1, max_length=256)]


class Input(Declaration):
    """How the records of the reports topic become reports."""

    format: Literal[
        "report", "flat", "connect", "debezium", "avro", "json-registry", "cloudevents"
    ] = "report"
    """How a record is packed: a plain report; JSON with a row's columns (`flat`); Kafka Connect's
    JSON with `schema` and `payload`; a Debezium change; Avro or JSON behind a schema registry's
    magic byte and schema id; a CloudEvent, structured or binary."""
    rows: Rows | None = None
    """What is packed, where a format leaves it open: columns of a row (`flat`, the default), a
    plain `report`, or a `debezium` change."""
    person: Column = "person"
    """The column of ids. A name that begins with `/` is a JSON Pointer into nested columns."""
    period: Column = "period"
    """The column of periods."""
    attributes: Annotated[dict[Name, Column], Field(min_length=1)] | None = None
    """By attribute, its column, such as `{ poverty = "THINC" }`. By default every attribute of
    the study, each in a column of its own name."""
    values: dict[str, Symbol | dict[str, Symbol]] = Field(default_factory=dict)
    """Declared values by the text of what columns hold, such as `{ Yes = 1, No = 0 }`; a table
    under an attribute's name holds for that attribute alone. `true` and `false` are written so."""
    extra: Literal["ignore", "refuse"] = "ignore"
    """What becomes of further columns: nothing, or each is a rejected cell (`attribute`)."""
    registry: Annotated[str, AfterValidator(_url)] | None = None
    """The URL of a schema registry, for `avro`."""
    registry_user: str | None = None
    """The user that the registry asks for."""
    registry_password: dict[Literal["env", "file"], str] | None = None
    """The user's password: `{ file = "PATH" }` or `{ env = "NAME" }`."""
    schemas: str | None = None
    """A folder of Avro schemas, `ID.avsc` each, which are looked for before the registry is
    asked."""

    @property
    def packed(self) -> Rows:
        """What is packed in a record."""
        return self.rows or ROWS[self.format][0]

    @property
    def plain(self) -> bool:
        """Whether records are plain reports."""
        return self.format == "report"

    @property
    def hash(self) -> str:
        """SHA-256 of whatever decides how a record is read, in hexadecimal; empty for plain
        reports."""
        if self.plain:
            return ""
        where = {"registry", "registry_user", "registry_password", "schemas"}
        fields = self.model_dump(mode="json", exclude=where) | {"rows": self.packed}
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()

    def faults(self, attributes: dict[str, Any]) -> list[str]:
        """What contradicts itself or the study, a line each.

        attributes: the study's, by name.
        """
        lines = []
        if self.rows is not None and self.rows not in ROWS[self.format]:
            lines.append(f"rows: with format = '{self.format}' this is '{self.packed}'; remove it")
        changed = self.model_fields_set - {"format", "rows"}
        useless = changed & {"person", "period", "attributes", "values", "extra"}
        if self.packed == "report" and useless:
            lines.append(f"{min(useless)}: is for rows of columns; what is packed here is a report")
        sources = {"registry", "schemas"} & {k for k in changed if getattr(self, k) is not None}
        if self.format == "avro" and not sources:
            lines.append("registry: with format = 'avro' declare a registry, or a folder `schemas`")
        if self.format != "avro" and sources:
            lines.append(f"{min(sources)}: goes with format = 'avro'; no other needs schemas")
        if (self.registry_user is None) != (self.registry_password is None):
            lines.append("registry_user: goes with registry_password")
        if self.registry_user is not None and self.registry is None:
            lines.append("registry_user: goes with registry")
        if self.registry_password is not None and len(self.registry_password) != 1:
            lines.append("registry_password: write { env = 'NAME' } or { file = 'PATH' }")
        for name in (self.attributes or {}).keys() - attributes.keys():
            lines.append(f"attributes.{name}: the study has no such attribute")
        return lines + self._value_faults(attributes)

    def _value_faults(self, attributes: dict[str, Any]) -> list[str]:
        mapped = self.attributes or attributes
        lines = []
        for key, value in self.values.items():
            if not isinstance(value, dict):
                if not any(_reads(attributes[a], value) for a in mapped if a in attributes):
                    lines.append(f"values.{key}: {value!r} is no value of any attribute")
            elif key not in mapped or key not in attributes:
                lines.append(f"values.{key}: no attribute of that name is read")
            else:
                lines += [
                    f"values.{key}.{text}: {symbol!r} is no value of {key}"
                    for text, symbol in value.items()
                    if not _reads(attributes[key], symbol)
                ]
        return lines

    def mapped_values(self, attribute: str) -> dict[str, int | str]:
        """By text, the declared values that the column of an attribute stands for."""
        common = {k: v for k, v in self.values.items() if not isinstance(v, dict)}
        own = self.values.get(attribute)
        return common | (own if isinstance(own, dict) else {})


def _reads(attribute: Any, value: int | str) -> bool:
    """Whether a value is one of an attribute's."""
    return isinstance(attribute.read(value), int)
