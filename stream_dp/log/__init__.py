"""Logs: Kafka or one SQLite file behind one interface."""

from __future__ import annotations

from pathlib import Path

from ..errors import UserError
from .base import Log
from .sqlite import SqliteLog


def open_log(url: str, base: Path, *, public: bool = False, readonly: bool = False) -> Log:
    """The log at `sqlite:FILE`, FILE relative to `base`. Raises UserError, LogError."""
    scheme, _, rest = url.partition(":")
    if scheme != "sqlite" or not rest:
        raise UserError(f"log '{url}': write it as sqlite:FILE")
    return SqliteLog(base / rest, public=public, readonly=readonly)


__all__ = ["Log", "open_log"]
