"""Validators of JSON Schema, whose library compiles the grammar of IRIs only where it is used."""

from __future__ import annotations

import json
import sys
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any

_GRAMMAR = "rfc3987_syntax"  # compiled for seconds when it is imported


def draft(number: str, schema: Any, *, formats: bool = False) -> Any:
    """The validator of a schema under this draft.

    formats: whether texts of a stated format are checked
    """
    kind = validator(number)
    return kind(schema, format_checker=kind.FORMAT_CHECKER if formats else None)


def validator(number: str) -> Any:
    """The validators of this draft, such as "7" and "202012"."""
    return getattr(library(), f"Draft{number}Validator")


def library() -> Any:
    """The module `jsonschema`, which compiles the grammar of IRIs at the first text to check."""
    if "jsonschema" not in sys.modules and _GRAMMAR not in sys.modules:
        stand_in = ModuleType(_GRAMMAR)
        vars(stand_in)["is_valid_syntax"] = _is_valid_syntax
        sys.modules[_GRAMMAR] = stand_in
        import_module("jsonschema")
        del sys.modules[_GRAMMAR]
    return import_module("jsonschema")


def _is_valid_syntax(term: str, text: str) -> bool:
    valid: bool = import_module(_GRAMMAR).is_valid_syntax(term, text)
    return valid


def validate(value: Any, schema: Any) -> None:
    """Raises an error for a value that the schema refuses, under the draft that it names."""
    _validator_of(json.dumps(schema, sort_keys=True)).validate(value)


@lru_cache(maxsize=16)
def _validator_of(schema: str) -> Any:
    """The validator of a schema, which is checked once."""
    parsed = json.loads(schema)
    kind = library().validators.validator_for(parsed)
    kind.check_schema(parsed)
    return kind(parsed)
