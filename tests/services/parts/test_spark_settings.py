"""What Spark is told, and where it is refused, before an application begins."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from kit.panels import declaration
from kit.studies import toml_lines

from stream_dp.errors import UserError
from stream_dp.services.commands.cli import main
from stream_dp.services.parts.spark_engine import _DEFAULTS, check_master

SAFE = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.io.encryption.enabled": "true",
}
SECRET = {"spark.authenticate.secret": "of-the-cluster"}
REMOTE = ["spark://host:7077", "k8s://https://host", "yarn", "local-cluster[2,1,1024]", "localhost"]


def test_the_daemon_of_tasks_is_a_module() -> None:
    assert find_spec(_DEFAULTS["spark.python.daemon.module"]) is not None


@pytest.mark.parametrize("master", ["local", "local[2]", "local[2,4]", "local[*]"])
def test_a_master_in_this_process_needs_nothing(master: str) -> None:
    check_master({"spark.master": master})
    check_master({})


@pytest.mark.parametrize("master", REMOTE)
def test_another_master_needs_authentication_and_encryption(master: str) -> None:
    with pytest.raises(UserError) as refused:
        check_master({"spark.master": master})
    assert len(refused.value.lines) == len(SAFE)
    safe = {"spark.master": master, **SAFE, **SECRET}
    check_master(safe)
    tls = {**safe, "spark.network.crypto.enabled": "false", "spark.ssl.rpc.enabled": "TRUE"}
    check_master(tls)


def test_a_standalone_master_needs_the_secret_itself() -> None:
    """Spark reads a file with it on Kubernetes alone, and makes one on others."""
    settings = {"spark.master": "spark://host:7077", **SAFE}
    with pytest.raises(UserError, match=r"set spark\.authenticate\.secret to"):
        check_master({**settings, "spark.authenticate.secret.file": "/etc/secret"})
    check_master({**settings, **SECRET})
    check_master({**settings, "spark.master": "k8s://https://host"})


@pytest.mark.parametrize("name", [*SAFE, "spark.eventLog.enabled"])
def test_each_of_them_is_needed(name: str) -> None:
    value = "true" if name == "spark.eventLog.enabled" else "false"
    with pytest.raises(UserError, match=name) as refused:
        check_master({"spark.master": "k8s://https://secret.host", **SAFE, name: value})
    (line,) = refused.value.lines
    assert line.startswith("aggregator: Spark on 'k8s': set ")


@pytest.mark.parametrize("command", ["run", "aggregate"])
def test_a_log_that_is_a_file_is_refused_in_a_line(
    command: str, tmp_path: Path, capsys: Any
) -> None:
    file = tmp_path / "study.toml"
    file.write_text(declaration() + toml_lines({"engine": "spark"}) + "\n")
    assert main([command, str(file)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    words = "'spark' reads reports from Kafka, and run.log is a file"
    assert line.startswith(f"stream-dp: {file}: run.engine: {words}")
