"""A full disk, a read-only one, a log that was cut: one line, and a start later succeeds."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import (
    contextmanager,
    nullcontext,
    redirect_stderr,
    redirect_stdout,
    suppress,
)
from io import StringIO
from pathlib import Path

import pytest
from kit.households import TEXT, HouseholdFolder
from kit.killed import in_memory
from kit.panels import LABELS, StudyFolder, decided, declaration, script

from stream_dp.errors import UserError
from stream_dp.log.log import LogError, Unavailable
from stream_dp.log.owned_files import role_lock
from stream_dp.log.sqlite_file import sqlite_errors
from stream_dp.services.commands import cli
from stream_dp.services.process import command_output

SIZE = "6m"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "none", str(place)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no file system can be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(disk: Path) -> None:
    with (disk / "ballast").open("wb", buffering=0) as file:
        for size in (1 << 18, 4096):  # the rest by pages
            with suppress(OSError):
                while file.write(bytes(size)) == size:
                    pass


def room(disk: Path) -> None:
    (disk / "ballast").unlink()


@contextmanager
def no_growth(size: int) -> Iterator[None]:
    """Limits the files of this process and its children to `size` bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def command(*words: object, limit: int | None = None) -> tuple[int, str, str]:
    """Exit code, output and errors of a command. limit: bytes at which its files end."""
    kept = {name: signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGINT)}
    out, error = StringIO(), StringIO()
    try:
        with redirect_stdout(out), redirect_stderr(error):
            with no_growth(limit) if limit is not None else nullcontext():
                code = cli.main([str(word) for word in words])
    finally:
        for name, handler in kept.items():
            signal.signal(name, handler)
    return code, out.getvalue(), error.getvalue()


def one_line(said: tuple[int, str, str], code: int) -> str:
    assert said[0] == code, said
    (line,) = said[2].splitlines()
    return line.removeprefix("stream-dp: ")


# The releaser at every step


@pytest.fixture(scope="module")
def memory() -> Iterator[Path]:
    with in_memory() as folder:
        yield folder


def sent(folder: Path, periods: int = 5) -> StudyFolder:
    place = StudyFolder(folder, declaration(periods=periods))
    for records in script(periods):
        place.send(records)
    return place


def sent_briefly(folder: Path) -> StudyFolder:
    """A study whose second period is closed with one before it, and one after it."""
    return sent(folder, 3)


@pytest.fixture(scope="module")
def steps(memory: Path, fixed: None) -> list[str]:
    """The steps of a run, in order, and the entries that it decides."""
    seen: list[str] = []
    place = sent_briefly(memory / "plain")
    assert place.run(at=seen.append)
    return seen


@pytest.fixture(scope="module")
def fixed() -> Iterator[None]:
    from kit.panels import fix_secrets

    with pytest.MonkeyPatch.context() as patch:
        fix_secrets(patch)
        yield


@pytest.fixture(scope="module")
def expected(memory: Path, steps: list[str]) -> list[dict[str, object]]:
    return decided(StudyFolder(memory / "plain", declaration(periods=3)).entries())


def stopped(place: StudyFolder, at: Callable[[str], None]) -> Exception | None:
    """The error that a run ends with, if it is one after which another start can succeed."""
    try:
        place.run(at=at)
    except (LogError, OSError) as error:
        code, (line,) = command_output.failure(error)
        assert code == cli.UNAVAILABLE, line
        assert str(place.folder) in line
        return error
    except UserError as error:
        pytest.fail("\n".join(error.lines))
    return None


def over(place: StudyFolder, expected: list[dict[str, object]]) -> None:
    """Asserts that the study is finished and that each period was decided once."""
    assert place.run()
    entries = place.entries()
    assert decided(entries) == expected
    to_publish = [r.value for entry in entries for r in entry.public_records()]
    assert [row[4] for row in place.rows("releases")] == to_publish
    cells = entries[-1].message.head["accounting"]
    assert place.reasons() == cells["rejected"]
    left = sorted(path.name for path in place.snapshots.iterdir())
    assert left == [entry.snapshot[0] for entry in entries[-2:]]


