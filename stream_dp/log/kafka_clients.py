"""Clients of a Kafka cluster, and librdkafka's errors as errors of a log."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException

from stream_dp.errors import UserError

from .log import Forbidden, LogError, Unavailable

TIMEOUT = 30.0  # seconds that a cluster may take to answer
# Failures that may pass by themselves: a broker that restarts, a leader that moves.
TRANSIENT_ERRORS = {
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
    KafkaError._MSG_TIMED_OUT,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT_QUEUE,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.NOT_CONTROLLER,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError._NOENT,  # of the leaders of partitions
}
_LEADERLESS = {
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError._NOENT,
}
DENIED_TOPIC = KafkaError.TOPIC_AUTHORIZATION_FAILED
_DENIED = {
    DENIED_TOPIC,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
}
# Errors reach the caller through results; librdkafka's log may quote settings.
_QUIET = logging.getLogger("stream_dp.quiet")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False
_Client = TypeVar("_Client")


def new_client(
    kind: Callable[[dict[str, object]], _Client], settings: Mapping[str, object]
) -> _Client:
    """Makes a client of this kind. Raises UserError, which never quotes a setting's value."""
    try:
        return kind({**settings, "logger": _QUIET})
    except (KafkaException, TypeError, ValueError) as error:
        named = re.search(r'property:? "?([a-z][a-z0-9._]*)', str(error))
        setting = f"'{named[1]}'" if named else "security.protocol, sasl.* or ssl.*"
        raise UserError(f"kafka: the client refuses the setting {setting}") from None


def error_text(error: KafkaException) -> str:
    """Returns librdkafka's text of an error."""
    return str(error.args[0].str())


def is_transient(error: KafkaException | TimeoutError) -> bool:
    """Tells whether a failure may pass by itself."""
    return isinstance(error, TimeoutError) or error.args[0].code() in TRANSIENT_ERRORS


def forbidden(deed: str, resource: str, right: str) -> Forbidden:
    """Makes the error to raise without a right. resource: like "topic 'x.journal'"."""
    return Forbidden(f"kafka: no right to {deed} {resource}; grant {right} on it")


def unseen(name: str) -> Forbidden:
    """Makes the error to raise without the right to see a topic. name: its full name."""
    return forbidden("see", f"topic '{name}'", "Describe")


def log_error(
    failure: str, error: KafkaException | TimeoutError, denied: Forbidden | None = None
) -> LogError:
    """Makes the error to raise: Unavailable for a failure that may pass by itself, else LogError.

    error: TimeoutError of a future of the client for administrators.
    denied: the error to raise for a refusal because of missing rights.
    """
    if isinstance(error, TimeoutError):
        return Unavailable(f"{failure}: no answer")
    if denied is not None and error.args[0].code() in _DENIED:
        return denied
    kind = Unavailable if is_transient(error) else LogError
    leaderless = error.args[0].code() in _LEADERLESS
    reason = "no broker leads it now; waits for one" if leaderless else error_text(error)
    return kind(f"{failure}: {reason}")
