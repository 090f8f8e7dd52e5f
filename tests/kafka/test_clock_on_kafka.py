"""The broker's clock and this machine's: a scheduled period closes when both say so."""

from __future__ import annotations

import threading
import time
import uuid
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from days import Days
from test_counts import PERIODS, SCHEDULE, at_the_close, moments

from stream_dp.release.panels import TOPIC
from stream_dp.services.releaser.clocks import Clocks

__all__ = ["moments"]

DAY = 86_400.0


@pytest.fixture
def days(kafka: str, tmp_path: Path) -> Days:
    prefix = f"k-{uuid.uuid4().hex[:12]}"
    days = Days.on_kafka(tmp_path / "days", kafka, prefix, PERIODS, close=SCHEDULE)
    days.send(days.reports(1))
    return days


def test_a_clock_that_is_ahead_closes_nothing(days: Days, moments: list[float]) -> None:
    """Of a process that begins while it is ahead: the broker knows."""
    moments[:] = [time.time() + n * DAY for n in range(1, PERIODS + 1)]
    said: list[str] = []
    began = time.time()
    assert not days.run(clock=lambda: time.time() + 20 * DAY, tell=said.append)
    assert "once the log's clock says" in said[0]
    assert said[0].endswith("and it is 20 days back of this machine's")
    assert [entry.number for entry in days.entries()] == [0]
    # And of one that jumps for three seconds while the process waits.
    said.clear()
    stop = threading.Event()

    def wall() -> float:
        now = time.time()
        return now + (20 * DAY if said and now < began + 30 and not stop.is_set() else 0)

    threading.Timer(3.0, stop.set).start()
    assert not days.run(clock=wall, tell=said.append)
    assert [entry.number for entry in days.entries()] == [0]
    with days.opened_public() as log:
        assert {r.key for r in log.read(TOPIC, {0: 0}, 100, 1).records} == {b"0"}
    at_the_close(moments, 1)
    said.clear()
    assert not days.run(tell=said.append)
    assert [entry.number for entry in days.entries()] == [0, 1]


def test_the_time_is_the_broker_s(days: Days, kafka: str) -> None:
    days.run()
    with days.opened() as log:
        before = time.time()
        told = log.now("clock")
        assert before - 1 <= told <= time.time() + 1
        assert Clocks(time.time).before(before, lambda: log.now("clock")) == ""
    prefix = days.log.rsplit("/", 1)[1]
    held = AdminClient({"bootstrap.servers": kafka}).list_topics(timeout=10).topics
    assert f"{prefix}.clock" in held
