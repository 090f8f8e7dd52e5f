"""Lives of a study that lose their power: what was there before, what is done, how it goes on.

python -m kit.power_lives LIFE FOLDER    lives in a folder that was prepared
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from kit.households import HouseholdFolder, NotedNoise
from kit.kill_studies import STUDIES, KillFolder
from kit.live_backups import restored
from kit.panels import StudyFolder, declaration, script
from stream_dp.log.message import read_chain
from stream_dp.services.commands.cli import main
from stream_dp.services.storage.backup_manifest import read_manifest
from stream_dp.services.storage.file_stores import file_store
from stream_dp.study.topics import RELEASES, REPORTS

_SENT = 20  # people who report in the life of `send`
_WITNESSED = declaration() + '\nwitness = "sqlite:elsewhere/witness.db"\nestimates = true\n'
_TABLES = next(study for study in STUDIES if study.name == "households: independent")


@dataclass(frozen=True)
class Life:
    """A life of a study in a folder.

    prepare: makes what is durable before the life.
    live: what is recorded.
    go_on: what an operator does after the loss, which must work. Its second argument: whether the
        life had come to its end.
    public: the file of the public log, in the folder.
    ignored: ends the paths whose syncs the control ignores.
    at_end: whether the control loses power at the end alone, when something was promised.
    """

    name: str
    prepare: Callable[[Path], None]
    live: Callable[[Path], None]
    go_on: Callable[[Path, bool], None]
    public: str
    ignored: tuple[str, ...]
    at_end: bool = False


def identities_pass(patch: pytest.MonkeyPatch) -> None:
    """A file of the disk after the loss is the one that was there before."""
    patch.setattr("stream_dp.log.sqlite.identity_of_file", lambda path: "1/0")


def _do(*arguments: object) -> None:
    code = main([*map(str, arguments)])
    if code == 5:  # a service manager starts it again
        code = main([*map(str, arguments)])
    assert code == 0, (arguments, code)


def _run(file: Path, *more: str) -> None:
    _do("run", file, "--until-idle", *more)
    _do("verify", file)


def _prepare_panels(folder: Path) -> None:
    (folder / "elsewhere").mkdir(parents=True)
    place = StudyFolder(folder, _WITNESSED)
    place.send(script()[0])
    _run(place.file)
    for records in script()[1:3]:
        place.send(records)


def _panels(folder: Path) -> StudyFolder:
    return StudyFolder(folder, _WITNESSED)


def _prepare_send(folder: Path) -> None:
    folder.mkdir(parents=True)
    StudyFolder(folder)
    rows = [f"person-{i},2021-01,{i % 2}" for i in range(_SENT)]
    (folder / "reports.csv").write_text("\n".join(["person,period,poverty", *rows]))


def _send(folder: Path) -> None:
    _do("send", folder / "small.toml", folder / "reports.csv")


def _go_on_send(folder: Path, ended: bool) -> None:
    """What `send` took is there."""
    place = StudyFolder(folder)
    assert not ended or len(place.rows(REPORTS)) == _SENT
    _send(folder)
    _do("close", place.file, "2021-01", "--yes")
    _run(place.file)


def _tables(engine: str) -> tuple[Callable[[Path], None], Callable[[Path], None]]:
    """Prepares and lives a study with data sets. engine: where its periods are closed."""

    def prepare(folder: Path) -> None:
        KillFolder(folder, _TABLES, engine).prepare()

    def live(folder: Path) -> None:
        place = KillFolder(folder, _TABLES, engine)
        while not place.finished():
            for role in place.roles:
                place.live(role, NotedNoise(), lambda step: None)

    return prepare, live


def _go_on_tables(engine: str) -> Callable[[Path, bool], None]:
    def go_on(folder: Path, ended: bool) -> None:
        place = KillFolder(folder, _TABLES, engine)
        HouseholdFolder.run(place, source=NotedNoise())
        _tables(engine)[1](folder)
        _do("verify", place.file)

    return go_on


def _prepare_backup(folder: Path) -> None:
    folder.mkdir(parents=True)
    place = StudyFolder(folder / "study")
    place.send(script()[0])
    _run(place.file)
    _do("backup", place.file, folder / "backup")
    place.send(script()[1])
    _run(place.file)


def _first_backup(folder: Path) -> None:
    folder.mkdir(parents=True)
    place = StudyFolder(folder / "study")
    place.send(script()[0])
    _run(place.file)


def _back_up(folder: Path) -> None:
    _do("backup", folder / "study" / "small.toml", folder / "backup")


def _go_on_backup(folder: Path, ended: bool) -> None:
    """The earlier backup or the new one is restored; the new one if it was completed."""
    place, backup = StudyFolder(folder / "study"), folder / "backup"
    manifest = read_manifest(file_store(str(backup))) if backup.is_dir() else None
    if ended:
        assert manifest is not None
        assert manifest.journal == place.entries()[-1].message.hash
    if manifest is not None:
        _run(restored(backup, folder / "restored", place.text)[0], "--moved")
    _do("backup", place.file, folder / "backup")


def _go_on_second_backup(folder: Path, ended: bool) -> None:
    assert read_manifest(file_store(str(folder / "backup"))) is not None
    _go_on_backup(folder, ended)


def _prepare_restore(folder: Path) -> None:
    """Nothing but the backup is left, and the head that was kept elsewhere."""
    _prepare_backup(folder)
    place = StudyFolder(folder / "study")
    _do("backup", place.file, folder / "backup")
    with place.public(readonly=True) as log:
        (folder / "head").write_text(read_chain(log, RELEASES, "public log")[-1].hash)
    for path in sorted(place.folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


def _restore(folder: Path) -> None:
    file, head = folder / "study" / "small.toml", (folder / "head").read_text()
    _do("restore", file, folder / "backup", "--head", head)


def _go_on_restore(folder: Path, ended: bool) -> None:
    db = folder / "study" / "small.db"
    assert db.exists() or not ended
    if not db.exists():
        _restore(folder)
    _run(folder / "study" / "small.toml", "--moved")


LIVES = {
    life.name: life
    for life in (
        Life(
            "panels",
            _prepare_panels,
            lambda folder: _run(_panels(folder).file),
            lambda folder, ended: _run(_panels(folder).file),
            "small-public.db",
            (*(f"small{end}" for end in (".db", ".db-wal")), ".mark", "witness.db"),
        ),
        Life(
            "send",
            _prepare_send,
            _send,
            _go_on_send,
            "small-public.db",
            ("",),
            at_end=True,
        ),
        *(
            Life(
                name,
                *_tables(engine),
                _go_on_tables(engine),
                "homes-public.db",
                ("homes.db", "homes.db-wal", ".mark"),
            )
            for name, engine in (("jobs", "here"), ("parts", "processes"))
        ),
        Life(
            "first backup",
            _first_backup,
            _back_up,
            _go_on_backup,
            "study/small-public.db",
            ("",),
            at_end=True,
        ),
        Life(
            "second backup",
            _prepare_backup,
            _back_up,
            _go_on_second_backup,
            "study/small-public.db",
            ("",),
            at_end=True,
        ),
        Life(
            "restore",
            _prepare_restore,
            _restore,
            _go_on_restore,
            "study/small-public.db",
            ("",),
            at_end=True,
        ),
    )
}


if __name__ == "__main__":
    identities_pass(pytest.MonkeyPatch())
    LIVES[sys.argv[1]].live(Path(sys.argv[2]))
