"""Opens a public log by its address, without a study file."""

from __future__ import annotations

import os
from pathlib import Path

from . import address as log_address
from . import open_log
from .kafka_settings import settings_from_environment
from .log import Log


def public_log(address: str) -> Log:
    """Opens the log at `sqlite:FILE` or `kafka://host:port/prefix`. Raises UserError, LogError."""
    settings, insecure = settings_from_environment(Path())
    return open_log(address, Path(), public=True, readonly=True, kafka=settings, insecure=insecure)


def cache_folder(url: str, base: Path) -> Path | None:
    """Returns the folder of the cached factors of a log's estimates.

    The folder is beside the log's file, or for a cluster in the user's cache folder. base: the
    folder that FILE is relative to. Returns None if the user has no cache folder.
    """
    location, prefix = log_address(url)
    if prefix is None:
        return base / f"{location}.estimates"
    home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return home / "stream-dp.estimates" if home.is_dir() else None
