"""The declaration `[run.input]`: turning records into reports."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from .attribute import Attribute
from .field_types import Declaration, Name, Symbol

Rows = Literal["flat", "report", "debezium"]
# By format, the possible contents of a record, the default first.
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
        url = urlsplit(value)
        sound = url.scheme in {"http", "https"} and url.hostname and url.port != 0
    except ValueError:
        raise fault from None
    if not sound or "@" in url.netloc or url.query or url.fragment:
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
    """The format of records: a plain report; JSON with a row's columns (`flat`); Kafka Connect's
    JSON with `schema` and `payload`; a Debezium change; Avro or JSON behind a schema registry's
    magic byte and schema id; a CloudEvent, structured or binary."""
    rows: Rows | None = None
    """The content of a record, if the format leaves a choice: columns of a row (`flat`, the
    default), a plain `report`, or a `debezium` change."""
    person: Column = "person"
    """The column of ids. A name that begins with `/` is a JSON Pointer into nested columns."""
    period: Column = "period"
    """The column of periods."""
    attributes: Annotated[dict[Name, Column], Field(min_length=1)] | None = None
    """The column of each attribute, such as `{ poverty = "THINC" }`. By default all attributes of
    the study, in columns with the attributes' names."""
    values: dict[str, Symbol | dict[str, Symbol]] = Field(default_factory=dict)
    """The declared value for each text in a column, such as `{ Yes = 1, No = 0 }`. A table under an
    attribute's name applies to that attribute alone. Booleans have the texts `true` and `false`."""
    extra: Literal["ignore", "refuse"] = "ignore"
    """The treatment of further columns: `ignore` drops them, `refuse` rejects their cells with the
    reason `attribute`."""
    registry: Annotated[str, AfterValidator(_url)] | None = None
    """The URL of a schema registry, for `avro`."""
    registry_user: str | None = None
    """The user name for the registry."""
    registry_password: dict[Literal["env", "file"], str] | None = None
    """The user's password: `{ file = "PATH" }` or `{ env = "NAME" }`."""
    schemas: str | None = None
    """A folder of Avro schemas, one `ID.avsc` for each id. The folder is searched before the
    registry."""

    @property
    def packed(self) -> Rows:
        """The content of a record."""
        return self.rows or ROWS[self.format][0]

    @property
    def plain(self) -> bool:
        """Whether records are plain reports."""
        return self.format == "report"

    @property
    def hash(self) -> str:
        """SHA-256 of all keys about the reading of records, in hexadecimal.

        Empty for plain reports.
        """
        if self.plain:
            return ""
        connection_keys = {"registry", "registry_user", "registry_password", "schemas"}
        fields = self.model_dump(mode="json", exclude=connection_keys) | {"rows": self.packed}
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()

    def faults(self, attributes: Mapping[str, Attribute]) -> list[str]:
        """Contradictions inside the declaration and with the study, in lines.

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

    def _value_faults(self, attributes: Mapping[str, Attribute]) -> list[str]:
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
        """Maps the texts of an attribute's column to declared values."""
        common = {k: v for k, v in self.values.items() if not isinstance(v, dict)}
        of_attribute = self.values.get(attribute)
        return common | (of_attribute if isinstance(of_attribute, dict) else {})


def _reads(attribute: Attribute, value: int | str) -> bool:
    """Whether `value` is a value of the attribute."""
    return isinstance(attribute.read(value), int)
