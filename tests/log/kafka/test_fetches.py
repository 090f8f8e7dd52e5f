"""How much a reader fetches at once, and by what it decides."""

from concurrent.futures import Future
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from stream_dp.log.kafka_reader import QUICK, SMALL, fetch_of
from stream_dp.log.log import Missing, Unavailable

REPORTS = 3_000


@pytest.mark.parametrize("reader", ["python", "compiled"], indirect=True)
def test_small_batches_are_read_in_quick_fetches(reader, opened, prefix, kafka):
    log = opened(prefix, timed=("reports",))
    log.create({"reports": 2})
    producer = Producer({"bootstrap.servers": kafka, "batch.num.messages": 100, "linger.ms": 50})
    for number in range(REPORTS):
        producer.produce(f"{prefix}.reports", b"%d" % number, b"%d" % number)
    assert producer.flush(300) == 0
    positions, count = {0: 0, 1: 0}, 0
    while count < REPORTS:
        batch = log.read("reports", positions, 20_000, 30)
        positions, count = batch.next, count + len(batch.records)
    assert log._fetches == {"reports": QUICK}
    assert log._small_reads == {}


def test_a_fetch_from_a_topic_expands_to_64_megabytes_at_most():
    # By codec, the most bytes that one compressed byte can become.
    for codec, expansion in {"uncompressed": 1, "snappy": 22, "lz4": 255, "gzip": 1032}.items():
        fetch = fetch_of(codec)
        assert SMALL.size < fetch.size <= 1 << 20
        assert fetch.size * expansion <= 64_000_000 == fetch.expanded
    assert {fetch_of(codec) for codec in ("producer", "zstd", "", "new")} == {QUICK}


def answering(monkeypatch, topics, error):
    future: Future[dict[str, object]] = Future()
    future.set_exception(KafkaException(KafkaError(error)))
    describe = Mock(side_effect=lambda resources, **_: {resources[0]: future})
    monkeypatch.setattr(topics._admin, "_client", Mock(describe_configs=describe))
    monkeypatch.setattr("stream_dp.log.kafka_clients.TIMEOUT", 0.0)


def test_without_the_right_to_see_a_topics_codec_fetches_are_quick(monkeypatch, opened, prefix):
    log = opened(prefix, timed=("reports",))
    log.create({"reports": 1, "other": 1})
    assert log._topics.partitions("reports") == 1
    answering(monkeypatch, log._topics, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    assert fetch_of(log._topics.codec("reports")) == QUICK
    assert fetch_of(log._topics.codec("other")) == SMALL


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
