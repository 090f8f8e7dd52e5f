"""Kafka as a log: the contract on a real broker, and what is Kafka's own."""

import uuid

import pytest

pytest.register_assert_rewrite("contract")

from contract import LogContract  # noqa: E402

from stream_dp.log.kafka import KafkaLog  # noqa: E402


@pytest.fixture
def opened(kafka):
    """Opens logs on the broker and closes them at the end."""
    logs = []

    def opened(prefix, **options):
        options = {"replication": 1, **options}
        logs.append(KafkaLog(prefix, {"bootstrap.servers": kafka}, **options))
        return logs[-1]

    yield opened
    for log in logs:
        log.close()


class TestContract(LogContract):
    @pytest.fixture
    def opener(self, opened):
        prefix = f"test-{uuid.uuid4().hex}"
        return lambda: opened(prefix)
