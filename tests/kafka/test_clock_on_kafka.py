"""The broker's clock and this machine's: a scheduled period closes when both say so."""

from __future__ import annotations

import threading
import time
import uuid
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from days import PEOPLE, SCHEDULE, Days
from kit.closes import PERIODS, close_now
from kit.events import lines_to

from stream_dp.services.releaser.releaser_facts import Clocks
from stream_dp.study.topics import RELEASES

DAY = 86_400.0


@pytest.fixture
def days(kafka: str, tmp_path: Path) -> Days:
    prefix = f"k-{uuid.uuid4().hex[:12]}"
    days = Days.on_kafka(tmp_path / "days", kafka, prefix, PERIODS, close=SCHEDULE)
    days.send(days.reports(1))
    return days


def test_a_clock_that_is_ahead_closes_nothing(days: Days, closes: list[float]) -> None:
    """The broker's clock decides for a process that begins while this machine's is ahead."""
    closes[:] = [time.time() + n * DAY for n in range(1, PERIODS + 1)]
    said: list[str] = []
    began = time.time()
    assert not days.run(clock=lambda: time.time() + 20 * DAY, tell=lines_to(said))
    assert "once the log's clock says" in said[0]
    assert said[0].endswith("and it is 20 days back of this machine's")
    assert [entry.number for entry in days.entries()] == [0]
    # The same if the clock jumps ahead for three seconds while the process waits.
    said.clear()
    stop = threading.Event()

    def wall() -> float:
        now = time.time()
        return now + (20 * DAY if said and now < began + 30 and not stop.is_set() else 0)

    threading.Timer(3.0, stop.set).start()
    assert not days.run(clock=wall, tell=lines_to(said))
    assert [entry.number for entry in days.entries()] == [0]
    with days.opened_public() as log:
        assert {r.key for r in log.read(RELEASES, {0: 0}, 100, 1).records} == {b"0"}
    close_now(closes, 1)
    said.clear()
    assert not days.run(tell=lines_to(said))
    assert [entry.number for entry in days.entries()] == [0, 1]


def test_a_broker_s_clock_an_hour_off(days: Days, closes: list[float]) -> None:
    """Ahead: told before the close, and reports of the last hour are late. Back: it is waited for.

    This machine's clock is an hour off instead, which is the same.
    """
    closes[:] = [time.time() - 1800 + n * DAY for n in range(PERIODS)]
    said: list[str] = []
    wall = time.time() - 3600
    assert not days.run(clock=lambda: wall, tell=lines_to(said))
    assert "the log's clock is 60 minutes ahead of this machine's" in said[0]
    assert [entry.number for entry in days.entries()] == [0]
    wall += 1801  # half an hour later, the broker's hour is over for reports that just came
    assert not days.run(clock=lambda: wall, tell=lines_to(said))
    (_, entry) = days.entries()
    assert set(entry.input.cut.values()) == {0}
    days.send(days.reports(2))
    said.clear()
    closes[1] = time.time() + 1800
    wall = closes[1] + 1800
    assert not days.run(clock=lambda: wall, tell=lines_to(said))
    assert said[0].endswith("and it is 60 minutes back of this machine's")
    assert len(days.entries()) == 2
    closes[1] = time.time()  # the broker's half hour is over, too
    assert not days.run(clock=lambda: wall, tell=lines_to(said))
    assert [entry.number for entry in days.entries()] == [0, 1, 2]
    assert days.reasons()["late"] >= len(PEOPLE)


def test_the_time_is_the_broker_s(days: Days, kafka: str) -> None:
    days.run()
    with days.opened() as log:
        before = time.time()
        now = log.now("clock")
        assert before - 1 <= now <= time.time() + 1
        assert Clocks(time.time).before(before, lambda: log.now("clock")) == ""
    prefix = days.log.rsplit("/", 1)[1]
    topics = AdminClient({"bootstrap.servers": kafka}).list_topics(timeout=60).topics
    assert f"{prefix}.clock" in topics
