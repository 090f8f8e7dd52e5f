"""A study reads an ordinary topic that others own, under its own name."""

from __future__ import annotations

import json
import uuid
from contextlib import closing

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kit.commands import json_output
from kit.panels import Noiseless
from kit.studies import BINARY, MONTHS, cumulative, study_toml

from stream_dp.services.commands import cli
from stream_dp.services.releaser.deployed_releaser import releaser_of
from stream_dp.services.storage import journal
from stream_dp.services.storage.deployment import Deployment

PARTITIONS = 3


def study(folder, log, reports, **run):
    public = f"{log}-public" if log.startswith("kafka:") else "sqlite:public.db"
    text = study_toml(
        periods={**MONTHS, "count": 2},
        size=20,
        rho=0.5,
        attributes=BINARY,
        releases=[cumulative("poor", "poverty", [1], rho=0.2)],
        run={
            "log": log,
            "public": public,
            "reports": reports,
            "partitions": PARTITIONS,
            "replication": 1,
            "insecure": True,
            **run,
        },
    )
    file = folder / "study.toml"
    file.write_text(text)
    return file


@pytest.fixture
def admin(kafka):
    return AdminClient({"bootstrap.servers": kafka})


@pytest.fixture
def topic(admin):
    """A topic with a codec, a retention and a time limit of its own, as brokers make them."""
    name = f"survey-{uuid.uuid4().hex[:12]}"
    settings = {
        "message.timestamp.type": "LogAppendTime",
        "message.timestamp.after.max.ms": "3600000",
        "compression.type": "lz4",
        "retention.ms": "2678400000",
    }
    new = NewTopic(name, num_partitions=PARTITIONS, replication_factor=1, config=settings)
    admin.create_topics([new])[name].result(60)
    return name


def test_an_ordinary_topic_is_read_under_its_own_name(kafka, admin, tmp_path, topic, capsys):
    prefix = f"named-{uuid.uuid4().hex[:12]}"
    file = study(tmp_path, f"kafka://{kafka}/{prefix}", topic)
    told = json_output(capsys, "topics", str(file))
    assert "reports" not in told["created"]
    assert f"{prefix}.reports" not in admin.list_topics().topics
    producer = Producer({"bootstrap.servers": kafka})
    for person in range(20):
        report = {"person": f"p{person}", "period": "2021-01", "values": {"poverty": person % 2}}
        producer.produce(topic, json.dumps(report), key=f"p{person}")
    producer.produce(topic, b"\xff no report")
    assert producer.flush(30) == 0
    assert cli.main(["close", str(file), "2021-01", "--yes"]) == 0
    process = releaser_of(Deployment.load(file))
    process.source = Noiseless()
    with closing(process.log) as log, closing(process.public):
        process.run(until_idle=True)
        (entry,) = journal.closes(journal.read(log))[1:]
        assert entry.input.accounting.accepted == 20
    capsys.readouterr()
    assert "unreadable" in str(json_output(capsys, "rejected", str(file)))
    assert cli.main(["schema", str(file), "--kind", "asyncapi"]) == 0
    channels = json.loads(capsys.readouterr().out)["channels"]
    assert channels["reports"]["address"] == topic
    assert channels["journal"]["address"] == f"{prefix}.journal"


def test_a_topic_of_reports_that_is_missing_is_not_created(kafka, admin, tmp_path, capsys):
    file = study(tmp_path, f"kafka://{kafka}/none-{uuid.uuid4().hex[:12]}", "surveys.of.nobody")
    for words in (["topics", str(file)], ["run", str(file), "--until-idle"]):
        assert cli.main(words) != 0
        line = capsys.readouterr().err
        assert line.count("\n") == 1
        assert "no topic 'surveys.of.nobody'" in line
    assert "surveys.of.nobody" not in admin.list_topics().topics


@pytest.mark.parametrize(
    ("log", "reports", "words"),
    [
        ("sqlite:log.db", "survey", "run.reports: names a topic on Kafka"),
        ("kafka://nowhere:1/x", "x.journal", "run.reports: x.journal is a topic that this study"),
        ("kafka://nowhere:1/x", "x-public.releases", "is a topic that this study writes"),
        ("kafka://nowhere:1/x", "a b", "run.reports"),
    ],
)
def test_reports_without_a_topic_of_their_own_are_refused(tmp_path, capsys, log, reports, words):
    assert cli.main(["check", str(study(tmp_path, log, reports))]) == 2
    assert words in capsys.readouterr().err
