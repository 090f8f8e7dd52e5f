"""Snapshots and parts in an object store: a study there, and a store that refuses or is away."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from kit.fork_server import Popen
from kit.object_store import SECRET, ObjectStore, object_store
from kit.panels import PERIODS, StudyFolder, declaration, script
from kit.parts import PartsFolder
from kit.studies import toml_lines

pytest.importorskip("s3fs", reason="needs the extra s3: pip install '.[s3]'")
pytest.importorskip("moto", reason="needs a server that speaks S3: pip install '.[test]'")

PATIENCE = 600.0  # seconds
# Nobody is turned away: who would be follows from the journal's key, which is drawn.
TEXT = declaration(neighbours="add_remove", size=None, rho=1.0)


@pytest.fixture
def store() -> Iterator[ObjectStore]:
    with object_store() as started:
        yield started


def place_of(folder: Path, bucket: str = "kept") -> PartsFolder:
    keys = {"engine": "processes", "parts": 4, "processes": 2}
    keys["snapshots"] = f"s3://{bucket}/deep/small"
    return PartsFolder(folder, TEXT + toml_lines(keys) + "\n")


def begun(place: StudyFolder, store: ObjectStore, *words: str) -> Popen:
    return Popen(
        [sys.executable, "-m", "stream_dp.services.commands.cli", *words],
        env=store.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=place.folder,
    )


def said(place: StudyFolder, store: ObjectStore, *words: str) -> tuple[int, str, str]:
    """The exit code of a command, and what it prints on both streams."""
    process = begun(place, store, *words)
    output, errors = process.communicate(timeout=PATIENCE)
    assert SECRET not in output + errors
    return process.returncode, output, errors


def accounted(place: StudyFolder) -> list[Any]:
    return [(entry.number, entry.input.cut, entry.input.accounting) for entry in place.entries()]


def test_a_bucket_that_is_not_there_is_named_and_not_made(
    store: ObjectStore, tmp_path: Path
) -> None:
    place = place_of(tmp_path)
    place.send(script()[0])
    code, output, errors = said(place, store, "run", "--until-idle", "small.toml")
    words = "run.snapshots: s3://kept/deep/small: there is no such bucket or folder"
    assert (code, output) == (2, "")
    assert words in errors
    assert errors.count("\n") == 1
    with pytest.raises(HTTPError):
        store.files("kept")


@pytest.mark.slow
def test_a_store_that_refuses_or_does_not_answer(store: ObjectStore, tmp_path: Path) -> None:
    store.create("kept")
    place = place_of(tmp_path)
    first, second, *_ = script()
    place.send(first)
    assert said(place, store, "run", "--until-idle", "small.toml")[0] == 0
    place.send(second)
    store.refuse()
    code, _, errors = said(place, store, "run", "--until-idle", "small.toml")
    assert (code, "the store refuses" in errors, errors.count("\n")) == (2, True, 1), errors
    store.stop()
    code, _, errors = said(place, store, "run", "--until-idle", "small.toml")
    assert (code, "does not answer" in errors, errors.count("\n")) == (5, True, 1), errors
    assert [entry.number for entry in place.entries()] == [0, 1]


@pytest.mark.slow
def test_a_study_whose_parts_are_there(store: ObjectStore, tmp_path: Path) -> None:
    """Run, killed at work, started again: the same is counted, and the files of two closes stay."""
    store.create("kept")
    place, calm = place_of(tmp_path / "there"), StudyFolder(tmp_path / "calm", TEXT)
    for records in script():
        calm.send(records)
    assert calm.run()
    for number, records in enumerate(script()):
        place.send(records)
        if number == 2:
            process, before = begun(place, store, "run", "small.toml"), store.files("kept")
            deadline = time.monotonic() + PATIENCE
            while process.poll() is None and store.files("kept") == before:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            process.kill()
            process.communicate()
        code, output, errors = said(place, store, "run", "--until-idle", "small.toml")
        assert code == 0, (output, errors)
    assert accounted(place) == accounted(calm)
    assert len(place.entries()) == PERIODS + 1
    files = store.files("kept")
    assert not any("-cells-" in name for name in files)
    assert len([name for name in files if "-part-" in name]) == 2 * 4
    assert not place.snapshots.exists()
    assert said(place, store, "verify", "small.toml")[0] == 0
    code, output, _ = said(
        place, store, "estimate", "small.toml", "working", "total at-least 1", "--json"
    )
    assert code == 0
    assert json.loads(output)
