"""Files that appear when they are complete: durable first, with names that nobody foresees."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from stream_dp.errors import UserError
from stream_dp.log.owned_files import make_folder
from stream_dp.services.intake.table_judging import FaultReport
from stream_dp.services.storage.atomic_files import (
    atomic_file,
    atomic_folder,
    write_new_file,
)


def _file(path: Path, text: str) -> None:
    with atomic_file(path) as draft:
        draft.write_text(text)


def _new_file(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    write_new_file(path, text)


def _folder(path: Path, text: str) -> None:
    with atomic_folder(path.parent) as draft:
        (draft / path.name).write_text(text)


def _report(path: Path, text: str) -> None:
    table = path.with_name(path.name.removesuffix(".faults.txt"))
    report = FaultReport(table)
    report.add(1, "x", "value", text)
    report.keep()
    assert report.path == path


WRITERS: dict[str, Callable[[Path, str], None]] = {
    "file": _file,
    "new file": _new_file,
    "folder": _folder,
    "report": _report,
}


class Calls:
    """What is synced and what is renamed, in order. drafts: the names that were renamed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.synced: list[str] = []
        self.drafts: list[Path] = []
        sync, replace = os.fsync, Path.replace

        def synced(opened: int) -> None:
            self.synced.append(str(Path(f"/proc/self/fd/{opened}").readlink()))
            sync(opened)

        def replaced(draft: Path, target: Path) -> Path:
            names = [*draft.iterdir()] if draft.is_dir() else [draft]
            assert {str(name) for name in names} <= set(self.synced), "not synced before"
            self.drafts.append(draft)
            return replace(draft, target)

        monkeypatch.setattr(os, "fsync", synced)
        monkeypatch.setattr(Path, "replace", replaced)


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("again", [False, True])
def test_content_is_durable_before_it_has_its_name(
    writer: str, again: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out" / "a.csv.faults.txt"
    if again or writer != "folder":
        path.parent.mkdir()
        path.write_text("before")
    calls = Calls(monkeypatch)
    WRITERS[writer](path, "content")
    assert "content" in path.read_text()
    parents = {str(path.parent), str(path.parent.parent)}
    assert set(calls.synced[-1:]) <= parents, "the name is durable as well"
    assert (len(calls.drafts) > 0) == (writer != "new file")
    assert [p.name for p in path.parent.iterdir()] == [path.name], "no draft is left"


@pytest.mark.parametrize("writer", ["file", "folder", "report"])
def test_two_drafts_have_different_names(
    writer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out" / "a.csv.faults.txt"
    calls = Calls(monkeypatch)
    for _ in range(2):
        path.parent.mkdir(exist_ok=True)
        WRITERS[writer](path, "content")
    first, second = (
        (draft.name for draft in calls.drafts)
        if writer != "folder"
        else (draft.parent.name for draft in calls.drafts)
    )
    assert first != second
    assert not {first, second} & {".a.csv.faults-part.txt", ".out-part"}


def test_a_failed_block_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("before")

    def fail(draft: Path) -> None:
        draft.write_text("half")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), atomic_file(path) as draft:
        fail(draft)
    assert path.read_text() == "before"
    with pytest.raises(ZeroDivisionError), atomic_folder(tmp_path / "new") as draft:
        fail(draft / "half")
    assert [p.name for p in tmp_path.iterdir()] == ["a.csv"]


@pytest.mark.parametrize(("umask", "file", "folder"), [(0, 0o644, 0o755), (0o27, 0o640, 0o750)])
def test_modes(umask: int, file: int, folder: int, tmp_path: Path) -> None:
    def mode(name: str) -> int:
        return (tmp_path / name).stat().st_mode & 0o777

    before = os.umask(umask)
    try:
        for public in (False, True):
            with atomic_file(tmp_path / f"a{public}", public=public) as draft:
                draft.write_text("x")
            write_new_file(tmp_path / f"b{public}", "x", public=public)
            with atomic_folder(tmp_path / f"c{public}" / "d", public=public) as draft:
                (draft / "e").write_text("x")
            make_folder(tmp_path / f"f{public}" / "g", public=public)
            for name in ("a{}", "b{}", "c{}/d/e"):
                assert mode(name.format(public)) == (file if public else 0o600), name
            for name in ("c{}", "c{}/d", "f{}", "f{}/g"):
                assert mode(name.format(public)) == (folder if public else 0o700), name
    finally:
        os.umask(before)


def test_a_file_in_the_way_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    with pytest.raises(UserError, match="Not a directory"), atomic_folder(tmp_path / "a" / "b"):
        pass
    with pytest.raises(NotADirectoryError):
        make_folder(tmp_path / "a")
