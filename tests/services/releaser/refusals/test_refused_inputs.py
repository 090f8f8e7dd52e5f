"""Reports, snapshots and study files that are not the journal's: the releaser refuses."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest
from kit.commands import json_output
from kit.events import lines_to
from kit.panels import StudyFolder
from kit.studies import SCHEDULE, toml_lines

from stream_dp.log.owned_files import mark_path
from stream_dp.privacy.noise import SystemNoise
from stream_dp.services.commands.cli import main
from stream_dp.services.storage.restored_logs import ROLE


def test_reports_of_another_log(place: StudyFolder, refused: Callable[..., str]) -> None:
    place.edit("UPDATE log SET identity = 'another'")
    assert refused().startswith("reports: this is another log than the one")
    assert refused("verify", str(place.file)).startswith("reports: this is another log")


@pytest.mark.parametrize("partitions", [1, 3])
def test_another_number_of_partitions(
    place: StudyFolder, refused: Callable[..., str], partitions: int
) -> None:
    place.edit("UPDATE topics SET partitions = ? WHERE name = 'reports'", partitions)
    assert f"the topic has {partitions} partitions, and the journal reads 2" in refused()
    text = place.file.read_text()
    place.file.write_text(text.replace("partitions = 2", f"partitions = {partitions}"))
    advice = "restore the topic" if partitions == 1 else "add partitions up to 4"
    assert advice in refused()
    assert advice in refused("verify", str(place.file))


def test_another_number_of_partitions_in_the_study_file(
    place: StudyFolder, refused: Callable[..., str]
) -> None:
    text = place.file.read_text()
    place.file.write_text(text.replace("partitions = 2", "partitions = 7"))
    assert refused() == (
        "reports: the topic has 2 partitions, and run.partitions says 7; write partitions = 2, and"
        " start stream-dp run again"
    )


@pytest.mark.parametrize(
    ("old", "new", "keys"),
    [
        ("rho = 0.2", "rho = 0.25", "releases.pairs.rho, releases.working.rho"),
        ('name = "working"', 'name = "work-ing"', "releases.working, releases.work-ing"),
        ("size = 32", "size = 33", "study.population.size"),
        ("delta = 1e-6", "delta = 1e-7", "study.delta"),
        (
            'close = "marker"',
            toml_lines(SCHEDULE),
            "study.periods.close, study.periods.zone, study.periods.at, study.periods.grace,"
            " study.periods.delay",
        ),
        ("count = 5", "count = 6", "study.periods.count"),
    ],
)
def test_a_study_that_has_changed(
    place: StudyFolder, refused: Callable[..., str], old: str, new: str, keys: str
) -> None:
    text = place.file.read_text().replace("[study]", '[study]\ndescription = "other words"')
    place.file.write_text(text.replace(old, new))
    line = refused()
    prefix, _, rest = line.partition("study: it has changed since its first record: ")
    named, _, _ = rest.partition(";")
    assert prefix == ""
    assert set(keys.split(", ")) == set(named.split(", "))
    assert "restore the study file, or start a new study" in line
    assert refused("verify", str(place.file)).startswith("study: it has changed")


def test_where_it_runs_may_change(place: StudyFolder, handlers: None) -> None:
    shutil.move(place.db, place.folder / "moved.db")
    shutil.move(place.public_db, place.folder / "moved-public.db")
    shutil.move(mark_path(place.db, ROLE), mark_path(place.folder / "moved.db", ROLE))
    text = place.file.read_text()
    for old, new in (("small.db", "moved.db"), ("small-public", "moved-public")):
        text = text.replace(old, new)
    place.file.write_text(text.replace("[run]", '[run]\nsnapshots = "moved"'))
    assert main(["run", str(place.file), "--until-idle"]) == 0
    assert main(["verify", str(place.file)]) == 0


def test_reports_that_end_before_the_cut(place: StudyFolder, refused: Callable[..., str]) -> None:
    cut = place.entries()[-1].input.cut[0]
    place.edit(
        "DELETE FROM records WHERE topic = 'reports' AND partition = 0 AND offset >= ?", cut - 5
    )
    line = refused()
    assert line.startswith("reports: the topic ends before the last cut of the journal")
    assert not any(character.isdigit() for character in line)


def test_reports_that_end_before_the_cut_and_no_snapshot(
    place: StudyFolder, refused: Callable[..., str]
) -> None:
    shutil.rmtree(place.snapshots)
    place.snapshots.mkdir(mode=0o700)
    cut = place.entries()[-1].input.cut[0]
    place.edit(
        "DELETE FROM records WHERE topic = 'reports' AND partition = 0 AND offset >= ?", cut - 5
    )
    assert refused().startswith("reports: the topic ends before the cut of a closed period")


def test_reports_that_no_longer_reach_back_and_no_snapshot(
    place: StudyFolder, refused: Callable[..., str]
) -> None:
    shutil.rmtree(place.snapshots)
    place.snapshots.mkdir(mode=0o700)
    place.edit("DELETE FROM records WHERE topic = 'reports' AND partition = 1 AND offset < 3")
    line = refused()
    assert line.startswith("reports: no snapshot is left and the topic no longer reaches back")
    assert "restore a snapshot" in line


def test_reports_that_were_changed_and_no_snapshot(
    place: StudyFolder, refused: Callable[..., str]
) -> None:
    shutil.rmtree(place.snapshots)
    place.snapshots.mkdir(mode=0o700)
    place.edit("UPDATE records SET value = x'00' WHERE topic = 'reports' AND offset = 4")
    assert "what is below the last cut is not what the journal counted" in refused()


def test_a_damaged_snapshot_is_set_aside_and_replayed(
    place: StudyFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    latest = place.snapshots / place.entries()[-1].snapshot[0]
    content, before = latest.read_bytes(), place.entries()
    damages, lines = (content[:-1], b"", b"\x00" + content[1:]), list[str]()
    for number, damage in enumerate(damages, 1):
        latest.write_bytes(damage)
        latest.chmod(0o600)
        assert not place.run(source=SystemNoise(), tell=lines_to(lines))
        aside = place.snapshots / f"damaged-{f'{number}-' * (number > 1)}{latest.name}"
        words = f"snapshot {latest.name}: not the bytes that the journal names; it is kept as"
        assert f"{words} {aside.name}, and the input is replayed instead" in lines
        assert aside.read_bytes() == damage
        assert aside.stat().st_mode & 0o777 == 0o600
    assert place.entries() == before
    assert len(json_output(capsys, "status", place.file)["damaged_snapshots"]) == 3


def test_two_damaged_snapshots_are_replayed_from_the_beginning(place: StudyFolder) -> None:
    before, lines = place.entries(), list[str]()
    for entry in before[1:]:
        path = place.snapshots / entry.snapshot[0]
        if path.exists():
            path.write_bytes(path.read_bytes()[::-1])
    assert not place.run(source=SystemNoise(), tell=lines_to(lines))
    assert len([line for line in lines if "is kept as damaged-" in line]) == 2
    assert place.entries() == before


def test_a_damaged_snapshot_and_reports_that_no_longer_reach_back(
    place: StudyFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in list(place.snapshots.iterdir()):
        path.write_bytes(path.read_bytes()[:-1])
    place.edit("DELETE FROM records WHERE topic = 'reports' AND partition = 1 AND offset < 3")
    assert main(["run", str(place.file), "--until-idle"]) == 4
    line = capsys.readouterr().err
    assert "reports: no snapshot is left and the topic no longer reaches back" in line
    assert all(path.name.startswith("damaged-") for path in place.snapshots.iterdir())
