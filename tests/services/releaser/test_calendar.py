"""Closing by the calendar: cuts at the close, releases an hour later."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from kit.calendar import CLOSES, HOUR, moment, set_clock
from kit.events import lines_to
from kit.panels import (
    LABELS,
    Clock,
    Noiseless,
    StudyFolder,
    counts,
    declaration,
    fix_secrets,
    report,
    script,
)
from kit.studies import SCHEDULE

import stream_dp
from stream_dp.release.published_panels import long_table
from stream_dp.study.topics import RELEASES


@pytest.fixture
def calendar(folder: Path) -> StudyFolder:
    return StudyFolder(
        folder / "calendar", declaration(SCHEDULE), Clock(moment("2021-01-10T00:00"))
    )


def test_nothing_is_decided_before_the_close_or_published_before_its_time(
    calendar: StudyFolder,
) -> None:
    said: list[str] = []
    calendar.send([report(0, "p", LABELS[0], {"work": "yes"})])
    set_clock(calendar, CLOSES[0] - 1)
    assert not calendar.run(tell=lines_to(said))
    assert said == ["2021-01 closes at 2021-02-04T06:00:00Z"]
    assert len(calendar.entries()) == 1
    declared = calendar.rows(RELEASES)

    set_clock(calendar, CLOSES[0])
    said.clear()
    assert not calendar.run(tell=lines_to(said))
    assert said == ["closed 2021-01", "2021-01 goes out at 2021-02-04T07:00:00Z"]
    assert [e.number for e in calendar.entries()] == [0, 1]
    assert calendar.rows(RELEASES) == declared

    set_clock(calendar, CLOSES[0] + HOUR - 1)
    assert not calendar.run()
    assert calendar.rows(RELEASES) == declared

    set_clock(calendar, CLOSES[0] + HOUR)
    assert not calendar.run()
    published = calendar.rows(RELEASES)[len(declared) :]
    assert {row[2] for row in published} == {round((CLOSES[0] + HOUR) * 1000)}
    times = {dict(msgspec.msgpack.decode(row[5])).get("ce_time") for row in published}
    assert times == {b"2021-02-04T07:00:00Z"}


def test_a_report_in_the_last_millisecond_counts_and_one_at_the_close_is_late(
    calendar: StudyFolder,
) -> None:
    set_clock(calendar, CLOSES[0] - 0.001)
    calendar.send([report(0, "in time", LABELS[0], {"work": "yes"})])
    set_clock(calendar, CLOSES[0])
    calendar.send([report(0, "late", LABELS[0], {"work": "yes"})])
    calendar.send([report(1, "late too", LABELS[0], {"work": "yes"})])
    set_clock(calendar, CLOSES[1] + HOUR)
    assert not calendar.run()
    first = calendar.entries()[1]
    assert first.input.cut == {0: 1, 1: 0}
    assert counts(first) == {"working": [1]}
    assert calendar.reasons() == {"late": 2}


def test_a_late_start_closes_every_period_at_its_own_cut(calendar: StudyFolder) -> None:
    for number, closes in enumerate(CLOSES):
        set_clock(calendar, closes - 1)
        calendar.send([report(0, f"p{number}", LABELS[number], {"work": "yes"})])
    set_clock(calendar, CLOSES[-1] + HOUR)
    assert calendar.run()
    assert [e.input.cut[0] for e in calendar.entries()[1:]] == [1, 2, 3, 4, 5]
    assert counts(calendar.entries()[-1])["working"] == [5, 0, 0, 0, 0]


def test_hours_close_at_their_own_cuts_also_where_clocks_change(folder: Path) -> None:
    """In Lisbon the hours 00Z and 01Z are both that from one to two o'clock."""
    hours = {
        "first": "2021-10-30T23Z",
        "every": "hour",
        "close": "schedule",
        "zone": "Europe/Lisbon",
        "grace": "5m",
        "delay": "10m",
    }
    start = moment("2021-10-30T23:00")
    study = StudyFolder(folder / "hours", declaration(hours), Clock(start))
    labels = ["2021-10-30T23Z", *(f"2021-10-31T{hour:02d}Z" for hour in range(4))]
    for number, text in enumerate(labels):
        set_clock(study, start + (number + 1) * HOUR + 299)
        study.send([report(0, f"p{number}", text, {"work": "yes"})])
        set_clock(study, start + (number + 1) * HOUR + 300)
        study.send([report(0, "late", text, {"work": "yes"})])
    set_clock(study, start + 5 * HOUR + 900)
    assert study.run()
    assert [e.input.cut[0] for e in study.entries()[1:]] == [1, 3, 5, 7, 9]
    assert counts(study.entries()[-1])["working"] == [5, 0, 0, 0, 0]
    assert study.reasons() == {"late": 4}
    times = {row[2] / 1000 - start for row in study.rows(RELEASES)[1:]}
    assert times >= {(number + 1) * HOUR + 900 for number in range(5)}
    public = stream_dp.open(study.public_source)
    assert public.panel("pairs").periods == tuple(labels)
    long = long_table(public.study.periods, public.panel("pairs"))["period"].unique().to_pylist()
    assert [f"{period:%Y-%m-%dT%HZ}" for period in long] == labels


