"""Cuts over many partitions: whatever comes in whatever order, the counts are those of SQLite."""

from __future__ import annotations

import random
import shutil
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from days import Days

from stream_dp.log.base import Record
from stream_dp.services.markers import close_marker
from stream_dp.services.topics import REPORTS
from stream_dp.study import Periods

PERIODS, PARTITIONS = 5, 8

Input = list[list[Record]]
Maker = Callable[..., Days]


class Stopped(Exception):
    """The process ends here, as if it were killed."""


@pytest.fixture
def on_kafka(kafka: str, tmp_path: Path) -> Maker:
    def make(name: str = "kafka", **how: Any) -> Days:
        how = {"partitions": PARTITIONS, **how}
        prefix = f"c-{uuid.uuid4().hex[:12]}"
        return Days.on_kafka(tmp_path / name, kafka, prefix, PERIODS, **how)

    return make


@pytest.fixture
def on_sqlite(tmp_path: Path) -> Maker:
    def make(name: str = "sqlite", **how: Any) -> Days:
        how = {"partitions": PARTITIONS, **how}
        return Days.on_sqlite(tmp_path / name, PERIODS, **how)

    return make


def usual(days: Days) -> Input:
    return [days.day(number) for number in range(1, PERIODS + 1)]


def one_ahead(days: Days) -> Input:
    """Partition 0 has everything to the horizon before any other has its first record."""
    whole = [r for records in usual(days) for r in records]
    return [
        [r for r in whole if r.partition == 0],
        [r for r in whole if r.partition != 0],
    ]


def empty_ones(days: Days) -> Input:
    """All people in partition 3: the others hold markers and nothing else."""
    return [
        [
            *(Record(REPORTS, r.value, partition=3) for r in days.reports(number)),
            *days.markers(number),
        ]
        for number in range(1, PERIODS + 1)
    ]


def markers_that_differ(days: Days) -> Input:
    """Some partitions are told of the last period only, some of every period twice."""
    found = []
    for number in range(1, PERIODS + 1):
        told = [close_marker(number, p) for p in range(PARTITIONS) if p % 2 or number == PERIODS]
        found.append([*days.reports(number), *told, *told])
    return found


def differences(found: Days, expected: Days) -> list[Any]:
    pairs = zip(found.decided(), expected.decided(), strict=True)
    return [(a, b) for a, b in pairs if a != b]


@pytest.mark.parametrize("shape", [usual, one_ahead, empty_ones, markers_that_differ])
@pytest.mark.parametrize("at_once", [True, False])
def test_the_counts_of_sqlite(
    shape: Callable[[Days], Input], at_once: bool, on_kafka: Maker, on_sqlite: Maker
) -> None:
    ours, theirs = on_kafka(), on_sqlite()
    for records in shape(theirs):
        theirs.send(records)
    assert theirs.run()
    if at_once:
        ours.send([record for records in shape(ours) for record in records])
    else:
        for records in shape(ours):
            ours.send(records)
            ours.run()
    assert ours.run()
    assert differences(ours, theirs) == []
    assert ours.reasons() == theirs.reasons() == ours.decided()[-1]["accounting"]["rejected"]


def test_restarts_in_the_middle_of_a_close(on_kafka: Maker, on_sqlite: Maker) -> None:
    """The markers of a period come one by one, and the process ends at any step in between."""
    rng, ours, theirs = random.Random(0), on_kafka(), on_sqlite()
    for records in usual(theirs):
        theirs.send(records)
    assert theirs.run()
    stops = 0
    for records in usual(ours):
        while records:
            size = rng.randrange(10, len(records) + 10)
            ours.send(records[:size])
            records = records[size:]
            left = rng.randrange(12)

            def at(name: str) -> None:
                nonlocal left
                left -= 1
                if left == 0:
                    raise Stopped(name)

            try:
                ours.run(at=at)
            except Stopped:
                stops += 1
    assert ours.run()
    assert stops > 3
    assert differences(ours, theirs) == []
    assert ours.reasons() == theirs.reasons()


# By the calendar: the broker's append times decide.

SCHEDULE = 'close = "schedule"\nzone = "UTC"\nat = 06:00:00\ngrace = "3d"\ndelay = "1h"'


