"""A study whose programs are replaced while it goes on, forwards and back."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from kit.journals import contents, rewrite
from kit.panels import LABELS, StudyFolder, decided, fix_secrets, script

from stream_dp.log.message import Message
from stream_dp.services.commands import cli
from stream_dp.study.topics import RELEASES

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "upgrade.md"
VERSIONS = ("1.0.0", "1.0.1", "1.1.0", "1.0.1", "1.2.0")  # one for each period


def become(patch: pytest.MonkeyPatch, version: str) -> None:
    """Every module that states the version states this one."""
    for name, module in list(sys.modules.items()):
        if name.startswith("stream_dp.") and vars(module).get("__version__"):
            patch.setattr(module, "__version__", version)
    patch.setattr("importlib.metadata.version", lambda _: version)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StudyFolder:
    fix_secrets(monkeypatch)
    return StudyFolder(tmp_path / "changing")


def written_by(place: StudyFolder) -> list[str]:
    return [entry.message.head["code_version"] for entry in place.entries()]


def test_every_version_goes_on_where_another_stopped(
    place: StudyFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steady = StudyFolder(tmp_path / "steady")
    for records, version in zip(script(), VERSIONS, strict=True):
        become(monkeypatch, version)
        place.send(records)
        place.run()
        # The order of the page: verify with the version that is new, then start it.
        assert cli.main(["verify", str(place.file)]) == 0
        monkeypatch.undo()
        fix_secrets(monkeypatch)
        steady.send(records)
        steady.run()
    assert written_by(place)[1:] == list(VERSIONS)
    assert decided(place.entries()) == decided(steady.entries())
    assert len(place.rows(RELEASES)) == len(steady.rows(RELEASES))
    assert cli.main(["verify", place.public_source]) == 0
    assert len(LABELS) == len(VERSIONS)


@pytest.mark.parametrize("of", ["entry", "charge"])
def test_an_older_version_refuses_what_a_later_one_wrote(
    of: str, place: StudyFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    """It neither guesses what a new field means nor changes anything."""
    place.send(script()[0])
    place.run()

    def later(message: Message) -> Message:
        if message.head["number"] == 1:
            (message.head if of == "entry" else message.head["charges"][0])["new"] = 1
        return message

    rewrite(place, later)
    before = contents(place)
    for words in (["status"], ["verify"], ["run", "--until-idle"]):
        assert cli.main([words[0], str(place.file), *words[1:]]) == 4
        (line,) = capsys.readouterr().err.splitlines()
        assert "none that this version of stream-dp reads; run the version that wrote it" in line
    assert contents(place) == before


def test_the_page_says_how() -> None:
    section = PAGE.read_text("utf-8")
    for words in (
        "(operations.md#backup)",
        "stream-dp verify STUDY.toml",
        "--head",
        "later version",
        "code 4",
    ):
        assert words in section, words
