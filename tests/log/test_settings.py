"""Settings for a cluster: secrets from elsewhere, and authentication unless `insecure`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from stream_dp.errors import UserError
from stream_dp.log import open_log
from stream_dp.log.kafka_reader import KafkaReader
from stream_dp.log.kafka_settings import (
    RESERVED,
    connection_settings,
    settings_from_environment,
)
from stream_dp.log.kafka_topics import Topics
from stream_dp.log.kafka_writer import KafkaWriter

SECRET = "correct horse battery"
SCRAM: dict[str, Any] = {"security.protocol": "SASL_SSL", "sasl.username": "releaser"}


def connected(table: dict[str, Any], base: Path = Path(), insecure: bool = False) -> dict[str, str]:
    settings = connection_settings("broker:9092", table, insecure=insecure, base=base)
    assert settings.pop("bootstrap.servers") == "broker:9092"
    return settings


def refused(table: dict[str, Any], base: Path = Path()) -> str:
    with pytest.raises(UserError) as caught:
        connected(table, base)
    (line,) = caught.value.lines
    assert SECRET not in line
    return line


def test_secrets_from_the_environment_and_from_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSWORD", SECRET)
    (tmp_path / "password").write_text(SECRET + "\n")
    for secret in ({"env": "PASSWORD"}, {"file": "password"}, {"file": str(tmp_path / "password")}):
        assert connected(SCRAM | {"sasl.password": secret}, tmp_path) == SCRAM | {
            "sasl.password": SECRET
        }


def test_plain_values_keep_their_meaning() -> None:
    table = SCRAM | {"socket.timeout.ms": 5000, "log.connection.close": False}
    assert connected(table) == SCRAM | {
        "socket.timeout.ms": "5000",
        "log.connection.close": "false",
    }


def test_names_with_dots_may_go_without_quotes(tmp_path: Path) -> None:
    (tmp_path / "password").write_text(SECRET)
    table = tomllib.loads(
        'security.protocol = "SASL_SSL"\nsasl.username = "releaser"\n'
        'sasl.password = { file = "password" }\nssl = { ca.location = "ca.pem" }\n'
    )
    assert connected(table, tmp_path) == SCRAM | {
        "sasl.password": SECRET,
        "ssl.ca.location": str(tmp_path / "ca.pem"),
    }


def test_files_are_beside_the_study_and_probe_is_no_file(tmp_path: Path) -> None:
    table = SCRAM | {"ssl.ca.location": "ca.pem"}
    assert connected(table, tmp_path)["ssl.ca.location"] == str(tmp_path / "ca.pem")
    assert connected(SCRAM | {"ssl.ca.location": "probe"})["ssl.ca.location"] == "probe"


@pytest.mark.parametrize(
    ("secret", "said"),
    [
        ({"env": "NOT_SET_ANYWHERE"}, "environment variable NOT_SET_ANYWHERE is not set"),
        ({"file": "not-there"}, "not-there cannot be read"),
        ({"file": "."}, "cannot be read"),
        ({"env": "HOME", "file": "x"}, "write a value, { env = 'NAME' } or { file = 'PATH' }"),
        ({}, "write a value, { env = 'NAME' } or { file = 'PATH' }"),
        ([SECRET], "write a value, { env = 'NAME' } or { file = 'PATH' }"),
    ],
)
def test_a_secret_that_is_not_there(secret: Any, said: str) -> None:
    line = refused(SCRAM | {"sasl.password": secret})
    assert line.startswith("run.kafka.'sasl.password': ")
    assert said in line


def test_a_file_that_is_no_text_is_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "password").write_bytes(b"\xff" + SECRET.encode())
    assert "cannot be read" in refused(SCRAM | {"sasl.password": {"file": "password"}}, tmp_path)


def test_every_fault_is_reported_at_once() -> None:
    table = SCRAM | {"sasl.password": {"env": "NOT_SET_ANYWHERE"}, "group.id": "mine"}
    with pytest.raises(UserError) as caught:
        connected(table)
    assert [line.split(":")[0] for line in caught.value.lines] == [
        "run.kafka.'sasl.password'",
        "run.kafka.'group.id'",
    ]


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_a_setting_without_effect_is_refused_by_name(name: str) -> None:
    assert refused(SCRAM | {name: "x"}) == (
        f"run.kafka.'{name}': stream-dp sets this itself, and your value would have no effect;"
        " remove it"
    )


def test_whatever_a_client_sets_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of another reader or writer's settings, too: only what is kept from the user's may be set."""
    made = list[Mapping[str, object]]()

    def client(kind: object, settings: Mapping[str, object]) -> Mock:
        made.append(settings)
        return Mock()

    for module in ("kafka_clients", "kafka_reader", "kafka_writer", "kafka"):
        monkeypatch.setattr(f"stream_dp.log.{module}.new_client", client)
    settings = connected(SCRAM) | {"bootstrap.servers": "broker:9092"}
    topics = Topics("x", settings, 3, ())
    KafkaReader(topics, settings, "x.reader")
    writer = KafkaWriter(topics, settings)
    writer._append_producer()
    writer.owner("releaser", None)
    set_here = {name for options in made for name in options} - SCRAM.keys()
    assert len(made) == 4
    assert set_here - {"error_cb"} <= RESERVED | {"transaction.timeout.ms"}  # of the user's choice


