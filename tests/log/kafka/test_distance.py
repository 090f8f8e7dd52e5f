"""Reports from a broker at a distance of ten milliseconds, in batches of a hundred."""

import time
import uuid
from concurrent.futures import Future
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from kit.distance import distant_broker

from stream_dp.log.kafka import KafkaLog
from stream_dp.log.kafka_reader import SMALL_FETCH, fetch_size
from stream_dp.log.log import Missing, Unavailable

PARTITIONS, REPORTS = 8, 15_000
LESS = 4  # at least, the time of large fetches is so many times less; about 50 on quiet cores


@pytest.fixture(scope="module")
def distance(tmp_path_factory):
    with distant_broker(tmp_path_factory.mktemp("broker"), round_trip=0.01) as addresses:
        yield addresses


def enforce(server, topic, codec):
    """Lets the broker compress every batch of a topic with this codec."""
    change = ConfigEntry("compression.type", codec, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource("topic", topic, incremental_configs=[change])
    admin = AdminClient({"bootstrap.servers": server})
    admin.incremental_alter_configs([resource])[resource].result(300)


def fill(server, topic):
    settings = {"batch.num.messages": 100, "linger.ms": 50}
    producer = Producer({"bootstrap.servers": server, **settings})
    for number in range(REPORTS):
        report = b'{"person":"person-%d","period":1,"values":{"a":1}}' % number
        producer.produce(topic, report, b"%d" % number)
        producer.poll(0)
    assert producer.flush(300) == 0


def log_at(server, prefix):
    return KafkaLog(prefix, {"bootstrap.servers": server}, replication=1, timed=("reports",))


def seconds_of_reading(server, prefix):
    log = log_at(server, prefix)
    positions, count = dict.fromkeys(range(PARTITIONS), 0), 0
    log.read("reports", positions, 1, 30)  # connects
    begun = time.monotonic()
    while count < REPORTS:
        batch = log.read("reports", positions, 20_000, 30)
        positions, count = batch.next, count + len(batch.records)
    seconds = time.monotonic() - begun
    log.close()
    assert count == REPORTS
    return seconds


@pytest.mark.parametrize("reader", ["python", "compiled"], indirect=True)
def test_a_topic_with_a_codec_is_read_in_large_fetches(reader, distance):
    near, far = distance
    seconds = {}
    for codec in ("producer", "lz4"):
        prefix = f"far-{uuid.uuid4().hex}"
        log = log_at(near, prefix)
        log.create({"reports": PARTITIONS})
        log.close()
        enforce(near, f"{prefix}.reports", codec)
        fill(near, f"{prefix}.reports")
        seconds[codec] = seconds_of_reading(far, prefix)
    assert LESS * seconds["lz4"] < seconds["producer"]


def test_a_fetch_from_a_topic_expands_to_64_megabytes_at_most():
    # By codec, the most bytes that one compressed byte can become.
    for codec, expansion in {"uncompressed": 1, "snappy": 22, "lz4": 255, "gzip": 1032}.items():
        assert SMALL_FETCH < fetch_size(codec) <= 1 << 20
        assert fetch_size(codec) * expansion <= 64_000_000
    assert {fetch_size(codec) for codec in ("producer", "zstd", "", "new")} == {SMALL_FETCH}


def answering(monkeypatch, topics, error):
    future: Future[dict[str, object]] = Future()
    future.set_exception(KafkaException(KafkaError(error)))
    describe = Mock(side_effect=lambda resources, **_: {resources[0]: future})
    monkeypatch.setattr(topics._admin, "_client", Mock(describe_configs=describe))
    monkeypatch.setattr("stream_dp.log.kafka_admin.TIMEOUT", 0.0)


def test_without_the_right_to_see_a_topics_codec_fetches_are_small(monkeypatch, opened, prefix):
    log = opened(prefix, timed=("reports",))
    log.create({"reports": 1, "other": 1})
    assert log._topics.partitions("reports") == 1
    answering(monkeypatch, log._topics, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    assert log._reader_of("reports") is log._reader_of("other") is log._reader


def test_while_the_broker_does_not_answer_no_size_is_kept(monkeypatch, opened, prefix):
    log = opened(prefix, timed=("reports",))
    with pytest.raises(Missing):
        log.read("reports", {0: 0}, 1, 0)
    log.create({"reports": 1})
    assert log._topics.partitions("reports") == 1
    with monkeypatch.context() as patch:
        answering(patch, log._topics, KafkaError._TRANSPORT)
        with pytest.raises(Unavailable):
            log.read("reports", {0: 0}, 1, 0)
    assert log.read("reports", {0: 0}, 1, 0).at_end
