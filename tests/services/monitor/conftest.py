"""A monitor of a small study of three panels and a data set, in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.hostile import sound
from kit.monitors import Monitor, monitor, publish

from stream_dp.client import PublicLog
from stream_dp.client import open as open_public

pytest.importorskip("fastapi")

MESSAGES = sound()


@pytest.fixture(scope="session")
def log_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("monitored") / "asked-public.db"
    publish(path, MESSAGES)
    return path


@pytest.fixture(scope="session")
def served(log_file: Path) -> Iterator[Monitor]:
    with monitor(f"sqlite:{log_file}") as one:
        yield one


@pytest.fixture(scope="session")
def public(log_file: Path) -> PublicLog:
    return open_public(f"sqlite:{log_file}")
