"""What Spark is told, and where it is refused, before an application begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kit.panels import declaration
from kit.studies import toml_lines

from stream_dp.errors import UserError
from stream_dp.services.aggregator.spark.session import check_master
from stream_dp.services.aggregator.spark.settings import kafka_settings
from stream_dp.services.cli import main

SAFE = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.io.encryption.enabled": "true",
}
REMOTE = ["spark://host:7077", "k8s://https://host", "yarn", "local-cluster[2,1,1024]", "localhost"]


@pytest.mark.parametrize("master", ["local", "local[2]", "local[2,4]", "local[*]"])
def test_a_master_in_this_process_needs_nothing(master: str) -> None:
    check_master({"spark.master": master})
    check_master({})


@pytest.mark.parametrize("master", REMOTE)
def test_another_master_needs_authentication_and_encryption(master: str) -> None:
    with pytest.raises(UserError) as refused:
        check_master({"spark.master": master})
    assert len(refused.value.lines) == len(SAFE)
    check_master({"spark.master": master, **SAFE})
    tls = {**SAFE, "spark.network.crypto.enabled": "false", "spark.ssl.rpc.enabled": "TRUE"}
    check_master({"spark.master": master, **tls})


@pytest.mark.parametrize("name", [*SAFE, "spark.eventLog.enabled"])
def test_each_of_them_is_needed(name: str) -> None:
    value = "true" if name == "spark.eventLog.enabled" else "false"
    with pytest.raises(UserError, match=name) as refused:
        check_master({"spark.master": "k8s://https://secret.host", **SAFE, name: value})
    (line,) = refused.value.lines
    assert line.startswith("aggregator: Spark on 'k8s': set ")


def test_settings_of_librdkafka_in_javas_words(tmp_path: Path) -> None:
    names = ("ca", "certificate", "key")
    for name in names:
        (tmp_path / name).write_text(f"-- {name} --")
    done = kafka_settings(
        {
            "bootstrap.servers": "a:1,b:2",
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": "reader",
            "sasl.password": 'x"; \\',
            "ssl.endpoint.identification.algorithm": "none",
            "enable.ssl.certificate.verification": "true",
            "client.rack": "r1",
            "queued.min.messages": "7",
            "ssl.key.password": "p",
            **{f"ssl.{name}.location": str(tmp_path / name) for name in names},
        }
    )
    assert done == {
        "bootstrap.servers": "a:1,b:2",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required"
        ' username="reader" password="x\\"; \\\\";',
        "ssl.endpoint.identification.algorithm": "",
        "client.rack": "r1",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "-- ca --",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "-- certificate --",
        "ssl.keystore.key": "-- key --",
        "ssl.key.password": "p",
    }
    assert kafka_settings({"bootstrap.servers": "a:1"})["security.protocol"] == "PLAINTEXT"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("enable.ssl.certificate.verification", "false"),
        ("ssl.keystore.location", "/there/store.p12"),
        ("sasl.oauthbearer.config", "secret"),
        ("sasl.mechanism", "GSSAPI"),
        ("ssl.ca.location", "/no/such/file"),
        ("security.provider", "secret"),
    ],
)
def test_what_decides_on_trust_is_never_left_out(name: str, value: str) -> None:
    with pytest.raises(UserError) as refused:
        kafka_settings({"bootstrap.servers": "a:1", name: value})
    (line,) = refused.value.lines
    assert line.startswith(f"run.kafka.'{name}'")
    assert "secret" not in line


@pytest.mark.parametrize(
    ("run", "more", "words"),
    [
        ({}, "", "reads reports from Kafka, and run.log is a file"),
        ({}, '\n[run.input]\nformat = "flat"\n', "reads plain reports alone"),
    ],
)
@pytest.mark.parametrize("command", ["run", "aggregate"])
def test_what_spark_does_not_do_is_refused_in_a_line(
    command: str, run: dict[str, Any], more: str, words: str, tmp_path: Path, capsys: Any
) -> None:
    file = tmp_path / "study.toml"
    file.write_text(declaration() + toml_lines({"engine": "spark", **run}) + "\n" + more)
    assert main([command, str(file)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert any(line.startswith(f"stream-dp: {file}: run.engine: 'spark' {words}") for line in lines)
    assert "Traceback" not in "".join(lines)
