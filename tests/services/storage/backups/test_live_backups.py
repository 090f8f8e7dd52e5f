"""Backups while the releaser runs: each is restored and run on to the same bytes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from kit.live_backups import live_backups, published, restored, run_on
from kit.panels import StudyFolder, script

from stream_dp.services.commands.cli import main

FEW, MANY = 6, 20  # of one run


def check_rounds(folder: Path, count: int, seed: int) -> None:
    place = StudyFolder(folder / "study")
    for records in script():
        place.send(records)
    backups = live_backups(place.file, folder, count, seed)
    assert len(backups) == count
    expected = published(place.file)
    for number, backup in enumerate(backups):
        file, _ = restored(backup, folder / f"restored-{number}", place.text)
        assert run_on(file, moved=True)
        assert published(file) == expected
    assert main(["verify", str(file)]) == 0


def test_live_backups_run_on_to_the_same_bytes(tmp_path: Path, handlers: None) -> None:
    check_rounds(tmp_path, FEW, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 11))
def test_two_hundred_live_backups(tmp_path: Path, handlers: None, seed: int) -> None:
    check_rounds(tmp_path, MANY, seed)
    shutil.rmtree(tmp_path)
