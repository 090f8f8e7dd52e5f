"""Backups of studies with open jobs, with parts and at a URL; an encrypted one on Kafka."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import pytest
from kit.households import HouseholdFolder, use_fit_in_rounds
from kit.panels import StudyFolder, script
from kit.parts import PartsFolder
from kit.studies import on_kafka

from stream_dp.services.commands.cli import main


@pytest.fixture(params=["folder", "memory://"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "backup") if request.param == "folder" else f"memory://{uuid.uuid4()}"


def lose(folder: Path, *, kept: set[str]) -> None:
    """Removes everything of a study but some files."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in kept:
            path.unlink()


def test_an_open_job_goes_on_from_its_backup(
    tmp_path: Path, location: str, monkeypatch: pytest.MonkeyPatch, handlers: None
) -> None:
    use_fit_in_rounds(monkeypatch)
    homes = HouseholdFolder(tmp_path / "homes").prepare()
    homes.run()
    assert main(["jobs", str(homes.file)]) == 0
    assert main(["backup", str(homes.file), location]) == 0
    lose(homes.folder, kept={homes.file.name, "homes-public.db"})
    assert main(["restore", str(homes.file), location]) == 0
    homes.work()
    assert homes.run(moved=True)
    assert "households" in {p.certificate.release for p in homes.public().published}
    homes.public().verify()


def test_a_study_in_parts_goes_on_from_its_backup(
    tmp_path: Path, location: str, handlers: None
) -> None:
    place = PartsFolder(tmp_path / "place")
    place.send(script()[0])
    place.run()
    before = place.entries()
    place.send(script()[1])
    assert main(["backup", str(place.file), location]) == 0
    lose(place.folder, kept={place.file.name, place.public_db.name})
    assert main(["restore", str(place.file), location]) == 0
    place.run(moved=True)
    assert [e.message.hash for e in place.entries()[: len(before)]] == [
        e.message.hash for e in before
    ]
    assert len(place.entries()) > len(before)


def test_an_encrypted_study_on_kafka_is_refused_with_a_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], handlers: None
) -> None:
    """Records are sealed for their topic and position, so they open nowhere else."""
    place = StudyFolder(tmp_path / "place")
    text = on_kafka(place.file.read_text(), "kafka://127.0.0.1:1/none")
    place.file.write_text(text + '\n[run.encryption]\nfile = "key"\n')
    (place.folder / "key").write_text("1" * 64)
    (place.folder / "key").chmod(0o600)
    assert main(["backup", str(place.file), str(tmp_path / "backup")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "an encrypted log on Kafka cannot be restored from records; take snapshots of" in line
    assert not (tmp_path / "backup").exists()
