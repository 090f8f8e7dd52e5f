"""A small study in a folder in memory, and the facts that its listeners serve."""

from __future__ import annotations

from pathlib import Path

import pytest
from kit.panels import StudyFolder, script

from stream_dp.services.releaser.releaser_facts import Facts
from stream_dp.studyfile import load_study


@pytest.fixture
def place(folder: Path) -> StudyFolder:
    return StudyFolder(folder / "place")


@pytest.fixture
def sent(place: StudyFolder) -> StudyFolder:
    """A place to which everything has been sent and where nothing has run."""
    for records in script():
        place.send(records)
    return place


@pytest.fixture
def facts(place: StudyFolder) -> Facts:
    return Facts(load_study(place.file)[0])
