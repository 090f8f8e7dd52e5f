"""One Apache Kafka broker on loopback, for tests and for trying out. Not for production.

    python deploy/kafka/broker.py start [FOLDER [LIBS]]     prints host:port
    python deploy/kafka/broker.py stop [FOLDER]

Needs Java 17 or newer and Maven, nothing else of ours. Jars come from Maven Central once, into
LIBS (FOLDER/libs); the data lie in FOLDER/data. Ports are free ones; the broker is stopped by
its own process id.
"""

from __future__ import annotations

import base64
import hashlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parent.parent / ".kafka"
NEEDS = "sudo apt-get install --yes openjdk-17-jre-headless maven"

_PORTS = range(20_000, 32_000)
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
"""


class Missing(Exception):
    """A program that is needed is not installed."""


class Broker:
    """A broker whose data and process id are in `folder`.

    libs: the folder of its jars; `folder/libs` by default.
    """

    def __init__(self, folder: Path, libs: Path | None = None) -> None:
        self.folder, self.libs = folder.resolve(), (libs or folder / "libs").resolve()
        self._port = self.folder / "port"
        self._pid = self.folder / "pid"
        self._process: subprocess.Popen[bytes] | None = None
        self._classes = self.libs / "classes.jsa"
        self._options = [f"-XX:SharedArchiveFile={self._classes}"]

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port.read_text()}"

    @property
    def runs(self) -> bool:
        """Whether the broker was started and not stopped."""
        return self._pid.exists()

    def start(self, wait: float = 300) -> str:
        """Starts the broker, with the jars fetched, and returns its address once it answers."""
        for program in ("java", "mvn"):
            if shutil.which(program) is None:
                raise Missing(f"{program} is not installed; {NEEDS}")
        self.fetch()
        if not self._classes.exists():
            self._archive_classes()
        return self._start(wait)

    def _start(self, wait: float) -> str:
        if not self._port.exists():
            self._format()
        with (self.folder / "broker.log").open("ab") as log:
            process = self._process = subprocess.Popen(
                [*self._java(), "-Xmx768m", "kafka.Kafka", str(self.folder / "server.properties")],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._pid.write_text(str(process.pid))
        deadline = time.monotonic() + wait
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise RuntimeError(f"the broker has ended; see {self.folder / 'broker.log'}")
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", int(self._port.read_text()))) == 0:
                    return self.address
            time.sleep(0.2)
        raise RuntimeError(f"the broker does not answer; see {self.folder / 'broker.log'}")

    def stop(self, how: signal.Signals = signal.SIGTERM, wait: float = 30) -> None:
        """Ends the broker of this folder with a signal; does nothing if there is none."""
        if not self.runs:
            return
        pid = int(self._pid.read_text())
        self._pid.unlink()
        try:
            os.kill(pid, how)
        except ProcessLookupError:
            return
        deadline = time.monotonic() + wait
        while time.monotonic() < deadline and _alive(pid):
            time.sleep(0.05)
        if _alive(pid):
            os.kill(pid, signal.SIGKILL)
        if self._process is not None:
            self._process.wait(wait)

    def _java(self) -> list[str]:
        # What lives for minutes is not worth a second compiler and a second collector.
        quick = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
        return ["java", *quick, *self._options, "-cp", f"{self.libs}/*"]

    def _archive_classes(self) -> None:
        """Runs a broker once, for Java to archive its classes: later starts take half the time."""
        with tempfile.TemporaryDirectory() as folder:
            once = Broker(Path(folder), self.libs)
            made = once.folder / self._classes.name
            once._options = [f"-XX:ArchiveClassesAtExit={made}"]
            once._start(wait=300)
            once.stop(wait=120)
            copy = self.libs / f"{os.getpid()}.jsa"
            shutil.move(made, copy)
            copy.replace(self._classes)  # another process may start a broker at the same time

    def fetch(self) -> None:
        """Downloads the jars that pom.xml names, unless they are there."""
        self.folder.mkdir(parents=True, exist_ok=True)
        done, wanted = self.libs / "complete", hashlib.sha256((HERE / "pom.xml").read_bytes())
        if done.exists() and done.read_text() == wanted.hexdigest():
            return
        subprocess.run(
            [
                *("mvn", "--quiet", "--batch-mode", "--file", str(HERE / "pom.xml")),
                *("dependency:copy-dependencies", "-DincludeScope=runtime"),
                f"-DoutputDirectory={self.libs}",
            ],
            check=True,
            stdout=sys.stderr,
        )
        done.write_text(wanted.hexdigest())

    def _format(self) -> None:
        port, controller = free_port(), free_port()
        properties = self.folder / "server.properties"
        data = self.folder / "data"
        text = _PROPERTIES.format(port=port, controller=controller, data=data)
        properties.write_text(text)
        # A leading dash would be read as an option.
        cluster = "k" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
        command = [*self._java(), "kafka.tools.StorageTool", "format", "-t", cluster]
        subprocess.run(
            [*command, "-c", str(properties)],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._port.write_text(str(port))


def free_port() -> int:
    """A port of loopback that nothing listens at; no other process is given it before this ends.

    It is below those of outgoing connections: one of them could take it before its server does, or
    while that is down. A name in Linux's abstract namespace, gone with the process, claims it.
    """
    for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
        with socket.socket() as probe, socket.socket(socket.AF_UNIX) as claim:
            try:
                probe.bind(("127.0.0.1", port))
                claim.bind(f"\0stream-dp-port-{port}")
            except OSError:
                continue
            claim.detach()  # open until this process ends
            return port
    raise RuntimeError(f"no port of {_PORTS.start} to {_PORTS.stop - 1} is free")


def _alive(pid: int) -> bool:
    try:
        if os.waitpid(pid, os.WNOHANG)[0] == pid:
            return False
    except ChildProcessError:
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def main() -> int:
    if len(sys.argv) not in {2, 3, 4} or sys.argv[1] not in {"start", "stop"}:
        print(f"usage: {sys.argv[0]} start|stop [FOLDER [LIBS]]", file=sys.stderr)
        return 2
    broker = (
        Broker(*(Path(argument) for argument in sys.argv[2:])) if sys.argv[2:] else Broker(FOLDER)
    )
    try:
        if sys.argv[1] == "start":
            print(broker.start())
        else:
            broker.stop()
    except (Missing, RuntimeError, subprocess.CalledProcessError) as error:
        print(f"broker: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
