"""Unpacks records: Avro, Kafka Connect's JSON, CloudEvents, and the registry's wire format.

Avro needs fastavro. A record of Avro is read by the schema of its writer, which its id names. Where
the source does not know the id, the record is unreadable; where the source does not answer, an
error is raised and nothing is rejected. A closed period keeps its schemas for good: the journal
entry of a closed period holds the schemas that it was read with, and from which positions on.
Whoever reads it again uses the same, whatever the source says by then.

Whether a record is read depends on its own id alone. So the number of schemas has no bound; only
their number in memory has, and a schema that was dropped from memory is requested again.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NamedTuple

import msgspec

from stream_dp.errors import Inconsistent, missing_extra
from stream_dp.log.log import Stored, Unavailable


class SchemaUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """A schema of the reports of a period.

    sha256: of its JSON with sorted keys.
    since: by partition, the first offset at which it was known, if it was looked up before in vain;
        a partition that is left out knew it from the start.
    """

    sha256: str
    since: dict[int, int] = {}

    def known_at(self, partition: int, offset: int) -> bool:
        """Tells whether it was known when the record at an offset was read."""
        return offset >= self.since.get(partition, 0)


class ReadAs(msgspec.Struct, frozen=True, omit_defaults=True):
    """The mapping and the schemas that the records of a period were read with.

    mapping: the hash of the mapping.
    schemas: by schema id, the schemas in use.
    """

    mapping: str
    schemas: dict[int, SchemaUse] = {}


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


KEPT = 10_000_000  # characters of the schemas in memory, at most
_BESIDE = 1000  # characters that stand for what a schema takes beside its text

# Gives the text of a schema by its id, after the texts of those that it refers to. None where there
# is none now; no texts for a schema that can never be used. Raises Unavailable.
SchemaSource = Callable[[int], tuple[str, ...] | None]


class Schemas:
    """The schemas of reports."""

    def __init__(self, source: SchemaSource) -> None:
        self._source = source
        # By id, the last used at the end: None for a text that cannot be used.
        self._kept: dict[int, AvroSchema | None] = {}
        self._length = 0  # of the kept schemas, in characters
        self._decided: dict[int, str] = {}  # SHA-256 by id, as closed periods have them
        self._repeated: Mapping[int, SchemaUse] | None = None
        self._used: dict[int, str] = {}  # SHA-256 by id, since the last close
        self._missed: set[int] = set()
        self._since: dict[int, dict[int, int]] = {}
        # By partition, the position after the last record with an id in earlier batches, and now.
        self._ends: dict[int, int] = {}
        self._batch_ends: dict[int, int] = {}
        self._absent: set[int] = set()  # ids that the source does not know in this batch

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Within the block every record of an id is read with the same schema, or none is."""
        self._absent, self._batch_ends = set(), {}
        yield
        self._ends |= self._batch_ends

    def read(self, data: bytes | None, record: Stored) -> Content:
        """Reads the value or the key of a record.

        data: the value or the key.

        Raises ValueError where it cannot be read, Unavailable, Inconsistent.
        """
        number = schema_id(data)
        self._batch_ends[record.partition] = record.offset + 1
        if self._repeated is not None:
            use = self._repeated.get(number)
            if use is None or not use.known_at(record.partition, record.offset):
                raise ValueError("not known then")
        schema = self._schema(number)
        if schema is None:
            raise ValueError("no schema of that id")
        value = schema.read(after_id(data or b""))
        self._used[number] = schema.sha256
        return Content(value, schema)

    def _schema(self, number: int) -> AvroSchema | None:
        """The schema of an id, from memory or requested; None where no usable one is known."""
        if number in self._absent:
            return None
        if number in self._kept:
            schema = self._kept.pop(number)
        else:
            texts = self._source(number)
            if texts is None:
                self._miss(number)
                return None
            schema = self._checked(number, texts)
            self._length += _length(schema)
        self._kept[number] = schema
        while self._length > KEPT and len(self._kept) > 1:
            self._length -= _length(self._kept.pop(next(iter(self._kept))))
        return schema

    def _miss(self, number: int) -> None:
        """Notes an id that the source does not know."""
        if self._repeated is not None:
            raise Inconsistent(_gone(number))
        if number in self._used:
            raise Unavailable(
                f"schema {number}: the registry or the folder of schemas had it a moment ago, and"
                " reports were read with it; start again"
            )
        self._absent.add(number)
        self._missed.add(number)

    def _checked(self, number: int, texts: tuple[str, ...]) -> AvroSchema | None:
        """The schema of texts; None without a usable schema. Raises Inconsistent after a change."""
        try:
            schema = AvroSchema(*texts)
        except ValueError:
            schema = None
        decided = self._used.get(number) or self._decided.get(number)
        if decided is not None and (schema is None or schema.sha256 != decided):
            raise Inconsistent(_gone(number))
        if number in self._missed:
            self._since.setdefault(number, dict(self._ends))
        return schema

    @property
    def unknown(self) -> frozenset[int]:
        """The ids that were asked for since the last close, and were not known then."""
        return frozenset(self._missed)

    def close_period(self) -> dict[int, SchemaUse]:
        """The schemas that something was read with since the last close."""
        uses = {n: SchemaUse(self._used[n], self._since.get(n, {})) for n in sorted(self._used)}
        self._decided |= self._used
        self._begin()
        return uses

    def repeat(self, uses: Mapping[int, SchemaUse]) -> None:
        """Restricts the schemas to the schemas of a closed period. Raises Inconsistent."""
        self._begin()
        self._repeated = uses
        for number, use in uses.items():
            schema = self._kept.get(number)
            if schema is not None and schema.sha256 != use.sha256:
                raise Inconsistent(_gone(number))
            self._decided[number] = use.sha256

    def go_on(self, decided: Mapping[int, str]) -> None:
        """Use whatever the source has. decided: SHA-256 by id, as closed periods used them."""
        self._begin()
        self._repeated = None
        self._decided = dict(decided)

    def _begin(self) -> None:
        """Begin a period."""
        self._used, self._missed, self._since = {}, set(), {}


def _length(schema: AvroSchema | None) -> int:
    return _BESIDE + (0 if schema is None else schema.length)


def _gone(number: int) -> str:
    return (
        f"schema {number}: not the one that closed periods were read with; bring back the registry"
        " or the folder of schemas that had it: an id never changes its schema"
    )