def test_a_full_disk_at_every_step(
    disk: Path, steps: list[str], expected: list[dict[str, object]]
) -> None:
    """In the second period. Earlier decisions stay and are published byte for byte."""
    names = list(dict.fromkeys(steps))
    assert {"drawn", "commit", "committed", "publish", "snapshot", "closed"} <= set(names)
    failed = 0
    for name in names:
        place = sent_briefly(disk / "study")
        calls = 0

        def at(step: str, name: str = name) -> None:
            nonlocal calls
            calls += step == name
            if step == name and calls == min(2, steps.count(name)):
                fill(disk)

        failed += stopped(place, at) is not None
        room(disk)
        before = [e.message.hash for e in place.entries()]
        released = place.rows("releases") if place.public_db.exists() else []
        fill(disk)
        stopped(place, lambda step: None)  # still without room
        room(disk)
        over(place, expected)
        entries = [e.message.hash for e in place.entries()]
        assert entries[: len(before)] == before
        assert place.rows("releases")[: len(released)] == released
        shutil.rmtree(place.folder)
    assert failed > len(names) // 2


@pytest.mark.parametrize("size", [0, 4_096, 30_000, 60_000, 100_000])
def test_files_that_may_not_grow(
    memory: Path, expected: list[dict[str, object]], size: int
) -> None:
    """A limit of the system simulates a full disk, wherever the first write fails."""
    place = sent_briefly(memory / f"limit-{size}")
    for _ in range(2):
        with no_growth(size):
            assert stopped(place, lambda step: None) is not None
    over(place, expected)


# Commands


@pytest.fixture
def finished(tmp_path: Path) -> StudyFolder:
    place = sent(tmp_path / "finished")
    assert cli.main(["run", str(place.file), "--until-idle"]) == 0
    return place


