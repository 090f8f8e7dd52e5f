"""Four kinds of users on a broker with the shipped properties, scripts and access lists."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

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
from deploy.secured import HERE, PRIVATE, PUBLIC, USERS, Secured

from stream_dp.log.base import LogError, Unavailable
from stream_dp.log.kafka import KafkaLog

STUDY = """
[study]
name = "poverty"
unit = "household"
neighbours = "replace_one"
rho = 5
delta = 1e-6

[study.periods]
first = "2021-01"
every = "month"
count = 3
close = "marker"

[study.population]
size = 50

[attributes.poverty]
values = [0, 1]
missing = 0

[[releases]]
name = "pairs"
kind = "window"
attribute = "poverty"
width = 2
rho = 5

[run]
log = "kafka://127.0.0.1:{port}/{private}"
public = "kafka://127.0.0.1:{port}/{public}"
partitions = 2
replication = 1
{settings}
"""
SCRAM = """
"security.protocol" = "SASL_PLAINTEXT"
"sasl.mechanism" = "SCRAM-SHA-512"
"sasl.username" = {user}
"sasl.password" = {password}
"""
TLS = """
"security.protocol" = "SSL"
"ssl.ca.location" = "{secrets}/authority.pem"
"ssl.certificate.location" = "{secrets}/{user}.crt"
"ssl.key.location" = "{secrets}/{user}.key"
"""
FROM_ENVIRONMENT = SCRAM.format(
    user='{ env = "KAFKA_USER" }', password='{ env = "KAFKA_PASSWORD" }'
)
SASL = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "x", "sasl.password": "y"}
REPORTS, LETTERS, JOURNAL = (f"{PRIVATE}.{t}" for t in ("reports", "dead-letters", "journal"))
CONFIDENTIAL = (REPORTS, LETTERS, JOURNAL)
RELEASES = f"{PUBLIC}.releases"


class Said(NamedTuple):
    code: int
    out: str
    error: str
    seconds: float


class World:
    """The broker, a folder with study files, and the command line as any of the users."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.broker = Secured(folder / "broker")
        self.broker.folder.mkdir()
        self.secrets: set[str] = set()

    def study(self, name: str, settings: str, port: int | None = None) -> str:
        path = self.folder / name
        text = STUDY.format(
            port=port or self.broker.sasl, private=PRIVATE, public=PUBLIC, settings=settings
        )
        path.write_text(text)
        return str(path)

    def run(self, *arguments: str, **environment: str) -> Said:
        """A command; no secret is ever in what it says."""
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "stream_dp.services.cli", *arguments],
            env={k: v for k, v in os.environ.items() if "STREAM_DP" not in k} | environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
        )
        for secret in self.secrets:
            assert secret not in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return Said(done.returncode, done.stdout, done.stderr, time.monotonic() - began)

    def as_user(self, user: str, *arguments: str) -> Said:
        password = self.broker.secret(user)
        return self.run(*arguments, KAFKA_USER=user, KAFKA_PASSWORD=password)

    def client(self, user: str) -> dict[str, Any]:
        """Settings of a client of Kafka alone."""
        return {
            "bootstrap.servers": f"127.0.0.1:{self.broker.sasl}",
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": self.broker.secret(user),
            "log_level": 0,
        }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("security"))
    try:
        made.broker.start()
        made.secrets = {made.broker.secret(user) for user in USERS}
        yield made
    finally:
        made.broker.stop()


@pytest.fixture(scope="module")
def study(world: World) -> str:
    """A study file whose user and password are in the environment."""
    return world.study("study.toml", f"[run.kafka]{FROM_ENVIRONMENT}")


