"""Kafka as a log: the contract on a real broker, and how its records are read."""

import gc
import os
import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from contents import by_partition, drain, sent, values
from contract import LogContract

from stream_dp.log.kafka import KafkaLog
from stream_dp.log.kafka_reader import SMALL
from stream_dp.log.log import MAX_RECORD, LogError, Record, Unavailable, stop_following
from stream_dp.log.message import START, build_message, message_records, read_messages, split_part

FILES = Path("/proc/self/fd")  # of this process

EITHER = pytest.mark.parametrize("reader", ["python", "compiled"], indirect=True)


@EITHER
class TestContract(LogContract):
    @pytest.fixture
    def opener(self, reader, opened, prefix):
        return lambda: opened(prefix)

    @pytest.fixture
    def log(self, opener):
        return opener()

    def seen(self, log, topic, count):
        """As soon as there are so many: the cluster ends a transaction behind its answer."""
        end = time.monotonic() + 5
        while len(found := super().seen(log, topic, count)) < count and time.monotonic() < end:
            time.sleep(0.01)
        return found


@pytest.mark.parametrize(
    ("reader", "call"),
    [
        *[("python", call) for call in ("assign", "incremental_assign", "consume", "poll")],
        *[("compiled", call) for call in ("assign", "incremental_assign", "fetch")],
    ],
    indirect=["reader"],
)
@pytest.mark.parametrize(
    ("fault", "raised"),
    [
        (KafkaException(KafkaError(KafkaError._STATE, "torn")), Unavailable),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_after_a_fault_amid_a_read_nothing_is_missed(reader, log, prefix, call, fault, raised):
    """Whatever was fetched before the fault is read again."""
    log.create({"two": 2})
    for part in (0, 1):
        log.append(sent("two", b"a", b"b", b"c", partition=part))
    first = log.read("two", {0: 0}, 1, 0)
    fetched = log._reader(SMALL)._consumer

    class Torn:
        """Does what it is asked, and then fails."""

        def __getattr__(self, name):
            def torn(*arguments):
                result = getattr(fetched, name)(*arguments)
                if name == call and (name != "consume" or result):
                    raise fault
                return result

            return torn

    def reads():
        log.read("two", {**first.next, 1: 0}, 10, 1)
        log.read("two", {0: 3, 1: 3}, 10, 1)
        log.read("two", {0: 0}, 10, 1)

    log._reader(SMALL)._consumer = Torn()
    with pytest.raises(raised) as error:
        reads()
    if raised is Unavailable:
        assert str(error.value) == f"kafka: {prefix}.two cannot be read: torn"
    log._reader(SMALL)._consumer = fetched
    records, _ = drain(log, "two", {**first.next, 1: 0})
    assert by_partition(records) == {0: [b"b", b"c"], 1: [b"a", b"b", b"c"]}


def test_releases_keep_their_scheduled_times_and_reports_have_the_brokers(opened, prefix):
    log = opened(prefix, timed=("reports",))
    log.create({"reports": 1, "releases": 1})
    past, ahead, now = 1_609_459_200_000, 4_000_000_000_000, time.time() * 1000
    for topic in ("reports", "releases"):
        log.append([Record(topic, b"x", time=past), Record(topic, b"x", time=ahead)])
    releases, reports = drain(log, "releases")[0], drain(log, "reports")[0]
    assert [r.time for r in releases] == [past, ahead]
    assert all(now - 60_000 < r.time < time.time() * 1000 + 60_000 for r in reports)


def test_a_time_of_zero_is_not_the_present(log):
    log.append([Record("t", b"x", time=0)])
    (record,) = drain(log, "t")[0]
    assert record.time == 1


def test_a_message_of_many_records_in_one_transaction(log):
    large = os.urandom(3_000_000)
    written = build_message(0, START, {"number": 0}, split_part("state", large))
    headers = {"kind": "k", "source": "s", "content": "c", "time": None}
    records = message_records(written, "t", **headers)
    assert len(records) == 5
    with log.own("role") as writer:
        writer.commit(records)
    (message,) = read_messages(log, "t", "journal")
    assert message.part("state") == large
    assert message.hash == written.hash


def test_headers_and_keys_count_in_the_size_of_a_record(log):
    half = bytes(MAX_RECORD // 2)
    with pytest.raises(LogError, match="is over 1000000"):
        log.append([Record("t", half, half, (("h", b"1"),))])
    log.append([Record("t", half, half[:-100], (("h", bytes(100)),))])
    assert len(values(log, "t")) == 1


@EITHER
def test_nothing_is_fetched_for_who_stops(reader, log):
    log.create({"reports": 1})
    log.append([Record("reports", value, partition=0) for value in (b"a", b"b")])
    batch = log.read("reports", {0: 0}, 1, 0)
    assert log._reader(SMALL)._consumer.assignment()
    stop_following(log, "reports")
    assert log._reader(SMALL)._consumer.assignment() == []
    assert [r.value for r in log.read("reports", batch.next, 10, 30).records] == [b"b"]


@EITHER
def test_nothing_is_fetched_behind_the_end(reader, log):
    """What would come meanwhile is asked for by the next read, which else waits for that answer."""
    log.create({"reports": 2})
    log.append([Record("reports", b"a", partition=p) for p in (0, 0, 1)])
    batch = log.read("reports", {0: 0, 1: 0}, 1, 0)
    assert not batch.at_end
    assert log._reader(SMALL)._consumer.assignment()
    while not batch.at_end:
        batch = log.read("reports", batch.next, 10, 0)
    assert log._reader(SMALL)._consumer.assignment() == []
    assert log.read("reports", batch.next, 10, 0).at_end
    log.append([Record("reports", b"b", partition=1)])
    assert [r.value for r in log.read("reports", batch.next, 1, 30).records] == [b"b"]


@EITHER
def test_a_closed_log_has_no_open_files(reader, kafka, prefix):
    """At once: it does not wait for a collection of garbage, which may come much later."""

    def used_and_closed():
        log = KafkaLog(prefix, {"bootstrap.servers": kafka}, replication=1, timed=("t",))
        log.create({"t": 1})
        log.read("t", {0: 0}, 1, 0)
        assert log.describe_all(["t", "none"]).keys() == {"t"}
        log.close()

    used_and_closed()
    gc.collect()
    gc.disable()
    try:
        before = len(list(FILES.iterdir()))
        for _ in range(4):
            used_and_closed()
        # Logs of other tests may connect again meanwhile; each of these had five files.
        assert len(list(FILES.iterdir())) < before + 4
    finally:
        gc.enable()


@pytest.mark.parametrize("reader", ["python", "compiled"], indirect=True)
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_large_batches_among_small_ones(reader, opened, prefix, kafka, codec):
    """A quick fetch refuses an answer that is too long, and a batch that expands too far."""
    log = opened(prefix, timed=("t",))
    log.create({"t": 1})
    small = [b"%d" % n for n in range(500)]
    settings = {"bootstrap.servers": kafka, "compression.type": codec, "linger.ms": 0}
    producer, sent = Producer(settings), []
    for large in (b"x" * 900_000, b"y" * 300_000, b""):
        sent += [*small, large] if large else small
        for value in (*small, large) if large else small:
            producer.produce(f"{prefix}.t", value)
            if value == small[-1]:
                assert producer.flush(300) == 0
        assert producer.flush(300) == 0
    log.append([Record("t", bytes(900_000))] * 3)
    sent += [bytes(900_000)] * 3
    values, positions = [], {0: 0}
    while len(values) < len(sent):
        batch = log.read("t", positions, 400, 30)
        values += [record.value for record in batch.records]
        positions = batch.next
    assert values == sent
