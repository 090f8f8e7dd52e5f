"""Both logs' files restored, removed or left: no noise is drawn again for a published period."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from kit.calendar import CLOSES, HOUR, moment, set_clock
from kit.panels import Clock, StudyFolder, declaration, script
from kit.studies import MARKER, SCHEDULE

from stream_dp.log.owned_files import mark_path
from stream_dp.privacy.noise import SystemNoise
from stream_dp.services.commands.cli import main
from stream_dp.services.storage.restored_logs import ROLE
from stream_dp.study.topics import JOURNAL, RELEASES

SAME, COPY, IN_PLACE, MISSING = "same", "older copy", "older in place", "missing"
STATES = [SAME, COPY, IN_PLACE, MISSING]
RUNS_ON = ""
BEHIND = "journal: it ends at public message 1, but the public log holds"
MARKED = "journal: it ends at entry 1, but the mark beside it names entry {last}: an older"
NO_JOURNAL = "journal: it is empty, but the public log is not"
NO_LOGS = "journal: it is empty, but the mark beside it names entry {last}"
NO_PUBLIC = "public log: it is empty, but the journal has decided releases"
OTHER_LOG = "confidential log: not the file that the journal was written with"
NO_MARK = "confidential log: the mark beside it (FILE.releaser.mark) is gone"
OTHER_PUBLIC = "public log: not the file that the journal was written with"

# By the states of the confidential and of the public log: how the refusal begins.
EXPECTED = {
    (SAME, SAME): RUNS_ON,
    (SAME, COPY): OTHER_PUBLIC,
    (SAME, IN_PLACE): RUNS_ON,
    (SAME, MISSING): NO_PUBLIC,
    **{(older, SAME): BEHIND for older in (COPY, IN_PLACE)},
    **{(older, public): MARKED for older in (COPY, IN_PLACE) for public in STATES[1:]},
    **{(MISSING, public): NO_JOURNAL for public in STATES[:3]},
    (MISSING, MISSING): NO_LOGS,
}
# The same where the mark is lost, too, if it differs.
UNMARKED = {
    **{(SAME, public): NO_MARK for public in STATES},
    **{(COPY, public): OTHER_LOG for public in STATES[1:]},
    **{(IN_PLACE, public): NO_MARK for public in STATES[1:]},
}


@pytest.fixture(scope="module", params=[MARKER, SCHEDULE], ids=["marker", "schedule"])
def lived(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[StudyFolder, Path]:
    """Some periods are published; the backups are from after the first, with reports on more.

    Beside the study a folder with its files as they are now, and one with links to them.
    """
    start, folder = Clock(moment("2021-01-10T00:00")), tmp_path_factory.mktemp("lived")
    place = StudyFolder(folder / "study", declaration(request.param), start)
    place.send(script()[0])
    set_clock(place, CLOSES[0] + HOUR)
    assert not place.run(source=SystemNoise())
    place.send(script()[1])
    for path in (place.db, place.public_db):
        copied(path, backup(path))
        shutil.copymode(path, backup(path))
    set_clock(place, CLOSES[-1] + HOUR)
    place.run(source=SystemNoise())
    shutil.copytree(place.folder, folder / "now")
    shutil.copytree(place.folder, folder / "links", copy_function=os.link)
    return place, folder


@pytest.fixture
def place(lived: tuple[StudyFolder, Path]) -> StudyFolder:
    """The study with the bytes that it had, in the files that the journal knows."""
    place, folder = lived
    shutil.rmtree(place.folder)
    shutil.copytree(folder / "links", place.folder, copy_function=os.link)
    for path in (folder / "now").rglob("*"):
        if path.is_file():
            (place.folder / path.relative_to(folder / "now")).write_bytes(path.read_bytes())
    set_clock(place, CLOSES[-1] + HOUR)
    return place


def backup(path: Path) -> Path:
    return path.with_name(f"{path.name}.backup")


def copied(source: Path, target: Path) -> None:
    """As `sqlite3 .backup` and `.restore` do it: a file that exists is written over."""
    with closing(sqlite3.connect(source)) as db, closing(sqlite3.connect(target)) as into:
        db.backup(into)


def bring_to(path: Path, state: str) -> None:
    """Brings a log's file to a state."""
    if state == IN_PLACE:
        inode = path.stat().st_ino
        copied(backup(path), path)
        assert path.stat().st_ino == inode
    elif state != SAME:
        for file in (path, *path.parent.glob(f"{path.name}-*")):
            file.unlink()
        if state == COPY:
            shutil.copy2(backup(path), path)


def written(place: StudyFolder) -> dict[str, list[tuple[object, ...]]]:
    """The releases and the journal, as far as their files are there."""
    files = {RELEASES: place.public_db, JOURNAL: place.db}
    return {topic: place.rows(topic) for topic, path in files.items() if path.exists()}


@pytest.mark.parametrize("marked", [True, False], ids=["marked", "unmarked"])
@pytest.mark.parametrize("public", STATES)
@pytest.mark.parametrize("confidential", STATES)
def test_no_state_of_the_files_draws_again(
    place: StudyFolder,
    confidential: str,
    public: str,
    marked: bool,
    capsys: pytest.CaptureFixture[str],
    handlers: None,
) -> None:
    states = (confidential, public)
    if not marked and states == (MISSING, MISSING):
        pytest.skip("nothing is left of the study: it begins anew")
    expected = EXPECTED[states] if marked else UNMARKED.get(states, EXPECTED[states])
    before, last = written(place), place.entries()[-1].number
    bring_to(place.db, confidential)
    bring_to(place.public_db, public)
    if not marked:
        mark_path(place.db, ROLE).unlink()
    found = written(place)
    for _ in range(2):
        capsys.readouterr()
        code = main(["run", str(place.file), "--until-idle"])
        if expected == RUNS_ON:
            assert code == 0
            assert written(place) == before
        else:
            assert code == 4
            (line,) = capsys.readouterr().err.splitlines()
            assert line.removeprefix("stream-dp: ").startswith(expected.format(last=last))
            assert found.items() <= written(place).items()
            assert not any(rows for topic, rows in written(place).items() if topic not in found)


@pytest.mark.parametrize("public", STATES)
@pytest.mark.parametrize("confidential", STATES)
def test_not_even_an_operator_has_a_marked_period_drawn_again(
    place: StudyFolder, confidential: str, public: str, handlers: None
) -> None:
    before = written(place)
    bring_to(place.db, confidential)
    bring_to(place.public_db, public)
    code = main(["run", str(place.file), "--until-idle", "--moved"])
    assert code == (0 if confidential == SAME else 4)
    if confidential == SAME:
        assert written(place)[RELEASES] == before[RELEASES]
