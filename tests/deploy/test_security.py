"""Four kinds of users on a broker with the shipped properties, scripts and access lists."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from contextlib import closing, suppress

import pytest
from deploy.secured import HERE, PRIVATE, PUBLIC
from deploy.users import (
    FROM_ENVIRONMENT,
    SASL,
    STUDY,
    TLS,
    World,
)

from stream_dp.log.kafka import KafkaLog
from stream_dp.log.log import LogError, Unavailable

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
    assert f"no right to see topic '{STUDY}'; grant Describe on it" in said.error
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
    # A broker that our authority has not signed is refused by this side, before any password.
    settings = TLS.format(user="releaser", secrets=other).replace("authority.pem", "releaser.crt")
    own = f"{world.broker.secrets}/authority.pem"
    with_password = world.over_tls().replace(own, f"{other}/releaser.crt")
    for text, port in ((settings, world.broker.tls), (with_password, world.broker.sasl_tls)):
        path = world.study("impostor.toml", f"[run.kafka]{text}", port)
        said = world.as_user("releaser", "releases", path)
        assert (said.code, said.out, said.error.count("\n")) == (2, "", 1)
        assert "certificate verify failed" in said.error


@pytest.mark.parametrize("user", ["releaser", "nobody"])
def test_a_wrong_password_is_one_line(world: World, released: str, user: str) -> None:
    world.secrets.add("not-the-password")
    said = world.run("run", released, KAFKA_USER=user, KAFKA_PASSWORD="not-the-password")
    assert (said.code, said.out, said.error.count("\n")) == (2, "", 1)
    assert said.error.startswith(
        "stream-dp: kafka: the login is refused: sasl_plaintext://127.0.0.1:"
    )
    assert "invalid credentials" in said.error


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
    path = world.study("plain-to-tls.toml", f"[run.kafka]{FROM_ENVIRONMENT}", world.broker.tls)
    name, *more = command
    said = world.run(name, path, *more, KAFKA_USER="x", KAFKA_PASSWORD="y")
    assert (said.code, said.out, said.error.count("\n")) == (2, "", 1), said
    start, _, line = said.error.rstrip("\n").partition("kafka: no connection: ")
    assert start in {"stream-dp: ", "stream-dp: public log: "}
    place = f"127.0.0.1:{world.broker.tls}"
    assert line == f"{place} speaks TLS, and security.protocol is 'sasl_plaintext'"


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
        ("sasl_ssl", "SCRAM-SHA-512", "sasl_tls", "invalid credentials"),
        ("sasl_ssl", "PLAIN", "sasl_tls", "Unsupported SASL mechanism"),
        ("sasl_plaintext", "SCRAM-SHA-512", "sasl_tls", "speaks TLS"),
        ("ssl", "", "sasl_tls", "speaks to nobody who does not authenticate"),
    ],
)
def test_settings_that_do_not_fit_are_reported_soon(
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
    with closing(KafkaLog("x", settings)) as log:
        kind = "the login is refused" if line == "invalid credentials" else "no connection"
        with pytest.raises(LogError, match=f"^kafka: {kind}: .*{line}") as refusal:
            log.describe("reports")
    assert type(refusal.value) is LogError  # of a connection that is sought in vain, Unavailable
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
        monkeypatch.setattr("stream_dp.log.kafka_clients.TIMEOUT", 4.0)
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
    (world.broker.secrets / "analyst").write_text(new.read_text().strip())
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
