"""The pieces of JSON Schema that the descriptions of messages are built from."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

SHARED = "#/components/schemas/"  # where the schemas of several messages stand in the document


def object_of(properties: dict[str, Schema]) -> Schema:
    """An object that has all these properties."""
    return {"type": "object", "required": list(properties), "properties": properties}


def typed(kind: str) -> Schema:
    """An object whose property `type` is this word."""
    return object_of({"type": {"const": kind}})


def shared(name: str) -> Schema:
    """A reference to the shared schema with this name."""
    return {"$ref": f"{SHARED}{name}"}


def all_of(*schemas: Schema) -> Schema:
    """What fits every one of the schemas."""
    return {"allOf": list(schemas)}
