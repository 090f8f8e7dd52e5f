"""Backups that are damaged or made by somebody else: one line, and nothing is written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from kit.live_backups import copy_of
from kit.panels import StudyFolder, script

from stream_dp.privacy.noise import SystemNoise
from stream_dp.services.commands.cli import main
from stream_dp.services.storage.backup_manifest import MANIFEST, write_file
from stream_dp.services.storage.file_stores import file_store


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> StudyFolder:
    folder = tmp_path_factory.mktemp("made")
    place = StudyFolder(folder / "study")
    place.send(script()[0])
    assert not place.run(source=SystemNoise())
    assert main(["backup", str(place.file), str(folder / "backup")]) == 0
    return place


@pytest.fixture
def backup(made: StudyFolder, tmp_path: Path) -> Path:
    copy_of(made.folder.parent / "backup", tmp_path / "backup")
    return tmp_path / "backup"


@pytest.fixture
def refused(
    made: StudyFolder, backup: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """The one line of a `restore` that writes nothing."""

    def check(code: int = 4) -> str:
        folder = tmp_path / "empty" / "folder"
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(made.file, folder)
        shutil.copy(made.public_db, folder)
        kept = names(folder)
        capsys.readouterr()
        assert main(["restore", str(folder / made.file.name), str(backup)]) == code
        (line,) = capsys.readouterr().err.splitlines()
        assert names(folder) == kept
        return line.removeprefix("stream-dp: ")

    return check


def names(folder: Path) -> list[str]:
    """Of all files in the folder above, but for locks, which nobody holds."""
    return sorted(path.name for path in folder.parent.rglob("*") if path.suffix != ".lock")


def manifest(backup: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((backup / MANIFEST).read_bytes())
    return content


def change(backup: Path, where: str, value: object) -> None:
    """Sets one key of the manifest. where: keys and places, with dots between them."""
    content = manifest(backup)
    inner: Any = content
    *path, last = where.split(".")
    for key in path:
        inner = inner[int(key) if isinstance(inner, list) else key]
    inner[int(last) if isinstance(inner, list) else last] = value
    (backup / MANIFEST).write_text(json.dumps(content))


def files(content: Any) -> Iterator[dict[str, Any]]:
    """Every file that a manifest names."""
    if isinstance(content, dict):
        if "sha256" in content:
            yield content
        content = list(content.values())
    for inner in content if isinstance(content, list) else ():
        yield from files(inner)


HOSTILE = {
    "log.topics.0.partitions.0.0.file.sha256": ["../../etc/passwd", "A" * 64, "", 3, "0" * 65],
    "snapshots.0.name": [
        "../../x",
        "/etc/cron.d/x",
        "0123456789ab-../x",
        "0123456789ab-x\n",
        "0123456789ab-",
        "x" * 300,
    ],
    "log.topics.0.name": ["../x", "log", 1],
    "log.topics.0.partitions": [[], None, {}],
    "log.topics.0.partitions.0.0.first": [-1, 1 << 63, 10**40, 0.5],
    "log.kind": ["ftp", None],
    "log.identity": ["x" * 1000],
    "format": [0, 2, "1"],
    "journal": ["", "g" * 64],
    "made": ["now", None],
    "more": [1],
}


@pytest.mark.parametrize(
    ("where", "value"),
    [(where, value) for where, values in HOSTILE.items() for value in values],
    ids=lambda value: str(value)[:20],
)
def test_a_manifest_that_names_what_it_must_not(
    backup: Path, refused: Callable[..., str], where: str, value: object
) -> None:
    change(backup, where, value)
    assert refused().startswith(f"backup: {MANIFEST} ")


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b"\xff", b"null", b"\0" * 10_000])
def test_a_manifest_that_is_none(backup: Path, refused: Callable[..., str], content: bytes) -> None:
    (backup / MANIFEST).write_bytes(content)
    assert refused().startswith(f"backup: {MANIFEST} is damaged or not one that")


def test_no_manifest_and_no_folder(backup: Path, refused: Callable[..., str]) -> None:
    (backup / MANIFEST).unlink()
    assert "no backup is there" in refused(code=2)
    shutil.rmtree(backup)
    assert "no such folder" in refused(code=2)


def test_every_file_missing_cut_or_changed(backup: Path, refused: Callable[..., str]) -> None:
    names = {file["sha256"] for file in files(manifest(backup))}
    assert len(names) > 4
    for name in names:
        path = backup / name
        content = path.read_bytes()
        path.unlink()
        assert refused() == f"backup: the file {name} is gone; use another backup"
        for other in (content[:-1], content + b"\0", bytes([content[0] ^ 1]) + content[1:], b""):
            path.touch(mode=0o600)
            path.write_bytes(other)
            assert refused() == f"backup: the file {name} is damaged; use another backup"
        path.write_bytes(content)


@pytest.mark.parametrize("name", ["", MANIFEST])
@pytest.mark.parametrize("mode", [0o755, 0o640, 0o606, 0o777])
def test_what_others_may_read_or_write(
    backup: Path, refused: Callable[..., str], name: str, mode: int
) -> None:
    (backup / name).chmod(mode)
    assert "others may read or write it, and it holds what people reported: chmod" in refused(
        code=2
    )


def test_a_backup_is_not_written_where_others_may_read(
    made: StudyFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    capsys.readouterr()
    assert main(["backup", str(made.file), str(tmp_path / "open")]) == 2
    assert "others may read or write it" in capsys.readouterr().err
    assert not list((tmp_path / "open").iterdir())


def with_rows(backup: Path, topic: str, rows: object) -> None:
    """Gives the first segment of a topic other content, whose hash is sound."""
    file = write_file(file_store(str(backup)), msgspec.msgpack.encode(rows))
    (number,) = (
        i for i, copy in enumerate(manifest(backup)["log"]["topics"]) if copy["name"] == topic
    )
    change(
        backup,
        f"log.topics.{number}.partitions.0.0.file",
        {"sha256": file.sha256, "bytes": file.bytes},
    )


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [(0, 0, None, b"x", None)],
        [(1, 0, None, b"x", None), (0, 0, None, b"x", None)],
        [(0, 0, None, b"x", None), (0, 0, None, b"x", None)],
        [(1 << 63, 0, None, b"x", None)],
        [(-5, 0, None, b"x", None)],
        ["x"],
        {"a": 1},
        3,
    ],
    ids=str,
)
def test_records_that_are_not_a_journal(
    backup: Path, refused: Callable[..., str], rows: object
) -> None:
    with_rows(backup, "journal", rows)
    line = refused()
    assert line.startswith(("backup: ", "journal: "))


def test_heads_that_are_not_those_of_the_logs(backup: Path, refused: Callable[..., str]) -> None:
    kept = (backup / MANIFEST).read_bytes()
    change(backup, "journal", "0" * 64)
    assert refused().startswith("backup: its journal does not end as its manifest says")
    (backup / MANIFEST).write_bytes(kept)
    change(backup, "head", "0" * 64)
    assert refused().startswith("backup: its public log does not end as its manifest says")


def test_a_gap_between_segments(backup: Path, refused: Callable[..., str]) -> None:
    content = manifest(backup)
    (topic,) = (topic for topic in content["log"]["topics"] if topic["name"] == "reports")
    segments = topic["partitions"][0]
    segments.append({**segments[0], "first": segments[0]["next"] + 1, "next": 10_000})
    (backup / MANIFEST).write_text(json.dumps(content))
    assert "has a gap in topic 'reports'" in refused()
