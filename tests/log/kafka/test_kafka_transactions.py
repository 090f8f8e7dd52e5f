"""Commits to Kafka: transactions, who owns a role, and brokers that stop or die."""

import os
import signal
import threading
import time

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from contents import drain, sent, values
from kit.monitors import wait_until

from stream_dp.log.kafka import KafkaLog
from stream_dp.log.kafka_reader import SMALL
from stream_dp.log.log import Fenced, LogError, UnknownCommit
from stream_dp.log.message import (
    START,
    build_message,
    message_records,
    read_chain,
    read_parts,
    split_part,
)

EITHER = pytest.mark.parametrize("reader", ["python", "compiled"], indirect=True)


def uncommitted(server, topic):
    """Everything in partition 0, committed or not."""
    consumer = Consumer(
        {
            "bootstrap.servers": server,
            "group.id": "anyone",
            "isolation.level": "read_uncommitted",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    records = []
    while (message := consumer.poll(300)) is not None:
        if message.error() is None:
            records.append(message.value())
        elif message.error().code() == KafkaError._PARTITION_EOF:
            break
    consumer.close()
    return records


def end(server, topic):
    """The end of partition 0, whatever is committed."""
    settings = {"group.id": "anyone", "isolation.level": "read_uncommitted"}
    consumer = Consumer({"bootstrap.servers": server, **settings})
    _, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), 300)
    consumer.close()
    return high


@EITHER
def test_open_and_aborted_transactions_are_not_read(reader, log, kafka, prefix, stranger):
    producer = stranger(b"aborted")
    assert values(log, "t") == []
    producer.abort_transaction(300)
    assert values(log, "t") == []
    producer = stranger(b"open")
    log.append(sent("t", b"behind it"))
    assert values(log, "t") == []
    producer.commit_transaction(300)
    assert values(log, "t") == [b"open", b"behind it"]
    assert uncommitted(kafka, f"{prefix}.t") == [b"aborted", b"open", b"behind it"]


@EITHER
def test_the_end_is_right_although_control_records_take_positions(reader, log, stranger):
    log.append(sent("t", b"a"))
    stranger(b"b").commit_transaction(300)
    stranger(b"gone").abort_transaction(300)
    records, end = drain(log, "t")
    assert [r.value for r in records] == [b"a", b"b"]
    assert end[0] > records[-1].offset + 1
    batch = log.read("t", end, 10, 0)
    assert (batch.records, batch.at_end, batch.next) == ([], True, end)
    log.append(sent("t", b"c"))
    assert values(log, "t", end) == [b"c"]
    assert log.cut("t", time.time() + 60) == drain(log, "t")[1]


@EITHER
def test_a_chain_is_read_from_its_end_whatever_was_aborted(reader, log, stranger, monkeypatch):
    """Large messages are passed over, control records and aborted ones too."""
    written, previous = [], START
    for index in range(4):
        parts = split_part("panel", os.urandom(9_000_000 if index else 100))
        written.append(build_message(index, previous, {"number": index}, parts))
        previous = written[-1].hash
    for message in written:
        stranger(b"gone", b"too").abort_transaction(300)
        with log.own("role") as writer:
            writer.commit(
                message_records(message, "t", kind="k", source="s", content="c", time=None)
            )
    stranger(b"gone").abort_transaction(300)
    read, sizes = log._reader(SMALL).read, []

    def noted(*asked):
        batch = read(*asked)
        sizes.append(sum(len(record.value or b"") for record in batch.records))
        return batch

    monkeypatch.setattr(log._reader(SMALL), "read", noted)
    monkeypatch.setattr("stream_dp.log.message._BYTES_AT_ONCE", 1_000_000)
    monkeypatch.setattr("stream_dp.log.message._FIRST", 2)
    chain = read_chain(log, "t", "journal")
    assert sum(sizes) < 18_000_000  # of 27_000_000: a few records beside each manifest
    assert [message.hash for message in chain] == [message.hash for message in written]
    assert [read_parts(log, "t", message, "journal") for message in chain] == written


def test_a_cut_does_not_depend_on_transactions_of_others(log, stranger):
    producer = stranger(b"open")
    log.append(sent("t", b"behind it"))
    time.sleep(0.03)
    cut = log.cut("t", time.time())
    assert cut == log.cut("t", time.time() + 3600)
    assert drain(log, "t")[1][0] < cut[0]
    producer.commit_transaction(300)
    records, _ = drain(log, "t")
    assert [r.value for r in records if r.offset < cut[0]] == [b"open", b"behind it"]


def test_a_fenced_writer_leaves_nothing(opened, log, prefix, kafka):
    other = opened(prefix)
    with log.own("role") as first:
        first.commit(sent("t", b"first"))
        with other.own("role") as second:
            for _ in range(2):
                with pytest.raises(Fenced, match=r"taken this role|is over"):
                    first.commit(sent("t", b"fenced"))
            second.commit(sent("t", b"second"))
    assert values(log, "t") == uncommitted(kafka, f"{prefix}.t") == [b"first", b"second"]


