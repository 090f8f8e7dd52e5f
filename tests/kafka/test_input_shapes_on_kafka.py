"""Other programs write their shapes to a real broker: the counts are those of plain reports."""

from __future__ import annotations

import json
import uuid
from contextlib import closing

import pytest
from confluent_kafka import Producer
from kit.panels import Noiseless, counts, script
from kit.shapes import NUMBER, shapes
from kit.studies import BINARY, MONTHS, attribute, cumulative, study_toml, toml_lines, window

from stream_dp.services.commands import cli
from stream_dp.services.releaser.deployed_releaser import releaser_of
from stream_dp.services.storage import journal
from stream_dp.services.storage.deployment import Deployment

SHAPES = shapes(["poverty", "work", "wealth"])
PLAIN = "plain"


def decided(folder, address, name):
    """What a study decides of the script in a shape, which a plain producer writes."""
    prefix = f"shape-{uuid.uuid4().hex[:12]}"
    where = {"log": f"kafka://{address}/{prefix}", "public": f"kafka://{address}/{prefix}-public"}
    how = {"partitions": 2, "replication": 1, "insecure": True}
    text = study_toml(
        periods={**MONTHS, "count": 5},
        size=50,
        rho=0.5,
        attributes={**BINARY, "work": attribute(["yes", "no"], missing="absent")},
        releases=[
            window("pairs", "poverty", width=2, rho=0.2),
            cumulative("working", "work", ["yes"], rho=0.2),
        ],
        run={**where, **how},
    )
    if name != PLAIN:
        text += f"\n[run.input]\n{toml_lines(SHAPES[name].declared)}\n"
        (folder / "schemas").mkdir(exist_ok=True)
        (folder / "schemas" / f"{NUMBER}.avsc").write_text(json.dumps(SHAPES[name].schema))
    file = folder / f"{name.replace(' ', '-')}.toml"
    file.write_text(text)
    assert cli.main(["topics", str(file)]) == 0
    producer = Producer({"bootstrap.servers": address, "linger.ms": 5})
    for records in script():
        for record in records:
            value, headers = record.value, record.headers
            report = json.loads(value) if value and value[:1] == b"{" else {}
            if "values" in report and name != PLAIN:
                value, headers = SHAPES[name].pack(report)
            elif value is None and not headers:
                value = b"x"  # to Debezium, a record without a value says nothing
            producer.produce(
                f"{prefix}.reports", value, partition=record.partition, headers=list(headers)
            )
    assert producer.flush(30) == 0
    deployment = Deployment.load(file)
    process = releaser_of(deployment)
    process.source = Noiseless()
    with closing(process.log) as log, closing(process.public):
        assert process.run(until_idle=True)
        entries = journal.closes(journal.read(log))[1:]
    return [entry.input.accounting for entry in entries], [counts(entry) for entry in entries]


@pytest.mark.parametrize("name", ["flat", "debezium with schema", "avro reports", "binary event"])
def test_a_shape_counts_as_plain_reports_do(name, kafka, tmp_path, plain):
    assert decided(tmp_path, kafka, name) == plain


@pytest.fixture(scope="module")
def plain(kafka, tmp_path_factory):
    return decided(tmp_path_factory.mktemp("plain"), kafka, PLAIN)
