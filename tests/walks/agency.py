"""An agency with a study of five months, of which it has released some, and a proxy before it."""

from __future__ import annotations

import contextlib
import io
import json
import random
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from broker import free_port
from kit.monitors import wait_until
from kit.studies import study_toml
from kit.tools import tool

from stream_dp.services.commands import cli

MONTHS = [f"2026-0{m}" for m in range(1, 6)]
STUDY = study_toml(
    name="work",
    rho=0.5,
    periods={"first": MONTHS[0], "every": "month", "count": len(MONTHS)},
    size=300,
    attributes={"out_of_work": {"values": ["no", "yes"], "missing": "no"}},
    releases=[
        {"name": "pairs", "kind": "window", "attribute": "out_of_work", "width": 2, "rho": 0.3},
        {
            "name": "how-often",
            "kind": "cumulative",
            "attribute": "out_of_work",
            "event": ["yes"],
            "rho": 0.2,
        },
    ],
)
GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "serve-the-monitor.md"


def command(*words: object) -> Any:
    """What a command that succeeds says as JSON."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert cli.main([*map(str, words), "--json"]) == 0, words
    return json.loads(out.getvalue())


class Agency:
    """A study file and the answers of 300 simulated people, a file a month."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.study = folder, folder / "work.toml"
        self.study.write_text(STUDY)
        dice = random.Random(3)
        out = [dice.random() < 0.2 for _ in range(300)]
        for month in MONTHS:
            out = [dice.random() < (0.8 if was else 0.05) for was in out]
            rows = [f"p{i},{month},{'yes' if o else 'no'}" for i, o in enumerate(out)]
            table = "\n".join(["person,period,out_of_work", *rows])
            (folder / f"{month}.csv").write_text(table + "\n")

    @property
    def public(self) -> str:
        return f"sqlite:{self.folder / 'work-public.db'}"

    def release(self, month: str) -> None:
        """Sends a month, closes it, and publishes."""
        command("send", self.study, self.folder / f"{month}.csv")
        command("close", self.study, month, "--yes")
        assert cli.main(["run", str(self.study), "--until-idle"]) == 0


def _configuration(heading: str, port: int, upstream: int) -> str:
    """The configuration of nginx that the guide shows below a heading, for these ports."""
    page = GUIDE.read_text("utf-8")
    block = re.search(rf"^## {heading}$.*?^```nginx\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert block is not None
    text = re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{upstream}", block[1])
    text = re.sub(r"/etc/ssl/\w+\.(pem|key)", r"server.\1", text)
    text = re.sub(r"/etc/nginx/operators", "operators", text)
    return text.replace("listen 443 ssl", f"listen 127.0.0.1:{port} ssl")


@contextmanager
def proxy(folder: Path, heading: str, upstream: int, token: str = "") -> Iterator[int]:
    """nginx with TLS before a monitor, as the guide says, and its port.

    folder: gets `server.pem`, which clients trust.
    token: that the proxy sends.
    """
    nginx = tool("nginx")
    assert nginx is not None
    port = free_port()
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    request = ["openssl", "req", "-x509", "-nodes", "-subj", "/CN=localhost", "-days", "2"]
    request += ["-newkey", "rsa:2048", "-addext", names, "-keyout", "server.key"]
    subprocess.run([*request, "-out", "server.pem"], cwd=folder, check=True, capture_output=True)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    own = f"pid {folder}/nginx.pid; daemon off; master_process off; error_log {folder}/error.log;"
    server = _configuration(heading, port, upstream).replace("Bearer TOKEN", f"Bearer {token}")
    text = f"{own}\nevents {{}}\nhttp {{ access_log off; {paths}\n{server}\n}}\n"
    (folder / "nginx.conf").write_text(text)
    start = [nginx, "-p", str(folder), "-c", str(folder / "nginx.conf")]
    process = subprocess.Popen([*start, "-e", str(folder / "error.log")])
    try:
        wait_until(lambda: _listens(port) or process.poll() is not None)
        assert process.poll() is None, (folder / "error.log").read_text()
        yield port
    finally:
        process.terminate()
        process.wait(60)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
