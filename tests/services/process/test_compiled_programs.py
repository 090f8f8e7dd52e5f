"""The folder of compiled programs: confidential, bounded, and no trouble where it is missing."""

import os

import pytest

from stream_dp.services.commands.worker import keep_compiled_programs

FOLDER = "JAX_COMPILATION_CACHE_DIR"


@pytest.fixture(autouse=True)
def _without_a_folder(monkeypatch):
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
    monkeypatch.setenv(FOLDER, "")
    monkeypatch.delenv(FOLDER)


def test_the_oldest_programs_make_room(tmp_path):
    keep_compiled_programs(tmp_path / "snapshots")
    place = (tmp_path / "snapshots").glob("compiled-*")
    (folder,) = place
    assert os.environ.pop(FOLDER) == str(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert not list(folder.iterdir())
    for i in range(4):
        path = folder / f"program{i}"
        path.write_bytes(bytes(100))
        os.utime(path, (1000 - i, 1000 - i))
    keep_compiled_programs(tmp_path / "snapshots", most=250)
    assert sorted(path.name for path in folder.iterdir()) == ["program0", "program1"]


def test_a_folder_that_cannot_be_written_is_not_used(tmp_path):
    (tmp_path / "snapshots").write_text("a file")
    keep_compiled_programs(tmp_path / "snapshots")
    assert FOLDER not in os.environ


def test_the_environment_comes_first(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER, "elsewhere")
    keep_compiled_programs(tmp_path)
    assert os.environ[FOLDER] == "elsewhere"
    assert not list(tmp_path.iterdir())
