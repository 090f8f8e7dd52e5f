"""Transcripts: the rounds of the lease's holder count, in the order of the log, for everybody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stream_dp.log.log import Record
from stream_dp.log.message import MAX_PART
from stream_dp.log.sqlite import SqliteLog
from stream_dp.services.process.heartbeats import new_heartbeat
from stream_dp.services.releaser.fit_transcript import (
    LEASE,
    Lease,
    LeaseLost,
    LogTranscript,
    lease_record,
    recorded_rounds,
)
from stream_dp.services.releaser.job_board import JobBoard
from stream_dp.services.storage.job_records import Job, SnapshotFile, job_id, job_record
from stream_dp.services.storage.journal_heads import JobHead
from stream_dp.study.topics import JOB_TOPICS, TRANSCRIPTS


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SqliteLog]:
    log = SqliteLog(tmp_path / "log.db")
    log.create(JOB_TOPICS)
    yield log
    log.close()


def piece(key: str, chunk: str, data: bytes) -> Record:
    """A piece of a round; key: JOB/ROUND, chunk: WRITER/PLACE/COUNT."""
    header = ("stream-dp-chunk", chunk.encode())
    return Record(TRANSCRIPTS, data, key.encode(), (header,), partition=0)


def lease(job: str, writer: str, after: str = "", *, released: bool = False) -> Record:
    holder = new_heartbeat("worker", service=False)
    return lease_record(Lease(job, writer, after, holder, released))


def leased(log: SqliteLog, job: str) -> LogTranscript:
    """A transcript whose lease is taken after the present one."""
    transcript = LogTranscript(log, job)
    transcript.rounds()
    assert transcript.take_lease(new_heartbeat("worker", service=False))
    return transcript


def test_rounds_are_read_back_by_job(log: SqliteLog) -> None:
    first, other = leased(log, "a"), leased(log, "a-b")
    assert first.record(0, b"x") == b"x"
    assert first.record(1, b"") == b""
    assert other.record(0, b"y") == b"y"
    assert LogTranscript(log, "a").rounds() == [b"x", b""]
    assert other.rounds() == [b"y"]
    board = JobBoard(log)
    board.refresh(rounds=True)
    assert dict(board.rounds) == {"a": 2, "a-b": 1}


def test_what_is_decided_stays(log: SqliteLog) -> None:
    first = leased(log, "a")
    assert first.record(0, b"mine") == b"mine"
    second = leased(log, "a")
    assert second.record(0, b"theirs") == b"mine"
    with pytest.raises(ValueError, match="before the one"):
        second.record(2, b"ahead")
    with pytest.raises(LeaseLost):
        first.record(1, b"mine")
    assert second.record(1, b"theirs") == b"theirs"


def test_a_round_of_several_records(log: SqliteLog) -> None:
    data = bytes(range(256)) * (2 * MAX_PART // 256 + 1)
    assert leased(log, "a").record(0, data) == data
    assert LogTranscript(log, "a").rounds() == [data]
    assert len(log.read(TRANSCRIPTS, {0: 0}, 100, 0).records) == 4


def test_of_two_leases_at_once_the_first_holds(log: SqliteLog) -> None:
    first, second = LogTranscript(log, "a"), LogTranscript(log, "a")
    assert first.take_lease(new_heartbeat("worker", service=False))
    assert not second.take_lease(new_heartbeat("worker", service=False))
    with pytest.raises(LeaseLost):
        second.record(0, b"quick")
    second.release()
    assert first.record(0, b"slow") == b"slow"
    first.release()
    with pytest.raises(LeaseLost):
        first.record(1, b"x")
    assert leased(log, "a").record(1, b"y") == b"y"


def test_a_faster_round_without_the_lease_does_not_count(log: SqliteLog) -> None:
    """Whatever the order of the pieces, only the holder's count."""
    log.append(
        [
            piece("a/0", "quick/0/1", b"before any lease"),
            lease("a", "slow"),
            piece("a/0", "quick/0/2", b"2"),
            piece("a/0", "slow/0/2", b"1"),
            piece("a/0", "quick/1/2", b"3"),
            lease("b", "quick"),
            lease("a", "quick"),  # after no lease: another one came first
            piece("a/0", "quick/0/1", b"9"),
            piece("a/0", "slow/1/2", b"4"),
        ]
    )
    assert LogTranscript(log, "a").rounds() == [b"14"]


def test_a_round_of_a_lease_that_is_over_does_not_count(log: SqliteLog) -> None:
    log.append(
        [
            lease("a", "dead"),
            piece("a/0", "dead/0/1", b"0"),
            piece("a/1", "dead/0/2", b"half"),
            lease("a", "next", "dead"),
            lease("a", "third", "dead"),  # too late
            piece("a/1", "dead/1/2", b"the rest"),
            piece("a/1", "dead/0/1", b"again"),
            lease("a", "dead", "dead", released=True),
            piece("a/1", "third/0/1", b"3"),
            piece("a/1", "next/0/1", b"1"),
        ]
    )
    assert LogTranscript(log, "a").rounds() == [b"0", b"1"]
    assert recorded_rounds(log, ["a", "b"]) == {"a": [b"0", b"1"], "b": []}


def test_a_round_without_the_one_before_is_not_listed(log: SqliteLog) -> None:
    log.append([lease("a", "w"), piece("a/1", "w/0/1", b"x")])
    assert LogTranscript(log, "a").rounds() == []


def test_what_nobody_of_ours_wrote_decides_nothing(log: SqliteLog) -> None:
    log.append([Record(topic, b"{", b"a/0", partition=0) for topic in JOB_TOPICS])
    log.append([lease("a", "w"), piece("a/0", "w/1/2", b"a piece too many")])
    log.append([Record(TRANSCRIPTS, b"{", headers=((LEASE, b"1"),), partition=0)])
    board = JobBoard(log, keep_parts=True)
    board.refresh(rounds=False)
    assert (board.jobs, board.results) == ({}, {})
    assert leased(log, "a").record(0, b"x") == b"x"


def test_a_job_that_is_sent_twice_is_one(log: SqliteLog) -> None:
    from kit.households import TEXT

    from stream_dp.studyfile import load_study

    path = Path(log._path).with_name("s.toml")
    path.write_text(TEXT)
    study, _ = load_study(path)
    name = job_id("genesis", "households", "2021-02")
    assert name == job_id("genesis", "households", "2021-02")
    assert name != job_id("another", "households", "2021-02")
    job = Job(
        id=name,
        release="households",
        period=2,
        rho="1/10",
        groups=SnapshotFile("g", "0"),
        people=SnapshotFile("p", "1"),
    )
    log.append([job_record(job, study, False)] * 2)
    board = JobBoard(log)
    board.refresh()
    assert list(board.jobs.values()) == [job]
    assert JobHead.of(job).job(2) == job
