"""The aggregator's unit for systemd: hardened like the releaser's, and with Spark submitted."""

from __future__ import annotations

import re
from configparser import RawConfigParser
from pathlib import Path

from kit.charts import DEPLOY

UNIT = "stream-dp-aggregator.service"


def unit(name: str) -> dict[str, str]:
    parser = RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    assert parser.read(DEPLOY / name)
    return dict(parser["Service"])


def test_the_aggregator_is_hardened_like_the_releaser() -> None:
    """But that Java reads /proc, that it writes snapshots, too, and that it may be killed."""
    releaser, aggregator = unit("stream-dp.service"), unit(UNIT)
    differ = {k for k in {*releaser, *aggregator} if releaser.get(k) != aggregator.get(k)}
    assert differ == {
        *("Environment", "EnvironmentFile", "LoadCredential", "ExecStart", "TimeoutStopSec"),
        "ProcSubset",
    }
    text = (DEPLOY / UNIT).read_text()
    assert f'snapshots = "/var/lib/{aggregator["StateDirectory"]}/snapshots"' in text
    assert "/run/credentials/stream-dp-aggregator.service/kafka-password" in text
    drop = (DEPLOY / "stream-dp-aggregator-spark.conf").read_text()
    assert "stream-dp-aggregator-spark.conf" in text
    _, command = re.findall(r"^ExecStart=(.*)$", drop, re.MULTILINE)
    program, _, _, file, *words = command.split()
    assert program == "/opt/stream-dp/bin/spark-submit"
    assert (DEPLOY / "spark" / Path(file).name).exists()
    assert words == aggregator["ExecStart"].split()[2:]
