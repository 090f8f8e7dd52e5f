"""Periods closed in parts, from a real broker: transactions, lost records, an end too early."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from days import SCHEDULE, Days
from kit.brokers import foreign_producer
from kit.closes import FAR, close_now
from kit.events import lines_to

from stream_dp.errors import Inconsistent
from stream_dp.services.intake.markers import close_marker
from stream_dp.services.parts.close_tasks import Range, Source, decode, leave
from stream_dp.services.storage import journal
from stream_dp.services.storage.journal import gates
from stream_dp.study.topics import REPORTS

PARTITIONS, PERIODS = 3, 3

Maker = Callable[..., Days]


@pytest.fixture
def pair(kafka: str, tmp_path: Path) -> Callable[..., tuple[Days, Days]]:
    """The study in parts on Kafka, and in one process on SQLite."""

    def make(**how: Any) -> tuple[Days, Days]:
        how = {"partitions": PARTITIONS, **how}
        prefix = f"p-{uuid.uuid4().hex[:12]}"
        ours = Days.on_kafka(tmp_path / "o", kafka, prefix, PERIODS, engine="processes", **how)
        return ours, Days.on_sqlite(tmp_path / "t", PERIODS, **how)

    return make


def topic_of(days: Days) -> str:
    return f"{days.log.rsplit('/', 1)[1]}.{REPORTS}"


def differences(ours: Days, theirs: Days) -> list[Any]:
    """Where two decide otherwise; snapshots are other files."""
    return [
        (a, b)
        for a, b in zip(ours.decided(), theirs.decided(), strict=True)
        if {**a, "population": 0} != {**b, "population": 0}
    ]


@pytest.mark.parametrize("at_once", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_the_counts_of_one_process(at_once: bool, pair: Callable[..., tuple[Days, Days]]) -> None:
    """Some partitions have a marker for the last period only."""
    for days in (places := pair()):
        windows = []
        for number in range(1, PERIODS + 1):
            markers = [
                close_marker(number, p) for p in range(PARTITIONS) if p % 2 or number == PERIODS
            ]
            windows.append([*days.reports(number), *markers, *markers])
        if at_once:
            days.send([record for records in windows for record in records])
        else:
            for records in windows:
                days.send(records)
                days.run()
        assert days.run()
    ours, theirs = places
    assert differences(ours, theirs) == []
    assert ours.reasons() == theirs.reasons() == ours.decided()[-1]["accounting"]["rejected"]


def test_a_gate_holds_the_same_day(pair: Callable[..., tuple[Days, Days]]) -> None:
    for days in (places := pair(gate=True)):
        markers = {n: [close_marker(n, p) for p in range(PARTITIONS)] for n in (1, 2, 3)}
        despite = [close_marker(2, p, despite_gate=True) for p in range(PARTITIONS)]
        days.send([*days.reports(1), *markers[1], *markers[2]])
        assert not days.run()
        assert [e.gate.held for e in gates(days.entries()).values()] == [False, True]
        days.send([*days.reports(2), *markers[2]])
        assert not days.run()
        days.send([*despite, *days.reports(3), *markers[3]])
        assert days.run()
    drawn = [
        [
            (e.gate.people, e.gate.held, e.input.cut, e.input.marks)
            for e in gates(days.entries()).values()
        ]
        for days in places
    ]
    assert drawn[0] == drawn[1]
    closes = [journal.closes(days.entries()) for days in places]
    for one, other in zip(*closes, strict=True):
        assert (one.input.cut, one.next_marks) == (other.input.cut, other.next_marks)
        assert one.input.accounting == other.input.accounting


def test_a_transaction_that_a_sender_holds_open_over_a_close(
    kafka: str, pair: Callable[..., tuple[Days, Days]], closes: list[float]
) -> None:
    said: list[str] = []
    for days in (places := pair(close=SCHEDULE)):
        closes[:] = [FAR] * PERIODS
        first, *others = days.reports(1)
        producer = None
        if days is places[0]:
            days.send([])
            producer = foreign_producer(kafka)
            producer.begin_transaction()
            producer.produce(topic_of(days), first.value, partition=first.partition)
            assert producer.flush(30) == 0
        else:
            days.send([first])
        days.send(others)
        close_now(closes, 1)
        if producer is not None:
            assert not days.run(tell=lines_to(said))
            assert len(days.entries()) == 1
            producer.commit_transaction(30)
        assert not days.run()
    ours, theirs = places
    assert said == [f"{ours.labels[0]} waits for transactions that senders hold open"]
    assert len(ours.entries()) == 2
    for a, b in zip(ours.decided(), theirs.decided(), strict=True):
        assert (a["counts"], a["accounting"]) == (b["counts"], b["accounting"])


def test_aborted_transactions_and_lost_files(
    kafka: str, pair: Callable[..., tuple[Days, Days]]
) -> None:
    """What was aborted counts for nothing, at the cut too; without files all is read again."""
    ours, theirs = pair()
    for days in (ours, theirs):
        days.send(days.reports(1))
        if days is ours:
            producer = foreign_producer(kafka)
            for end in (producer.commit_transaction, producer.abort_transaction):
                producer.begin_transaction()
                for part in range(PARTITIONS):
                    producer.produce(topic_of(days), b"not a report", partition=part)
                end(30)
        else:
            days.send(
                [
                    type(r)(REPORTS, b"not a report", partition=p)
                    for p in range(PARTITIONS)
                    for r in days.markers(1)[:1]
                ]
            )
        days.send(days.markers(1))
        days.run()
        days.send(days.day(2))
        shutil.rmtree(days.snapshots)
        days.run()
    for a, b in zip(ours.decided(), theirs.decided(), strict=True):
        assert (a["counts"], a["accounting"]) == (b["counts"], b["accounting"])
    assert len(ours.entries()) == 3
    assert ours.reasons() == ours.decided()[-1]["accounting"]["rejected"]


def test_records_that_are_gone_are_refused(
    kafka: str, pair: Callable[..., tuple[Days, Days]]
) -> None:
    days, _ = pair()
    days.send(days.day(1))
    days.run()
    days.send(days.day(2))
    assert not days.release()  # orders the close
    end = days.entries()[1].input.cut[0] + 5
    admin = AdminClient({"bootstrap.servers": kafka})
    for future in admin.delete_records([TopicPartition(topic_of(days), 0, end)]).values():
        future.result(30)
    with pytest.raises(Inconsistent, match=r"reports: records from position .* are gone"):
        days.aggregate()
    with pytest.raises(Inconsistent, match=r"deleted before their period was closed; restore"):
        days.run()
    assert len(days.entries()) == 2


def test_a_cut_beyond_the_end_is_refused(pair: Callable[..., tuple[Days, Days]]) -> None:
    days, _ = pair()
    days.send(days.day(1))
    days.run()
    owner = days.entries()[0].message.hash[:12]
    cut = days.entries()[1].input.cut[0]
    try:
        with pytest.raises(Inconsistent, match="before the cut of a period"):
            decode(Source(days.file, owner), Range(0, cut, cut + 1000, 2, 4, letters=False))
    finally:
        leave()
