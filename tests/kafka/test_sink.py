"""Answers in PostgreSQL: the topic of answers, a stock sink of Kafka Connect, a real server."""

from __future__ import annotations

import json
import time
import uuid
from contextlib import closing
from pathlib import Path

import pytest
from kit.commands import json_output
from kit.kafka_connect import connect, fetched
from kit.postgresql import SERVERS, running_server
from kit.studies import BINARY, MONTHS, study_toml, window

from stream_dp.log.kafka import KafkaLog
from stream_dp.study.topics import ESTIMATES

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "answers-in-a-database.md"
MOST_SECONDS = 600
COLUMNS = ("period", "query", "measure", "value", "error", "lower", "upper")

pytestmark = [
    pytest.mark.skipif(
        not fetched("jdbc"), reason="no Kafka Connect with its sink: run tests/tools"
    ),
    pytest.mark.skipif(not SERVERS, reason="no PostgreSQL: run tests/tools"),
]


@pytest.fixture
def server():
    with running_server() as served:
        yield served


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

    with connect(tmp_path, worker, {"sink": sink}, "jdbc") as process:

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
