"""Addresses of Kafka logs, and settings of their clients."""

import pytest
from contents import sent, values

from stream_dp.errors import UserError
from stream_dp.log import open_log
from stream_dp.services.commands.cli import main

SECRET = "hunter2.hunter2"


def test_a_broker_without_authentication_needs_a_word(study, capsys):
    assert main(["topics", study(insecure=False)]) == 2
    assert "say insecure = true" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        ('"sasl.pass" = {env = "SECRET"}', "'sasl.pass'"),
        ('"security.protocol" = {env = "SECRET"}', "'security.protocol'"),
        ('"ssl.key.pem" = {file = "secret"}\n"security.protocol" = "ssl"', "ssl."),
        ('"sasl.mechanism" = {file = "secret"}\n"security.protocol" = "sasl_plaintext"', "sasl."),
        ('"socket.timeout.ms" = {env = "SECRET"}', "'socket.timeout.ms'"),
    ],
)
def test_secrets_are_not_printed(study, tmp_path, monkeypatch, capfd, extra, named):
    monkeypatch.setenv("SECRET", SECRET)
    (tmp_path / "secret").write_text(SECRET + "\n")
    assert main(["topics", study(extra=f"[run.kafka]\n{extra}\n")]) == 2
    out, error = capfd.readouterr()
    assert named in error
    assert "hunter2" not in out + error


@pytest.mark.parametrize(
    "url",
    [
        "kafka:",
        "kafka:host:9092/p",
        "kafka://",
        "kafka://host:9092",
        "kafka://host:9092/",
        "kafka:///prefix",
        "kafka://host:9092/a/b",
        "kafka://host:9092/a b",
        "kafka://host:9092/" + "p" * 101,
        "kafkas://host:9092/p",
    ],
)
def test_urls_that_are_not_understood(tmp_path, url):
    with pytest.raises(UserError, match="write it as sqlite:FILE or kafka://host:port/prefix"):
        open_log(url, tmp_path, insecure=True)


def test_several_servers(tmp_path, kafka, prefix):
    log = open_log(f"kafka://127.0.0.1:1,{kafka}/{prefix}", tmp_path, insecure=True, replication=1)
    try:
        log.create({"t": 1})
        log.append(sent("t", b"x"))
        assert values(log, "t") == [b"x"]
    finally:
        log.close()
