"""Logs: Kafka or one SQLite file behind one interface."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..errors import UserError
from .base import Log
from .settings import connection


def open_log(
    url: str,
    base: Path,
    *,
    public: bool = False,
    readonly: bool = False,
    kafka: Mapping[str, Any] | None = None,
    insecure: bool = False,
    replication: int = 3,
    timed: Iterable[str] = (),
) -> Log:
    """The log at `sqlite:FILE`, FILE relative to `base`, or at `kafka://host:port,.../prefix`.

    kafka: librdkafka's settings. Raises UserError, LogError.
    """
    scheme, _, rest = url.partition(":")
    if scheme == "sqlite" and rest:
        from .sqlite import SqliteLog

        return SqliteLog(base / rest, public=public, readonly=readonly, timed=timed)
    match = re.fullmatch(r"//([^/\s]+)/([A-Za-z0-9._-]{1,100})", rest)
    if scheme != "kafka" or match is None:
        raise UserError(f"log '{url}': write it as sqlite:FILE or kafka://host:port/prefix")
    settings = connection(match[1], kafka or {}, insecure=insecure, base=base)
    try:
        from .kafka import KafkaLog
    except ImportError:
        raise UserError("kafka: not installed; pip install 'stream-dp[kafka]'") from None
    return KafkaLog(match[2], settings, replication=replication, timed=timed)


__all__ = ["Log", "open_log"]