@pytest.fixture(scope="module")
def released(world: World, study: str) -> str:
    """The study, run to its end, each by those whose work it is; what was not theirs is refused."""
    lines = [f"p{i},2021-0{month},{i * month % 2}" for i in range(50) for month in (1, 2, 3)]
    (world.folder / "reports.csv").write_text("\n".join(["person,period,poverty", *lines]))
    for user in ("releaser", "producer", "analyst"):
        said = world.as_user(user, "topics", study)
        assert (said.code, said.out) == (2, "")
        assert said.error.startswith(f"stream-dp: kafka: topic '{PRIVATE}.")
        assert said.error.endswith("was not made: Authorization failed.\n")
    assert world.as_user("admin", "topics", study).code == 0
    assert world.as_user("releaser", "topics", study).code == 0
    assert world.as_user("producer", "send", study, "reports.csv")[:3] == (
        0,
        "reports.csv: 150 reports sent\n",
        "",
    )
    assert world.as_user("producer", "close", study, "2021-01").code == 0
    said = world.as_user("releaser", "run", study, "--until-idle")
    assert (said.code, said.error) == (0, "")
    assert said.out.startswith("closed 2021-01\n2021-02 waits for")
    # The rest with a password from a file, of which the name is relative to the study file.
    (world.folder / "password").write_text(world.broker.secret("releaser") + "\n")
    settings = SCRAM.format(user='"releaser"', password='{ file = "password" }')
    other = world.study("file.toml", f"[run.kafka]{settings}")
    assert world.as_user("producer", "close", study, "2021-03").code == 0
    said = world.run("run", other, "--until-idle")
    assert (said.code, said.error) == (0, "")
    assert said.out.endswith(
        "published 2021-03\nthe horizon is reached: every period is released\n"
    )
    said = world.run("status", other, "--json")
    assert json.loads(said.out)["rho_spent"] == "5"
    assert json.loads(said.out)["cells_at_last_cut"]["accepted"] == 150
    assert world.run("verify", other).code == 0
    return study


@pytest.fixture(scope="module")
def analyst(world: World) -> dict[str, str]:
    """The environment of an analyst, who has no study file."""
    text = SCRAM.format(user='"analyst"', password='{ file = "broker/secrets/analyst" }')
    (world.folder / "analyst.toml").write_text(text)
    return {"STREAM_DP_KAFKA_SETTINGS": str(world.folder / "analyst.toml")}


def code(call: Callable[[], Any]) -> int:
    """The code of Kafka's refusal; 0 where there is none."""
    try:
        call()
    except KafkaException as error:
        return int(error.args[0].code())
    return 0


# Each kind of user through the command line


def test_analysts_need_the_public_topic_and_no_flag(
    world: World, released: str, analyst: dict[str, str]
) -> None:
    public = f"kafka://127.0.0.1:{world.broker.sasl}/{PUBLIC}"
    listed = world.run("releases", public, "--json", **analyst)
    assert (listed.code, listed.error) == (0, "")
    assert [r["period"] for r in json.loads(listed.out)["releases"]] == ["2021-02", "2021-03"]
    said = world.run("estimate", public, "pairs", "pattern 1 1", "--json", **analyst)
    assert (said.code, said.error) == (0, "")
    assert json.loads(said.out)["period"] == "2021-03"
    head = json.loads(listed.out)["head"]
    assert world.run("verify", public, "--head", head, **analyst)[:1] == (0,)


def test_analysts_get_nothing_confidential(
    world: World, released: str, analyst: dict[str, str]
) -> None:
    inside = f"kafka://127.0.0.1:{world.broker.sasl}/{PRIVATE}"
    assert world.run("releases", inside, **analyst).code == 2
    assert world.as_user("analyst", "releases", released).code == 0
    said = world.as_user("analyst", "verify", released)
    assert (said.code, said.out) == (2, "")
    assert f"no topic '{JOURNAL}', or no right to see it" in said.error
    for command in (["send", "reports.csv"], ["close", "2021-03"], ["run"]):
        name, *rest = command
        said = world.as_user("analyst", name, released, *rest)
        assert (said.code, said.out) == (2, "")


