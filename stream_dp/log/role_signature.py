"""Records the last owner of a role of a Kafka log: an owner signs before it takes the role.

A broker gives the same error to a producer that another one has fenced and to one whose transaction
was aborted because it took too long, as after a pause of its process. Only the first has lost its
role to another owner; the last signature tells the two apart. A signature is stored as the metadata
of an offset that the consumer group with the role's name commits, so it needs no topic.
"""

from __future__ import annotations

import time as clock_module
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from stream_dp.privacy.noise import system_entropy

from .kafka_clients import TIMEOUT, log_error, new_client
from .log import LogError

_UNSEEN = {KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED}
# A broker that has just begun, or taken over, knows its groups only after a moment.
_NOT_YET = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}
# A consumer that is a member of the group keeps all others from committing.
_TAKEN = {
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
}
_PAUSE = 0.2
_Answer = TypeVar("_Answer")


class Signature:
    """A random name of this owner of `role`. topic: a topic that the owner may read."""

    def __init__(self, settings: Mapping[str, str], role: str, topic: str) -> None:
        self._settings = {**settings, "group.id": role, "enable.auto.commit": False}
        self._role, self._topic, self._name = role, topic, system_entropy(16).hex()

    def sign(self) -> bool:
        """Stores the name as the last signature. Returns False without the right to. Raises
        LogError.
        """
        offset = TopicPartition(self._topic, 0, 0, self._name)

        def commit(consumer: Any) -> None:
            for result in consumer.commit(offsets=[offset], asynchronous=False):
                if result.error is not None:
                    raise KafkaException(result.error)

        try:
            self._with_consumer(commit)
        except KafkaException as error:
            if error.args[0].code() in _UNSEEN:
                return False
            if error.args[0].code() in _TAKEN:
                raise LogError(
                    f"kafka: a consumer of another program is in the group '{self._role}', in which"
                    " stream-dp notes who has this role; stop that consumer, or give it another"
                    " group.id"
                ) from None
            raise log_error(f"kafka: the role '{self._role}' is not to be had", error) from None
        return True

    def is_last(self) -> bool:
        """Tells whether this owner's signature is still the last. Raises LogError."""
        try:
            (committed,) = self._with_consumer(
                lambda consumer: consumer.committed([TopicPartition(self._topic, 0)], TIMEOUT)
            )
        except KafkaException as error:
            raise log_error(f"kafka: who has the role '{self._role}' is not known", error) from None
        return bool(committed.metadata == self._name)

    def _with_consumer(self, ask: Callable[[Any], _Answer]) -> _Answer:
        """Asks the group's coordinator; repeats while it is starting. Raises KafkaException."""
        end = clock_module.monotonic() + TIMEOUT
        with closing(new_client(Consumer, self._settings)) as consumer:
            while True:
                try:
                    return ask(consumer)
                except KafkaException as error:
                    late = clock_module.monotonic() > end
                    if late or error.args[0].code() not in _NOT_YET:
                        raise
                clock_module.sleep(_PAUSE)
