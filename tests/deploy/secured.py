"""A broker of the shipped properties and scripts, with users, access lists and certificates."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from broker import FOLDER, HERE, Broker, free_port
from kit.fork_server import program

USERS = ("admin", "producer", "releaser", "analyst", "monitor")
QUICK = "java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
LIBS = (FOLDER / "libs").resolve()
SHARED = f"{QUICK} -XX:SharedArchiveFile={LIBS / 'classes.jsa'}"
ACL_TOOL = Path(__file__).with_name("acl_tool.py")
ACLS = "org.apache.kafka.tools.AclCommand"
ARCHIVE = FOLDER / "acls.jsa"  # the classes of that command, which is called for each grant
# Of Kafka's own topics, which have fifty each by default.
FEW_PARTITIONS = "\noffsets.topic.num.partitions=1\ntransaction.state.log.num.partitions=4\n"
PRIVATE, PUBLIC = "poverty-inside", "poverty"


@dataclass
class Secured:
    """Listeners with SASL, TLS and both on loopback; everything it needs lies in `folder`."""

    folder: Path
    sasl: int = field(default_factory=free_port)
    tls: int = field(default_factory=free_port)
    sasl_tls: int = field(default_factory=free_port)
    controller: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def secrets(self) -> Path:
        return self.folder / "secrets"

    def secret(self, user: str) -> str:
        return (self.secrets / user).read_text()

    def start(self) -> None:
        Broker(self.folder, libs=LIBS).fetch()
        self.secrets.mkdir()
        program(self.folder, ACL_TOOL.stem, [str(ACL_TOOL)])
        for user in USERS:
            (self.secrets / user).write_text(secrets.token_hex(16))
        self._certificates()
        self._adapt("server.properties", "tls.properties")
        self._adapt("admin.properties")
        with (self.folder / "server.properties").open("a") as properties:
            properties.write(FEW_PARTITIONS)
        with (self.folder / "broker.log").open("wb") as log:
            self.process = subprocess.Popen(
                [HERE / "start.sh"], env=self.environment(), stdout=log, stderr=log
            )
        deadline = time.monotonic() + 300
        while any(not _open(port) for port in (self.sasl, self.tls, self.sasl_tls)):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.folder / "broker.log").read_text()[-2000:])
            time.sleep(0.1)
        if not ARCHIVE.exists():
            self._archive_classes()
        self.script("acls.sh")

    def require_alive(self) -> None:
        """Raises RuntimeError with the last it said where the broker has ended by itself."""
        if self.process is not None and self.process.poll() is not None:
            raise RuntimeError((self.folder / "broker.log").read_text()[-2000:])

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def script(self, name: str, *arguments: str, **settings: str) -> str:
        """What a shipped script says; it must succeed. settings: more of its environment."""
        environment = self.environment() | settings
        done = subprocess.run(
            [HERE / name, *arguments], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def environment(self) -> dict[str, str]:
        """Of the shipped scripts: their settings, and Kafka's tools without its distribution."""
        return {
            "PATH": os.environ["PATH"],
            "CLASSPATH": f"{LIBS}/*",
            "SECRETS": str(self.secrets),
            "PROPERTIES": str(self.folder / "server.properties"),
            "KAFKA_STORAGE": f"{SHARED} kafka.tools.StorageTool",
            "KAFKA_SERVER": f"{SHARED} -Xmx512m kafka.Kafka",
            "KAFKA_ACLS": str(self.folder / ACL_TOOL.stem),
            "KAFKAS_OWN": f"{QUICK} -XX:SharedArchiveFile={ARCHIVE} {ACLS}",
            "KAFKA_CONFIGS": f"{SHARED} kafka.admin.ConfigCommand",
            "BOOTSTRAP": f"127.0.0.1:{self.sasl}",
            "ADMIN_CONFIG": str(self.folder / "admin.properties"),
            "PREFIX": PRIVATE,
            "PUBLIC_PREFIX": PUBLIC,
        }

    def _archive_classes(self) -> None:
        """Lists the access lists once, for Java to remember what classes that takes."""
        made = self.folder / ARCHIVE.name
        command = [*QUICK.split(), f"-XX:ArchiveClassesAtExit={made}", ACLS, "--list"]
        command += ["--bootstrap-server", f"127.0.0.1:{self.sasl}"]
        command += ["--command-config", str(self.folder / "admin.properties")]
        subprocess.run(command, env=self.environment(), check=True, capture_output=True)
        copy = ARCHIVE.with_name(f"{os.getpid()}.jsa")
        shutil.move(made, copy)
        copy.replace(ARCHIVE)  # another process may look at the same time

    def _adapt(self, *names: str) -> None:
        """The shipped properties with places of this machine."""
        text = "".join((HERE / name).read_text() for name in names)
        text = text.replace("/run/secrets", str(self.secrets))
        text = text.replace("/var/lib/kafka/data", str(self.folder / "data"))
        text = re.sub(r"(0\.0\.0\.0|kafka(\.example\.org)?):9", "127.0.0.1:9", text)
        ports = {9092: self.sasl, 9093: self.controller, 9094: self.tls, 9095: self.sasl_tls}
        for shipped, port in ports.items():
            text = text.replace(f"127.0.0.1:{shipped}", f"127.0.0.1:{port}")
        (self.folder / names[0]).write_text(text)

    def _certificates(self) -> None:
        """An authority, the broker's certificate, and a certificate for every user."""
        self._openssl(
            *("req", "-x509", "-nodes", "-subj", "/CN=authority", "-days", "2"),
            *("-keyout", "authority.key", "-out", "authority.pem"),
            *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
        )
        for name in ("kafka", *USERS):
            self.certify(name)
        key_and_certificate = (self.secrets / "kafka.key").read_text() + (
            self.secrets / "kafka.crt"
        ).read_text()
        (self.secrets / "kafka.pem").write_text(key_and_certificate)

    def certify(self, name: str) -> None:
        """A key and a certificate of the authority for a user."""
        self._openssl(
            *("req", "-x509", "-nodes", "-subj", f"/CN={name}", "-days", "2"),
            *("-CA", "authority.pem", "-CAkey", "authority.key"),
            *("-addext", "basicConstraints=critical,CA:FALSE"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
            *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-keyout", f"{name}.key", "-out", f"{name}.crt"),
        )

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self.secrets, check=True, capture_output=True)


def _open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
