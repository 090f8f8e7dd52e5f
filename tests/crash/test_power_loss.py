"""Losses of power: what a reader has seen is a prefix of what goes out after the restart.

All kinds in 1,000 states, with their table: `python benchmarks/power_losses.py`.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from kit.file_calls import STRACE, Create, FileCall, Name, Sync, Write
from kit.lossy_disk import HALF, JOURNALLED, STRICT, LossyDisk
from kit.power_lives import LIVES
from kit.power_losses import lose_power

needs_strace = pytest.mark.skipif(STRACE is None, reason="needs strace, which records file calls")


def left(folder: Path, calls: list[FileCall], mode: str, seed: int = 0) -> dict[str, bytes]:
    """The files after a loss at the end of calls in an empty folder."""
    (folder / "before").mkdir(parents=True)
    disk = LossyDisk(folder / "before", Path("/d"), lambda path: False)
    for call in calls:
        disk.apply(call, mode)
    disk.write_left(folder / "left", mode, random.Random(seed))
    return {path.name: path.read_bytes() for path in (folder / "left").iterdir()}


WRITTEN: list[FileCall] = [Create("/d/a"), Write("/d/a", 0, b"one"), Sync("/d/a")]


def test_a_synced_file_without_a_synced_name_is_lost(tmp_path: Path) -> None:
    assert left(tmp_path / "1", WRITTEN, STRICT) == {}
    assert left(tmp_path / "2", WRITTEN, JOURNALLED) == {"a": b"one"}
    assert left(tmp_path / "3", [*WRITTEN, Sync("/d")], STRICT) == {"a": b"one"}


def test_what_is_not_synced_is_lost_by_half(tmp_path: Path) -> None:
    calls = [*WRITTEN, Sync("/d"), Write("/d/a", 3, b" two"), Name("/d/a", "/d/b", False)]
    assert left(tmp_path / "strict", calls, STRICT) == {"a": b"one"}
    found = [left(tmp_path / str(seed), calls, HALF, seed) for seed in range(40)]
    contents = {content for files in found for content in files.values()}
    assert contents == {b"one", b"one two"}
    assert {tuple(sorted(files)) for files in found} == {(), ("a",), ("b",), ("a", "b")}


@needs_strace
def test_a_restore_outlives_a_loss_of_power(tmp_path: Path) -> None:
    counts = lose_power("restore", tmp_path, losses=8, control=2, seed=1)
    assert counts.faults == []
    assert counts.found == counts.control


@needs_strace
@pytest.mark.slow
@pytest.mark.parametrize("name", LIVES)
def test_a_life_outlives_losses_of_power(name: str, tmp_path: Path) -> None:
    counts = lose_power(name, tmp_path, losses=150, control=20, seed=2)
    assert counts.faults == []
    assert counts.found >= 0.9 * counts.control
