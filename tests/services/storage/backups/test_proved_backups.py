"""A backup counts only if `restore` would accept it; the one before it stays as it was."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from kit.panels import StudyFolder, script

from stream_dp.privacy.noise import SystemNoise
from stream_dp.services.commands.cli import main
from stream_dp.services.storage import backup_manifest
from stream_dp.services.storage.backup_manifest import MANIFEST


def partition_added(place: StudyFolder, backup: Path) -> None:
    place.edit("UPDATE topics SET partitions = partitions + 1 WHERE name = 'reports'")


def study_changed(place: StudyFolder, backup: Path) -> None:
    place.file.write_text(place.text.replace("rho = 0.5", "rho = 0.6"))


def file_damaged(place: StudyFolder, backup: Path) -> None:
    for path in backup.iterdir():
        if path.name != MANIFEST:
            path.write_bytes(bytes(path.stat().st_size))


def nothing(place: StudyFolder, backup: Path) -> None:
    pass


@pytest.mark.parametrize("act", [partition_added, study_changed, file_damaged, nothing])
def test_what_backup_accepts_restore_accepts(
    act: Callable[[StudyFolder, Path], None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    handlers: None,
) -> None:
    place, backup = StudyFolder(tmp_path / "study"), tmp_path / "backup"
    place.send(script()[0])
    assert not place.run(source=SystemNoise())
    assert main(["backup", str(place.file), str(backup)]) == 0
    place.send(script()[1])
    before = (backup / MANIFEST).read_bytes()
    act(place, backup)
    capsys.readouterr()
    code = main(["backup", str(place.file), str(backup)])
    error = capsys.readouterr().err
    if code:
        assert error.count("\n") == 1
        assert (backup / MANIFEST).read_bytes() == before
    else:
        shutil.rmtree(place.snapshots)
        for path in place.folder.glob("small.db*"):
            path.unlink()
        assert main(["restore", str(place.file), str(backup)]) == 0
    assert (code == 0) is (act is nothing) or act is partition_added


def test_a_manifest_that_no_restore_reads_is_not_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = StudyFolder(tmp_path / "study")
    place.send(script()[0])
    assert not place.run(source=SystemNoise())
    monkeypatch.setattr(backup_manifest, "_MOST_MANIFEST", 100)
    assert main(["backup", str(place.file), str(tmp_path / "backup")]) == 2
    assert "begin a new backup in another place" in capsys.readouterr().err
    assert not (tmp_path / "backup" / MANIFEST).exists()
