"""What Kafka itself answers to each kind of user, under the shipped access lists."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)
from deploy.secured import PRIVATE, PUBLIC, USERS
from deploy.users import (
    CONFIDENTIAL,
    HEARTBEATS,
    JOURNAL,
    LETTERS,
    RELEASES,
    REPORTS,
    STUDY,
    World,
)


def code(call: Callable[[], Any]) -> int:
    """The code of Kafka's refusal; 0 where there is none."""
    try:
        call()
    except KafkaException as error:
        return int(error.args[0].code())
    return 0


def test_each_may_do_exactly_this(world: World, released: str) -> None:
    """The operations that the broker says each user has, by topic; nothing else is visible."""
    rights = {}
    for user in USERS[1:]:
        admin = AdminClient(world.client(user))
        seen = set(admin.list_topics(timeout=60).topics)
        for topic in seen:
            future = admin.describe_topics(
                TopicCollection([topic]), include_authorized_operations=True
            )[topic]
            operations = future.result(60).authorized_operations
            rights[user, topic] = {operation.name for operation in operations}
    checks = {"READ", "DESCRIBE", "DESCRIBE_CONFIGS"}
    assert rights == {
        ("producer", REPORTS): {"WRITE", "DESCRIBE"},
        ("producer", STUDY): {"READ", "WRITE", "DESCRIBE"},
        ("releaser", STUDY): checks | {"WRITE"},
        ("releaser", REPORTS): checks,
        ("releaser", LETTERS): checks | {"WRITE"},
        ("releaser", JOURNAL): checks | {"WRITE"},
        ("releaser", HEARTBEATS): checks | {"WRITE"},
        ("releaser", RELEASES): checks | {"WRITE"},
        ("analyst", RELEASES): {"READ", "DESCRIBE"},
    }


@pytest.mark.parametrize("user", ["analyst", "monitor", "producer"])
def test_nobody_else_so_much_as_describes_confidential_topics(
    world: World, released: str, user: str
) -> None:
    admin = AdminClient(world.client(user))
    denied = KafkaError.TOPIC_AUTHORIZATION_FAILED
    for topic in CONFIDENTIAL:
        if user == "producer" and topic in {REPORTS, STUDY}:
            continue
        described = admin.describe_topics(TopicCollection([topic]))[topic]
        assert code(lambda f=described: f.result(60)) == denied
        place = TopicPartition(topic, 0)
        offsets = admin.list_offsets({place: OffsetSpec.latest()})[place]
        assert code(lambda f=offsets: f.result(60)) in {denied, KafkaError._NOENT}
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        settings = admin.describe_configs([resource])[resource]
        assert code(lambda f=settings: f.result(60)) == denied
        # The answer is the same whether the topic exists or not.
        missing = f"{topic}-not-there"
        described = admin.describe_topics(TopicCollection([missing]))[missing]
        assert code(lambda f=described: f.result(60)) == denied


@pytest.mark.parametrize(
    ("user", "topics"),
    [
        ("producer", (REPORTS, LETTERS, JOURNAL, RELEASES)),
        ("analyst", CONFIDENTIAL),
        ("monitor", (*CONFIDENTIAL, RELEASES)),
    ],
)
def test_who_cannot_read(world: World, released: str, user: str, topics: tuple[str, ...]) -> None:
    """A consumer of theirs gets refusals and no record; of what is hidden it learns no leader."""
    settings = {"group.id": f"{PUBLIC}.reader", "topic.metadata.propagation.max.ms": 0}
    consumer = Consumer(world.client(user) | settings)
    try:
        consumer.assign([TopicPartition(topic, 0, 0) for topic in topics])
        denied, codes = KafkaError.TOPIC_AUTHORIZATION_FAILED, set[int]()
        deadline = time.monotonic() + (120 if user == "producer" else 2)
        while denied not in codes and time.monotonic() < deadline:
            if (message := consumer.poll(0.1)) is not None:
                codes.add(message.error().code())
        for topic in topics:
            refusal = consumer.list_topics(topic, 60).topics[topic].error
            if (user, topic) == ("producer", REPORTS):
                assert refusal is None
                assert denied in codes
            else:
                assert refusal.code() == denied
    finally:
        consumer.close()
    assert codes <= {denied, KafkaError.GROUP_AUTHORIZATION_FAILED}


@pytest.mark.parametrize(
    ("user", "topic"),
    [("producer", JOURNAL), ("producer", LETTERS), ("producer", RELEASES), ("releaser", REPORTS)]
    + [(user, topic) for user in ("analyst", "monitor") for topic in (*CONFIDENTIAL, RELEASES)],
)
def test_who_cannot_write(world: World, released: str, user: str, topic: str) -> None:
    errors = []
    producer = Producer(world.client(user) | {"message.timeout.ms": 60_000})
    producer.produce(topic, b"x", partition=0, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(120) == 0
    assert [error.code() for error in errors] == [KafkaError.TOPIC_AUTHORIZATION_FAILED]


@pytest.mark.parametrize("user", ["producer", "analyst", "monitor"])
def test_nobody_else_can_take_the_releasers_roles(world: World, released: str, user: str) -> None:
    for role in (f"{PRIVATE}.releaser", f"{PUBLIC}.publisher"):
        producer = Producer(world.client(user) | {"transactional.id": role})
        refused = code(lambda p=producer: p.init_transactions(60))
        assert refused == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_nobody_administers(world: World, released: str) -> None:
    opened = AclBinding(
        *(ResourceType.TOPIC, "*", ResourcePatternType.LITERAL, "User:*", "*"),
        *(AclOperation.ALL, AclPermissionType.ALLOW),
    )
    for user in USERS[1:]:
        admin = AdminClient(world.client(user))
        for futures in (
            admin.create_topics([NewTopic(f"{PUBLIC}.more", 1, 1)]),
            admin.delete_topics([RELEASES]),
            admin.create_acls([opened]),
            admin.delete_records([TopicPartition(RELEASES, 0, 1)]),
        ):
            (future,) = futures.values()
            assert code(lambda f=future: f.result(60)) in {
                KafkaError.TOPIC_AUTHORIZATION_FAILED,
                KafkaError.CLUSTER_AUTHORIZATION_FAILED,
                KafkaError._NOENT,
            }


def test_the_monitor_sees_the_cluster_and_no_positions(world: World, released: str) -> None:
    admin = AdminClient(world.client("monitor"))
    described = admin.describe_cluster(include_authorized_operations=True).result(60)
    assert {operation.name for operation in described.authorized_operations} == {"DESCRIBE"}
    for user in ("producer", "analyst"):
        plain = AdminClient(world.client(user))
        described = plain.describe_cluster(include_authorized_operations=True).result(60)
        assert not described.authorized_operations
    asked = ConsumerGroupTopicPartitions(f"{PRIVATE}.reader", [TopicPartition(REPORTS, 0)])
    plain = AdminClient(world.client("analyst"))
    (future,) = plain.list_consumer_group_offsets([asked]).values()
    assert code(lambda: future.result(60)) == KafkaError.GROUP_AUTHORIZATION_FAILED
