"""A study of which some periods are published, copied for each test, and refused commands."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kit.journals import CLOSED_PERIODS, contents
from kit.killed import in_memory
from kit.panels import StudyFolder, script

from stream_dp.privacy.noise import SystemNoise
from stream_dp.services.commands.cli import main


@pytest.fixture(scope="module", autouse=True)
def _copies_pass(copies_pass: None) -> None:
    """Lets each test use a copy of the study; test_moved.py tests that copies are refused."""


@pytest.fixture(scope="module")
def memory() -> Iterator[Path]:
    with in_memory() as folder:
        yield folder


@pytest.fixture(scope="module")
def halfway(memory: Path) -> StudyFolder:
    """A study of which some periods are published."""
    place = StudyFolder(memory / "halfway")
    for records in script()[:CLOSED_PERIODS]:
        place.send(records)
    assert not place.run(source=SystemNoise())
    return place


@pytest.fixture
def place(
    halfway: StudyFolder, memory: Path, request: pytest.FixtureRequest
) -> Iterator[StudyFolder]:
    copy = halfway.copy(memory / "copy")
    yield copy
    shutil.rmtree(copy.folder)


@pytest.fixture
def refused(
    place: StudyFolder, capsys: pytest.CaptureFixture[str], handlers: None
) -> Callable[..., str]:
    """The one line of a command that ends with exit code 4 and changes nothing."""

    def check(*arguments: str, code: int = 4) -> str:
        before = contents(place)
        assert main(arguments or ["run", str(place.file), "--until-idle"]) == code
        out, error = capsys.readouterr()
        assert out == ""
        (line,) = error.splitlines()
        assert line.startswith("stream-dp: ")
        assert contents(place) == before
        return line.removeprefix("stream-dp: ")

    return check