def test_who_owns_a_role_is_not_asked_before_the_commit(opened, log, prefix):
    """The first is fenced while its transaction is open: nothing of it is left."""
    other = opened(prefix)
    with log.own("role") as first:
        produce = log._writer.produce

        def slowly(producer, records):
            failed = produce(producer, records)
            producer.flush(300)
            with other.own("role") as second:
                second.commit(sent("t", b"second"))
            return failed

        log._writer.produce = slowly
        with pytest.raises(Fenced):
            first.commit(sent("t", b"fenced", b"too"))
    assert values(log, "t") == [b"second"]


def test_fenced_before_the_last_record_is_handed_over(opened, log, prefix):
    other = opened(prefix)
    with log.own("role") as first:
        produce = log._writer.produce

        def slowly(producer, records):
            with other.own("role") as second:
                second.commit(sent("t", b"second"))
            failed = produce(producer, records[:1])
            deadline = time.monotonic() + 120
            while not failed and time.monotonic() < deadline:
                failed = produce(producer, records[1:])
                time.sleep(0.1)
            return failed

        log._writer.produce = slowly
        with pytest.raises(Fenced, match="another process has taken this role"):
            first.commit(sent("t", b"fenced", b"too"))
    assert values(log, "t") == [b"second"]


@pytest.mark.parametrize("other", [False, True])
def test_a_transaction_that_took_too_long_is_no_fencing(opened, prefix, kafka, other):
    """Brokers answer alike; who signed for the role last tells the two apart."""
    settings = {"bootstrap.servers": kafka, "transaction.timeout.ms": "2000"}
    log = KafkaLog(prefix, settings, replication=1)
    log.create({"t": 1})
    with log.own("role", "t") as first:
        produce = log._writer.produce

        def slowly(producer, records):
            failed = produce(producer, records)
            producer.flush(300)
            if other:
                with opened(prefix).own("role", "t") as second:
                    second.commit(sent("t", b"second"))
            else:
                # The abort takes a position. A broker looks every ten seconds, ours each second.
                deadline = time.monotonic() + 120
                while end(kafka, f"{prefix}.t") == 1:
                    assert time.monotonic() < deadline
                    time.sleep(0.2)
            return failed

        log._writer.produce = slowly
        error, words = (Fenced, "taken this role") if other else (UnknownCommit, "no other one has")
        with pytest.raises(error, match=words):
            first.commit(sent("t", b"late"))
    with opened(prefix).own("role", "t") as again:
        again.commit(sent("t", b"again"))
    assert values(log, "t") == [*[b"second"][:other], b"again"]
    log.close()


def test_a_stray_consumer_in_the_group_of_a_role(log, kafka, prefix):
    stray = Consumer({"bootstrap.servers": kafka, "group.id": f"{prefix}.role"})
    stray.subscribe([f"{prefix}.t"])
    deadline = time.monotonic() + 300
    while not stray.assignment():
        assert time.monotonic() < deadline
        stray.poll(0.1)
    with pytest.raises(LogError, match=r"another group\.id"), log.own("role", "t"):
        pass
    stray.close()
    with log.own("role", "t") as writer:
        writer.commit(sent("t", b"1"))


def test_no_transaction_follows_one_of_unknown_result(opened, own_broker, prefix, monkeypatch):
    log = opened(prefix, server=own_broker.address)
    log.create({"t": 1})
    pid = int((own_broker.folder / "pid").read_text())
    with log.own("role") as writer:
        writer.commit(sent("t", b"1"))
        monkeypatch.setattr("stream_dp.log.kafka_writer.TIMEOUT", 1.0)
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(UnknownCommit, match="whether a commit took place is not known"):
                writer.commit(sent("t", b"2"))
        finally:
            os.kill(pid, signal.SIGCONT)
        with pytest.raises(UnknownCommit, match="whether a commit took place is not known"):
            writer.commit(sent("t", b"3"))
        monkeypatch.undo()
    with log.own("role") as writer:
        committed = values(log, "t")
        assert committed in ([b"1"], [b"1", b"2"])
        writer.commit(sent("t", b"4"))
    # A broker may answer a moment before the marker of the commit can be read.
    wait_until(lambda: values(log, "t") == [*committed, b"4"])


def test_a_broker_that_dies_and_comes_back(opened, own_broker, prefix):
    log = opened(prefix, server=own_broker.address)
    log.create({"t": 1})
    with log.own("role") as writer:
        writer.commit(sent("t", b"1"))
        _, end = drain(log, "t")
        own_broker.stop(signal.SIGKILL)
        starting = threading.Timer(0.5, own_broker.start)
        starting.start()
        assert log.read("t", end, 10, 0).at_end
        starting.join()
        assert values(log, "t") == [b"1"]
        writer.commit(sent("t", b"2"))
    log.append(sent("t", b"3"))
    assert values(log, "t") == [b"1", b"2", b"3"]
