"""The pieces of JSON Schema that the descriptions of messages are built from."""

from __future__ import annotations

from stream_dp.json_object import Json

Schema = Json

SHARED = "#/components/schemas/"  # the path of shared schemas in the document


def object_of(properties: dict[str, Schema]) -> Schema:
    """An object that has all these properties."""
    return {"type": "object", "required": list(properties), "properties": properties}


def matching(pattern: str) -> Schema:
    """A text that matches a regular expression."""
    return {"type": "string", "pattern": pattern}


def typed(kind: str) -> Schema:
    """An object with the constant property `type`. kind: the constant."""
    return object_of({"type": {"const": kind}})


def shared(name: str) -> Schema:
    """A reference to the shared schema with this name."""
    return {"$ref": f"{SHARED}{name}"}


def all_of(*schemas: Schema) -> Schema:
    """A schema that requires all of the schemas."""
    return {"allOf": list(schemas)}
