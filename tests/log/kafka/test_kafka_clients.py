"""Requests to a cluster whose leaders die, and what is said in the end."""

from __future__ import annotations

import weakref
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from stream_dp.log import kafka_clients
from stream_dp.log.kafka_clients import ClusterAdmin, answer_of
from stream_dp.log.log import Forbidden, LogError, Unavailable, Untrusted

TOPIC = "x.journal"


class Cluster:
    """A client for administrators, whose requests meet these failures and then an answer."""

    def __init__(self, *failures: BaseException) -> None:
        self.failures = list(failures)
        self.calls: list[object] = []

    def request(self, client: Any, seconds: float) -> str:
        assert client is self
        self.calls.append(seconds)
        future = Future[str]()
        if self.failures:
            future.set_exception(self.failures.pop(0))
        else:
            future.set_result("answer")
        return answer_of(future, seconds)

    def list_topics(self, topic: str, timeout: float) -> None:
        self.calls.append(topic)
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    def poll(self, seconds: float) -> None:
        pass


def failed(code: int) -> KafkaException:
    return KafkaException(KafkaError(code))


@pytest.fixture(autouse=True)
def time(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock of the requests, which pauses and look-ups move."""
    now = [0.0]
    monkeypatch.setattr(kafka_clients.clock_module, "monotonic", lambda: now[0])
    monkeypatch.setattr(
        kafka_clients.clock_module, "sleep", lambda s: now.__setitem__(0, now[0] + s)
    )
    return now


def asked(monkeypatch: pytest.MonkeyPatch, cluster: Cluster) -> str:
    monkeypatch.setattr(kafka_clients, "new_client", lambda kind, settings: cluster)
    monkeypatch.setattr(kafka_clients, "protocol_mismatch", lambda settings: "")
    admin = ClusterAdmin({"bootstrap.servers": "x:1"})
    return admin.ask(f"kafka: no positions of {TOPIC}", cluster.request, [TOPIC])


def test_a_dead_leader_is_waited_for_in_short_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between them the leaders are looked up, although the look-up fails, too."""
    codes = (KafkaError._NOENT, KafkaError._TIMED_OUT, KafkaError.NOT_LEADER_FOR_PARTITION)
    cluster = Cluster(TimeoutError(), *map(failed, codes))
    assert asked(monkeypatch, cluster) == "answer"
    assert cluster.calls == [1, TOPIC, 2, TOPIC, 4, TOPIC, 8, TOPIC, 8]


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
    ],
)
def test_a_broker_that_comes_back_behind_its_own_epoch_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    assert asked(monkeypatch, Cluster(failed(code))) == "answer"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (TimeoutError(), "no answer"),
        (failed(KafkaError._NOENT), "no broker leads it now; waits for one"),
    ],
    ids=["future", "leader"],
)
def test_one_that_stays_dead_is_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch, time: list[float], error: BaseException, line: str
) -> None:
    cluster = Cluster(*[error] * 1000)
    with pytest.raises(Unavailable, match=f"^kafka: no positions of {TOPIC}: {line}"):
        asked(monkeypatch, cluster)
    assert 30 < time[0] < 32


@pytest.mark.parametrize("before", [False, True])
def test_distrust_after_trust_may_be_mended_by_a_new_process(
    monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    """Certificates were replaced while it ran: the next process reads the new ones."""
    cluster = Cluster(*[failed(KafkaError._TRANSPORT)] * 1000)
    monkeypatch.setattr(kafka_clients, "new_client", lambda kind, settings: cluster)
    monkeypatch.setattr(kafka_clients, "protocol_mismatch", lambda settings: "")
    admin = ClusterAdmin({"bootstrap.servers": "x:1"})
    if before:
        failures, cluster.failures = cluster.failures, []
        assert admin.ask("kafka: x", cluster.request, [TOPIC]) == "answer"
        cluster.failures = failures

    def distrusts(seconds: float) -> None:
        admin._note_refusal(KafkaError(KafkaError._SSL, "ssl://x:1: certificate verify failed"))

    monkeypatch.setattr(cluster, "poll", distrusts)
    with pytest.raises(LogError, match=r"no connection: .*certificate verify failed") as refusal:
        admin.ask("kafka: x", cluster.request, [TOPIC])
    assert type(refusal.value) is (Untrusted if before else LogError)
    assert ("start again" in str(refusal.value)) == before


def test_a_lasting_refusal_is_raised_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(failed(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(Forbidden, match=f"^kafka: no right to see topic '{TOPIC}'; grant Describe"):
        asked(monkeypatch, cluster)
    assert cluster.calls == [1]


def test_an_error_that_is_kept_does_not_keep_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that lives on would seek connections, ten a second, until a collection of cycles."""
    cluster = Cluster(failed(KafkaError.INVALID_REQUEST))
    clients = [cluster]
    monkeypatch.setattr(kafka_clients, "new_client", lambda kind, settings: clients.pop())
    admin, client = ClusterAdmin({"bootstrap.servers": "x:1"}), weakref.ref(cluster)
    del cluster
    with pytest.raises(LogError) as kept:
        admin.ask("kafka: no answer", lambda c, seconds: c.request(c, seconds), [TOPIC])
    admin.close()
    assert client() is None, kept
