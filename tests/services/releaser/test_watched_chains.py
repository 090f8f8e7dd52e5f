"""What a guard says of records that its own process did not write."""

from __future__ import annotations

import pytest

from stream_dp.errors import Inconsistent
from stream_dp.log.log import Fenced, Record
from stream_dp.log.memory import MemoryLog
from stream_dp.log.message import START, Message, build_message, message_records, read_messages
from stream_dp.services.storage.log_guard import WatchedChain
from stream_dp.study.topics import JOURNAL

PARTS = [("state", b"x"), ("public", b"y")]


def records(sent: Message) -> list[Record]:
    return message_records(sent, JOURNAL, kind="k", source="s", content="text/plain", time=None)


@pytest.fixture
def log() -> MemoryLog:
    log = MemoryLog()
    log.create({JOURNAL: 1})
    log.append(records(build_message(0, START, {"number": 0}, PARTS)))
    return log


@pytest.fixture
def chain(log: MemoryLog) -> WatchedChain:
    return WatchedChain.of(log, JOURNAL, list(read_messages(log, JOURNAL, "journal")), [])


def test_what_this_process_wrote_is_followed(log: MemoryLog, chain: WatchedChain) -> None:
    sent = build_message(1, chain.head, {"number": 1}, PARTS)
    chain.written.append(sent.hash)
    log.append(records(sent))
    chain.check()
    assert chain.head == sent.hash


def test_a_continued_chain_is_another_owners(log: MemoryLog, chain: WatchedChain) -> None:
    """Its parts stand before the manifest, which says so."""
    log.append(records(build_message(1, chain.head, {"number": 1}, PARTS)))
    with pytest.raises(Fenced):
        chain.check()


def test_records_of_no_owner_are_refused(log: MemoryLog, chain: WatchedChain) -> None:
    head = chain.head
    log.append(records(build_message(1, "0" * 64, {"number": 1}, PARTS)))
    with pytest.raises(Inconsistent, match="position 5 has a record that the releaser did not"):
        chain.check()
    assert chain.head == head


def test_a_part_without_its_manifest_is_refused(log: MemoryLog, chain: WatchedChain) -> None:
    log.append(records(build_message(1, chain.head, {"number": 1}, PARTS))[:1])
    with pytest.raises(Inconsistent, match="position 3 has a record that the releaser did not"):
        chain.check()
