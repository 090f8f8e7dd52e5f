"""Transcripts: the first complete record of a round holds, for everybody who reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stream_dp.log.log import Record
from stream_dp.log.message import MAX_PART
from stream_dp.log.sqlite import SqliteLog
from stream_dp.services.jobs.board import JobBoard
from stream_dp.services.jobs.job_records import Job, SnapshotFile, job_id, job_record
from stream_dp.services.jobs.worker.transcript import LogTranscript
from stream_dp.services.journal.journal_heads import JobHead
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


def test_rounds_are_read_back_by_job(log: SqliteLog) -> None:
    first, other = LogTranscript(log, "a"), LogTranscript(log, "a-b")
    assert first.record(0, b"x") == b"x"
    assert first.record(1, b"") == b""
    assert other.record(0, b"y") == b"y"
    assert LogTranscript(log, "a").rounds() == [b"x", b""]
    assert other.rounds() == [b"y"]
    board = JobBoard(log)
    board.refresh(rounds=True)
    assert dict(board.rounds) == {"a": 2, "a-b": 1}


def test_what_is_decided_stays(log: SqliteLog) -> None:
    first, second = LogTranscript(log, "a"), LogTranscript(log, "a")
    assert second.rounds() == []
    assert first.record(0, b"mine") == b"mine"
    assert second.record(0, b"theirs") == b"mine"
    with pytest.raises(ValueError, match="before the one"):
        first.record(2, b"ahead")


def test_a_round_of_several_records(log: SqliteLog) -> None:
    data = bytes(range(256)) * (2 * MAX_PART // 256 + 1)
    assert LogTranscript(log, "a").record(0, data) == data
    assert LogTranscript(log, "a").rounds() == [data]
    assert len(log.read(TRANSCRIPTS, {0: 0}, 100, 0).records) == 3


def test_the_first_that_is_complete_holds(log: SqliteLog) -> None:
    """The pieces of two writers alternate; a third writer died after its first piece."""
    log.append(
        [
            piece("a/0", "dead/0/2", b"x"),
            piece("a/0", "slow/0/2", b"1"),
            piece("a/0", "quick/0/2", b"2"),
            piece("a/0", "quick/1/2", b"3"),
            piece("a/0", "slow/1/2", b"4"),
        ]
    )
    assert LogTranscript(log, "a").rounds() == [b"23"]


def test_a_round_without_the_one_before_is_not_listed(log: SqliteLog) -> None:
    log.append([piece("a/1", "w/0/1", b"x")])
    assert LogTranscript(log, "a").rounds() == []


def test_what_nobody_of_ours_wrote_decides_nothing(log: SqliteLog) -> None:
    log.append([Record(topic, b"{", b"a/0", partition=0) for topic in JOB_TOPICS])
    log.append([piece("a/0", "w/1/2", b"a piece too many")])
    board = JobBoard(log, keep_parts=True)
    board.refresh(rounds=False)
    assert (board.jobs, board.results) == ({}, {})
    assert LogTranscript(log, "a").record(0, b"x") == b"x"


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
