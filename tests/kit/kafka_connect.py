"""Kafka Connect in standalone mode, with the connectors of a test."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from .tools import FETCHED

_TOOLS = FETCHED.parent


def fetched(*names: str) -> bool:
    """Tells whether tests/tools has fetched Kafka Connect and these connectors."""
    return all((_TOOLS / name / "complete").exists() for name in ("connect", *names))


@contextmanager
def connect(
    folder: Path, worker: str, connectors: Mapping[str, str], *names: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a worker in a folder; the file `connect.log` there has its output.

    worker: the lines of its properties, but for the two that a test leaves alone.
    connectors: by name, the lines of a connector's properties.
    names: the folders of jars beside Kafka Connect's own.
    """
    quick = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx384m")
    jars = ":".join(f"{_TOOLS / name / 'libs'}/*" for name in ("connect", *names))
    command = ["java", *quick, "-cp", jars, "org.apache.kafka.connect.cli.ConnectStandalone"]
    worker += f"\noffset.storage.file.filename={folder}/offsets\nlisteners=http://127.0.0.1:0\n"
    for name, text in {"worker": worker, **connectors}.items():
        path = folder / f"{name}.properties"
        path.write_text(text)
        command.append(str(path))
    with (folder / "connect.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    try:
        yield process
    finally:
        process.kill()
        process.wait(600)
