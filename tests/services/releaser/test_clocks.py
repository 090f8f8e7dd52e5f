"""Clocks that jump: no period closes or is published by a clock that others contradict."""

from __future__ import annotations

import datetime as dt
import threading
import time
from pathlib import Path

import pytest
from kit.calendar import CLOSES, moment
from kit.panels import LABELS, Clock, StudyFolder, declaration, report
from kit.studies import SCHEDULE

from stream_dp.services.process.events import Event
from stream_dp.services.releaser.releaser_facts import TOLERANCE, Clocks
from stream_dp.services.releaser.releaser_facts import steady as machine
from stream_dp.services.storage.deployment import Deployment
from stream_dp.study.topics import RELEASES

DAY = 86_400.0


@pytest.fixture
def calendar(folder: Path) -> StudyFolder:
    place = StudyFolder(folder / "calendar", declaration(SCHEDULE), Clock(CLOSES[0] - DAY))
    place.send([report(0, "p", LABELS[0], {"work": "yes"})])
    return place


def jumping(place: StudyFolder, ahead: float, seconds: float) -> list[str]:
    """Run on the machine's own monotonic clock while the wall clock is ahead for a while.

    It jumps when the releaser waits, goes back so long after that is noticed, and the releaser is
    stopped once it waits as before.
    """
    said: list[str] = []
    start, jumped = place.clock() - time.monotonic(), threading.Event()

    def wall() -> float:
        return start + time.monotonic() + (ahead if jumped.is_set() else 0.0)

    def tell(event: Event) -> None:
        said.append(event.message)
        if len(said) == 1:
            jumped.set()
        elif len(said) == 2:
            threading.Timer(seconds, jumped.clear).start()
        else:
            releaser.context.stop.set()

    place.clock = wall  # the file's clock too
    with place.releaser(tell=tell, steady=machine) as releaser:
        failsafe = threading.Timer(300, releaser.context.stop.set)
        failsafe.start()
        try:
            assert not releaser.run()
        finally:
            failsafe.cancel()
    return said


@pytest.mark.parametrize("days", [20, 400])
def test_a_clock_that_is_ahead_for_three_seconds_closes_nothing(
    calendar: StudyFolder, days: int
) -> None:
    published = jumping(calendar, days * DAY, 3.0)
    assert "2021-01 closes once the clocks agree" in published[1]
    assert f"set {days} days ahead" in published[1]
    assert published[::2] == ["2021-01 closes at 2021-02-04T06:00:00Z"] * 2
    assert len(published) == 3
    assert [entry.number for entry in calendar.entries()] == [0]
    assert len({row[3] for row in calendar.rows(RELEASES)}) == 1


def test_a_release_does_not_go_out_by_a_clock_that_jumped(calendar: StudyFolder) -> None:
    calendar.clock = Clock(CLOSES[0] + 1)
    assert not calendar.run()
    before = calendar.rows(RELEASES)
    assert [entry.number for entry in calendar.entries()] == [0, 1]
    said = jumping(calendar, 20 * DAY, 1.0)
    assert any("2021-01 goes out once the clocks agree" in line for line in said)
    assert calendar.rows(RELEASES) == before


@pytest.mark.parametrize(
    ("first", "at", "moments"),
    [
        # Berlin: at 02:30 there is no 28 March, and 31 October has two, of which the first counts.
        ("2021-03-26", "02:30", ["2021-03-27T01:30", "2021-03-28T01:30", "2021-03-29T00:30"]),
        ("2021-10-29", "02:30", ["2021-10-30T00:30", "2021-10-31T00:30", "2021-11-01T01:30"]),
    ],
)
def test_days_close_over_a_change_to_and_from_summer_time(
    folder: Path, first: str, at: str, moments: list[str]
) -> None:
    """Each at its own moment, also where the releaser starts again in the repeated hour."""
    schedule = {"close": "schedule", "zone": "Europe/Berlin", "at": dt.time.fromisoformat(at)}
    periods = {"first": first, "every": "day", **schedule, "grace": "0s", "delay": "0s"}
    clock = Clock(moment(moments[0]) - DAY)
    place = StudyFolder(folder / "days", declaration(periods), clock)
    for number, label in enumerate(Deployment.load(place.file).study.periods.labels[:3], 1):
        due = moment(moments[number - 1])
        place.send([report(0, "p", label, {"work": "yes"})])
        clock.now = due - 1
        assert not place.run()
        assert [entry.number for entry in place.entries()] == list(range(number))
        clock.now = due + 1
        place.send([report(0, "late", label, {"work": "yes"})])
        assert not place.run()
        assert [entry.number for entry in place.entries()] == list(range(number + 1))
        accounting = place.entries()[-1].input.accounting
        assert accounting is not None
        assert (accounting.accepted, accounting.rejected.get("late", 0)) == (number, number - 1)


# The rule itself


def test_small_corrections_are_followed_and_a_suspension_is_no_jump() -> None:
    wall, steady = Clock(1000.0), Clock(5.0)
    clocks = Clocks(wall, steady)
    for passed in (100.0, 3 * DAY):
        wall.now += passed + 0.9 * TOLERANCE
        steady.now += passed
        assert clocks.before(1000.0) == ""
    wall.now += 1.1 * TOLERANCE
    assert "was set" in clocks.before(1000.0)
    steady.now += 1.1 * TOLERANCE
    assert clocks.before(1000.0) == ""


def test_a_clock_that_is_set_back_and_forth() -> None:
    wall, steady = Clock(1000.0), Clock(5.0)
    clocks = Clocks(wall, steady)
    wall.now -= DAY
    assert clocks.before(900.0) == "at 1970-01-01T00:15:00Z"
    wall.now += DAY
    assert clocks.before(900.0) == ""


def test_the_log_s_clock_must_have_come_there_too_and_is_not_asked_over_and_over() -> None:
    wall, steady, asked = Clock(moment("2021-02-04T06:00")), Clock(0.0), []
    log = Clock(wall.now - 5)
    clocks = Clocks(wall, steady)

    def log_clock() -> float:
        asked.append(log.now)
        return log.now

    due = wall.now
    assert clocks.before(due, log_clock) == "once the log's clock says 2021-02-04T06:00:00Z"
    log.now = due
    for more, answers in ((4, 1), (1, 2)):
        for clock in (wall, steady):
            clock.now += more
        assert (clocks.before(due, log_clock) == "") == (answers == 2)
        assert len(asked) == answers
    log.now -= 2 * DAY
    assert clocks.before(due, log_clock).endswith("and it is 2 days back of this machine's")


@pytest.mark.parametrize(("lead", "words"), [(0.9 * TOLERANCE, ""), (3600, "60 minutes ahead")])
def test_a_log_s_clock_that_is_ahead_is_told_before_the_close(lead: float, words: str) -> None:
    """Reports of the last hour would be late, whichever clock is right."""
    due, steady, asked = moment("2021-02-04T06:00"), Clock(0.0), list[float]()
    wall = Clock(due - 9000)
    clocks = Clocks(wall, steady)

    def log_clock() -> float:
        asked.append(wall.now + lead)
        return asked[-1]

    for _ in range(7):
        said = clocks.before(due, log_clock)
        assert said.startswith("at 2021-02-04T06:00:00Z")
        assert said.endswith("set the clocks right" if words else "Z")
        assert words in said
        for clock in (wall, steady):
            clock.now += 900
    assert len(asked) == 2  # hourly
    lead = 0.0  # the operator has set it right
    for clock in (wall, steady):
        clock.now += 900
    assert clocks.before(due, log_clock) == "at 2021-02-04T06:00:00Z"
