"""Avro: values with the schema of their writer. Needs fastavro."""

from __future__ import annotations

import hashlib
import io
import json
from types import ModuleType
from typing import Any

import msgspec

from stream_dp.errors import missing_extra

MOST_SCHEMA = 1_000_000  # characters of a schema with those that it refers to
_DEEPEST = 64  # levels of a schema
_MOST_NODES = 10_000  # of a schema whose named types stand wherever they are used
_MOST_PER_BYTE = 16  # values in an item of an array or a map, for each byte of the item
_BOX = "_"
LOGICAL = "stored as"  # the key that has the name of a logical type in a read schema
_WIDTHS = {"null": 0, "boolean": 1, "int": 1, "long": 1, "string": 1, "bytes": 1}
_WIDTHS |= {"float": 4, "double": 8}


def fastavro() -> ModuleType:
    """The package. Raises UserError with the name of the extra if the package is missing."""
    try:
        import fastavro as package
    except ImportError:
        raise missing_extra("run.input: format = 'avro' needs fastavro", "avro") from None
    module: ModuleType = package
    return module


class UnknownType(ValueError):
    """A schema uses a type without a definition in the schema or in an earlier schema.

    place: of the schema among the texts.
    name: of the type, with its namespace.
    """

    def __init__(self, place: int, name: str) -> None:
        super().__init__("a type that is not defined")
        self.place, self.name = place, name


class AvroSchema:
    """A writer's schema. Logical types are read as their stored types, and keep their names.

    texts: the schema, after those that it refers to; each may use the types of those before it.
    Raises ValueError for a text that is no schema, for more than MOST_SCHEMA characters, and for a
    schema by which a few bytes could become any number of values: one that contains itself, or has
    arrays whose items take hardly any bytes.
    """

    def __init__(self, *texts: str) -> None:
        self.length = sum(map(len, texts))
        if not 0 < self.length <= MOST_SCHEMA:
            raise ValueError("too large")
        try:
            declared = [msgspec.json.decode(text) for text in texts]
        except (msgspec.DecodeError, RecursionError):
            raise ValueError("not JSON") from None
        self.sha256 = _hash(declared)
        self._package = fastavro()
        self._refers = len(declared) > 1
        if self._refers:
            declared[-1] = _boxed(declared[-1])
        named: dict[str, Any] = {}
        for number, schema in enumerate(declared):
            plain = _stored(schema, 0)
            try:
                self._parsed = self._package.parse_schema(plain, named_schemas=named)
            except self._package.schema.UnknownType as error:
                raise UnknownType(number, str(error.name)) from None
            except Exception:  # whatever it says of what others wrote, it is no schema
                raise ValueError("no Avro schema") from None
        _Walk(named).span(self._parsed, ())
        self._named = named

    @property
    def root(self) -> Any:
        """The schema with its types; a logical type has its name under LOGICAL."""
        return self._parsed["fields"][0]["type"] if self._refers else self._parsed

    def branch(self, schema: Any) -> Any:
        """A part of the schema with its definition: of a union, the only part beside null."""
        if isinstance(schema, list):
            branches = [branch for branch in schema if branch != "null"]
            schema = branches[0] if len(branches) == 1 else None
        return self._named.get(schema, schema) if isinstance(schema, str) else schema

    def read(self, data: bytes) -> Any:
        """The value of all given bytes. Raises ValueError."""
        stream = io.BytesIO(data)
        try:
            value = self._package.schemaless_reader(stream, self._parsed, None)
        except Exception:  # of any class, for bytes that do not fit
            raise ValueError("not a value of the schema") from None
        if stream.read(1):
            raise ValueError("bytes behind the value")
        return value[_BOX] if self._refers else value


def _hash(declared: list[Any]) -> str:
    """SHA-256 of a schema and its referenced schemas. The order of references has no effect."""
    *references, main = (json.dumps(schema, sort_keys=True) for schema in declared)
    text = json.dumps({"references": sorted(references), "schema": main}) if references else main
    return hashlib.sha256(text.encode()).hexdigest()


def _boxed(schema: Any) -> Any:
    """The schema wrapped in a record with a single field; the record takes no bytes.

    fastavro forgets the types of other schemas where a schema is a name or a union of names.
    """
    return {"type": "record", "name": _BOX, "fields": [{"name": _BOX, "type": schema}]}


def _stored(schema: Any, depth: int) -> Any:
    """The schema with its logical types under LOGICAL. Raises ValueError if it is too deep."""
    if depth > _DEEPEST:
        raise ValueError("too deep")
    if isinstance(schema, list):
        return [_stored(branch, depth + 1) for branch in schema]
    if isinstance(schema, dict):
        return {
            LOGICAL if k == "logicalType" else k: _stored(v, depth + 1) for k, v in schema.items()
        }
    return schema


class _Walk:
    """The fewest bytes of values, and the most parts of one without arrays and maps.

    Named types are put in their places.
    """

    def __init__(self, named: dict[str, Any]) -> None:
        self._named, self._nodes = named, 0

    def span(self, schema: Any, within: tuple[str, ...]) -> tuple[int, int]:
        """The least bytes of a value, and the number of values with its nested values.

        within: the names of the types around it.
        """
        self._nodes += 1
        if self._nodes > _MOST_NODES:
            raise ValueError("too large")
        if isinstance(schema, list):
            return 1, max((self.span(branch, within)[1] for branch in schema), default=1)
        if isinstance(schema, str):
            if schema in _WIDTHS:
                return _WIDTHS[schema], 1
            if schema in within or schema not in self._named:
                raise ValueError("a type that contains itself")
            return self.span(self._named[schema], within)
        match schema["type"]:
            case "record" | "error":
                inner = (*within, schema["name"])
                spans = [self.span(field["type"], inner) for field in schema["fields"]]
                return sum(width for width, _ in spans), 1 + sum(count for _, count in spans)
            case "array":
                self._check_item(schema["items"], within, 0)
                return 1, 1
            case "map":
                self._check_item(schema["values"], within, 1)  # with the length of a key
                return 1, 1
            case "enum":
                return 1, 1
            case "fixed":
                return int(schema["size"]), 1
            case other:
                return self.span(other, within)

    def _check_item(self, schema: Any, within: tuple[str, ...], more: int) -> None:
        """Raises ValueError for items of many values in few bytes. more: bytes beside the item."""
        width, count = self.span(schema, within)
        if count > _MOST_PER_BYTE * (width + more):
            raise ValueError("an array of hardly anything")
