"""Public logs that contradict the journal or themselves: the releaser refuses, and says why."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from kit.journals import CLOSED_PERIODS, position_of
from kit.panels import StudyFolder, script

from stream_dp.privacy.noise import SystemNoise
from stream_dp.services.commands.cli import main
from stream_dp.study.topics import JOURNAL, RELEASES


def test_an_older_journal_behind_the_public_log(
    place: StudyFolder, refused: Callable[..., str]
) -> None:
    last = position_of(place, JOURNAL, "2/manifest")
    place.edit("DELETE FROM records WHERE topic = 'journal' AND offset > ?", last)
    line = refused()
    assert "an older journal was restored" in line
    assert "its noise must not be drawn again" in line
    assert "an older journal was restored" in refused("verify", str(place.file))


def test_the_confidential_log_of_another_run(
    place: StudyFolder, memory: Path, refused: Callable[..., str]
) -> None:
    other = StudyFolder(memory / "other")
    other.send(script()[0])
    assert not other.run(source=SystemNoise())
    for path in place.folder.glob("small.db*"):
        path.unlink()
    shutil.copy(other.db, place.db)
    shutil.rmtree(place.snapshots)
    shutil.copytree(other.snapshots, place.snapshots)
    shutil.rmtree(other.folder)
    assert "an older journal was restored" in refused()
    last = position_of(place, RELEASES, "1/manifest")
    place.edit("DELETE FROM records WHERE topic = 'releases' AND offset > ?", last, public=True)
    assert refused().startswith("public log: message 1 is not the one that the journal decided")


def test_no_journal_beside_a_public_log(place: StudyFolder, refused: Callable[..., str]) -> None:
    place.edit("DELETE FROM records WHERE topic = 'journal'")
    assert refused().startswith("journal: it is empty, but the public log is not")
    assert refused("verify", str(place.file)).startswith("journal: it is empty")


def test_a_new_confidential_log_beside_a_public_log(
    place: StudyFolder, capsys: pytest.CaptureFixture[str], handlers: None
) -> None:
    for path in place.folder.glob("small.db*"):
        path.unlink()
    before = place.rows(RELEASES)
    assert main(["run", str(place.file), "--until-idle"]) == 4
    assert "journal: it is empty, but the public log is not" in capsys.readouterr().err
    assert place.rows(RELEASES) == before


@pytest.mark.parametrize("name", ["panel/0", "measurements/0"])
def test_a_tampered_release(place: StudyFolder, refused: Callable[..., str], name: str) -> None:
    position = position_of(place, RELEASES, name)
    place.edit(
        "UPDATE records SET value = ? WHERE topic = 'releases' AND offset = ?",
        b"\x00",
        position,
        public=True,
    )
    for command in (
        ["run", str(place.file), "--until-idle"],
        ["verify", str(place.file)],
        ["verify", place.public_source],
        ["releases", place.public_source],
    ):
        line = refused(*command)
        assert line == "public log: message 1 does not have the bytes of its manifest"


def test_a_tampered_certificate_breaks_the_chain(
    place: StudyFolder, refused: Callable[..., str]
) -> None:
    position = position_of(place, RELEASES, "1/manifest")
    (value,) = (row[4] for row in place.rows(RELEASES) if row[1] == position)
    place.edit(
        "UPDATE records SET value = ? WHERE topic = 'releases' AND offset = ?",
        value.replace(b'"code_version":"', b'"code_version":"9'),
        position,
        public=True,
    )
    for command in (["verify", place.public_source], ["run", str(place.file), "--until-idle"]):
        assert refused(*command) == (
            "public log: message 2 does not follow the one before it (broken hash chain)"
        )


def test_a_last_release_changed_with_its_hashes(
    place: StudyFolder, refused: Callable[..., str]
) -> None:
    """At the end of the chain, only the journal or a hash kept elsewhere reveals the change."""
    last = max(row[1] for row in place.rows(RELEASES))
    (value,) = (row[4] for row in place.rows(RELEASES) if row[1] == last)
    place.edit(
        "UPDATE records SET value = ? WHERE topic = 'releases' AND offset = ?",
        value.replace(b'"code_version":"', b'"code_version":"9'),
        last,
        public=True,
    )
    expected = "is not the one that the journal decided"
    assert expected in refused()
    assert expected in refused("verify", str(place.file))


def test_a_public_log_that_ends_within_a_release(
    place: StudyFolder, refused: Callable[..., str]
) -> None:
    last = max(row[1] for row in place.rows(RELEASES))
    place.edit("DELETE FROM records WHERE topic = 'releases' AND offset = ?", last, public=True)
    assert refused().startswith("public log: ends in the middle of message")


def test_a_public_log_that_ends_within_a_period(
    place: StudyFolder, refused: Callable[..., str]
) -> None:
    """Only the first of the two releases of a period is published."""
    entry = place.entries()[-1]
    second = max(
        i for i, r in enumerate(entry.public_records()) if (r.key or b"").endswith(b"pairs")
    )
    last = max(row[1] for row in place.rows(RELEASES)) - len(entry.public_records()) + 1 + second
    place.edit("DELETE FROM records WHERE topic = 'releases' AND offset > ?", last, public=True)
    assert refused() == "public log: it ends in the middle of a period's releases"


def test_a_head_kept_elsewhere(
    place: StudyFolder, refused: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    line = refused("verify", place.public_source, "--head", "f" * 64)
    assert line.startswith("public log: the hash kept elsewhere is not in its chain")
    for entry in place.entries():
        assert main(["verify", str(place.file), "--head", entry.published[-1]]) == 0
    assert "the hash that was kept elsewhere is in the chain" in capsys.readouterr().out


def test_a_head_beyond_the_end_of_an_older_public_log_is_in_the_journal(
    place: StudyFolder,
    halfway: StudyFolder,
    refused: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    place.send(script()[CLOSED_PERIODS])
    assert main(["run", str(place.file), "--until-idle"]) == 0
    head = place.entries()[-1].published[-1]
    shutil.copy(halfway.public_db, place.public_db)
    missing = len(place.entries()[-1].published)
    capsys.readouterr()
    assert main(["verify", str(place.file), "--head", head]) == 0
    out = capsys.readouterr().out
    assert f"is in the journal: the public log alone is older, by {missing} messages" in out
    line = refused("verify", place.public_source, "--head", head)
    assert "an older log was restored" in line
    assert "says whether the journal has the hash" in line
    line = refused("verify", str(place.file), "--head", "f" * 64)
    assert "nor in the journal: an older log was restored" in line
    assert main(["run", str(place.file), "--until-idle", "--moved"]) == 0
    assert main(["verify", str(place.file), "--head", head]) == 0
    assert "is in the chain" in capsys.readouterr().out


def test_both_logs_restored_together_are_seen_by_the_head_alone(
    place: StudyFolder, halfway: StudyFolder, capsys: pytest.CaptureFixture[str], handlers: None
) -> None:
    place.send(script()[CLOSED_PERIODS])
    assert main(["run", str(place.file), "--until-idle"]) == 0
    head = place.entries()[-1].published[-1]
    assert main(["verify", str(place.file), "--head", head]) == 0
    for old, now in ((halfway.db, place.db), (halfway.public_db, place.public_db)):
        shutil.copy(old, now)
    assert main(["verify", str(place.file)]) == 0
    capsys.readouterr()
    assert main(["verify", str(place.file), "--head", head]) == 4
    assert "an older log was restored" in capsys.readouterr().err
