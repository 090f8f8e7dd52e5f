"""A folder in memory, a study in it, and the facts that its listeners serve."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.killed import in_memory
from kit.panels import Place

from stream_dp.services.releaser.facts import Facts
from stream_dp.studyfile import load_study


@pytest.fixture
def folder() -> Iterator[Path]:
    with in_memory() as folder:
        yield folder


@pytest.fixture
def place(folder: Path) -> Place:
    return Place(folder / "place")


@pytest.fixture
def facts(place: Place) -> Facts:
    return Facts(load_study(place.file)[0])
