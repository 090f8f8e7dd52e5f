"""Cuts over many partitions: whatever comes in whatever order, the counts are those of SQLite."""

from __future__ import annotations

import random
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from days import SCHEDULE, Days
from kit.brokers import foreign_producer
from kit.closes import FAR, PERIODS, close_now
from kit.events import lines_to

from stream_dp.log.log import Record
from stream_dp.services.intake.markers import close_marker
from stream_dp.study.topics import REPORTS

PARTITIONS = 8

Input = list[list[Record]]
Maker = Callable[..., Days]


class Stopped(Exception):
    """Ends a run at a step, as if the process were killed."""


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
    """All records of partition 0 are sent before the first record of any other."""
    everything = [r for records in usual(days) for r in records]
    return [
        [r for r in everything if r.partition == 0],
        [r for r in everything if r.partition != 0],
    ]


def empty_ones(days: Days) -> Input:
    """All reports are in partition 3; the others contain only markers."""
    return [
        [
            *(Record(REPORTS, r.value, partition=3) for r in days.reports(number)),
            *days.markers(number),
        ]
        for number in range(1, PERIODS + 1)
    ]


def markers_that_differ(days: Days) -> Input:
    """Some partitions have a marker for the last period only, others two for every period."""
    windows = []
    for number in range(1, PERIODS + 1):
        markers = [close_marker(number, p) for p in range(PARTITIONS) if p % 2 or number == PERIODS]
        windows.append([*days.reports(number), *markers, *markers])
    return windows


def differences(ours: Days, expected: Days) -> list[Any]:
    pairs = zip(ours.decided(), expected.decided(), strict=True)
    return [(a, b) for a, b in pairs if a != b]


@pytest.mark.parametrize(
    ("shape", "at_once"),
    [
        (usual, False),
        pytest.param(one_ahead, True, marks=pytest.mark.slow),
        (one_ahead, False),
        (empty_ones, True),
        (markers_that_differ, True),
        pytest.param(markers_that_differ, False, marks=pytest.mark.slow),
    ],
)
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


def test_a_closed_cohort_refuses_the_same_people(on_kafka: Maker, on_sqlite: Maker) -> None:
    ours, theirs = on_kafka(cohort=True), on_sqlite(cohort=True)
    for days in (ours, theirs):
        for records in one_ahead(days):
            days.send(records)
            days.run()
        assert days.run()
    assert differences(ours, theirs) == []
    rejected = theirs.decided()[-1]["accounting"]["rejected"]
    assert ours.reasons() == theirs.reasons() == rejected
    assert rejected["closed"] > 0
    assert "full" not in rejected


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


def without_markers(days: Days, number: int, only: int | None = None) -> list[Record]:
    return [r for r in days.reports(number) if only in (None, r.partition)]


@pytest.mark.parametrize(
    ("at_once", "only"),
    [
        (True, None),
        (False, 3),
        pytest.param(True, 3, marks=pytest.mark.slow),
        pytest.param(False, None, marks=pytest.mark.slow),
    ],
)
def test_scheduled_closes(
    at_once: bool, only: int | None, on_kafka: Maker, on_sqlite: Maker, closes: list[float]
) -> None:
    places = [on_kafka(close=SCHEDULE), on_sqlite(close=SCHEDULE)]
    for days in places:
        closes[:] = [FAR] * PERIODS
        for number in range(1, PERIODS + 1):
            days.send(without_markers(days, number, only))
            close_now(closes, number)
            if not at_once:
                assert days.run() == (number == PERIODS)
        assert days.run()
    ours, theirs = places
    assert differences(ours, theirs) == []
    assert ours.reasons() == theirs.reasons()
    assert ours.decided()[-1]["accounting"]["accepted"] > 0


def test_nothing_goes_out_before_its_time(on_kafka: Maker, closes: list[float]) -> None:
    days = on_kafka(close=SCHEDULE)
    days.send(days.reports(1))
    assert not days.run()
    assert len(days.entries()) == 1
    close_now(closes, 1)
    assert not days.run(clock=lambda: closes[0] - 0.001)
    assert len(days.entries()) == 1
    assert not days.run()
    assert len(days.entries()) == 2


def test_a_transaction_that_a_sender_holds_open_over_a_close(
    kafka: str, on_kafka: Maker, on_sqlite: Maker, closes: list[float]
) -> None:
    """Reports before the close count, however late the transactions before it end."""
    places = [on_kafka(close=SCHEDULE), on_sqlite(close=SCHEDULE)]
    said: list[str] = []
    for days in places:
        closes[:] = [FAR] * PERIODS
        first, *others = days.reports(1)
        producer = None
        if days is places[0]:
            days.send([])
            topic = f"{days.log.rsplit('/', 1)[1]}.{REPORTS}"
            producer = foreign_producer(kafka)
            producer.begin_transaction()
            producer.produce(topic, first.value, partition=first.partition)
            assert producer.flush(30) == 0
        else:
            days.send([first])
        days.send(others)
        close_now(closes, 1)
        days.send([days.report("person-00", days.labels[0], {"poverty": 0})])
        if producer is not None:
            assert not days.run(tell=lines_to(said))
            assert len(days.entries()) == 1
            producer.commit_transaction(30)
        assert not days.run()
        close_now(closes, 2)
        assert not days.run()
    ours, theirs = (days.decided() for days in places)
    assert said == [f"{places[0].labels[0]} waits for transactions that senders hold open"]
    assert len(ours) == len(theirs) == 3
    for a, b in zip(ours, theirs, strict=True):
        assert (a["counts"], a["accounting"]) == (b["counts"], b["accounting"])
    assert ours[2]["accounting"]["rejected"]["late"] == 1


def test_an_aborted_transaction_at_the_end_of_a_period(
    kafka: str, on_kafka: Maker, closes: list[float]
) -> None:
    """At a cut whose positions have no records, restarts with and without snapshots agree."""
    days = on_kafka(close=SCHEDULE)
    days.send(days.reports(1))
    topic = f"{days.log.rsplit('/', 1)[1]}.{REPORTS}"
    producer = foreign_producer(kafka)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        for part in range(PARTITIONS):
            producer.produce(topic, b"not a report", partition=part)
        end(30)
    close_now(closes, 1)
    assert not days.run()
    shutil.rmtree(days.snapshots)
    assert not days.run()
    close_now(closes, 2)
    assert not days.run()
    counted = days.decided()
    assert [entry["number"] for entry in counted] == [0, 1, 2]
    unusable = 3 + PARTITIONS
    assert counted[2]["accounting"]["rejected"]["unreadable"] == unusable
    assert len(set(days.reasons().items()) ^ set(counted[2]["accounting"]["rejected"].items())) == 0
