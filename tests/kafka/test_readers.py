"""The compiled reader of a cluster's log gives every record that the reader in Python gives."""

import random
import sys

import pytest
from kit.brokers import foreign_producer
from test_hostile import GOOD, HEADERS, Place, raws
from wire import CODECS, Raw

from stream_dp.compiled import compiled_reader
from stream_dp.log.kafka import KafkaLog
from stream_dp.log.kafka_reader import SMALL
from stream_dp.study.topics import REPORTS

pytestmark = pytest.mark.skipif(
    compiled_reader() is None, reason="the compiled reader is not installed"
)
PARTITIONS = 3


@pytest.fixture
def place(tmp_path, kafka):
    place = Place(tmp_path, kafka, partitions=PARTITIONS)
    yield place
    place.log.close()


def opened(place, reader, monkeypatch):
    with monkeypatch.context() as patch:
        if reader == "python":
            patch.setitem(sys.modules, "stream_dp_native", None)
        return KafkaLog(place.prefix, {"bootstrap.servers": place.server}, replication=1)


def contents(log, draw):
    """Every record by its position, read in random steps, of all partitions or of some."""
    positions, found = dict.fromkeys(range(PARTITIONS), 0), {}
    while True:
        asked = draw.sample(range(PARTITIONS), draw.randint(1, PARTITIONS))
        everything = len(asked) == PARTITIONS
        batch = log.read(REPORTS, {p: positions[p] for p in asked}, draw.choice([1, 3, 1000]), 1)
        for record in batch.records:
            assert (record.partition, record.offset) not in found
            found[record.partition, record.offset] = record
        positions |= batch.next
        if batch.at_end and everything:
            return positions, found


def assert_same(place, monkeypatch, seed):
    read = {}
    for reader in ("python", "compiled"):
        log = opened(place, reader, monkeypatch)
        assert type(log._reader(SMALL)).__name__.startswith("Compiled") == (reader == "compiled")
        read[reader] = contents(log, random.Random(seed))
        log.close()
    assert read["python"] == read["compiled"]
    return read["compiled"][1]


def test_hostile_records_are_read_alike(place, monkeypatch):
    draw = random.Random(5)
    for codec in CODECS:
        for headers in HEADERS[:10]:
            place.send([Raw(None, headers=headers), Raw(GOOD)], codec, draw.randrange(PARTITIONS))
        for _ in range(25):
            records = [raws(draw) for _ in range(draw.randint(1, 4))]
            place.send(records, codec, draw.randrange(PARTITIONS))
    assert len(assert_same(place, monkeypatch, 1)) > 100


def test_aborted_transactions_and_batches_beyond_reading_are_read_alike(place, kafka, monkeypatch):
    stranger = foreign_producer(kafka)
    for end in (stranger.abort_transaction, stranger.commit_transaction) * 3:
        stranger.begin_transaction()
        for partition in range(PARTITIONS):
            stranger.produce(f"{place.prefix}.reports", GOOD, partition=partition)
        stranger.flush(300)
        end(300)
    place.send([Raw(b"\0" * 1_000_000)] * 90, "zstd", 1)
    place.send([Raw(GOOD)] * 5, partition=1)
    read = assert_same(place, monkeypatch, 2)
    assert sum(record.value == GOOD for record in read.values()) == 3 * PARTITIONS + 5
    assert sum(record.headers is None for record in read.values()) == 90


def test_settings_that_a_client_refuses_are_named_and_not_quoted(monkeypatch):
    native = compiled_reader()
    import confluent_kafka.cimpl

    path = confluent_kafka.cimpl.__file__
    for settings in (
        {"security.protocol": "secret-1"},
        {"no.such": "secret-1"},
        {"ssl.key.pem": "secret-1"},
    ):
        with pytest.raises(ValueError, match=r"property|refuses") as error:
            native.Consumer(path, settings)
        assert "secret-1" not in str(error.value)
    with pytest.raises(OSError):
        native.Consumer("/nowhere.so", {})
    consumer = native.Consumer(path, {"group.id": "g"})
    consumer.close()
    with pytest.raises(RuntimeError, match="closed"):
        consumer.fetch(1, 1, 0)
