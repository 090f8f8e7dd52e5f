"""A server of PostgreSQL for a test."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from .tools import FETCHED

_FETCHED = FETCHED.parent / "postgres" / "usr" / "lib"
_FOLDERS = (Path("/usr/lib/postgresql"), _FETCHED / "postgresql")
SERVERS = [path for folder in _FOLDERS for path in folder.glob("*/bin")]
_NOBODY = 65534


def _free_port() -> int:
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


class Server:
    """A server of PostgreSQL in a folder, which trusts this machine."""

    def __init__(self, folder: Path) -> None:
        self.data, self.port = folder / "data", _free_port()
        self.environment = {**os.environ, "LC_ALL": "C"}
        if libraries := list(_FETCHED.glob("*-linux-gnu")):
            self.environment["LD_LIBRARY_PATH"] = str(libraries[0])
        self.user: list[str] = []
        self.data.mkdir()
        if os.geteuid() == 0:  # as which the server refuses to run
            self.user = ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"]
            os.chown(self.data, _NOBODY, _NOBODY)
        done = self.run("initdb", "-A", "trust", "-U", "postgres", "-N", "-D", self.data)
        assert done.returncode == 0, done.stderr

    def command(self, program: str, *words: object) -> list[str]:
        return [*self.user, str(SERVERS[0] / program), *map(str, words)]

    def run(self, program: str, *words: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(program, *words),
            env=self.environment,
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )

    @contextmanager
    def running(self) -> Iterator[None]:
        """Runs the server. Changes of its tables can be followed by replication."""
        options = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "wal_level=logical"]
        words = [word for option in options for word in ("-c", option)]
        process = subprocess.Popen(
            self.command("postgres", "-D", self.data, "-p", self.port, "-F", *words),
            env=self.environment,
            cwd="/",
            stderr=subprocess.DEVNULL,
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait(600)

    def statement(self, text: str) -> subprocess.CompletedProcess[str]:
        """Sends statements. The answer has a line for each row, with its values between bars."""
        words = ("-h", "127.0.0.1", "-p", self.port, "-U", "postgres", "-v", "ON_ERROR_STOP=1")
        return self.run("psql", *words, "-q", "-At", "-F", "|", "-c", text)

    def rows(self, statement: str) -> list[list[str]]:
        """The rows of a query as texts; none before the table is there."""
        return [line.split("|") for line in self.statement(statement).stdout.splitlines()]


@contextmanager
def running_server() -> Iterator[Server]:
    """Runs a server. The folders of pytest are closed to its user."""
    folder = Path(f"/tmp/stream-dp-{uuid.uuid4().hex[:12]}")
    folder.mkdir(mode=0o755)
    try:
        server = Server(folder)
        with server.running():
            yield server
    finally:
        shutil.rmtree(folder)
