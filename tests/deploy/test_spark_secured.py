"""Spark's tasks read from a broker that asks who they are, and Spark never knows a password."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from deploy.secured import Secured
from deploy.users import FROM_ENVIRONMENT, TLS, World
from kit.spark import missing, settings

pytestmark = pytest.mark.slow


class InParts(Secured):
    """The releaser's user is the aggregator's, too."""

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "PARTS": "yes", "AGGREGATORS": "User:releaser"}


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[World]:
    if why := missing():
        pytest.skip(why)
    world = World(tmp_path)
    world.broker = InParts(world.broker.folder)
    try:
        world.broker.start()
        yield world
    finally:
        world.broker.stop()


def released(world: World, study: str) -> str:
    """What the releaser says."""
    said = world.as_user("releaser", "run", study, "--until-idle")
    assert (said.code, said.error) == (0, "")
    return said.out


def aggregated(world: World, study: str, name: str, said: Path) -> str:
    """All that Spark says of a close at its most talkative: its log, with plans, and its events."""
    folder = world.folder / name
    events = folder / "events"
    events.mkdir(parents=True)
    more = {
        "spark__log__level": "DEBUG",
        "spark__eventLog__enabled": "true",
        "spark__eventLog__dir": f"file:{events}",
        "spark__eventLog__compress": "false",
    }
    password = world.broker.secret("releaser")
    with settings(folder, **more), pytest.MonkeyPatch.context() as patch:
        patch.setenv("KAFKA_USER", "releaser")
        patch.setenv("KAFKA_PASSWORD", password)
        command = [
            sys.executable,
            "-m",
            "stream_dp.services.commands.cli",
            "aggregate",
            "--until-idle",
        ]
        with said.open("wb") as out:
            subprocess.run([*command, study], check=True, stdout=out, stderr=out, timeout=600)
    texts = [said.read_text(errors="replace")]
    texts += [file.read_text() for file in events.rglob("*") if file.is_file()]
    assert "is closed in 4 parts" in texts[0]
    assert any("MapInArrow" in text for text in texts[1:])
    return "\n".join(texts)


def test_passwords_and_certificates(secured: World) -> None:
    """A close with a password, one with a certificate, and one with a password over TLS."""
    world = secured
    in_parts = 'engine = "spark"\nparts = 4\nworker = false\n'
    scram = world.study("scram.toml", f"{in_parts}[run.kafka]{FROM_ENVIRONMENT}")
    certificate = TLS.format(secrets=world.broker.secrets, user="releaser")
    tls = world.study("tls.toml", f"{in_parts}[run.kafka]{certificate}", world.broker.tls)
    both = f"{in_parts}[run.kafka]{world.over_tls()}"
    over_tls = world.study("over-tls.toml", both, world.broker.sasl_tls)
    lines = [f"p{i},2021-0{month},{i * month % 2}" for i in range(50) for month in (1, 2, 3)]
    (world.folder / "reports.csv").write_text("\n".join(["person,period,poverty", *lines]))
    for user in ("admin", "releaser"):
        assert world.as_user(user, "topics", scram).code == 0
    assert world.as_user("producer", "send", over_tls, "reports.csv").code == 0
    for number, study in enumerate((scram, tls, over_tls), 1):
        passwords = scram if study == tls else study
        assert world.as_user("producer", "close", passwords, f"2021-0{number}", "--yes").code == 0
        released(world, passwords)  # gives an order
        said = aggregated(world, study, f"spark-{number}", world.folder / f"said-{number}")
        for user in ("releaser", "producer", "admin"):
            assert world.broker.secret(user) not in said
        assert (world.broker.secrets / "releaser.key").read_text().splitlines()[1] not in said
        word = "closed" if number == 1 else "published"  # windows are two periods wide
        assert f"{word} 2021-0{number}" in released(world, passwords).splitlines()
