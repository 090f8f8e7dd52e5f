"""Opens a public log by its address, without a study file."""

from __future__ import annotations

import os
from pathlib import Path

from . import address as log_address
from . import open_log
from .base import Log
from .settings import settings_from_environment


def public_log(address: str) -> Log:
    """The log at `sqlite:FILE` or `kafka://host:port/prefix`. Raises UserError, LogError."""
    settings, insecure = settings_from_environment(Path())
    return open_log(address, Path(), public=True, readonly=True, kafka=settings, insecure=insecure)


def cache_folder(url: str, base: Path) -> Path | None:
    """Where factors of a log's estimates are kept: beside its file, or for a cluster in the user's
    cache folder. None where neither is known. base: what a file is relative to."""
    where, prefix = log_address(url)
    if prefix is None:
        return base / f"{where}.estimates"
    home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return home / "stream-dp.estimates" if home.is_dir() else None
