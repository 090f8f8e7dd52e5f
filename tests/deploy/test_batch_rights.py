"""Batch releases on a broker with the shipped access lists: each user does its part, no more."""

from __future__ import annotations

import json
import os

import pytest
from deploy.users import World
from kit import fork_server
from kit.households import EVERY, LABELS, roster

PRIVATE, PUBLIC = "homes-inside", "homes"
TLS = """
[run.kafka]
"security.protocol" = "SSL"
"ssl.ca.location" = "{secrets}/authority.pem"
"ssl.certificate.location" = "{secrets}/{user}.crt"
"ssl.key.location" = "{secrets}/{user}.key"
"""
# By the setting of the script that names them; each has a certificate of that name.
PRINCIPALS = {
    "PRODUCERS": "producer",
    "RELEASER": "releaser",
    "ANALYSTS": "analyst",
    "MONITOR": "monitor",
    "OPERATORS": "operator",
    "WORKERS": "worker",
}


class Batches:
    """A study with batch releases on the broker of all tests, with users of its own."""

    def __init__(self, world: World) -> None:
        self.broker = world.broker
        self.folder = world.folder / "homes"
        self.folder.mkdir()

    def grant(self) -> None:
        users = {setting: f"User:{PUBLIC}-{user}" for setting, user in PRINCIPALS.items()}
        for user in PRINCIPALS.values():
            self.broker.certify(f"{PUBLIC}-{user}")
        settings = {"PREFIX": PRIVATE, "PUBLIC_PREFIX": PUBLIC, "BATCHES": "yes", **users}
        self.broker.script("acls.sh", **settings)

    def files(self) -> None:
        """A study file for each user, and what is sent."""
        url = f"kafka://127.0.0.1:{self.broker.tls}"
        text = EVERY.replace("sqlite:homes.db", f"{url}/{PRIVATE}")
        text = text.replace("sqlite:homes-public.db", f"{url}/{PUBLIC}") + "replication = 1\n"
        for user in ("admin", *PRINCIPALS.values()):
            name = user if user == "admin" else f"{PUBLIC}-{user}"
            settings = TLS.format(secrets=self.broker.secrets, user=name)
            (self.folder / f"{user}.toml").write_text(text + settings)
        households = roster()
        rows = [f"{i},{r}" for i, r in enumerate(households.attributes["region"])]
        (self.folder / "groups.csv").write_text("\n".join(["group,region", *rows]))
        of = [f"{p},{g}" for p, g in zip(households.persons, households.group_of, strict=True)]
        (self.folder / "members.csv").write_text("\n".join(["person,group", *of]))
        reports = [f"{p},{label},low,1" for p in households.persons for label in LABELS]
        (self.folder / "reports.csv").write_text("\n".join(["person,period,income,work", *reports]))

    def says(self, user: str, command: str, *more: str) -> tuple[int, str]:
        """Exit code and everything that a command says to a user."""
        done = fork_server.run(
            *("-m", "stream_dp.services.commands.cli", command, f"{user}.toml", *more),
            env={k: v for k, v in os.environ.items() if "STREAM_DP" not in k},
            cwd=self.folder,
        )
        assert "Traceback" not in done.stderr
        return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def broker(world: World) -> Batches:
    batches = Batches(world)
    batches.grant()
    batches.files()
    assert batches.says("admin", "topics")[0] == 0
    return batches


def test_each_user_does_their_part(broker: Batches) -> None:
    for user in ("producer", "worker"):
        assert broker.says(user, "groups", "groups.csv", "members.csv")[0] != 0, user
    for _ in range(2):
        assert broker.says("operator", "groups", "groups.csv", "members.csv")[0] == 0
    assert broker.says("producer", "send", "reports.csv")[0] == 0
    assert broker.says("producer", "close", LABELS[-1], "--yes")[0] == 0
    code, said = broker.says("releaser", "run", "--until-idle")
    assert (code, said.count("is due")) == (0, 3)
    for user in ("producer", "analyst"):
        code, said = broker.says(user, "worker", "--until-idle")
        assert "begun" not in said, user
    code, said = broker.says("operator", "jobs", "--json")
    assert code == 0
    jobs = [job["id"] for job in json.loads(said)["jobs"]]
    assert broker.says("operator", "jobs", "--abandon", jobs[2])[0] == 0
    assert broker.says("worker", "jobs", "--abandon", jobs[1])[0] != 0
    code, said = broker.says("worker", "worker", "--until-idle")
    assert (code, said.count("handed in")) == (0, 2), said
    line = f"no right to see topic '{PRIVATE}.journal'; grant Describe on it"
    assert broker.says("worker", "status") == (2, f"stream-dp: kafka: {line}\n")
    assert "waits for nothing" in broker.says("operator", "status")[1]
    assert broker.says("operator", "verify")[0] == 0
    line = f"no right to see topic '{PRIVATE}.dead-letters'; grant Describe on it"
    assert broker.says("operator", "rejected") == (2, f"stream-dp: kafka: {line}\n")
    code, said = broker.says("releaser", "run", "--until-idle")
    assert (code, said.count("published the result")) == (0, 2)
    assert broker.says("releaser", "verify")[0] == 0
    code, said = broker.says("operator", "jobs", "--json")
    states = [job["state"] for job in json.loads(said)["jobs"]]
    assert states == ["done", "done", "abandoned"]
