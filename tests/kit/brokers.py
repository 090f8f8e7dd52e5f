"""A Kafka broker for tests and benchmarks, and producers of other programs on it."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from broker import FOLDER, Broker
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions


@contextmanager
def running_broker() -> Iterator[str]:
    """host:port of the broker at STREAM_DP_TEST_KAFKA, or of one that is started for this."""
    address = os.environ.get("STREAM_DP_TEST_KAFKA")
    if address:
        yield address
        return
    with tempfile.TemporaryDirectory() as folder, started_broker(Path(folder)) as broker:
        yield broker.address


class SingleBroker(Broker):
    """One broker, and how long it stays down after it was killed."""

    replication = 1
    down = (0.5, 2.0)  # seconds


@contextmanager
def started_broker(folder: Path) -> Iterator[SingleBroker]:
    """A new broker, which may be stopped and started again."""
    broker = SingleBroker(folder, libs=FOLDER / "libs")
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


def foreign_producer(server: str, **settings: str) -> Producer:
    """A transactional producer of another program, before its first transaction."""
    producer = Producer(
        {"bootstrap.servers": server, "transactional.id": uuid.uuid4().hex, **settings}
    )
    producer.init_transactions(300)
    return producer


def add_partition(url: str, topic: str) -> None:
    """Gives a topic of a log one more partition. url: the log's, as `kafka://host:port/prefix`."""
    server, _, prefix = url.removeprefix("kafka://").partition("/")
    name, admin = f"{prefix}.{topic}", AdminClient({"bootstrap.servers": server})
    count = len(admin.list_topics(name, timeout=300).topics[name].partitions)
    admin.create_partitions([NewPartitions(name, count + 1)])[name].result(300)
