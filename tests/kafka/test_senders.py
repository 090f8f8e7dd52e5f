"""Reports that Kafka Connect, Quix Streams, kcat send, and dead letters by a plain consumer."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import time
import uuid
from contextlib import closing

import pytest
from confluent_kafka import Consumer, TopicPartition
from kit.commands import json_output
from kit.kafka_connect import connect, fetched
from kit.studies import BINARY, MONTHS, study_toml, window
from kit.tools import FETCHED, ROOT, needs, tool

from stream_dp.log.kafka import KafkaLog
from stream_dp.services.storage import journal
from stream_dp.study.topics import REPORTS

TOOLS = FETCHED.parent
QUIX = TOOLS / "quix"
MOST_SECONDS = 600

ROWS = [
    {"id": "p1", "month": "2021-01", "poverty": 1},
    {"id": "p2", "month": "2021-01", "poverty": 0},
    {"id": "p3", "month": "2021-01", "poverty": 9},  # no such value
    {"id": "p4", "month": "2031-01", "poverty": 1},  # no such period
]
REASONS = {2: "value=1", 3: "period=1"}
FLAT = '\n[run.input]\nformat = "connect"\nperson = "id"\nperiod = "month"\n'

WORKER = """\
bootstrap.servers={address}
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
value.converter.schemas.enable=true
plugin.discovery=service_load
"""
SOURCE = """\
name=file
connector.class=org.apache.kafka.connect.file.FileStreamSourceConnector
tasks.max=1
file={folder}/rows.json
topic={prefix}.reports
"""
SENDER = """
import json, sys
from quixstreams import Application
address, prefix, *rows = sys.argv[1:]
app = Application(broker_address=address, auto_create_topics=False, loglevel="ERROR")
topic = app.topic(f"{prefix}.reports", value_serializer="json")
with app.get_producer() as producer:
    for row in map(json.loads, rows):
        values = {"poverty": row["poverty"]}
        report = {"person": row["id"], "period": row["month"], "values": values}
        record = topic.serialize(key=row["id"], value=report)
        producer.produce(topic.name, record.value, record.key, headers=record.headers)
"""


class Trial:
    """A study on the broker whose reports other programs send."""

    def __init__(self, folder, address, more=""):
        self.folder, self.address = folder, address
        self.prefix = f"senders-{uuid.uuid4().hex[:12]}"
        where = [f"kafka://{address}/{self.prefix}{end}" for end in ("", "-public")]
        self.file = folder / "study.toml"
        text = study_toml(
            periods=MONTHS,
            attributes=BINARY,
            releases=[window("one", "poverty", width=1, rho=1)],
            run={"log": where[0], "public": where[1], "replication": 1, "insecure": True},
        )
        self.file.write_text(text + more)

    def log(self):
        return closing(KafkaLog(self.prefix, {"bootstrap.servers": self.address}))

    def await_reports(self, number, alive):
        """Waits until the topic has so many records. alive: says why none can come any more."""
        deadline = time.monotonic() + MOST_SECONDS
        with self.log() as log:
            while len(log.read(REPORTS, {0: 0}, 100, 0).records) < number:
                assert time.monotonic() < deadline, "the reports do not come"
                alive()
                time.sleep(0.2)

    def accounting(self, capsys):
        """The cells of the first period, once it is closed."""
        json_output(capsys, "close", self.file, "2021-01")
        json_output(capsys, "run", self.file, "--until-idle")
        with self.log() as log:
            return journal.read(log)[-1].input.accounting

    def dead_letters(self):
        """By offset of the rejected record, the headers that a plain consumer reads."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.address,
                "group.id": uuid.uuid4().hex,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        letters = {}
        with closing(consumer):
            consumer.assign([TopicPartition(f"{self.prefix}.dead-letters", 0, 0)])
            deadline = time.monotonic() + MOST_SECONDS
            while len(letters) < len(REASONS) and time.monotonic() < deadline:
                message = consumer.poll(1)
                if message is not None and message.error() is None:
                    headers = dict(message.headers())
                    letters[int(headers["__connect.errors.offset"])] = headers
        return letters


def check(trial, capsys):
    accounting = trial.accounting(capsys)
    assert (accounting.received, accounting.accepted) == (4, 2)
    letters = trial.dead_letters()
    assert {o: h["stream-dp-cells"].decode() for o, h in letters.items()} == REASONS
    for headers in letters.values():
        assert headers["__connect.errors.topic"].decode() == f"{trial.prefix}.reports"
        assert headers["__connect.errors.stage"] == b"VALUE_CONVERTER"


@pytest.mark.skipif(not fetched(), reason="no Kafka Connect: run tests/tools")
def test_kafka_connect_feeds_a_file(kafka, tmp_path, capsys):
    trial = Trial(tmp_path, kafka, FLAT)
    json_output(capsys, "topics", trial.file)
    (tmp_path / "rows.json").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    places = {"address": trial.address, "folder": tmp_path, "prefix": trial.prefix}
    source = {"source": SOURCE.format(**places)}
    with connect(tmp_path, WORKER.format(**places), source) as process:

        def alive():
            assert process.poll() is None, (tmp_path / "connect.log").read_text()[-2000:]

        trial.await_reports(len(ROWS), alive)
    check(trial, capsys)


@pytest.mark.skipif(not (QUIX / "complete").exists(), reason="no Quix Streams: run tests/tools")
def test_quix_streams_sends_reports(kafka, tmp_path, capsys):
    trial = Trial(tmp_path, kafka)
    json_output(capsys, "topics", trial.file)
    sent = subprocess.run(
        [QUIX / "bin" / "python", "-c", SENDER, kafka, trial.prefix, *map(json.dumps, ROWS)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=MOST_SECONDS,
        check=False,
    )
    assert sent.returncode == 0, sent.stdout
    check(trial, capsys)


@needs("kcat")
def test_kcat_sends_lines_of_reports(kafka, tmp_path, capsys):
    """By the line that the page on other shapes shows."""
    trial = Trial(tmp_path, kafka)
    json_output(capsys, "topics", trial.file)
    reports = [
        {"person": row["id"], "period": row["month"], "values": {"poverty": row["poverty"]}}
        for row in ROWS
    ]
    lines = "".join(f"{report['person']}|{json.dumps(report)}\n" for report in reports)
    (tmp_path / "reports.txt").write_text(lines)
    page = (ROOT / "docs" / "how-to" / "other-shapes.md").read_text("utf-8")
    shown = re.search(r"`(kcat -P [^`]*)`", page)[1]
    _, *command = shlex.split(shown.replace("SERVERS", kafka).replace("PREFIX", trial.prefix))
    subprocess.run([tool("kcat"), *command], cwd=tmp_path, timeout=MOST_SECONDS, check=True)
    check(trial, capsys)
