"""Changes of a true PostgreSQL through Debezium: its records, and what is read of them."""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from kit import debezium
from kit.arrivals import KEY
from kit.debezium import KEYS, recorded_line, table_name
from kit.kafka_connect import connect, fetched
from kit.postgresql import SERVERS, running_server
from kit.studies import attribute, small_study, window

from stream_dp.log.log import Stored
from stream_dp.population.cells import CLEARED
from stream_dp.population.shapes.decoder import ShapedDecoder
from stream_dp.study import Input

MOST_SECONDS = 600
RECORDED = Path(__file__).parents[1] / "population" / "debezium.jsonl"

STUDY = small_study(
    attributes={
        "poverty": attribute([0, 1], missing=0),
        "work": attribute(["no", "yes"], missing="absent"),
    },
    releases=[window("w", "poverty", width=1, rho=1)],
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not fetched("debezium"), reason="no Debezium: run tests/tools"),
    pytest.mark.skipif(not SERVERS, reason="no PostgreSQL: run tests/tools"),
]

WORKER = """\
bootstrap.servers={address}
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
key.converter.schemas.enable=false
value.converter.schemas.enable=false
plugin.discovery=only_scan
"""
SOURCE = """\
name={name}
connector.class=io.debezium.connector.postgresql.PostgresConnector
tasks.max=1
plugin.name=pgoutput
database.hostname=127.0.0.1
database.port={port}
database.user=postgres
database.password=none
database.dbname=postgres
topic.prefix={topic}
slot.name={name}
publication.name={name}
publication.autocreate.mode=all_tables
topic.creation.default.replication.factor=1
topic.creation.default.partitions=1
snapshot.mode=no_data
poll.interval.ms=50
{more}
"""
UNWRAPPED = "transforms=row\ntransforms.row.type=io.debezium.transforms.ExtractNewRecordState\n"
SCHEMAS = "".join(
    f"{part}.converter=org.apache.kafka.connect.json.JsonConverter\n"
    f"{part}.converter.schemas.enable=true\n"
    for part in ("key", "value")
)
FORMS = {
    "wrapped": "",
    "marked": f"{UNWRAPPED}transforms.row.delete.tombstone.handling.mode=rewrite\n",
    "tombstones": UNWRAPPED,
    "wrapped_schemas": SCHEMAS,
}
TABLES = [(key, full) for key in KEYS for full in (False, True)]


@pytest.fixture(scope="module")
def records(kafka, tmp_path_factory):
    """The records of all forms and tables, by form and name of the table."""
    folder, topic = tmp_path_factory.mktemp("debezium"), f"changes-{uuid.uuid4().hex[:12]}"
    with running_server() as server:
        deadline = time.monotonic() + MOST_SECONDS

        def wait(condition):
            while not condition():
                assert time.monotonic() < deadline, (folder / "connect.log").read_text()[-3000:]
                time.sleep(0.2)

        def execute(statement):
            done = server.statement(statement)
            assert done.returncode == 0, done.stderr

        wait(lambda: server.statement("SELECT 1").returncode == 0)
        for key, full in TABLES:
            name = table_name(key, full=full)
            execute(f"CREATE TABLE {name} ({debezium.DECLARED}, PRIMARY KEY ({', '.join(key)}))")
            execute(f"ALTER TABLE {name} REPLICA IDENTITY {'FULL' if full else 'DEFAULT'}")
        sources = {
            name: SOURCE.format(name=name, port=server.port, topic=f"{topic}-{name}", more=more)
            for name, more in FORMS.items()
        }
        active = "SELECT 1 FROM pg_replication_slots WHERE active"
        with connect(folder, WORKER.format(address=kafka), sources, "debezium"):
            wait(lambda: len(server.rows(active)) == len(FORMS))
            for key, full in TABLES:
                name = table_name(key, full=full)
                execute(f"INSERT INTO {name} VALUES ({debezium.INSERTED})")
                for change, _ in debezium.CHANGES:
                    execute(f"UPDATE {name} SET {change}")
                execute(f"DELETE FROM {name}")
            yield {
                (form, table_name(key, full=full)): received(
                    kafka,
                    f"{topic}-{form}.public.{table_name(key, full=full)}",
                    len(debezium.recorded_table(form, key, full=full)),
                )
                for form in FORMS
                for key, full in TABLES
            }
    admin = AdminClient({"bootstrap.servers": kafka})
    topics = [name for name in admin.list_topics(timeout=60).topics if name.startswith(topic)]
    for future in admin.delete_topics(topics).values():
        future.result(60)


def received(address, topic, number):
    """The first records of a topic."""
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": topic, "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found, deadline = [], time.monotonic() + MOST_SECONDS
    while len(found) < number:
        assert time.monotonic() < deadline, f"{topic}: {len(found)} of {number} records"
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            found.append((message.key(), message.value()))
    consumer.close()
    return found


def test_the_recorded_changes_are_those_of_the_connector(records):
    recorded = [json.loads(line) for line in RECORDED.read_text("utf-8").splitlines()]
    assert [
        recorded_line(form, table, *record)
        for (form, table), several in records.items()
        for record in several
    ] == recorded


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("key", "full"), TABLES)
def test_what_is_read_is_the_empty_table_or_rejected(records, form, key, full):
    """After the last change, a deletion, nobody in the table has an answer."""
    several = records[form, table_name(key, full=full)]
    keys = {"format": "debezium" if form.startswith("wrapped") else "flat", "period": "month"}
    if form == "tombstones":
        keys["tombstone"] = "withdraw"
    placed = set(key) == {"person", "month"}
    if placed and form.startswith("wrapped"):
        keys["before"] = "fixed"
    reader = ShapedDecoder(STUDY, KEY, Input.model_validate(keys))
    stored = [
        Stored(partition=0, offset=i, time=0, key=k, value=v, headers=())
        for i, (k, v) in enumerate(several)
    ]
    cells, rejected = reader.decode(stored, 0)
    assert bool(rejected) == (not placed and not (full and form.startswith("wrapped")))
    assert {reason for record in rejected for reason in record.cells} <= {"before", "deleted"}
    last = {}
    order = cells.offset.argsort(kind="stable").tolist()
    for row in order:
        place = int(cells.hi[row]), int(cells.period[row]), int(cells.attribute[row])
        last[place] = int(cells.code[row])
    assert last or rejected
    assert rejected or set(last.values()) == {CLEARED}
