"""Validators of JSON Schema. Their library compiles grammars for seconds when it is imported."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any


def draft(number: str, schema: Any, *, formats: bool = False) -> Any:
    """The validator of a schema under this draft.

    formats: whether texts of a stated format are checked
    """
    kind = validator(number)
    return kind(schema, format_checker=kind.FORMAT_CHECKER if formats else None)


def validator(number: str) -> Any:
    """The validators of this draft, such as "7" and "202012"."""
    import jsonschema

    return getattr(jsonschema, f"Draft{number}Validator")


def validate(value: Any, schema: Any) -> None:
    """Raises an error for a value that the schema refuses, under the draft that it names."""
    _validator_of(json.dumps(schema, sort_keys=True)).validate(value)


@lru_cache(maxsize=16)
def _validator_of(schema: str) -> Any:
    """The validator of a schema, which is checked once."""
    import jsonschema

    parsed = json.loads(schema)
    kind = jsonschema.validators.validator_for(parsed)
    kind.check_schema(parsed)
    return kind(parsed)
