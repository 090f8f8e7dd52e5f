"""Files of logs that were copied, moved or restored: a second releaser refuses them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit.households import HouseholdFolder
from kit.journals import contents
from kit.panels import StudyFolder, markers, script

from stream_dp.errors import Inconsistent
from stream_dp.log import owned_files as module
from stream_dp.log.log import Record
from stream_dp.log.owned_files import identity_of_file, same_identity
from stream_dp.privacy.noise import SystemNoise
from stream_dp.services.commands.cli import main
from stream_dp.services.storage import journal
from stream_dp.services.storage.journal_heads import PLACED
from stream_dp.study.topics import JOURNAL, RELEASES

Refused = Callable[..., str]


@pytest.fixture
def original(tmp_path: Path) -> StudyFolder:
    place = StudyFolder(tmp_path / "original")
    place.send(script()[0])
    assert not place.run(source=SystemNoise())
    return place


@pytest.fixture
def copy(original: StudyFolder, tmp_path: Path) -> StudyFolder:
    """As `cp -a` makes it, which keeps times and attributes."""
    return original.copy(tmp_path / "copy")


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str], handlers: None) -> Refused:
    def check(place: StudyFolder) -> str:
        before = contents(place)
        capsys.readouterr()
        assert main(["run", str(place.file), "--until-idle"]) == 4
        (line,) = capsys.readouterr().err.splitlines()
        assert contents(place) == before
        return line

    return check


def kinds(place: StudyFolder) -> list[str]:
    return [entry.message.head["type"] for entry in place.entries()]


def test_a_copy_is_refused_and_the_original_goes_on(
    original: StudyFolder, copy: StudyFolder, refused: Refused
) -> None:
    for place in (original, copy):
        place.send(script()[1])
    line = refused(copy)
    assert "confidential log: not the file that the journal was written with" in line
    assert line.endswith(f"if this one alone goes on: stream-dp run {copy.file} --moved")
    assert main(["run", str(original.file), "--until-idle"]) == 0
    assert kinds(original) == ["genesis", "close", "close"]


def test_a_copy_can_be_read_and_sent_to(
    copy: StudyFolder, capsys: pytest.CaptureFixture[str], handlers: None
) -> None:
    table = copy.folder / "more.csv"
    table.write_text("person,period,poverty\np,2021-02,1\n")
    assert main(["send", str(copy.file), str(table)]) == 0
    for command in ("verify", "releases", "rejected"):
        assert main([command, str(copy.file)]) == 0
    capsys.readouterr()
    assert main(["status", str(copy.file)]) == 0
    assert "it was copied, moved or restored" in capsys.readouterr().out


def test_a_move_is_accepted_once_and_journalled(
    original: StudyFolder,
    copy: StudyFolder,
    refused: Refused,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    copy.send(script()[1])
    capsys.readouterr()
    assert main(["run", str(copy.file), "--until-idle", "--moved"]) == 0
    assert "never start another copy of them" in capsys.readouterr().out
    assert kinds(copy) == ["genesis", "close", PLACED, "close"]
    copy.send(script()[2])
    assert main(["run", str(copy.file), "--until-idle"]) == 0
    assert kinds(copy) == ["genesis", "close", PLACED, "close", "close"]
    assert main(["verify", str(copy.file)]) == 0
    assert main(["run", str(copy.file), "--until-idle", "--moved"]) == 0
    assert kinds(copy) == ["genesis", "close", PLACED, "close", "close"]
    capsys.readouterr()
    assert main(["status", str(copy.file)]) == 0
    assert "copied" not in capsys.readouterr().out
    assert "copied" in refused(copy.copy(tmp_path / "again"))


@pytest.mark.parametrize("public", [False, True])
def test_one_of_both_files_restored(
    original: StudyFolder, refused: Refused, public: bool, tmp_path: Path
) -> None:
    path = original.public_db if public else original.db
    shutil.copy2(path, tmp_path / "backup")
    original.send(markers(1))
    path.unlink()
    for more in ("-wal", "-shm"):
        path.with_name(path.name + more).unlink(missing_ok=True)
    shutil.copy2(tmp_path / "backup", path)
    what = "public log" if public else "confidential log"
    assert f"{what}: not the file" in refused(original)
    assert main(["run", str(original.file), "--until-idle", "--moved"]) == 0
    assert main(["run", str(original.file), "--until-idle"]) == 0


def test_a_public_file_that_is_gone_is_written_again_at_an_operators_word(
    original: StudyFolder, refused: Refused, handlers: None
) -> None:
    before = original.rows(RELEASES)
    original.public_db.unlink()
    assert main(["run", str(original.file), "--until-idle"]) == 4
    line = refused(original)
    assert "public log: it is empty, but the journal has decided releases" in line
    assert f"stream-dp run {original.file} --moved" in line
    for more in ("--moved", "--until-idle"):
        assert main(["run", str(original.file), "--until-idle", more]) == 0
        assert original.rows(RELEASES) == before
    assert kinds(original) == ["genesis", "close", PLACED]


def test_a_new_name_or_another_device_number_is_no_move(
    original: StudyFolder, handlers: None, tmp_path: Path
) -> None:
    original.folder.rename(tmp_path / "renamed")
    place = StudyFolder(tmp_path / "renamed")
    assert main(["run", str(place.file), "--until-idle"]) == 0
    assert kinds(place) == ["genesis", "close"]


def test_a_crash_around_the_word_and_jobs_of_a_moved_journal(tmp_path: Path) -> None:
    homes = HouseholdFolder(tmp_path / "homes").prepare()
    assert not homes.run()
    shutil.copytree(homes.folder, tmp_path / "copy")
    copy = HouseholdFolder(tmp_path / "copy")

    def at(step: str) -> None:
        if step == "placed":
            raise InterruptedError

    with pytest.raises(InterruptedError):
        copy.run(moved=True, at=at)
    copy.work()
    assert copy.run()
    entries = copy.entries()
    assert [e.number for e in journal.closes(entries)] == [0, 1, 2, 3]
    assert [e.message.head["type"] for e in entries][-2:] == [PLACED, "result"]
    copy.public().verify()


def test_a_worker_beside_a_copy_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], handlers: None
) -> None:
    """Otherwise it would draw the same rounds as the original's worker."""
    homes = HouseholdFolder(tmp_path / "homes").prepare()
    assert not homes.run()
    shutil.copytree(homes.folder, tmp_path / "copy")
    copy = HouseholdFolder(tmp_path / "copy")
    assert main(["worker", str(copy.file), "--until-idle"]) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert "confidential log: not the file" in line
    assert copy.written().total() == 0
    assert copy.rows(JOURNAL) == homes.rows(JOURNAL)


