"""A study that is encrypted at rest: its whole path, and what its disk and a wrong key show."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from kit.commands import refusal
from kit.households import PERIODS, TEXT, HouseholdFolder, roster, use_fit_in_rounds

from stream_dp.services.commands.cli import main

pytest.importorskip("cryptography")

OLD, NEW, OTHER = (f"{number:064x}" for number in (1, 2, 3))
ENCRYPTED = TEXT + '\n[run.encryption]\nfile = "key"\n'


@pytest.fixture
def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HouseholdFolder:
    use_fit_in_rounds(monkeypatch)
    folder = HouseholdFolder(tmp_path, ENCRYPTED)
    (tmp_path / "key").write_text(OLD)
    return folder.prepare()


def confidential(homes: HouseholdFolder) -> list[bytes]:
    """The bytes of all files but the public log, the study file and its key."""
    public = {"homes-public.db", "homes.toml", "key"}
    files = [f for f in homes.folder.rglob("*") if f.is_file() and f.name not in public]
    assert {f.suffix for f in files} >= {".db", ".npz"}
    return [file.read_bytes() for file in files]


def test_a_study_runs_to_its_end_and_its_disk_shows_nobody(homes: HouseholdFolder) -> None:
    for _ in range(2):
        homes.run()
        homes.work()
    assert homes.run()
    assert {r.certificate.type for r in homes.public().published} >= {"stream-dp.batch"}
    persons = roster().persons[:20]
    words = [f'"{name}"' for name in persons]
    words += ["outside", "income", "2021-01", "north", "manifest", "PK\3\4"]
    for data in confidential(homes):
        assert not [word for word in words if word.encode() in data]
        # Three bytes stand here and there by chance; a table of people would have all of them.
        assert sum(name.encode() in data for name in persons) < 10
    assert main(["verify", str(homes.file)]) == 0


def test_snapshots_of_jobs_are_encrypted_too(homes: HouseholdFolder) -> None:
    homes.run()
    tables = [*homes.folder.rglob("*.parquet")]
    assert tables
    assert not [path for path in tables if b"PAR1" in path.read_bytes()]


def test_the_key_changes_while_the_study_goes_on(homes: HouseholdFolder) -> None:
    homes.run()
    before = homes.public().head
    (homes.folder / "key").write_text(f"{NEW}\n{OLD}\n")
    homes.work()
    assert homes.run()
    assert homes.public().head != before
    (homes.folder / "key").write_text(OLD)  # too early for the newest records
    with pytest.raises(Exception, match=r"key that run\.encryption does not have"):
        homes.run()


@pytest.mark.parametrize("key", [OTHER, NEW, "", "short", None])
def test_a_wrong_key_is_one_line_and_changes_nothing(
    key: str | None, homes: HouseholdFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    homes.run()
    before = (homes.folder / "homes.db").read_bytes()
    if key is None:
        homes.file.write_text(TEXT)
    else:
        (homes.folder / "key").write_text(key)
    report = homes.folder / "more.csv"
    report.write_text("person,period,work\np01,2021-03,1\n")
    for command in (["run"], ["status"], ["send", report], ["close"], ["worker"], ["rejected"]):
        name, *more = command
        last = ["2021-03"] if name == "close" else more
        error = refusal(capsys, 2, name, homes.file, *last)
        assert error.count("\n") == 1
        assert "run.encryption" in error
        assert not any(text in error for text in (OLD, NEW, OTHER))
    assert (homes.folder / "homes.db").read_bytes() == before


def test_a_study_that_began_plain_goes_on_plain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    homes = HouseholdFolder(tmp_path).prepare(periods=PERIODS)
    (tmp_path / "key").write_text(OLD)
    homes.file.write_text(ENCRYPTED)
    assert "begun without encryption" in refusal(capsys, 2, "run", homes.file)


def test_an_entry_of_the_journal_in_anothers_place_is_refused(
    homes: HouseholdFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    homes.run()
    with closing(sqlite3.connect(homes.folder / "homes.db")) as db, db:
        (value,) = db.execute(
            "SELECT value FROM records WHERE topic = 'journal' AND offset = 0"
        ).fetchone()
        db.execute("UPDATE records SET value = ? WHERE topic = 'journal' AND offset = 1", [value])
    error = refusal(capsys, 2, "run", homes.file)
    assert "record 1 of topic 'journal': is not what was written there" in error
