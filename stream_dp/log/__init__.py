"""Logs on Kafka, in a SQLite file or in memory behind one interface."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from stream_dp.errors import UserError

from .kafka_settings import connection_settings, settings_from_environment
from .log import Log

if TYPE_CHECKING:
    from .sealing import Keyring


def address(url: str) -> tuple[str, str | None]:
    """Splits a log's URL into its location and, for a cluster, its topic prefix.

    Returns a file and None, or servers and a prefix. Raises UserError for any other URL.
    """
    scheme, _, rest = str(url).partition(":")
    if scheme == "sqlite" and rest:
        return rest, None
    match = re.fullmatch(r"//([^/\s@]+)/([A-Za-z0-9._-]{1,100})", rest)
    if scheme != "kafka" or match is None:
        # The rest of the URL may hold a password.
        named = f"{scheme}:..." if rest else scheme
        raise UserError(f"log '{named}': write it as sqlite:FILE or kafka://host:port/prefix")
    return match[1], match[2]


def open_log(
    url: str,
    base: Path,
    *,
    public: bool = False,
    readonly: bool = False,
    kafka: Mapping[str, object] | None = None,
    insecure: bool = False,
    replication: int = 3,
    timed: Iterable[str] = (),
    latest: Iterable[str] = (),
    kept: Mapping[str, float] | None = None,
    named: Mapping[str, str] | None = None,
    unsealed: Iterable[str] = (),
    keys: Keyring | None = None,
    study: str = "",
) -> Log:
    """Opens the log at `sqlite:FILE`, FILE relative to `base`, or at
    `kafka://host:port,.../prefix`.

    kafka: settings of librdkafka.
    timed, latest, kept, named: see `KafkaLog` and `SqliteLog`.
    keys: encrypt the records; on Kafka, topics in `unsealed` stay unencrypted.
    study: the name of the study, which encrypted records on Kafka are bound to.

    Raises UserError, LogError.
    """
    location, prefix = address(url)
    if prefix is None:
        from .sqlite import SqliteLog

        return SqliteLog(
            base / location, public=public, readonly=readonly, timed=timed, latest=latest, keys=keys
        )
    settings = connection_settings(location, kafka or {}, insecure=insecure, base=base)
    from .kafka import KafkaLog
    from .sealing import SealedLog

    log = KafkaLog(
        prefix,
        settings,
        replication=replication,
        timed=timed,
        latest=latest,
        kept=kept,
        named=named,
    )
    return log if public else SealedLog(log, keys, unsealed, study)


__all__ = ["Log", "address", "open_log"]


def public_log(address: str) -> Log:
    """Opens the log at `sqlite:FILE` or `kafka://host:port/prefix`. Raises UserError, LogError."""
    settings, insecure = settings_from_environment(Path())
    return open_log(address, Path(), public=True, readonly=True, kafka=settings, insecure=insecure)


def cache_folder(url: str, base: Path) -> Path | None:
    """Returns the folder of the cached factors of a log's estimates.

    The folder is beside the log's file, or for a cluster in the user's cache folder. base: the
    folder that FILE is relative to. Returns None if the user has no cache folder.
    """
    location, prefix = address(url)
    if prefix is None:
        return base / f"{location}.estimates"
    home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return home / "stream-dp.estimates" if home.is_dir() else None