@pytest.mark.parametrize(
    "table",
    [
        {},
        {"security.protocol": "plaintext"},
        {"security.protocol": "SSL", "ssl.ca.location": "ca.pem"},
        {"sasl.username": "releaser", "sasl.password": SECRET},
        {"ssl.certificate.location": "releaser.crt"},
        SCRAM | {"enable.ssl.certificate.verification": False},
        SCRAM | {"enable.ssl.certificate.verification": "False"},
        {"security.protocol": "ssl", "ssl.certificate.location": "x"}
        | {"enable.ssl.certificate.verification": "0"},
    ],
)
def test_without_authentication_it_must_be_said(table: dict[str, Any]) -> None:
    assert "insecure = true" in refused(table)
    assert connected(table, insecure=True).keys() == table.keys()


@pytest.mark.parametrize(
    "table",
    [
        SCRAM,
        {"security.protocol": "sasl_plaintext"},
        {"security.protocol": "ssl", "ssl.certificate.location": "x"},
        {"security.protocol": "ssl", "ssl.certificate.pem": "x"},
        {"security.protocol": "SSL", "ssl.keystore.location": "x"},
    ],
)
def test_with_authentication_nothing_need_be_said(table: dict[str, Any]) -> None:
    assert connected(table)


def test_without_a_study_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings_from_environment(Path()) == ({}, False)
    monkeypatch.setenv("STREAM_DP_INSECURE", "true")
    assert settings_from_environment(Path()) == ({}, True)
    folder = tmp_path / "settings"
    folder.mkdir()
    (folder / "kafka.toml").write_text(
        'sasl.username = "analyst"\nsasl.password = { file = "secret" }\nssl.ca.location = "ca"\n'
    )
    monkeypatch.setenv("STREAM_DP_KAFKA_SETTINGS", "settings/kafka.toml")
    assert settings_from_environment(tmp_path)[0] == {
        "sasl.username": "analyst",
        "sasl.password": {"file": str(folder / "secret")},
        "ssl.ca.location": str(folder / "ca"),
    }


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "cannot be read"), (f"{SECRET} = {SECRET}", "is not a TOML file"), ("", None)],
)
def test_a_settings_file_that_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None, said: str | None
) -> None:
    if content is not None:
        (tmp_path / "kafka.toml").write_text(content)
    monkeypatch.setenv("STREAM_DP_KAFKA_SETTINGS", str(tmp_path / "kafka.toml"))
    if said is None:
        assert settings_from_environment(Path()) == ({}, False)
        return
    with pytest.raises(UserError, match=said) as caught:
        settings_from_environment(Path())
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "table",
    [
        SCRAM | {"no.such.setting": SECRET},
        SCRAM | {"security.protocol": SECRET, "ssl.certificate.location": "x"},
        SCRAM | {"sasl.mechanism": SECRET},
        SCRAM | {"sasl.mechanism": "SCRAM-SHA-512", "ssl.ca.location": f"/nowhere/{SECRET}"},
        SCRAM | {"sasl.mechanism": "SCRAM-SHA-512", "ssl.key.pem": SECRET},
    ],
)
def test_settings_that_the_client_refuses_are_not_quoted(table: dict[str, Any]) -> None:
    with pytest.raises(UserError) as caught:
        open_log("kafka://127.0.0.1:1/x", Path(), kafka=table, insecure=True)
    (line,) = caught.value.lines
    assert line.startswith("kafka: ")
    assert SECRET not in line