def test_certificates(world: World, released: str) -> None:
    for user, command in (("analyst", "releases"), ("releaser", "status")):
        settings = TLS.format(user=user, secrets=world.broker.secrets)
        path = world.study(f"tls-{user}.toml", f"[run.kafka]{settings}", world.broker.tls)
        said = world.run(command, path)
        assert (said.code, said.error) == (0, "")
    assert "budget: rho 5 of 5 spent" in said.out


def test_a_certificate_of_another_authority(world: World, released: str) -> None:
    other = world.folder / "other"
    other.mkdir()
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-nodes", "-subj", "/CN=releaser", "-newkey", "rsa:2048"),
            *("-keyout", "releaser.key", "-out", "releaser.crt"),
        ],
        cwd=other,
        check=True,
        capture_output=True,
    )
    settings = TLS.format(user="releaser", secrets=other).replace(
        f"{other}/authority.pem", f"{world.broker.secrets}/authority.pem"
    )
    path = world.study("other.toml", f"[run.kafka]{settings}", world.broker.tls)
    said = world.run("releases", path)
    assert (said.code, said.out, said.error.count("\n")) == (2, "", 1)
    assert "kafka: no connection: ssl://127.0.0.1" in said.error
    # A broker that our authority has not signed is refused by this side.
    settings = TLS.format(user="releaser", secrets=other).replace("authority.pem", "releaser.crt")
    path = world.study("impostor.toml", f"[run.kafka]{settings}", world.broker.tls)
    said = world.run("releases", path)
    assert (said.code, said.out, said.error.count("\n")) == (2, "", 1)
    assert "certificate verify failed" in said.error


@pytest.mark.parametrize("user", ["releaser", "nobody"])
def test_a_wrong_password_is_one_line(world: World, released: str, user: str) -> None:
    world.secrets.add("not-the-password")
    said = world.run("run", released, KAFKA_USER=user, KAFKA_PASSWORD="not-the-password")
    assert (said.code, said.out, said.error.count("\n")) == (2, "", 1)
    assert said.error.startswith("stream-dp: kafka: no connection: sasl_plaintext://127.0.0.1:")
    assert "invalid credentials" in said.error
    assert said.seconds < 15


