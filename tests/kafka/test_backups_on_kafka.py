"""Backups of a study on Kafka, restored into SQLite files and run on to the same bytes."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from days import Days
from kit.brokers import add_partition
from kit.live_backups import live_backups, published, restored, run_on

from stream_dp.services.commands.cli import main
from stream_dp.study.topics import REPORTS

FEW, MANY = 4, 20  # of one run


def in_files(days: Days) -> str:
    """The study file, with logs in SQLite files."""
    return days.text().replace(days.public, "sqlite:public.db").replace(days.log, "sqlite:log.db")


def check_rounds(folder: Path, server: str, count: int, seed: int) -> None:
    days = Days.on_kafka(folder / "days", server, f"b-{uuid.uuid4().hex[:12]}", 5, partitions=2)
    days.send([record for number in range(1, 6) for record in days.day(number)])
    backups = live_backups(days.file, folder, count, seed)
    assert len(backups) == count
    expected = published(days.file)
    text = in_files(days)
    for number, backup in enumerate(backups):
        file, _ = restored(backup, folder / f"restored-{number}", text)
        assert run_on(file, moved=True)
        assert published(file) == expected
    assert main(["verify", str(file)]) == 0


def test_live_backups_run_on_in_files(tmp_path: Path, kafka: str) -> None:
    check_rounds(tmp_path, kafka, FEW, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 11))
def test_two_hundred_live_backups(tmp_path: Path, kafka: str, seed: int) -> None:
    check_rounds(tmp_path, kafka, MANY, seed)


def test_no_backup_is_restored_into_topics(
    tmp_path: Path, kafka: str, capsys: pytest.CaptureFixture[str]
) -> None:
    days = Days.on_kafka(tmp_path / "days", kafka, f"b-{uuid.uuid4().hex[:12]}", 2, partitions=2)
    days.send(days.day(1))
    assert not run_on(days.file)
    assert main(["backup", str(days.file), str(tmp_path / "backup")]) == 0
    capsys.readouterr()
    assert main(["restore", str(days.file), str(tmp_path / "backup")]) == 2
    assert "run.log: a backup cannot be restored into Kafka" in capsys.readouterr().err


def test_what_backup_accepts_after_a_partition_was_added_restore_accepts(
    tmp_path: Path, kafka: str, capsys: pytest.CaptureFixture[str]
) -> None:
    days = Days.on_kafka(tmp_path / "days", kafka, f"b-{uuid.uuid4().hex[:12]}", 3, partitions=2)
    days.send(days.day(1))
    assert not run_on(days.file)
    add_partition(days.log, REPORTS)
    capsys.readouterr()
    if main(["backup", str(days.file), str(tmp_path / "backup")]):
        error = capsys.readouterr().err
        assert error.startswith("stream-dp: backup: not completed, because restore would refuse it")
        assert error.count("\n") == 1
    else:
        restored(tmp_path / "backup", tmp_path / "restored", in_files(days))
