"""Creates and checks topics on a Kafka cluster, and finds the first and last offsets."""

from __future__ import annotations

import math
import time as clock_module
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from confluent_kafka import (
    OFFSET_END,
    OFFSET_INVALID,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import ConfigResource, NewTopic, OffsetSpec

from .kafka_clients import (
    DENIED_TOPIC,
    TIMEOUT,
    ClusterAdmin,
    answer_of,
    forbidden,
    is_transient,
    log_error,
    unseen,
)
from .log import Forbidden, LogError, Missing, Positions, TopicInfo, Unavailable

BROKER_BYTES = 1_048_588  # the largest record that brokers take by default
_SOON = 0.05
# A closed segment is compacted; markers of transactions stay for an hour.
_COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),
    "min.cleanable.dirty.ratio": "0.1",
    "delete.retention.ms": "3600000",
}
# Why a cluster does not show a topic: it is not there, or not yet ready.
_UNSEEN = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE}
_NO_ANSWER = "kafka: the cluster does not answer"
_TIMESTAMPS = ("message.timestamp.after.max.ms", "message.timestamp.before.max.ms")
_AT_LEAST = {"min.insync.replicas", "max.message.bytes"}
_HAZARDS = {"cleanup.policy", "retention.ms", "retention.bytes", "max.message.bytes"}