COMMANDS = (
    ["run"],
    ["send", "reports.csv"],
    ["close", "2021-03"],
    ["status"],
    ["rejected"],
    ["topics"],
    ["releases"],
    ["verify"],
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_every_command_says_soon_that_it_is_not_understood(
    world: World, command: list[str]
) -> None:
    """Most of the seconds are a loaded machine's: the next test has the client's own."""
    path = world.study("plain-to-tls.toml", f"[run.kafka]{FROM_ENVIRONMENT}", world.broker.tls)
    name, *more = command
    said = world.run(name, path, *more, KAFKA_USER="x", KAFKA_PASSWORD="y")
    assert (said.code, said.out, said.error.count("\n")) == (2, "", 1), said
    start, _, line = said.error.rstrip("\n").partition("kafka: no connection: ")
    assert start in {"stream-dp: ", "stream-dp: public log: "}
    place = f"127.0.0.1:{world.broker.tls}"
    assert line == f"{place} speaks TLS, and security.protocol is 'sasl_plaintext'"
    assert said.seconds < 25


@pytest.mark.parametrize(
    ("protocol", "mechanism", "port", "line"),
    [
        ("ssl", "", "sasl", "(speaks no TLS|PLAINTEXT broker listener)"),
        ("plaintext", "", "sasl", "speaks to nobody who does not authenticate"),
        ("plaintext", "", "tls", "speaks TLS, and security.protocol is 'plaintext'"),
        ("sasl_plaintext", "PLAIN", "sasl", "Unsupported SASL mechanism"),
        ("sasl_plaintext", "SCRAM-SHA-256", "sasl", "Unsupported SASL mechanism"),
        ("sasl_plaintext", "SCRAM-SHA-512", "sasl", "invalid credentials"),
        ("sasl_plaintext", "SCRAM-SHA-512", "tls", "speaks TLS"),
        ("sasl_ssl", "SCRAM-SHA-512", "sasl", "(speaks no TLS|PLAINTEXT broker listener)"),
        ("sasl_ssl", "SCRAM-SHA-512", "tls", "SSL alert"),
    ],
)
def test_settings_that_do_not_fit_are_told_within_ten_seconds(
    world: World, protocol: str, mechanism: str, port: str, line: str
) -> None:
    settings = {
        "bootstrap.servers": f"127.0.0.1:{getattr(world.broker, port)}",
        "security.protocol": protocol,
    }
    if "ssl" in protocol:
        settings["ssl.ca.location"] = f"{world.broker.secrets}/authority.pem"
    if mechanism:
        settings |= SASL | {"sasl.mechanism": mechanism}
    began = time.monotonic()
    with closing(KafkaLog("x", settings)) as log:
        with pytest.raises(LogError, match=f"^kafka: no connection: .*{line}") as refusal:
            log.describe("reports")
        assert time.monotonic() - began < 10
    assert type(refusal.value) is LogError
    assert "\n" not in str(refusal.value)


def test_a_broker_that_closes_every_connection_may_come_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a balancer does whose broker is away: nothing says that the settings are wrong."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        ended = threading.Event()

        def serve() -> None:
            while not ended.is_set():
                with suppress(OSError):
                    server.accept()[0].close()

        threading.Thread(target=serve, daemon=True).start()
        monkeypatch.setattr("stream_dp.log.topics.TIMEOUT", 4.0)
        port = server.getsockname()[1]
        tls = {
            "security.protocol": "ssl",
            "ssl.ca.location": f"{world.broker.secrets}/authority.pem",
        }
        for settings in ({}, {"security.protocol": "sasl_plaintext"} | SASL, tls):
            log = KafkaLog("x", {"bootstrap.servers": f"127.0.0.1:{port}", **settings})
            with pytest.raises(Unavailable, match="the cluster does not answer"):
                log.describe("reports")
            log.close()
        ended.set()


def test_without_authentication_it_is_refused_unless_said(world: World, released: str) -> None:
    path = world.study("open.toml", "")
    said = world.run("run", path)
    assert (said.code, said.out, said.error.count("\n")) == (2, "", 1)
    assert "a broker without authentication" in said.error
    assert "insecure = true" in said.error


# What Kafka itself answers to each


def test_each_may_do_exactly_this(world: World, released: str) -> None:
    """The operations that the broker says each user has, by topic; nothing else is visible."""
    found = {}
    for user in USERS[1:]:
        admin = AdminClient(world.client(user))
        seen = set(admin.list_topics(timeout=10).topics)
        for topic in seen:
            future = admin.describe_topics(
                TopicCollection([topic]), include_authorized_operations=True
            )[topic]
            operations = future.result(10).authorized_operations
            found[user, topic] = {operation.name for operation in operations}
    checks = {"READ", "DESCRIBE", "DESCRIBE_CONFIGS"}
    assert found == {
        ("producer", REPORTS): {"WRITE", "DESCRIBE"},
        ("releaser", REPORTS): checks,
        ("releaser", LETTERS): checks | {"WRITE"},
        ("releaser", JOURNAL): checks | {"WRITE"},
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
        if (user, topic) == ("producer", REPORTS):
            continue
        described = admin.describe_topics(TopicCollection([topic]))[topic]
        assert code(lambda f=described: f.result(10)) == denied
        place = TopicPartition(topic, 0)
        offsets = admin.list_offsets({place: OffsetSpec.latest()})[place]
        assert code(lambda f=offsets: f.result(10)) in {denied, KafkaError._NOENT}
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        settings = admin.describe_configs([resource])[resource]
        assert code(lambda f=settings: f.result(10)) == denied
        # A topic that is there and one that is not are told alike.
        missing = f"{topic}-not-there"
        described = admin.describe_topics(TopicCollection([missing]))[missing]
        assert code(lambda f=described: f.result(10)) == denied


@pytest.mark.parametrize(
    ("user", "topics"),
    [
        ("producer", (*CONFIDENTIAL, RELEASES)),
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
        got = [consumer.poll(0.1) for _ in range(20)]
        codes = {message.error().code() for message in got if message is not None}
        for topic in topics:
            refusal = consumer.list_topics(topic, 10).topics[topic].error
            if (user, topic) == ("producer", REPORTS):
                assert refusal is None
                assert KafkaError.TOPIC_AUTHORIZATION_FAILED in codes
            else:
                assert refusal.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    finally:
        consumer.close()
    assert codes <= {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED}


@pytest.mark.parametrize(
    ("user", "topic"),
    [("producer", JOURNAL), ("producer", LETTERS), ("producer", RELEASES), ("releaser", REPORTS)]
    + [(user, topic) for user in ("analyst", "monitor") for topic in (*CONFIDENTIAL, RELEASES)],
)
def test_who_cannot_write(world: World, released: str, user: str, topic: str) -> None:
    errors = []
    producer = Producer(world.client(user) | {"message.timeout.ms": 10_000})
    producer.produce(topic, b"x", partition=0, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(15) == 0
    assert [error.code() for error in errors] == [KafkaError.TOPIC_AUTHORIZATION_FAILED]


@pytest.mark.parametrize("user", ["producer", "analyst", "monitor"])
def test_nobody_else_can_take_the_releasers_roles(world: World, released: str, user: str) -> None:
    for role in (f"{PRIVATE}.releaser", f"{PUBLIC}.publisher"):
        producer = Producer(world.client(user) | {"transactional.id": role})
        refused = code(lambda p=producer: p.init_transactions(10))
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
            assert code(lambda f=future: f.result(10)) in {
                KafkaError.TOPIC_AUTHORIZATION_FAILED,
                KafkaError.CLUSTER_AUTHORIZATION_FAILED,
                KafkaError._NOENT,
            }


def test_the_monitor_sees_the_cluster_and_no_positions(world: World, released: str) -> None:
    admin = AdminClient(world.client("monitor"))
    described = admin.describe_cluster(include_authorized_operations=True).result(10)
    assert {operation.name for operation in described.authorized_operations} == {"DESCRIBE"}
    for user in ("producer", "analyst"):
        plain = AdminClient(world.client(user))
        described = plain.describe_cluster(include_authorized_operations=True).result(10)
        assert not described.authorized_operations
    asked = ConsumerGroupTopicPartitions(f"{PRIVATE}.reader", [TopicPartition(REPORTS, 0)])
    for user in ("analyst", "producer"):
        plain = AdminClient(world.client(user))
        (future,) = plain.list_consumer_group_offsets([asked]).values()
        assert code(lambda f=future: f.result(10)) == KafkaError.GROUP_AUTHORIZATION_FAILED


# The scripts


def test_a_password_is_changed_at_once(
    world: World, released: str, analyst: dict[str, str]
) -> None:
    public = f"kafka://127.0.0.1:{world.broker.sasl}/{PUBLIC}"
    new = world.folder / "new-password"
    new.write_text("a-new-one-0123456789\n")
    world.secrets.add(new.read_text().strip())
    said = world.broker.script("password.sh", "analyst", str(new))
    assert new.read_text().strip() not in said
    refused = world.run("releases", public, **analyst)
    assert (refused.code, refused.error.count("\n")) == (2, 1)
    (world.broker.secrets / "analyst").write_text(new.read_text())
    assert world.run("releases", public, **analyst).code == 0


@pytest.mark.parametrize(
    ("script", "arguments"), [("acls.sh", ["everything"]), ("password.sh", ["analyst"])]
)
def test_scripts_say_how_they_are_used(script: str, arguments: list[str]) -> None:
    done = subprocess.run(
        [HERE / script, *arguments],
        env={"PATH": os.environ["PATH"], "PREFIX": "x"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "usage" in done.stderr
