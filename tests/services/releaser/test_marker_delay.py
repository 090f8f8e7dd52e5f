"""A delay after a marker: the volume of reports does not change the time of a release."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.calendar import set_clock
from kit.events import lines_to
from kit.killed import in_memory
from kit.panels import LABELS, PARTITIONS, Clock, StudyFolder, declaration, markers, report
from kit.studies import MARKER

from stream_dp.errors import UserError
from stream_dp.services.intake.markers import close_marker
from stream_dp.study.periods import Periods
from stream_dp.study.topics import RELEASES
from stream_dp.studyfile import load_study

DELAYED = {**MARKER, "delay": "1h"}

HOUR = 3600.0


@pytest.fixture
def place(tmp_path: Path) -> Iterator[StudyFolder]:
    with in_memory() as folder:
        yield StudyFolder(folder / "delayed", declaration(DELAYED), Clock(1_612_000_000.0))


def test_a_release_goes_out_a_fixed_time_after_the_last_marker(place: StudyFolder) -> None:
    start = place.clock()
    place.send([report(0, "p", LABELS[0], {"work": "yes"}), close_marker(1, 0)])
    set_clock(place, start + 100)
    place.send([close_marker(1, 1)])
    declared = len({row[3] for row in place.rows(RELEASES)}) if place.public_db.exists() else 0
    set_clock(place, start + 500)  # reading took that long
    said: list[str] = []
    assert not place.run(tell=lines_to(said))
    assert said == ["closed 2021-01", "2021-01 goes out at 2021-01-30T10:48:20Z"]
    assert [entry.number for entry in place.entries()] == [0, 1]
    assert place.entries()[1].input.marked == {
        0: round(start * 1000),
        1: round((start + 100) * 1000),
    }
    published = place.rows(RELEASES)
    assert declared == 0
    set_clock(place, start + 100 + HOUR - 0.001)
    assert not place.run()
    assert place.rows(RELEASES) == published
    set_clock(place, start + 100 + HOUR)
    assert not place.run()
    out = place.rows(RELEASES)[len(published) :]
    # What they bear is the period's end, as ever: the marker's moment is not published.
    assert {row[2] for row in out} == {1_612_137_600_000}


def test_periods_that_one_marker_closes_go_out_together_after_a_restart_too(
    place: StudyFolder,
) -> None:
    start = place.clock()
    place.send(markers(3))
    assert not place.run()
    assert [entry.number for entry in place.entries()] == [0, 1]
    set_clock(place, start + HOUR)
    said: list[str] = []
    assert not place.run(tell=lines_to(said))
    assert [line for line in said if "goes out" in line] == []
    assert [entry.number for entry in place.entries()] == [0, 1, 2, 3]
    assert {tuple(entry.input.marked.values()) for entry in place.entries()[1:]} == {
        (round(start * 1000),) * PARTITIONS
    }


def test_without_a_delay_a_release_goes_out_at_once(place: StudyFolder) -> None:
    other = StudyFolder(place.folder.parent / "now", declaration())
    other.send(markers(1))
    said: list[str] = []
    assert not other.run(tell=lines_to(said))
    assert said[:2] == ["closed 2021-01", "published 2021-01"]


def test_how_it_is_declared(place: StudyFolder, tmp_path: Path) -> None:
    study, _ = load_study(place.file)
    assert study.periods.delay == "1h"
    # A study without one keeps its hash: nothing is written for it.
    plain = tmp_path / "plain.toml"
    plain.write_text(declaration())
    assert b"delay" not in load_study(plain)[0].canonical()
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(declaration({**DELAYED, "delay": "soon"}))
    with pytest.raises(UserError, match="write a length of time as '3d', '12h', '30m' or '10s'"):
        load_study(wrong)
    calendar = {"zone": "UTC", "delay": "1h"}
    with pytest.raises(ValueError, match="a schedule has its own delay"):
        Periods(every="month", first="2021-01", count=2, close=calendar, delay="1h")
