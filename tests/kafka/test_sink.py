"""Answers in PostgreSQL: the topic of answers, a stock sink of Kafka Connect, a real server."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import uuid
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from kit.commands import json_output
from kit.studies import BINARY, MONTHS, study_toml, window
from kit.tools import FETCHED

from stream_dp.log.kafka import KafkaLog
from stream_dp.study.topics import ESTIMATES

TOOLS = FETCHED.parent
CONNECT, JDBC = TOOLS / "connect", TOOLS / "jdbc"
FOLDERS = (Path("/usr/lib/postgresql"), TOOLS / "postgres" / "usr" / "lib" / "postgresql")
SERVERS = [path for folder in FOLDERS for path in folder.glob("*/bin")]
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "answers-in-a-database.md"
NOBODY = 65534
MOST_SECONDS = 600
COLUMNS = ("period", "query", "measure", "value", "error", "lower", "upper")

pytestmark = [
    pytest.mark.skipif(
        not (JDBC / "complete").exists() or not (CONNECT / "complete").exists(),
        reason="no Kafka Connect with its sink: run tests/tools",
    ),
    pytest.mark.skipif(not SERVERS, reason="no PostgreSQL: run tests/tools"),
]


def free_port():
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """A server of PostgreSQL in a folder, which trusts this machine."""

    def __init__(self, folder):
        self.data, self.port = folder / "data", free_port()
        self.environment = {**os.environ, "LC_ALL": "C"}
        if libraries := list(TOOLS.glob("postgres/usr/lib/*-linux-gnu")):
            self.environment["LD_LIBRARY_PATH"] = str(libraries[0])
        self.user = []
        self.data.mkdir()
        if os.geteuid() == 0:  # as which the server refuses to run
            self.user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
            os.chown(self.data, NOBODY, NOBODY)
        done = self.run("initdb", "-A", "trust", "-U", "postgres", "-N", "-D", self.data)
        assert done.returncode == 0, done.stderr

    def command(self, program, *words):
        return [*self.user, str(SERVERS[0] / program), *map(str, words)]

    def run(self, program, *words):
        return subprocess.run(
            self.command(program, *words),
            env=self.environment,
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )

    @contextmanager
    def running(self):
        options = ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]
        process = subprocess.Popen(
            self.command("postgres", "-D", self.data, "-p", self.port, "-F", *options),
            env=self.environment,
            cwd="/",
            stderr=subprocess.DEVNULL,
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait(600)

    def rows(self, statement):
        """The rows of a query as texts; none before the table is there."""
        words = ("-h", "127.0.0.1", "-p", self.port, "-U", "postgres", "-At", "-F", "|")
        done = self.run("psql", *words, "-c", statement)
        return [line.split("|") for line in done.stdout.splitlines()]


@pytest.fixture
def server():
    # The folders of pytest are closed to the user of the server.
    folder = Path(f"/tmp/stream-dp-{uuid.uuid4().hex[:12]}")
    folder.mkdir(mode=0o755)
    try:
        served = Server(folder)
        with served.running():
            yield served
    finally:
        shutil.rmtree(folder)


def properties(address, topic, port):
    """The two files that the page shows: of the worker, and of the sink."""
    changes = {
        "HOST:PORT": address,
        "PREFIX.estimates": topic,
        "DATABASE:5432/answers": f"127.0.0.1:{port}/postgres",
        "=USER": "=postgres",
        "=PASSWORD": "=none",
    }
    for block in PAGE.read_text("utf-8").split("```properties\n")[1:]:
        text = block.partition("```")[0]
        for old, new in changes.items():
            text = text.replace(old, new)
        yield "".join(f"{line.strip()}\n" for line in text.splitlines())


@contextmanager
def connect(folder, worker, sink):
    quick = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx384m")
    command = ["java", *quick, "-cp", f"{CONNECT / 'libs'}/*:{JDBC / 'libs'}/*"]
    command.append("org.apache.kafka.connect.cli.ConnectStandalone")
    worker += f"offset.storage.file.filename={folder}/offsets\nlisteners=http://127.0.0.1:0\n"
    for name, text in (("worker", worker), ("sink", sink)):
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


def study_file(folder, address, prefix):
    file = folder / "study.toml"
    where = [f"kafka://{address}/{prefix}{end}" for end in ("", "-public")]
    run = {"log": where[0], "public": where[1], "replication": 1, "insecure": True}
    file.write_text(
        study_toml(
            periods=MONTHS,
            attributes=BINARY,
            releases=[window("one", "poverty", width=1, rho=1)],
            run={**run, "estimates": True},
        )
    )
    return file


def close(capsys, file, period):
    json_output(capsys, "close", file, period, "--yes")
    json_output(capsys, "run", file, "--until-idle")


def payloads(address, prefix):
    with closing(KafkaLog(f"{prefix}-public", {"bootstrap.servers": address})) as log:
        records = log.read(ESTIMATES, {0: 0}, 100, 0).records
    return [json.loads(record.value)["payload"] for record in records]


def test_a_stock_sink_writes_every_answer_into_postgresql(kafka, tmp_path, capsys, server):
    prefix = f"sink-{uuid.uuid4().hex[:12]}"
    file = study_file(tmp_path, kafka, prefix)
    json_output(capsys, "topics", file)
    close(capsys, file, "2021-01")
    worker, sink = properties(kafka, f"{prefix}-public.{ESTIMATES}", server.port)
    statement = f"SELECT {', '.join(COLUMNS)} FROM estimates"

    with connect(tmp_path, worker, sink) as process:

        def rows_from(number):
            deadline = time.monotonic() + MOST_SECONDS
            while len(rows := server.rows(statement)) < number:
                said = (tmp_path / "connect.log").read_text()[-3000:]
                assert process.poll() is None, said
                assert time.monotonic() < deadline, said
                time.sleep(0.5)
            return sorted(rows)

        first = payloads(kafka, prefix)
        assert {row[0] for row in rows_from(len(first))} == {"2021-01"}
        close(capsys, file, "2021-02")
        sent = payloads(kafka, prefix)
        assert len(sent) > len(first)
        rows = rows_from(len(sent))
    expected = sorted(([answer[name] for name in COLUMNS] for answer in sent), key=lambda a: a[:3])
    assert [row[:3] for row in rows] == [answer[:3] for answer in expected]
    for row, answer in zip(rows, expected, strict=True):
        assert [float(cell) for cell in row[3:]] == pytest.approx(answer[3:])