@pytest.fixture
def moments(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When the periods close: far from now, until a test puts the present there."""
    found = [4e9] * PERIODS
    for name in ("close_time", "release_time"):
        monkeypatch.setattr(Periods, name, lambda _, number: found[number - 1])
    return found


def at_the_close(moments: list[float], number: int) -> None:
    """The period closes now: what is sent later lies behind its cut."""
    time.sleep(0.03)
    moments[number - 1] = time.time()
    time.sleep(0.03)


def without_markers(days: Days, number: int, only: int | None = None) -> list[Record]:
    return [r for r in days.reports(number) if only in (None, r.partition)]


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("only", [None, 3])
def test_scheduled_closes(
    at_once: bool, only: int | None, on_kafka: Maker, on_sqlite: Maker, moments: list[float]
) -> None:
    places = [on_kafka(close=SCHEDULE), on_sqlite(close=SCHEDULE)]
    for days in places:
        moments[:] = [4e9] * PERIODS
        for number in range(1, PERIODS + 1):
            days.send(without_markers(days, number, only))
            at_the_close(moments, number)
            if not at_once:
                assert days.run() == (number == PERIODS)
        assert days.run()
    ours, theirs = places
    assert differences(ours, theirs) == []
    assert ours.reasons() == theirs.reasons()
    assert ours.decided()[-1]["accounting"]["accepted"] > 0


def test_nothing_goes_out_before_its_time(on_kafka: Maker, moments: list[float]) -> None:
    days = on_kafka(close=SCHEDULE)
    days.send(days.reports(1))
    assert not days.run()
    assert len(days.entries()) == 1
    at_the_close(moments, 1)
    assert not days.run(clock=lambda: moments[0] - 0.001)
    assert len(days.entries()) == 1
    assert not days.run()
    assert len(days.entries()) == 2


def test_a_transaction_that_a_sender_holds_open_over_a_close(
    kafka: str, on_kafka: Maker, on_sqlite: Maker, moments: list[float]
) -> None:
    """What came before the close counts, whenever the transactions before it end."""
    places = [on_kafka(close=SCHEDULE), on_sqlite(close=SCHEDULE)]
    said: list[str] = []
    for days in places:
        moments[:] = [4e9] * PERIODS
        first, *others = days.reports(1)
        producer = None
        if days is places[0]:
            days.send([])
            topic = f"{days.log.rsplit('/', 1)[1]}.{REPORTS}"
            producer = Producer({"bootstrap.servers": kafka, "transactional.id": topic})
            producer.init_transactions(30)
            producer.begin_transaction()
            producer.produce(topic, first.value, partition=first.partition)
            assert producer.flush(30) == 0
        else:
            days.send([first])
        days.send(others)
        at_the_close(moments, 1)
        days.send([days.report("person-00", days.labels[0], {"poverty": 0})])
        if producer is not None:
            assert not days.run(tell=said.append)
            assert len(days.entries()) == 1
            producer.commit_transaction(30)
        assert not days.run()
        at_the_close(moments, 2)
        assert not days.run()
    ours, theirs = (days.decided() for days in places)
    assert said == [f"{places[0].labels[0]} waits for transactions that senders hold open"]
    assert len(ours) == len(theirs) == 3
    for a, b in zip(ours, theirs, strict=True):
        assert (a["counts"], a["accounting"]) == (b["counts"], b["accounting"])
    assert ours[2]["accounting"]["rejected"]["late"] == 1


def test_an_aborted_transaction_at_the_end_of_a_period(
    kafka: str, on_kafka: Maker, moments: list[float]
) -> None:
    """Positions without records at a cut: restarts, with and without snapshots, agree."""
    days = on_kafka(close=SCHEDULE)
    days.send(days.reports(1))
    topic = f"{days.log.rsplit('/', 1)[1]}.{REPORTS}"
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": topic})
    producer.init_transactions(30)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        for part in range(PARTITIONS):
            producer.produce(topic, b"not a report", partition=part)
        end(30)
    at_the_close(moments, 1)
    assert not days.run()
    shutil.rmtree(days.snapshots)
    assert not days.run()
    at_the_close(moments, 2)
    assert not days.run()
    counted = days.decided()
    assert [entry["number"] for entry in counted] == [0, 1, 2]
    unusable = 3 + PARTITIONS
    assert counted[2]["accounting"]["rejected"]["unreadable"] == unusable
    assert len(set(days.reasons().items()) ^ set(counted[2]["accounting"]["rejected"].items())) == 0
