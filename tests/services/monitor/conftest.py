"""Monitors in processes of their own: of three panels and a data set, and of sizes with a map."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.hostile import sound
from kit.monitors import Monitor, monitor, publish
from kit.movers import moves_public, region
from kit.outlines import write_outlines

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


@pytest.fixture(scope="session")
def mapped_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The public log of a study of places, and outlines of all its tracts but one."""
    folder = tmp_path_factory.mktemp("mapped")
    moves_public(folder)
    tracts = ["/".join(path) for path in sorted(map(region, range(6)))]
    write_outlines(folder / "tracts.geojson", [*tracts[:-1], "t5"])
    return folder


@pytest.fixture(scope="session")
def mapped(mapped_folder: Path) -> Iterator[Monitor]:
    outlines = str(mapped_folder / "tracts.geojson")
    with monitor(f"sqlite:{mapped_folder / 'moves-public.db'}", "--map", outlines) as one:
        yield one
