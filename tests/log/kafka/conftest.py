"""Logs on a real broker."""

import sys
import uuid

import pytest
from confluent_kafka.admin import AdminClient
from kit.brokers import foreign_producer
from kit.studies import study_toml

from stream_dp.compiled import compiled_reader
from stream_dp.log.kafka import KafkaLog


@pytest.fixture
def reader(request, monkeypatch):
    """Makes logs read by this reader. A test names it as an indirect parameter, before its log."""
    if request.param == "python":
        monkeypatch.setitem(sys.modules, "stream_dp_native", None)
    elif compiled_reader() is None:
        pytest.skip("the compiled reader is not installed")
    return request.param


@pytest.fixture
def opened(kafka):
    """Opens logs on the broker and closes them at the end."""
    logs = []

    def opened(prefix, **options):
        options = {"replication": 1, "server": kafka, **options}
        server = options.pop("server")
        logs.append(KafkaLog(prefix, {"bootstrap.servers": server}, **options))
        return logs[-1]

    yield opened
    for log in logs:
        log.close()


@pytest.fixture
def prefix():
    return f"test-{uuid.uuid4().hex}"


@pytest.fixture
def log(opened, prefix):
    """A log with a topic `t` of one partition."""
    log = opened(prefix)
    log.create({"t": 1})
    return log


@pytest.fixture
def admin(kafka):
    return AdminClient({"bootstrap.servers": kafka})


@pytest.fixture
def stranger(kafka, prefix):
    """Transactional producers of another program."""

    def begun(*contents, partition=0, topic="t"):
        producer = foreign_producer(kafka)
        producer.begin_transaction()
        for value in contents:
            producer.produce(f"{prefix}.{topic}", value, partition=partition)
        assert producer.flush(300) == 0
        return producer

    return begun


@pytest.fixture
def study(tmp_path, kafka, prefix):
    def write(insecure=True, extra=""):
        path = tmp_path / "topics.toml"
        url = f"kafka://{kafka}/{prefix}"
        sizes = {"partitions": 2, "replication": 1}
        path.write_text(
            study_toml(
                name="topics",
                periods={"first": 1, "every": "step", "count": 2, "close": "marker"},
                size=5,
                run={"log": url, "public": f"{url}-public", **sizes, "insecure": insecure},
            )
            + extra
        )
        return str(path)

    return write
