"""A real Prometheus on loopback, for a test: what it scrapes, what it answers, what fires."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kit.tools import tool

Sample = tuple[dict[str, str], float]


@dataclass(frozen=True)
class Prometheus:
    """port: where it listens on loopback."""

    port: int

    def ask(self, path: str, **parameters: str) -> Any:
        """The data of an answer of its HTTP interface. Raises urllib's HTTPError for a refusal."""
        query = urllib.parse.urlencode(parameters)
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{query}"
        with urllib.request.urlopen(url, timeout=60) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[Sample]:
        """The samples of an expression now: labels and value."""
        result = self.ask("query", query=expression)["result"]
        return [(sample["metric"], float(sample["value"][1])) for sample in result]

    def firing(self) -> set[str]:
        """The names of the alerts that fire."""
        alerts = self.ask("alerts")["alerts"]
        return {a["labels"]["alertname"] for a in alerts if a["state"] == "firing"}

    def up(self) -> bool:
        """Whether its first scrapes have succeeded."""
        try:
            samples = self.query("up")
        except OSError:
            return False
        return bool(samples) and all(value == 1 for _, value in samples)


def until(holds: Callable[[], object], seconds: float = 600, what: str = "") -> None:
    """Waits until something holds; fails with `what` where it does not in time."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


@contextmanager
def scraping(
    folder: Path, port: int, targets: dict[str, int], rules: str = "", token: Path | None = None
) -> Iterator[Prometheus]:
    """A Prometheus that scrapes loopback every second until the block ends.

    folder: for its configuration and its data.
    port: where it is to listen.
    targets: by job, the port that is scraped.
    rules: a file of rules, as text.
    token: a file with the token that it sends.
    """
    bearer = {} if token is None else {"authorization": {"credentials_file": str(token)}}
    (folder / "rules.yml").write_text(rules)
    configuration = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(folder / "rules.yml")] if rules else [],
        "scrape_configs": [
            {"job_name": job, **bearer, "static_configs": [{"targets": [f"127.0.0.1:{target}"]}]}
            for job, target in targets.items()
        ],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration))
    command = [
        tool("prometheus") or "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            prometheus = Prometheus(port)
            until(prometheus.up)
            yield prometheus
        finally:
            process.terminate()
            process.wait(300)
