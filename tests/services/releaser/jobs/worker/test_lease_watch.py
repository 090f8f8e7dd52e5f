"""The lease of a job lapses where its holder has ended or is not heard, and only then."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from stream_dp.log.sqlite import SqliteLog
from stream_dp.services.process.heartbeats import (
    HEARTBEAT_TIMEOUT,
    Heartbeat,
    heartbeat_record,
    new_heartbeat,
)
from stream_dp.services.releaser import fit_transcript as lease_watch
from stream_dp.services.releaser.fit_transcript import Lease, LeaseWatch
from stream_dp.study.topics import HEARTBEATS, PROCESSES


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SqliteLog]:
    log = SqliteLog(tmp_path / "log.db")
    log.create({HEARTBEATS: len(PROCESSES)})
    yield log
    log.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(lease_watch, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def elsewhere(**changes: object) -> Heartbeat:
    """A worker on another machine."""
    beat = new_heartbeat("worker", service=True)
    return msgspec.structs.replace(beat, birth="another/1 2", **changes)


def test_a_holder_elsewhere_lives_as_long_as_it_is_heard(
    log: SqliteLog, clock: SimpleNamespace
) -> None:
    watch, holder = LeaseWatch(log), elsewhere()
    lease = Lease("a", "w", "", holder)
    for _ in range(5):
        log.append([heartbeat_record(holder), heartbeat_record(elsewhere())])
        assert not watch.lapsed(lease)
        clock.now += HEARTBEAT_TIMEOUT - 1
        assert not watch.lapsed(lease)
    clock.now += HEARTBEAT_TIMEOUT
    log.append([heartbeat_record(elsewhere())])  # of a third worker
    assert watch.lapsed(lease)


def test_a_holder_that_was_never_heard_has_the_same_time(
    log: SqliteLog, clock: SimpleNamespace
) -> None:
    watch, lease = LeaseWatch(log), Lease("a", "w", "", elsewhere())
    assert not watch.lapsed(lease)
    clock.now += HEARTBEAT_TIMEOUT + 1
    assert watch.lapsed(lease)


def test_a_holder_that_has_ended(log: SqliteLog) -> None:
    holder = elsewhere()
    watch, lease = LeaseWatch(log), Lease("a", "w", "", holder)
    log.append([heartbeat_record(msgspec.structs.replace(holder, ended=0))])
    assert watch.lapsed(lease)


def test_what_this_machine_knows(log: SqliteLog) -> None:
    here = new_heartbeat("worker", service=True)
    assert here.pid == os.getpid()
    watch = LeaseWatch(log)
    assert not watch.lapsed(Lease("a", "w", "", here))
    assert watch.lapsed(Lease("a", "w", "", here, released=True))
    assert watch.lapsed(None)
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    dead = msgspec.structs.replace(here, pid=child, birth=f"{here.birth.rpartition(' ')[0]} 1")
    assert watch.lapsed(Lease("a", "w", "", dead))
