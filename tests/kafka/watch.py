"""A consumer under read_uncommitted: it sees even the records of aborted transactions."""

from __future__ import annotations

import threading
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition


class Seen(NamedTuple):
    """A record as any consumer reads it. time: Unix milliseconds."""

    offset: int
    time: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]

    @property
    def id(self) -> str:
        """The id of the message part, from the CloudEvents header."""
        return dict(self.headers).get("ce_id", b"").decode()


class Watch:
    """Follows partition 0 of a topic from its beginning, in a thread, until it is stopped."""

    def __init__(self, server: str, topic: str) -> None:
        self.seen: list[Seen] = []
        self._topic, self._server = topic, server
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._server,
                "group.id": "watch",
                "isolation.level": "read_uncommitted",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "logger": _Silent(),
            }
        )
        consumer.assign([TopicPartition(self._topic, 0, 0)])
        ending = False
        while True:
            if self._stop.is_set() and not ending:
                # An end is reported once; only a fresh fetch tells that it still is the end.
                ending, place = True, self.seen[-1].offset + 1 if self.seen else 0
                consumer.assign([TopicPartition(self._topic, 0, place)])
            message = consumer.poll(0.2)
            if message is None:
                continue
            if message.error() is None:
                self.seen.append(_seen(message))
            elif ending and message.error().code() == KafkaError._PARTITION_EOF:
                break
        consumer.close()

    def stop(self) -> list[Seen]:
        """Ends the thread; returns everything up to the end of the topic."""
        self._stop.set()
        self._thread.join(120)
        assert not self._thread.is_alive(), "the end of the topic never came"
        return self.seen


def _seen(message: Message) -> Seen:
    return Seen(
        offset=message.offset(),
        time=message.timestamp()[1],
        key=message.key(),
        value=message.value(),
        headers=tuple(message.headers() or ()),
    )


class _Silent:
    def log(self, *_: object) -> None:
        """Drops librdkafka's messages: the broker is killed on purpose."""
