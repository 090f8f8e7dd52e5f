"""What is confidential is in no output and in no file that others may read."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from kit.events import lines_to
from kit.panels import LABELS, PERIODS, StudyFolder, markers, raw, report, script

from stream_dp.client import PublicLog
from stream_dp.errors import Inconsistent
from stream_dp.log.log import Record
from stream_dp.log.sqlite import SqliteLog
from stream_dp.privacy.noise import SystemNoise
from stream_dp.services.releaser import decision

NOBODY = 65534
TOKEN = "token"


@pytest.fixture
def folder(folder: Path) -> Path:
    folder.chmod(0o755)
    return folder


def recognizable(number: int) -> list[Record]:
    """Ids, values and faults that can be recognised in any text."""
    label = LABELS[number - 1]
    people = [f"{TOKEN}-id-{i}" for i in range(50)]
    return [
        *(report(i % 2, p, label, {"work": "yes", "poverty": 1}) for i, p in enumerate(people)),
        report(0, "p", label, {"work": f"{TOKEN}-value"}),
        report(0, "p", label, {f"{TOKEN}-attribute": 1}),
        report(1, "p", f"{TOKEN}-period", {"work": "yes"}),
        report(1, [TOKEN], label, {"work": "yes"}),
        raw(1, f"{TOKEN}-malformed".encode()),
        *markers(number),
    ]


def test_the_releaser_says_nothing_of_its_input(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place, said = StudyFolder(folder / "place"), []
    for number in range(1, PERIODS + 1):
        place.send(recognizable(number))
        place.run(source=SystemNoise(), tell=lines_to(said))
    out, error = capfd.readouterr()
    assert (out, error) == ("", "")
    fixed = r"(closed|published) LABEL|LABEL waits for: stream-dp close STUDY.toml LABEL|the hor.*"
    for line in said:
        assert re.fullmatch(fixed, re.sub("|".join(LABELS), "LABEL", line))
    assert TOKEN.encode() not in place.public_db.read_bytes()
    assert TOKEN.encode() in place.db.read_bytes()


def damaged(place: StudyFolder) -> None:
    place.edit("UPDATE records SET value = x'00' WHERE topic = 'journal' AND offset = 1")


def cut_short(place: StudyFolder) -> None:
    place.edit("DELETE FROM records WHERE topic = 'reports' AND partition = 0 AND offset > 20")


def changed(place: StudyFolder) -> None:
    shutil.rmtree(place.snapshots)
    place.edit("UPDATE records SET value = x'00' WHERE topic = 'reports' AND offset = 4")


def forgotten(place: StudyFolder) -> None:
    shutil.rmtree(place.snapshots)
    place.edit("DELETE FROM records WHERE topic = 'reports' AND offset < 30")


def short_and_lost(place: StudyFolder) -> None:
    shutil.rmtree(place.snapshots)
    cut_short(place)


@pytest.mark.parametrize("harm", [damaged, cut_short, changed, forgotten, short_and_lost])
def test_error_texts_hold_no_value_id_count_or_position(
    harm: Callable[[StudyFolder], None], folder: Path
) -> None:
    place = StudyFolder(folder / "place")
    place.send(recognizable(1))
    place.run(source=SystemNoise())
    harm(place)
    with pytest.raises(Inconsistent) as caught:
        place.run(source=SystemNoise())
    text = "".join(traceback.format_exception(caught.value.with_traceback(None)))
    assert TOKEN not in text
    # The only numbers are those of messages and periods.
    assert set(re.findall(r"\d+", str(caught.value))) <= {"0", "1"}


def test_a_failure_inside_a_decision_does_not_quote_the_counts(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = StudyFolder(folder / "place")
    place.send(recognizable(1))
    monkeypatch.setattr(decision, "panel_certificate", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError) as caught:
        place.run(source=SystemNoise())
    assert TOKEN not in "".join(traceback.format_exception(caught.value))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_file_modes(folder: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        place = StudyFolder(folder / "place")
        steps = []

        def at(step: str) -> None:
            steps.append(step)
            assert mode(place.db) == 0o600
            for path in place.folder.glob("small.db-*"):
                assert mode(path) == 0o600
            if place.snapshots.exists():
                assert mode(place.snapshots) == 0o700
                assert all(mode(path) == 0o600 for path in place.snapshots.iterdir())

        place.send(script()[0])
        place.run(at=at)
    finally:
        os.umask(before)
    assert "cleaned" in steps
    assert mode(place.public_db) == 0o644 & ~mask
    assert all(mode(path) == 0o600 for path in place.folder.glob("*.lock"))


def as_nobody(work: Callable[[], None]) -> str:
    """The work in a child without rights, as far as they can be given up; what failed in it."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads, JAX's too: no child uses them
        child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            work()
            os._exit(0)
        except BaseException:
            os.write(writer, traceback.format_exc().encode())
            os._exit(1)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as pipe:
        return pipe.read().decode()


def test_a_reader_without_the_right_to_write(folder: Path) -> None:
    place = StudyFolder(folder / "place")
    place.send(script()[0])
    place.run(source=SystemNoise())
    place.public_db.chmod(0o444)
    place.folder.chmod(0o555)
    try:

        def read() -> None:
            with place.public(readonly=True) as log:
                public = PublicLog(log)
                public.verify()
                assert len(public.releases) == 1

        assert as_nobody(read) == ""
    finally:
        place.folder.chmod(0o755)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
def test_another_user_cannot_open_what_is_confidential(folder: Path) -> None:
    place = StudyFolder(folder / "place")
    place.send(script()[0])
    place.run(source=SystemNoise())
    snapshot = place.snapshots / place.entries()[-1].snapshot[0]
    for path in (place.db, snapshot):
        assert "PermissionError" in as_nobody(lambda path=path: print(path.read_bytes()))
    assert "LogError" in as_nobody(lambda: SqliteLog(place.db, readonly=True).close())


def test_metadata_of_a_release_is_its_schedule(folder: Path) -> None:
    """Two runs at different times: no moment of either is public."""
    files = []
    for name, now in (("early", 1.7e9), ("later", 1.8e9)):
        place = StudyFolder(folder / name, clock=lambda now=now: now)
        place.send([*script()[0]])
        place.run(source=SystemNoise())
        times = {row[2] for row in place.rows("releases")}
        assert all(time in (0, 1_612_137_600_000) for time in times)
        files.append(json.dumps(sorted(times)))
    assert files[0] == files[1]
