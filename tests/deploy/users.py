"""The command line and Kafka itself as any of the users of a secured broker."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from deploy.secured import PRIVATE, PUBLIC, Secured
from kit import fork_server
from kit.studies import study_toml, window

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
_ENVIRONMENT = {"user": '{ env = "KAFKA_USER" }', "password": '{ env = "KAFKA_PASSWORD" }'}
FROM_ENVIRONMENT = SCRAM.format(**_ENVIRONMENT)
AUTHORITY = '"ssl.ca.location" = "{secrets}/authority.pem"\n'
SCRAM_OVER_TLS = SCRAM.replace("PLAINTEXT", "SSL") + AUTHORITY
SASL = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "x", "sasl.password": "y"}
CONFIDENTIAL = REPORTS, LETTERS, JOURNAL, STUDY, HEARTBEATS = tuple(
    f"{PRIVATE}.{topic}" for topic in ("reports", "dead-letters", "journal", "study", "heartbeats")
)
RELEASES = f"{PUBLIC}.releases"


class Said(NamedTuple):
    code: int
    out: str
    error: str


class World:
    """The broker, a folder with study files, and the command line as any of the users."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.broker = Secured(folder / "broker")
        self.broker.folder.mkdir()
        self.secrets: set[str] = set()

    def over_tls(self) -> str:
        """Settings of a client with a password, from the environment, and without a certificate."""
        return SCRAM_OVER_TLS.format(**_ENVIRONMENT, secrets=self.broker.secrets)

    def study(self, name: str, settings: str, port: int | None = None) -> str:
        path = self.folder / name
        server = f"kafka://127.0.0.1:{port or self.broker.sasl}"
        text = study_toml(
            name="poverty",
            unit="household",
            rho=5,
            releases=[window("pairs", "poverty", width=2, rho=5)],
            run={
                "log": f"{server}/{PRIVATE}",
                "public": f"{server}/{PUBLIC}",
                "partitions": 2,
                "replication": 1,
            },
        )
        path.write_text(text + settings)
        return str(path)

    def run(self, *arguments: str, **environment: str) -> Said:
        """A command; no secret is ever in what it says."""
        done = fork_server.run(
            *("-m", "stream_dp.services.commands.cli", *arguments),
            env={k: v for k, v in os.environ.items() if "STREAM_DP" not in k} | environment,
            cwd=self.folder,
        )
        self.broker.require_alive()
        for secret in self.secrets:
            assert secret not in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return Said(done.returncode, done.stdout, done.stderr)

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