def test_each_file_without_room(disk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Reports, markers, tables of groups, study files, the logs of a run: the file is named."""
    homes = HouseholdFolder(disk / "homes")
    table = disk / "reports.csv"
    table.write_text("person,period,work\n" + "".join(f"p{i:02d},2021-01,1\n" for i in range(30)))
    fill(disk)
    db = re.escape(str(disk / "homes" / "homes.db"))
    line = one_line(command("send", homes.file, table, "--quiet"), 5)
    assert re.match(rf"{db}: cannot be (created|written)", line), line
    assert not (disk / "homes" / "homes.db").exists()
    new = disk / "new.toml"
    assert one_line(command("new", new), 5) == f"{new}: cannot be written: No space left on device"
    assert not new.exists()
    room(disk)
    homes.prepare(1)
    fill(disk)
    # Free pages inside of the file may take a little.
    for words in (["send", homes.file, table], ["close", homes.file, "2021-02"]):
        for _ in range(50):
            said = command(*words)
            if said[0]:
                break
        assert re.match(
            rf"{db}: .* \((database or disk is full|disk I/O error)\)", one_line(said, 5)
        )
    assert command("status", homes.file)[0] in {0, 5}
    room(disk)
    # The close may have been written: all of the month is late then.
    assert command("send", homes.file, table)[0] in {0, 2}


def test_a_full_disk_is_named_where_a_service_begins(disk: Path) -> None:
    place = sent(disk / "study")
    fill(disk)
    said = one_line(command("run", place.file, "--until-idle"), 5)
    assert said.startswith(f"{place.db}"), said
    assert "No space left on device" in said or "the disk is full" in said
    with pytest.raises(OSError, match="cannot be written: No space left on device") as failed:
        with role_lock(disk / "a.lock"):
            pass
    assert failed.value.filename == str(disk / "a.lock")
    with pytest.raises(Unavailable, match=r"^.*: cannot be opened: the disk is full \("):
        with sqlite_errors(place.db, "cannot be opened"):  # as a log is, whose files lie beside it
            sqlite3.connect(disk / "no folder" / "x.db")
    room(disk)
    with pytest.raises(Unavailable, match=r"^.*: cannot be opened \("):
        with sqlite_errors(place.db, "cannot be opened"):
            sqlite3.connect(disk / "no folder" / "x.db")


def test_exports_without_room(finished: StudyFolder, disk: Path) -> None:
    """An earlier export stays, and no part of a new one is left."""
    for name in ("panel.csv", "panel.parquet"):
        out = disk / name
        out.write_text("precious")
        fill(disk)
        source = finished.public_source
        line = one_line(command("export", source, "pairs", out), 5)
        assert line == f"{out}: cannot be written: No space left on device"
        assert out.read_text() == "precious"
        room(disk)
        assert [path.name for path in disk.iterdir()] == [name]
        assert command("export", source, "pairs", out)[0] == 0
        out.unlink()


def test_a_demo_without_room(disk: Path) -> None:
    line = one_line(command("demo", "--out", disk / "demo"), 5)
    assert str(disk / "demo") in line
    shutil.rmtree(disk / "demo")
    line = one_line(command("demo", "--out", disk / "demo", limit=100_000), 5)
    assert str(disk / "demo") in line


def test_a_worker_without_room(disk: Path) -> None:
    """Transcripts and results: the job is not failed, and goes on."""
    homes = HouseholdFolder(disk / "homes").prepare()
    homes.run()
    fill(disk)
    for _ in range(20):
        said = command("worker", homes.file, "--until-idle")
        if said[0]:
            break
    assert "homes.db: " in one_line(said, 5)
    room(disk)
    homes.work()
    homes.run()
    (entry,) = [e for e in homes.entries() if e.result_of is not None]
    assert homes.public().data_set("households", "2021-02").message.hash in entry.published


def test_a_read_only_file_system(disk: Path, finished: StudyFolder) -> None:
    place = finished.copy(disk / "study")
    other = HouseholdFolder(disk / "other", TEXT)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    line = one_line(command("run", place.file, "--until-idle"), 5)
    assert line == f"{place.db}: is on a read-only file system"
    one_line(command("close", place.file, LABELS[-1], "--yes"), 5)
    line = one_line(command("close", other.file, "2021-01", "--yes"), 5)
    assert line == f"{disk / 'other' / 'homes.db'}: cannot be written: Read-only file system"
    assert one_line(command("new", disk / "new.toml"), 5).endswith("Read-only file system")
    for words in (["releases", place.public_source], ["verify", place.public_source]):
        assert command(*words)[0] == 0
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    assert command("run", place.file, "--until-idle", "--moved")[0] == 0


# Logs that were cut


# Nothing, a part of the header, and whole pages.
LENGTHS = pytest.mark.parametrize(
    "left", [0, 50, 20_000, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 4096))]
)
COMMANDS = (
    ["run", "{study}", "--until-idle"],
    ["status", "{study}"],
    ["rejected", "{study}"],
    ["close", "{study}", "2021-05"],
    ["verify", "{study}"],
    ["topics", "{study}"],
)


@LENGTHS
def test_a_confidential_log_that_was_cut(
    finished: StudyFolder, capsys: pytest.CaptureFixture[str], left: int
) -> None:
    os.truncate(finished.db, left)
    kept = finished.db.read_bytes()
    for words in COMMANDS:
        assert cli.main([w.format(study=finished.file) for w in words]) == 4, words
        out, error = capsys.readouterr()
        assert out == ""
        (line,) = error.splitlines()
        assert line.startswith(f"stream-dp: {finished.db}: is "), line
    assert finished.db.read_bytes() == kept


@LENGTHS
def test_a_public_log_that_was_cut(
    finished: StudyFolder, capsys: pytest.CaptureFixture[str], left: int
) -> None:
    releases = finished.rows("releases")
    os.truncate(finished.public_db, left)
    for words in (["run", str(finished.file)], ["verify", str(finished.file)]):
        assert cli.main(words) == 4
        assert f"{finished.public_db}: is " in capsys.readouterr().err
    for word in ("releases", "estimate", "verify"):
        assert cli.main([word, finished.public_source]) == 4
        assert f"{finished.public_db}: is " in capsys.readouterr().err
    finished.public_db.unlink()
    assert cli.main(["run", str(finished.file), "--until-idle", "--moved"]) == 0
    assert finished.rows("releases") == releases


def test_a_lost_confidential_log_is_no_new_study(
    finished: StudyFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither for commands that could begin a study nor for those that only read."""
    for path in finished.folder.glob("small.db*"):
        path.unlink()
    for words in COMMANDS:
        assert cli.main([w.format(study=finished.file) for w in words]) == 4, words
        out, error = capsys.readouterr()
        assert (out, error.count("\n")) == ("", 1)
        assert error.startswith("stream-dp: journal: it is empty, but the public log is not")
    assert not finished.db.exists()
