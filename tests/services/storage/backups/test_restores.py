"""What a restore does: nothing is written over, and no noise could be drawn again."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from kit.panels import StudyFolder, script

from stream_dp.log.message import read_chain
from stream_dp.log.owned_files import mark_path
from stream_dp.privacy.noise import SystemNoise
from stream_dp.services.commands.cli import main
from stream_dp.services.storage.restored_logs import ROLE
from stream_dp.study.topics import JOURNAL, RELEASES, REPORTS

Restore = Callable[..., str]


@pytest.fixture
def place(tmp_path: Path) -> StudyFolder:
    """One period is published and backed up; the reports on the second were sent before."""
    place = StudyFolder(tmp_path / "study")
    place.send(script()[0])
    assert not place.run(source=SystemNoise())
    place.send(script()[1])
    assert main(["backup", str(place.file), str(tmp_path / "backup")]) == 0
    return place


@pytest.fixture
def lost(place: StudyFolder) -> StudyFolder:
    """The same study without its confidential log and its snapshots."""
    lose(place.db)
    shutil.rmtree(place.snapshots)
    return place


def lose(path: Path) -> None:
    for file in (path, *path.parent.glob(f"{path.name}-*")):
        file.unlink()


def head(place: StudyFolder) -> str:
    with place.public(readonly=True) as log:
        return read_chain(log, RELEASES, "public log")[-1].hash


@pytest.fixture
def restore(
    place: StudyFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str], handlers: None
) -> Restore:
    """What `restore` says, on standard output or in one line of an error."""

    def run(*more: str, code: int = 0) -> str:
        capsys.readouterr()
        assert main(["restore", str(place.file), str(tmp_path / "backup"), *more]) == code
        out, error = capsys.readouterr()
        return out if code == 0 else error.removeprefix("stream-dp: ")

    return run


def test_a_lost_confidential_log_goes_on_where_it_was(lost: StudyFolder, restore: Restore) -> None:
    before = lost.rows(RELEASES)
    said = restore()
    assert "nothing that was decided is lost" in said
    assert "send them again" in said
    assert f"stream-dp run {lost.file} --moved" in said
    assert stat.S_IMODE(lost.db.stat().st_mode) == 0o600
    assert main(["run", str(lost.file), "--until-idle"]) == 4
    assert main(["run", str(lost.file), "--until-idle", "--moved"]) == 0
    assert lost.rows(RELEASES)[: len(before)] == before
    assert len(lost.rows(RELEASES)) > len(before)
    assert main(["verify", str(lost.file)]) == 0


def test_a_whole_study_with_the_head_that_was_kept(place: StudyFolder, restore: Restore) -> None:
    before, kept = place.rows(RELEASES), head(place)
    shutil.rmtree(place.folder)
    place.folder.mkdir()
    assert "--head HASH" in restore(code=2)
    assert not place.db.exists()
    said = restore("--head", kept)
    assert f"study file: written to {place.file}" in said
    assert "nothing that was published up to the hash given is lost" in said
    assert place.rows(RELEASES) == before
    assert main(["run", str(place.file), "--until-idle", "--moved"]) == 0
    assert place.rows(RELEASES)[: len(before)] == before


def test_a_public_log_ahead_of_the_backup_ends_the_study(
    place: StudyFolder, restore: Restore
) -> None:
    assert not place.run(source=SystemNoise())
    newest, files = head(place), [place.public_db.read_bytes()]
    lose(place.db)
    line = restore(code=4)
    assert line.startswith("public log: it is ahead of the backup of 20")
    assert "must not be drawn again" in line
    assert "begin a new one with new logs" in line
    assert not place.db.exists()
    assert [place.public_db.read_bytes()] == files
    mark_path(place.db, ROLE).unlink()
    lose(place.public_db)
    assert "the hash that was kept elsewhere is not in its journal" in restore(
        "--head", newest, code=4
    )
    assert not place.db.exists()
    assert not place.public_db.exists()


def test_the_mark_shows_that_the_backup_is_older(place: StudyFolder, restore: Restore) -> None:
    kept = head(place)
    assert not place.run(source=SystemNoise())
    lose(place.db)
    lose(place.public_db)
    line = restore("--head", kept, code=4)
    assert line.startswith("journal: it ends at entry 1, but the mark beside it names entry 2")
    assert not place.db.exists()


def test_a_public_log_that_is_older_than_the_backup_shows_nothing(
    lost: StudyFolder, restore: Restore
) -> None:
    kept = head(lost)
    lost.edit("DELETE FROM records WHERE topic = 'releases' AND offset > 1", public=True)
    assert "not there or older than the backup" in restore(code=2)
    restore("--head", kept)


def test_nothing_is_written_over(place: StudyFolder, restore: Restore) -> None:
    before = place.db.read_bytes()
    assert "is there already, and nothing is written over" in restore(code=2)
    assert place.db.read_bytes() == before


def test_no_other_copy_runs(lost: StudyFolder, restore: Restore) -> None:
    with StudyFolder(lost.folder).log() as log, log.own(ROLE):
        lose(lost.db)
        assert "another process is its releaser; stop that one first" in restore(code=2)


def test_another_study(place: StudyFolder, restore: Restore, tmp_path: Path) -> None:
    lose(place.db)
    place.file.write_text(place.text.replace("rho = 0.5", "rho = 0.6"))
    assert restore(code=4).startswith("study: it has changed since its first record")
    assert not place.db.exists()


def test_a_backup_goes_on_from_the_one_before(
    place: StudyFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str], handlers: None
) -> None:
    backup = tmp_path / "backup"
    assert {stat.S_IMODE(path.stat().st_mode) for path in backup.iterdir()} == {0o600}
    assert stat.S_IMODE(backup.stat().st_mode) == 0o700
    assert not place.run(source=SystemNoise())
    before = {path.name for path in backup.iterdir()}
    capsys.readouterr()
    assert main(["backup", str(place.file), str(backup)]) == 0
    assert "CONFIDENTIAL" in capsys.readouterr().out
    lose(place.db)
    shutil.rmtree(place.snapshots)
    assert main(["restore", str(place.file), str(backup)]) == 0
    assert [len(place.rows(topic)) > 0 for topic in (REPORTS, JOURNAL)] == [True, True]
    assert before != {path.name for path in backup.iterdir()}


def test_a_newer_backup_is_not_replaced_by_an_older_log(
    place: StudyFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str], handlers: None
) -> None:
    older = place.copy(tmp_path / "older")
    mark_path(older.db, ROLE).unlink()
    assert not place.run(source=SystemNoise())
    assert main(["backup", str(place.file), str(tmp_path / "backup")]) == 0
    capsys.readouterr()
    assert main(["backup", str(older.file), str(tmp_path / "backup")]) == 4
    assert "the one that is there is newer than these logs" in capsys.readouterr().err


def test_a_study_that_has_not_begun(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = StudyFolder(tmp_path / "new")
    assert main(["backup", str(place.file), str(tmp_path / "backup")]) == 2
    assert "the study has not begun" in capsys.readouterr().err


def test_a_place_without_a_backup_is_named_before_its_rights(
    place: StudyFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Arguments in the other order, and a folder that is none of stream-dp's."""
    backup, other = str(tmp_path / "backup"), tmp_path / "other"
    other.mkdir(mode=0o755)
    order = "name the study file first, then the backup"
    for arguments, line in (
        ((backup, str(place.file)), f"{backup}: is a folder and no study file; {order}"),
        ((backup, str(other)), f"{backup}: is a folder and no study file; {order}"),
        ((str(place.file), str(place.file)), f"{place.file}: is a file and no backup; {order}"),
        ((str(place.file), str(other)), f"{other}: no backup is there (no manifest.json)"),
    ):
        capsys.readouterr()
        assert main(["restore", *arguments]) == 2
        assert capsys.readouterr().err == f"stream-dp: {line}\n"
