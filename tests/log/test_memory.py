"""The log in memory: the contract, and what is its own."""

import pytest
from contents import drain, sent, values
from contract import LogContract

from stream_dp.log.log import Busy, Record
from stream_dp.log.memory import MemoryLog


class TestMemory(LogContract):
    @pytest.fixture
    def opener(self):
        log = MemoryLog()
        return lambda: log


def test_two_logs_share_nothing():
    first, second = MemoryLog(), MemoryLog()
    for log in (first, second):
        log.create({"t": 1})
    first.append(sent("t", b"x"))
    assert (values(first, "t"), values(second, "t")) == ([b"x"], [])
    assert first.describe("t").identity != second.describe("t").identity


def test_a_timed_topic_carries_the_time_of_appending():
    moments = iter([5.0, 4.0])
    log = MemoryLog(timed=["timed"], clock=lambda: next(moments))
    log.create({"timed": 1, "free": 1})
    log.append([Record("timed", b"a", time=1), Record("free", b"a", time=1)])
    log.append([Record("timed", b"b", time=1)])
    assert [r.time for r in drain(log, "timed")[0]] == [5000, 5000]
    assert [r.time for r in drain(log, "free")[0]] == [1]


def test_faults_name_what_create_would_make_otherwise():
    log = MemoryLog()
    log.create({"t": 2})
    assert log.faults({"t": 2}) == []
    assert log.faults({"t": 3, "u": 1}) == [
        "memory: topic 't' has 2 partitions, not 3",
        "memory: topic 'u' has 0 partitions, not 1",
    ]


def test_a_role_has_one_owner():
    log = MemoryLog()
    with log.own("releaser"), pytest.raises(Busy, match="another process is its releaser"):
        with log.own("releaser"):
            pass
    with log.own("releaser"):
        pass
