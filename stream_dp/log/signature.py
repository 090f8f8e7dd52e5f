"""Who took a role of a Kafka log last: each owner signs for it before it takes it.

A broker gives the same answer to a producer that another one has fenced and to one whose
transaction was aborted because it took too long, as after a pause of its process. Only the first of
them has lost its role to somebody. A signature is the metadata of a position that the group named
after the role commits: one slot, of which the last writer wins, without a topic of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from stream_dp.privacy.noise import system_entropy

from .topics import TIMEOUT, log_error, new_client

_UNSEEN = {KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED}
_Answer = TypeVar("_Answer")


class Signature:
    """A random name for this owner of `role`. topic: one that the owner may read."""

    def __init__(self, settings: Mapping[str, str], role: str, topic: str) -> None:
        self._settings = {**settings, "group.id": role, "enable.auto.commit": False}
        self._role, self._topic, self._name = role, topic, system_entropy(16).hex()

    def sign(self) -> bool:
        """Leave the name; False where this user has no right to. Raises LogError."""
        place = TopicPartition(self._topic, 0, 0, self._name)

        def commit(consumer: Any) -> None:
            for done in consumer.commit(offsets=[place], asynchronous=False):
                if done.error is not None:
                    raise KafkaException(done.error)

        try:
            self._asked(commit)
        except KafkaException as error:
            if error.args[0].code() in _UNSEEN:
                return False
            raise log_error(f"kafka: the role '{self._role}' is not to be had", error) from None
        return True

    def is_last(self) -> bool:
        """Whether nobody has signed since. Raises LogError."""
        try:
            (place,) = self._asked(
                lambda consumer: consumer.committed([TopicPartition(self._topic, 0)], TIMEOUT)
            )
        except KafkaException as error:
            raise log_error(f"kafka: who has the role '{self._role}' is not known", error) from None
        return bool(place.metadata == self._name)

    def _asked(self, ask: Callable[[Any], _Answer]) -> _Answer:
        with closing(new_client(Consumer, self._settings)) as consumer:
            return ask(consumer)
