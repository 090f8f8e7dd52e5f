"""Confidential files that are open to every user, as a restored backup is."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from kit.commands import json_output, refusal
from kit.panels import StudyFolder, script

from stream_dp.services.commands.cli import main
from stream_dp.services.storage import atomic_files


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.fixture
def place(folder: Path, handlers: None, capsys: pytest.CaptureFixture[str]) -> StudyFolder:
    place = StudyFolder(folder / "small")
    for records in script()[:2]:
        place.send(records)
    json_output(capsys, "run", place.file, "--until-idle")
    return place


def snapshots(place: StudyFolder) -> list[Path]:
    return sorted((place.file.parent / "small-snapshots").iterdir())


def test_a_restored_log_and_its_snapshots_are_closed_to_others(
    place: StudyFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = place.file.parent / "small-snapshots"
    with closing(sqlite3.connect(place.db)) as db:  # keeps the files of the write-ahead log
        db.execute("SELECT count(*) FROM records").fetchone()
        beside = [Path(f"{place.db}{end}") for end in ("", "-wal", "-shm")]
        beside = [path for path in beside if path.exists()]
        for path in [*beside, *snapshots(place)]:
            path.chmod(0o644)
        folder.chmod(0o755)
        assert main(["status", str(place.file), "--json"]) == 0
        out, error = capsys.readouterr()
        assert json.loads(out)["begun"]
        told = [json.loads(line)["message"] for line in error.splitlines()]
        assert len(told) == len(beside)
        assert all("open to every user (mode 0644)" in line for line in told)
        assert [mode(path) for path in beside] == [0o600] * len(beside)
    assert main(["run", str(place.file), "--until-idle"]) == 0
    error = capsys.readouterr().err
    assert f"{folder}: is confidential and was open to every user (mode 0755)" in error
    assert mode(folder) == 0o700
    assert [mode(path) for path in snapshots(place)] == [0o600] * len(snapshots(place))
    assert main(["run", str(place.file), "--until-idle", "--json"]) == 0
    assert "mode-mended" not in capsys.readouterr().err


def test_a_service_tells_it_as_an_event(
    place: StudyFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    place.db.chmod(0o666)
    assert main(["run", str(place.file), "--until-idle", "--json"]) == 0
    (line,) = (x for x in capsys.readouterr().err.splitlines() if "mode-mended" in x)
    assert json.loads(line)["level"] == "warning"
    assert mode(place.db) == 0o600


def test_a_file_of_another_user_is_refused(
    place: StudyFolder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place.db.chmod(0o644)
    monkeypatch.setattr(atomic_files.os, "geteuid", lambda: 12345)
    line = refusal(capsys, 2, "status", place.file)
    assert line.endswith(f"have its owner run: chmod 600 {place.db}\n")
    assert mode(place.db) == 0o644


def test_what_a_group_may_read_is_the_operators_choice(
    place: StudyFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    place.db.chmod(0o660)
    assert json_output(capsys, "status", place.file)["begun"]
    assert mode(place.db) == 0o660
    place.db.chmod(0o600)
    place.public_db.chmod(0o644)
    json_output(capsys, "releases", place.file)
    assert mode(place.public_db) == 0o644


def test_a_key_is_closed_to_others(place: StudyFolder, capsys: pytest.CaptureFixture[str]) -> None:
    key = place.file.parent / "key"
    key.write_text("1" * 64)
    key.chmod(0o644)
    place.file.write_text(place.file.read_text() + '\n[run.encryption]\nfile = "key"\n')
    error = refusal(capsys, 2, "status", place.file)
    assert f"{key}: is confidential and was open to every user (mode 0644)" in error
    assert mode(key) == 0o600
