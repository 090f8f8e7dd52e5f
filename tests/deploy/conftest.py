"""One secured broker for all tests of users, and a study that its users have run to its end."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from deploy.secured import PRIVATE, USERS
from deploy.users import FROM_ENVIRONMENT, SCRAM, SCRAM_OVER_TLS, World


@pytest.fixture(scope="package")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    secured_world = World(tmp_path_factory.mktemp("security"))
    try:
        secured_world.broker.start()
        secured_world.secrets = {secured_world.broker.secret(user) for user in USERS}
        yield secured_world
    finally:
        secured_world.broker.stop()


@pytest.fixture(scope="package")
def study(world: World) -> str:
    """A study file whose user and password are in the environment."""
    return world.study("study.toml", f"[run.kafka]{FROM_ENVIRONMENT}")


@pytest.fixture(scope="package")
def released(world: World, study: str) -> str:
    """The study, run to its end, each by those whose work it is; what was not theirs is refused.

    Some of it goes over TLS.
    """
    over_tls = world.study("over-tls.toml", f"[run.kafka]{world.over_tls()}", world.broker.sasl_tls)
    lines = [f"p{i},2021-0{month},{i * month % 2}" for i in range(50) for month in (1, 2, 3)]
    (world.folder / "reports.csv").write_text("\n".join(["person,period,poverty", *lines]))
    for user in ("releaser", "producer", "analyst"):
        said = world.as_user(user, "topics", study)
        assert (said.code, said.out) == (2, "")
        deed = "create" if user == "releaser" else "see"
        assert said.error.startswith(f"stream-dp: kafka: no right to {deed} topic '{PRIVATE}.")
    assert world.as_user("admin", "topics", study).code == 0
    assert world.as_user("releaser", "topics", study).code == 0
    assert world.as_user("producer", "send", over_tls, "reports.csv", "--quiet")[:3] == (
        0,
        "reports.csv: 150 reports sent\nthis user may not read the log, as senders may not: ids"
        " and closed periods were not compared with it\n",
        "",
    )
    assert world.as_user("producer", "close", study, "2021-01", "--yes").code == 0
    said = world.as_user("releaser", "run", study, "--until-idle")
    assert (said.code, said.error) == (0, "")
    assert said.out.startswith("closed 2021-01\n2021-02 waits for")
    # The rest over TLS, with a password from a file, of which the name is relative to the study's.
    (world.folder / "password").write_text(world.broker.secret("releaser") + "\n")
    settings = SCRAM_OVER_TLS.format(
        user='"releaser"', password='{ file = "password" }', secrets=world.broker.secrets
    )
    other = world.study("file.toml", f"[run.kafka]{settings}", world.broker.sasl_tls)
    assert world.as_user("producer", "close", over_tls, "2021-03", "--yes").code == 0
    said = world.run("run", other, "--until-idle")
    assert (said.code, said.error) == (0, "")
    assert said.out.endswith(
        "published 2021-03\npublished the weights of answers about 2021-03\n"
        "the horizon is reached: every period is released\n"
    )
    said = world.run("status", other, "--json")
    assert json.loads(said.out)["rho_spent"] == "5"
    assert json.loads(said.out)["cells_at_last_cut"]["accepted"] == 150
    assert world.run("verify", other).code == 0
    return study


@pytest.fixture(scope="package")
def analyst(world: World) -> dict[str, str]:
    """The environment of an analyst, who has no study file."""
    text = SCRAM.format(user='"analyst"', password='{ file = "broker/secrets/analyst" }')
    (world.folder / "analyst.toml").write_text(text)
    return {"STREAM_DP_KAFKA_SETTINGS": str(world.folder / "analyst.toml")}