class Topics:
    """Topics `PREFIX.NAME`.

    named: topics that others own, with their whole names; they are never created.
    timed: names of topics whose records carry the broker's append time.
    latest: names of compacted topics.
    kept: by timed topic, the seconds after which records may be deleted.
    """

    def __init__(
        self,
        prefix: str,
        settings: Mapping[str, object],
        replication: int,
        timed: Iterable[str],
        latest: Iterable[str] = (),
        kept: Mapping[str, float] | None = None,
        named: Mapping[str, str] | None = None,
    ) -> None:
        self._named = named or {}
        self._prefix, self._replication = prefix, replication
        self._timed, self._latest = frozenset(timed), frozenset(latest)
        self._kept = kept or {}
        self._admin = ClusterAdmin(settings)
        self._cluster = ""  # its id, once it is known
        self._known: dict[str, int] = {}
        self._created: set[str] = set()

    def close(self) -> None:
        self._admin.close()

    def name(self, topic: str) -> str:
        return self._named.get(topic, f"{self._prefix}.{topic}")

    def create(self, topics: Mapping[str, int]) -> None:
        existing = self._descriptions(topics)
        for topic in self._named:
            if topic in topics and topic not in existing:
                raise Missing(
                    f"kafka: no topic '{self.name(topic)}'; a topic that has a name of its own is"
                    " not created: create it, or correct the name"
                )
        missing = [
            NewTopic(
                self.name(topic),
                num_partitions=count,
                replication_factor=self._replication,
                config=self.config(topic),
            )
            for topic, count in topics.items()
            if topic not in existing
        ]
        if not missing:
            return
        self._created |= {new.topic for new in missing}

        def request(client: Any, seconds: float) -> None:
            how = {"operation_timeout": seconds, "request_timeout": seconds}
            for name, future in client.create_topics(missing, **how).items():
                try:
                    answer_of(future, seconds)
                except KafkaException as error:
                    if is_transient(error):
                        raise
                    if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                        denied = forbidden("create", f"topic '{name}'", "Create")
                        failure = f"kafka: topic '{name}' was not created"
                        raise log_error(failure, error, denied) from None

        self._admin.ask("kafka: the topics were not created", request, [missing[0].topic])
        deadline = clock_module.monotonic() + TIMEOUT
        while not self._all_led(topics):
            if clock_module.monotonic() > deadline:
                raise Unavailable("kafka: the new topics do not appear")
            clock_module.sleep(_SOON)

    def _all_led(self, topics: Iterable[str]) -> bool:
        """Tells whether every partition of all topics has a leader."""
        descriptions = self._descriptions(topics)
        partitions = [p for d in descriptions.values() for p in d.partitions]
        return len(descriptions) == len(set(topics)) and all(
            p.leader is not None for p in partitions
        )

    def config(self, topic: str) -> dict[str, str]:
        """Returns the required settings of a topic.

        No record is ever deleted; in a `latest` topic the broker drops records that a later one
        replaces.
        """
        timed = topic in self._timed
        settings = {
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "retention.bytes": "-1",
            "max.message.bytes": str(BROKER_BYTES),
            "min.insync.replicas": str(max(1, self._replication - 1)),
            "unclean.leader.election.enable": "false",
            "message.timestamp.type": "LogAppendTime" if timed else "CreateTime",
        }
        if not timed:  # a release bears its scheduled time, which lies ahead after an early close
            settings |= dict.fromkeys(_TIMESTAMPS, str((1 << 63) - 1))
        return settings | _COMPACTED if topic in self._latest else settings

    def faults(self, topics: Mapping[str, int]) -> list[str]:
        """Describes how topics differ from the result of `create`, a line per fault."""
        problems = list[str]()
        for topic, count in topics.items():
            try:
                seen = self._existing(topic)
            except (Missing, Forbidden) as error:
                problems.append(str(error))
                continue
            copies = min((len(p.replicas) for p in seen.partitions), default=0)
            problems += self._misplaced(topic, count, len(seen.partitions), copies)
            problems += self._misconfigured(topic, copies)
        return problems

    def _misplaced(self, topic: str, expected: int, count: int, copies: int) -> list[str]:
        """Faults in the numbers of partitions and replicas. copies: replicas of a partition."""
        name, problems = self.name(topic), []
        if count != expected:
            problems.append(f"kafka: {name} has {count} partitions, not {expected}")
        if copies < self._replication:
            problems.append(
                f"kafka: {name} has {copies} replicas, fewer than {self._replication};"
                " say replication in [run] where that is meant"
            )
        return problems

    def codec(self, topic: str) -> str | None:
        """Returns the codec that the broker enforces in a timed topic, to which strangers write.

        Returns "producer" if every batch keeps the codec of its sender, and if this user may not
        see the topic's settings. Returns None for all other topics.

        Raises Missing or Unavailable.
        """
        if topic not in self._timed:
            return None
        self.partitions(topic)
        try:
            return self._settings_of([topic])[topic].get("compression.type") or "producer"
        except Unavailable:
            raise
        except LogError:
            return "producer"

    def _settings_of(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        """Looks up the present settings of existing topics."""
        names, kind = {topic: self.name(topic) for topic in topics}, ConfigResource.Type.TOPIC
        if not names:
            return {}

        def ask(client: Any, seconds: float) -> dict[str, dict[str, str]]:
            resources = {topic: ConfigResource(kind, name) for topic, name in names.items()}
            futures = client.describe_configs(list(resources.values()), request_timeout=seconds)
            return {
                topic: {
                    key: entry.value for key, entry in answer_of(futures[future], seconds).items()
                }
                for topic, future in resources.items()
            }

        listed = list(names.values())
        text = ", ".join(listed)
        denied = forbidden("see the settings of", f"topic '{text}'", "DescribeConfigs")
        return self._admin.ask(f"kafka: {text} cannot be checked", ask, listed, denied)

    def hazards(self, topics: Iterable[str]) -> list[str]:
        """Describes settings with which topics lose or refuse records, a line per fault."""
        return [
            line
            for topic, settings in self._settings_of(topics).items()
            for key, line in self._other_settings(topic, settings)
            if key in _HAZARDS
        ]

    def _other_settings(self, topic: str, settings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yields the keys and descriptions of settings that differ from the required ones."""
        name = self.name(topic)
        for key, expected in self.config(topic).items():
            current = settings.get(key)
            enough = key in _AT_LEAST and int(current or 0) >= int(expected)
            # Reports may expire once a snapshot holds them; decisions must not.
            free = topic in self._timed and key.startswith("retention.")
            least_retention = self._kept.get(topic, 0.0) if key == "retention.ms" else 0.0
            if least_retention and current != "-1" and int(current or 0) < 1000 * least_retention:
                yield (
                    key,
                    f"kafka: {name} has {key} = {current}, not -1 or at least"
                    f" {math.ceil(1000 * least_retention)}: records are deleted before their"
                    " period is closed",
                )
            elif current != expected and not enough and not free:
                comparison = "at least " if key in _AT_LEAST else ""
                yield key, f"kafka: {name} has {key} = {current}, not {comparison}{expected}"

    def _misconfigured(self, topic: str, copies: int) -> list[str]:
        """Settings by which records would be lost, or none could be written."""
        name, settings = self.name(topic), self._settings_of([topic])[topic]
        problems = [line for _, line in self._other_settings(topic, settings)]
        if (needed := int(settings.get("min.insync.replicas") or 0)) > copies:
            problems.append(
                f"kafka: {name} has min.insync.replicas = {needed} and {copies} replicas, so"
                " nothing can be written to it"
            )
        return problems

    def _descriptions(self, topics: Iterable[str]) -> dict[str, Any]:
        """Looks up the topics that the cluster has and shows to this user.

        Only these are asked for: a cluster may have thousands of others. Raises Forbidden.
        """
        names = {topic: self.name(topic) for topic in topics}

        def ask(client: Any, seconds: float) -> dict[str, Any]:
            futures = client.describe_topics(
                TopicCollection(list(names.values())), request_timeout=seconds
            )
            descriptions = {}
            for topic, name in names.items():
                try:
                    descriptions[topic] = answer_of(futures[name], seconds)
                except KafkaException as error:
                    if error.args[0].code() == DENIED_TOPIC:
                        raise unseen(name) from None
                    if error.args[0].code() not in _UNSEEN:
                        raise
            return descriptions

        return self._admin.ask(_NO_ANSWER, ask, list(names.values())[:1])

    def partitions(self, topic: str) -> int:
        """Looks up the topic's number of partitions at the first call and returns it."""
        return self._known[topic] if topic in self._known else len(self._existing(topic).partitions)

    def _existing(self, topic: str) -> Any:
        """Looks up a topic, and notes its number of partitions. Raises Missing, Forbidden."""
        seen = self._seen(topic)
        if seen is None:
            raise Missing(f"kafka: no topic '{self.name(topic)}'")
        self._known[topic] = len(seen.partitions)
        return seen

    def any_known(self) -> str | None:
        """Returns the name of any topic already looked up. None before the first."""
        return next(map(self.name, self._known), None)

    def _seen(self, topic: str) -> Any:
        """Looks up a topic. Waits for a new topic until the broker knows it."""
        deadline = clock_module.monotonic() + TIMEOUT
        while True:
            seen = self._descriptions([topic]).get(topic)
            late = clock_module.monotonic() > deadline
            if seen is not None or late or self.name(topic) not in self._created:
                return seen
            clock_module.sleep(_SOON)

    def describe(self, topic: str) -> TopicInfo:
        return self._infos({topic: self._existing(topic)})[topic]

    def describe_all(self, topics: Iterable[str]) -> dict[str, TopicInfo]:
        """Describes the topics that the cluster has and shows to this user."""
        return self._infos(self._descriptions(topics))

    def _infos(self, seen: Mapping[str, Any]) -> dict[str, TopicInfo]:
        """Describes topics that were just looked up."""
        if not seen:
            return {}
        if not self._cluster:
            cluster = self._admin.ask(
                _NO_ANSWER,
                lambda client, seconds: answer_of(
                    client.describe_cluster(request_timeout=seconds), seconds
                ),
                [self.name(topic) for topic in seen][:1],
            )
            self._cluster = cluster.cluster_id
        self._known.update({topic: len(metadata.partitions) for topic, metadata in seen.items()})
        first = self._offsets_of(seen, OffsetSpec.earliest())
        return {
            topic: TopicInfo(
                f"{self._cluster}/{metadata.topic_id}", self._known[topic], first[topic]
            )
            for topic, metadata in seen.items()
        }

    def cut(self, topic: str, time: float) -> Positions:
        """Returns the first offset at or after a time, whether or not its transaction has ended."""
        positions = self._offsets(topic, OffsetSpec.for_timestamp(round(time * 1000)))
        if OFFSET_END in positions.values():
            ends = self._offsets(topic, OffsetSpec.latest())
            positions = {
                p: ends[p] if position == OFFSET_END else position
                for p, position in positions.items()
            }
        return positions

    def stable(self, topic: str) -> Positions:
        """Returns the first offset of an open transaction, or the end."""
        return self._offsets(topic, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)

    def _offsets(
        self,
        topic: str,
        spec: OffsetSpec,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> Positions:
        return self._offsets_of([topic], spec, isolation)[topic]

    def _offsets_of(
        self,
        topics: Iterable[str],
        spec: OffsetSpec,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[str, Positions]:
        """Looks up offsets by topic and partition."""
        names = {self.name(topic): topic for topic in topics}
        requests = {
            TopicPartition(name, partition): spec
            for name, topic in names.items()
            for partition in range(self.partitions(topic))
        }

        def ask(client: Any, seconds: float) -> dict[str, Positions]:
            how = {"isolation_level": isolation, "request_timeout": seconds}
            futures = client.list_offsets(requests, **how)
            offsets: dict[str, Positions] = {topic: {} for topic in names.values()}
            try:
                for tp, future in futures.items():
                    offset = int(answer_of(future, seconds).offset)
                    if offset == OFFSET_INVALID:  # of a partition whose leader moves
                        raise KafkaException(KafkaError(KafkaError.OFFSET_NOT_AVAILABLE))
                    offsets[names[tp.topic]][tp.partition] = offset
            except KafkaException as error:
                if error.args[0].code() == KafkaError._NOENT:
                    self._descriptions(names.values())  # no leaders for a user without rights
                raise
            return offsets

        return self._admin.ask(f"kafka: no positions of {', '.join(names)}", ask, list(names))