def test_a_schedule_decides_as_markers_at_the_same_cuts_do(
    folder: Path, calendar: StudyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    fix_secrets(monkeypatch)
    marked = StudyFolder(folder / "marked")
    for number, records in enumerate(script(), 1):
        behind = [r for r in records if not r.headers]
        set_clock(calendar, CLOSES[number - 1] - 10)
        calendar.send(behind[:-2])
        calendar.run()
        set_clock(calendar, CLOSES[number - 1])
        calendar.send(behind[-2:])
        assert not calendar.run()
        marked.send(records)
        marked.run()
    set_clock(calendar, CLOSES[-1] + HOUR)
    assert calendar.run()
    for scheduled, by_marker in zip(calendar.entries()[1:], marked.entries()[1:], strict=True):
        assert counts(scheduled) == counts(by_marker)
        assert scheduled.charges == by_marker.charges
        accountings = [e.message.head["accounting"] for e in (scheduled, by_marker)]
        assert accountings[0] == accountings[1]


def test_it_runs_by_the_clock_to_the_end_of_the_horizon(
    calendar: StudyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("releaser", "open_period"):
        monkeypatch.setattr(f"stream_dp.services.releaser.{module}.POLL", 0)
    for label in LABELS:
        calendar.send([report(0, "p", label, {"work": "yes"})])
    clock, published = calendar.clock, []
    assert isinstance(clock, Clock)

    def ticking() -> float:
        clock.now += 6 * HOUR
        return clock.now

    def at(step: str) -> None:
        if step == "published":
            published.append(clock.now)

    with calendar.releaser(source=Noiseless(), clock=ticking, at=at) as releaser:
        assert releaser.run()
    for closes, out in zip(CLOSES, published[1:], strict=True):
        assert closes + HOUR <= out <= closes + 24 * HOUR


def test_a_crash_before_the_commit_of_a_scheduled_close_makes_the_same_cut(
    calendar: StudyFolder,
) -> None:
    set_clock(calendar, CLOSES[0] - 5)
    calendar.send([report(0, "p", LABELS[0], {"work": "yes"})])
    set_clock(calendar, CLOSES[0] + HOUR)

    def at(step: str) -> None:
        if step == "commit":
            raise InterruptedError

    with pytest.raises(InterruptedError):
        calendar.run(at=at)
    calendar.send([report(0, "q", LABELS[0], {"work": "yes"})])
    assert not calendar.run()
    assert calendar.entries()[1].input.cut == {0: 1, 1: 0}
    assert counts(calendar.entries()[1]) == {"working": [1]}
