"""What a user without a right is told: the right and where, never that something is lost."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from deploy.secured import PRIVATE
from deploy.users import HEARTBEATS, JOURNAL, LETTERS, RELEASES, STUDY, World

from stream_dp.log.kafka import KafkaLog
from stream_dp.log.log import Forbidden, LogError, Record

SEE = "kafka: no right to see topic '{}'; grant Describe on it"


@contextmanager
def denied(world: World, user: str, topic: str, right: AclOperation) -> Iterator[None]:
    """Takes a right on a topic from a user, as an administrator can at any time."""
    admin = AdminClient(world.client("admin"))
    what = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{user}", "*", right)
    named = AclBindingFilter(*what, AclPermissionType.DENY)
    (made,) = admin.create_acls([AclBinding(*what, AclPermissionType.DENY)]).values()
    made.result(60)
    while not admin.describe_acls(named).result(60):  # brokers learn of it a moment later
        time.sleep(0.01)
    try:
        yield
    finally:
        (gone,) = admin.delete_acls([named]).values()
        gone.result(60)
        while admin.describe_acls(named).result(60):
            time.sleep(0.01)


@pytest.fixture
def log(world: World, released: str) -> Iterator[KafkaLog]:
    """The confidential log as the releaser's user opens it."""
    client = world.client("releaser")
    with closing(KafkaLog(PRIVATE, {k: str(v) for k, v in client.items()})) as opened:
        yield opened


# A right that is taken while a client lives


def test_a_commit_that_is_refused_is_no_unknown_one(world: World, log: KafkaLog) -> None:
    def beat() -> list[Record]:
        return [Record("heartbeats", b"", b"other", partition=0)]

    line = f"kafka: no right to write to topic '{HEARTBEATS}'; grant Write on it"
    with log.own("releaser", "journal") as writer:
        writer.commit(beat())
        with denied(world, "releaser", HEARTBEATS, AclOperation.WRITE):
            for _ in range(2):
                with pytest.raises(Forbidden) as refusal:
                    writer.commit(beat())
                assert str(refusal.value) == line
            with pytest.raises(Forbidden) as refusal:
                log.append(beat())
            assert str(refusal.value) == line
    with log.own("releaser", "journal") as writer:
        writer.commit(beat())


def until_refused(log: KafkaLog) -> None:
    """Asks in turn with pauses, in which the client closes its connection."""
    for _ in range(100):
        log.describe("journal")
        time.sleep(1.5)


READS: dict[str, tuple[AclOperation, Callable[[KafkaLog], object], str]] = {
    "read": (
        AclOperation.READ,
        lambda log: log.read("journal", {0: 0}, 1, 60),
        f"kafka: no right to read topic '{JOURNAL}'; grant Read on it",
    ),
    "describe": (
        AclOperation.DESCRIBE,
        lambda log: log.describe("journal"),
        SEE.format(JOURNAL),
    ),
    "cut": (
        AclOperation.DESCRIBE,
        lambda log: log.cut("journal", 0),
        SEE.format(JOURNAL),
    ),
    "settings": (
        AclOperation.DESCRIBE_CONFIGS,
        lambda log: log.faults({"journal": 1}),
        f"kafka: no right to see the settings of topic '{JOURNAL}'; grant DescribeConfigs on it",
    ),
}


@pytest.mark.parametrize("call", READS)
def test_each_call_names_the_right_it_lacks(world: World, log: KafkaLog, call: str) -> None:
    right, do, line = READS[call]
    do(log)
    with denied(world, "releaser", JOURNAL, right), pytest.raises(LogError) as refusal:
        do(log)
    assert (type(refusal.value), str(refusal.value)) == (Forbidden, line)


def test_the_releaser_ends_with_the_right_it_lacks(world: World, released: str) -> None:
    """With exit code 2: a service manager that starts it again changes nothing."""
    lines = {
        (HEARTBEATS, AclOperation.WRITE): f"write to topic '{HEARTBEATS}'; grant Write on it",
        (RELEASES, AclOperation.READ): f"read topic '{RELEASES}'; grant Read on it",
    }
    for (topic, right), line in lines.items():
        with denied(world, "releaser", topic, right):
            said = world.as_user("releaser", "run", released, "--until-idle")
        assert said == (2, "", f"stream-dp: kafka: no right to {line}\n")


def test_a_password_that_is_changed_while_a_client_lives(world: World, released: str) -> None:
    """The client meets the refusal when it connects again, here after a second without a call."""
    user, admin = f"u{uuid.uuid4().hex[:8]}", AdminClient(world.client("admin"))

    def set_password(password: str) -> None:
        way = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        change = UserScramCredentialUpsertion(user, way, password.encode())
        for future in admin.alter_user_scram_credentials([change]).values():
            future.result(60)

    def allowed() -> AclBinding:
        what = (ResourceType.TOPIC, JOURNAL, ResourcePatternType.LITERAL, f"User:{user}", "*")
        return AclBinding(*what, AclOperation.READ, AclPermissionType.ALLOW)

    set_password("the-first-one")
    for future in admin.create_acls([allowed()]).values():
        future.result(60)
    settings = {k: str(v) for k, v in world.client("admin").items()}
    settings |= {"sasl.username": user, "sasl.password": "the-first-one"}
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        log = stack.enter_context(
            closing(KafkaLog(PRIVATE, settings | {"connections.max.idle.ms": "500"}))
        )
        log.describe("journal")
        set_password("the-second-one")
        patch.setattr("stream_dp.log.kafka_clients.TIMEOUT", 1.0)
        with pytest.raises(LogError, match=r"^kafka: the login is refused: sasl_plaintext://"):
            until_refused(log)


# Each command, without the rights that it needs

PAIRS = {
    ("producer", "rejected"): SEE.format(LETTERS),
    ("producer", "status"): SEE.format(JOURNAL),
    ("analyst", "status"): SEE.format(STUDY),
    ("analyst", "verify"): SEE.format(STUDY),
    ("monitor", "rejected"): SEE.format(STUDY),
    ("monitor", "releases"): SEE.format(RELEASES),
    ("producer", "run"): SEE.format(LETTERS),
}


@pytest.mark.parametrize(("user", "command"), PAIRS)
def test_a_command_names_the_right_it_lacks(
    world: World, released: str, user: str, command: str
) -> None:
    said = world.as_user(user, command, released)
    side = "public log: " if RELEASES in PAIRS[user, command] else ""
    assert said == (2, "", f"stream-dp: {side}{PAIRS[user, command]}\n")


def test_the_releaser_backs_up_what_its_study_has(world: World, released: str) -> None:
    """Of topics of other kinds of studies it may not see whether they exist."""
    said = world.as_user("releaser", "backup", released, str(world.folder / "backup"))
    assert (said.code, said.error) == (0, "")


@pytest.mark.parametrize("user", ["producer", "analyst", "monitor"])
def test_a_backup_without_rights_says_nothing_of_a_loss(
    world: World, released: str, user: str
) -> None:
    said = world.as_user(user, "backup", released, str(world.folder / f"backup-{user}"))
    assert (said.code, said.out) == (2, "")
    assert said.error.startswith("stream-dp: kafka: no right to ")
