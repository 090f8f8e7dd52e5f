"""The type of decoded JSON and TOML objects."""

from __future__ import annotations

from typing import Any, TypeAlias

# Anything may stand in such an object until the model of its section has read it.
Json: TypeAlias = dict[str, Any]