# The place itself


def test_a_place_is_of_the_file_alone(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(b"x")
    first = identity_of_file(one)
    shutil.copy2(one, other)
    assert not same_identity(first, identity_of_file(other))
    one.write_bytes(b"yy")
    one.chmod(0o600)
    one.rename(tmp_path / "new name")
    assert identity_of_file(tmp_path / "new name") == first


def test_a_number_that_is_used_again_is_another_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not same_identity("7/1000", "7/2000")
    assert not same_identity("7/0", "8/0")
    assert same_identity("7/1000", "7/0")  # a file system that no longer tells, or tells now

    def absent(*_: Any) -> Any:
        raise OSError

    monkeypatch.setattr(module.ctypes, "CDLL", absent)
    path = tmp_path / "file"
    path.touch()
    assert identity_of_file(path) == f"{path.stat().st_ino}/0"


@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize(
    ("act", "said"), [("unlink", "its file is gone"), ("replace", "not the file that the journal")]
)
def test_files_that_change_under_a_running_releaser(
    original: StudyFolder, public: bool, act: str, said: str
) -> None:
    """Between a decision and its publication: nothing is published, and a restart goes on."""
    path = original.public_db if public else original.db
    kept, published = path.with_name("kept"), original.published()

    def at(name: str) -> None:
        if name != "publish" or kept.exists():
            return
        shutil.copy(path, kept)
        path.rename(path.with_name("original"))
        if act == "replace":
            kept.rename(path)
        kept.touch()

    original.send(script()[1])
    with pytest.raises(Inconsistent, match=said):
        original.run(source=SystemNoise(), at=at)
    path.with_name("original").rename(path)
    assert original.published() == published
    assert not original.run(source=SystemNoise())
    assert len(original.published()) > len(published)


def test_a_record_in_the_journal_that_the_releaser_did_not_write(original: StudyFolder) -> None:
    """Nothing is drawn after it."""

    steps = list[str]()

    def at(name: str) -> None:
        steps.append(name)
        if name == "cut":
            with original.log() as log:
                log.append([Record(JOURNAL, b"{}", partition=0)])

    original.send(script()[1])
    with pytest.raises(Inconsistent, match="a record that the releaser did not write"):
        original.run(source=SystemNoise(), at=at)
    assert steps[-1] == "cut"
