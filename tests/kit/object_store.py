"""A server on loopback that speaks S3, in a process of its own.

    python -m kit.object_store

Prints its address, and ends with its standard input.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import Request, urlopen

SECRET = "a-secret-of-nobody"  # where access is not refused, any key is good
_PATIENCE = 30  # seconds of one request


@dataclass(frozen=True)
class ObjectStore:
    """address: a URL. process: of the server."""

    address: str
    process: subprocess.Popen[str]

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to read and write there."""
        return {
            **os.environ,
            "AWS_ENDPOINT_URL": self.address,
            "AWS_ACCESS_KEY_ID": "somebody",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def create(self, bucket: str) -> None:
        self._send(Request(f"{self.address}/{bucket}", method="PUT"))

    def files(self, bucket: str) -> list[str]:
        """The names of all files of a bucket, by their order."""
        text = self._send(Request(f"{self.address}/{bucket}?list-type=2"))
        return [part.partition("</Key>")[0] for part in text.split("<Key>")[1:]]

    def refuse(self) -> None:
        """From now on no key is good."""
        words = {"Content-Type": "text/plain"}
        url = f"{self.address}/moto-api/reset-auth"
        self._send(Request(url, data=b"0", headers=words, method="POST"))

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def _send(self, request: Request) -> str:
        with urlopen(request, timeout=_PATIENCE) as answer:
            return str(answer.read().decode())


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    command = [sys.executable, "-m", "kit.object_store"]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=Path(__file__).parents[1],
    ) as process:
        assert process.stdout is not None
        try:
            yield ObjectStore(process.stdout.readline().strip(), process)
        finally:
            process.kill()


def main() -> None:
    os.environ["INITIAL_NO_AUTH_ACTION_COUNT"] = str(10**9)
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    print(f"http://{host}:{port}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
