"""Batches on Kafka that the client refuses to decompress, because they expand to too much.

The client stays in front of such a batch for ever and does not say how many records it holds.
Its end is searched for by asking what can be read at positions behind it.
"""

from __future__ import annotations

import time as clock_module
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from .base import Unavailable
from .topics import TIMEOUT, new_client

_WAIT = 0.5


class Unreadable:
    """Where such batches end. settings: of the consumer that met them."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._ends: dict[tuple[str, int, int], int] = {}

    def end(self, name: str, partition: int, position: int) -> int:
        """The first position after the batch of `name` that holds `position`."""
        for (topic, part, first), end in self._ends.items():
            if (topic, part) == (name, partition) and first <= position < end:
                return end
        consumer = new_client(Consumer, self._settings)
        try:
            base = _batch(consumer, name, partition, position)
            inside, beyond = position, position + 1
            while _batch(consumer, name, partition, beyond) == base:
                inside, beyond = beyond, beyond + 2 * (beyond - position)
            while beyond - inside > 1:
                middle = (inside + beyond) // 2
                if _batch(consumer, name, partition, middle) == base:
                    inside = middle
                else:
                    beyond = middle
        finally:
            consumer.close()
        if base is not None:
            self._ends[name, partition, base] = beyond
        return beyond


def _batch(consumer: Consumer, name: str, partition: int, position: int) -> int | None:
    """The first position of the unreadable batch at `position`; None where there is none."""
    consumer.assign([TopicPartition(name, partition, position)])
    deadline = clock_module.monotonic() + TIMEOUT
    while clock_module.monotonic() < deadline:
        message = consumer.poll(_WAIT)
        if message is None:
            continue
        error = message.error()
        if error is None or error.code() in {
            KafkaError._PARTITION_EOF,
            KafkaError._AUTO_OFFSET_RESET,
            KafkaError.OFFSET_OUT_OF_RANGE,
        }:
            return None
        if error.code() == KafkaError._BAD_COMPRESSION:
            return int(message.offset())
    raise Unavailable(f"kafka: {name} cannot be read: no answer")
