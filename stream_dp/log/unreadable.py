"""Batches on Kafka beyond the client's limit of decompressed bytes.

The client refuses such a batch, stays in front of it for ever and does not say how many records it
holds. The batch's end is found by probing which offsets behind it can be read.
"""

from __future__ import annotations

import time as clock_module
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, TopicPartition

from .kafka_clients import TIMEOUT, new_client
from .log import Unavailable

_WAIT = 0.5


class Unreadable:
    """Finds the ends of unreadable batches. settings: of the consumer that met them."""

    def __init__(self, settings: Mapping[str, object]) -> None:
        self._settings = settings
        self._ends: dict[tuple[str, int, int], int] = {}

    def end(self, name: str, partition: int, position: int) -> int:
        """Returns the first offset after the batch of `name` that holds `position`."""
        for (topic, batch_partition, first), end in self._ends.items():
            if (topic, batch_partition) == (name, partition) and first <= position < end:
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
    """Returns the first offset of the unreadable batch at `position`.

    Returns None if the record there can be read.
    """
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
