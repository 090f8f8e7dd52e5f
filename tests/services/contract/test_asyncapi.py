"""AsyncAPI of all topics: it fits every record of a real run, and one message only."""

import copy
import json
import shutil
from collections import Counter
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.arrivals import KEY, OPEN, reports, stored
from kit.commands import json_output
from kit.households import HouseholdFolder, roster, use_fit_in_rounds
from kit.json_schemas import draft, validator
from kit.panels import StudyFolder, script
from kit.parts import PartsFolder
from kit.studies import PAIRS, SCHEDULE, small_study, study_toml

from stream_dp.log.log import Record
from stream_dp.log.memory import MemoryLog
from stream_dp.log.message import SIGNATURE
from stream_dp.log.sealing import Keyring, SealedLog
from stream_dp.log.signing import SigningKey
from stream_dp.population.report_decoding import Decoder
from stream_dp.services.contract.messages import BINARY
from stream_dp.services.contract.schema import asyncapi
from stream_dp.services.intake.group_tables import send_table
from stream_dp.services.intake.markers import close_marker
from stream_dp.services.releaser.releaser import key_entry
from stream_dp.services.storage.job_records import (
    failure_record,
    hold_record,
    interruption_record,
    operator_word,
)
from stream_dp.services.storage.journal import Entry, journal_records
from stream_dp.study import Run
from stream_dp.study.topics import (
    CLOCK,
    CLOSES,
    JOURNAL,
    MANIFESTS,
    ORDERS,
    RELEASES,
    REPORTS,
    UNSEALED,
    topics_of,
)
from stream_dp.studyfile import load_study

SCHEMA = Path(__file__).parents[3] / ".tools" / "asyncapi" / "3.0.0.json"
KAFKA = Run(log="kafka://h1:9092,h2:9092/p", public="kafka://h3:9092/q", partitions=3)
FILES = Run(log="sqlite:a.db", public="sqlite:b.db")
SIGNED = Run(log="sqlite:a.db", public="sqlite:b.db", signing={"file": "signing.pem"})


class Contract:
    """What a document says of the records of its topics."""

    def __init__(self, document):
        self._shared = {"components": document["components"]}
        self._validators = {}
        self.messages = {name: c["messages"] for name, c in document["channels"].items()}

    def fits(self, topic, record):
        """The names of the topic's messages that a record is one of."""
        return [name for name, m in self.messages[topic].items() if self._is(m, record)]

    def _is(self, message, record):
        headers = {name: value.decode() for name, value in record.headers}
        key = message.get("bindings", {}).get("kafka", {}).get("key")
        if "headers" in message and not self._valid(message["headers"], headers):
            return False
        written = None if record.key is None else record.key.decode()
        if key is not None and not self._valid(key, written):
            return False
        if message["payload"] == BINARY:
            return record.value is not None
        try:
            payload = None if record.value is None else json.loads(record.value)
        except ValueError:
            return False
        return self._valid(message["payload"], payload)

    def _valid(self, schema, value):
        if id(schema) not in self._validators:
            self._validators[id(schema)] = draft("7", {**self._shared, **schema})
        return self._validators[id(schema)].is_valid(value)


OF_OPEN = Contract(asyncapi(OPEN, FILES))


FAULTY_ROW = b'{"row":7,"text":"a,b"}'


@pytest.fixture(scope="module")
def lived(tmp_path_factory):
    """A study of households that has run to its end, with an input of every kind."""
    folder = tmp_path_factory.mktemp("asyncapi")
    homes = HouseholdFolder(folder / "homes")
    with pytest.MonkeyPatch.context() as patch:
        use_fit_in_rounds(patch)
        send_table(homes.setting, roster())
        content = {"person": "p00", "period": "2021-01", "values": {"work": 7, "rent": 1}}
        homes.send(
            [Record(REPORTS, json.dumps(content).encode(), key=b"p00", headers=(), partition=0)]
        )
        homes.send(
            [
                Record(
                    REPORTS,
                    b"\xff{",
                    key=None,
                    headers=(("stream-dp-source", b"a.csv"),),
                    partition=0,
                )
            ]
        )
        homes.send([Record(REPORTS, FAULTY_ROW, key=b"", headers=(), partition=0)])
        homes.prepare()
        homes.run()
        with homes.log() as log:
            name = next(j.id for e in homes.entries() for j in e.jobs)
            log.append([failure_record(name, 0, "ValueError"), operator_word("retry", name)])
            log.append([interruption_record(name, 1, "the worker ended with signal 9")])
            log.append([hold_record("released", name, 1, 0)])
        homes.work()
        homes.folder = shutil.copytree(homes.folder, folder / "moved")
        homes.run(moved=True)
    return homes


def records(homes):
    """All records of all topics, by topic."""
    private, public = topics_of(homes.setting.study, 1)
    read = {}
    with closing(homes.setting.log()) as log, closing(homes.setting.public()) as published:
        for topic in [*private, *public]:
            source = published if topic == RELEASES else log
            read[topic] = source.read(topic, source.describe(topic).first, 100_000, 0).records
    return read


def test_every_record_of_a_run_is_one_message_of_the_contract(lived):
    contract = Contract(asyncapi(lived.setting.study, lived.setting.run))
    counted = Counter()
    for topic, of_topic in records(lived).items():
        for record in of_topic:
            if topic == REPORTS and contract.fits(topic, record) == []:
                counted["refused"] += 1
                continue
            (name,) = contract.fits(topic, record)
            counted[name] += 1
    # Two reports are refused. They and the faulty row have dead letters.
    assert counted.pop("refused") == counted["deadLetter"] - counted["faultyRow"] == 2
    names = {name for of_topic in contract.messages.values() for name in of_topic}
    assert set(counted) == names


def test_a_record_that_was_changed_is_no_message(lived):
    """Every manifest, job, progress, failure and word: without any one field, it is refused."""
    contract = Contract(asyncapi(lived.setting.study, lived.setting.run))
    tried = 0
    for topic, of_topic in records(lived).items():
        for record in of_topic[:60]:
            for names in contract.fits(topic, record)[:1]:
                message = contract.messages[topic][names]
                for i, (header, _) in enumerate(record.headers):
                    if header in message.get("headers", {}).get("required", ()):
                        kept = record.headers[:i] + record.headers[i + 1 :]
                        assert contract.fits(topic, record._replace(headers=kept)) == []
                        tried += 1
                if message["payload"] == BINARY or record.value is None:
                    continue
                payload = json.loads(record.value)
                for field in ("person", "type", "id", "index", "parts", "attempt", "job", "rho"):
                    if field in payload:
                        less = {k: v for k, v in payload.items() if k != field}
                        changed = record._replace(value=json.dumps(less).encode())
                        assert contract.fits(topic, changed) == [], (names, field)
                        tried += 1
    assert tried > 200


def test_a_row_that_makes_no_report_is_a_message_of_its_own():
    assert OF_OPEN.fits(REPORTS, Record(REPORTS, FAULTY_ROW, b"")) == ["faultyRow"]


def test_a_marker_has_its_header_and_no_value():
    assert OF_OPEN.fits(REPORTS, close_marker(2, 0)) == ["closeMarker"]
    assert OF_OPEN.fits(REPORTS, close_marker(2, 0, OPEN)) == ["closeMarker"]
    other = OPEN.model_copy(update={"name": "other"})
    assert OF_OPEN.fits(REPORTS, close_marker(2, 0, other)) == []
    assert OF_OPEN.fits(REPORTS, Record(REPORTS, None)) == []


@settings(max_examples=100)
@given(reports, st.sampled_from([None, b"p"]))
def test_the_contract_accepts_what_the_decoder_accepts(report, key):
    value = json.dumps(report).encode()
    _, rejected = Decoder(OPEN, KEY).decode([stored(value)], 0)
    expected = [] if rejected else ["report"]
    assert OF_OPEN.fits(REPORTS, Record(REPORTS, value, key)) == expected


@cache
def documents():
    """Of one study with every run, and of one that closes by the calendar."""
    scheduled = small_study(periods={"first": "2021-01", "every": "month", "count": 3, **SCHEDULE})
    other = KAFKA.model_copy(update={"input": KAFKA.input.model_copy(update={"format": "flat"})})
    runs = (KAFKA, FILES, other, SIGNED)
    return [*(asyncapi(OPEN, run) for run in runs), asyncapi(scheduled, KAFKA)]


@pytest.mark.skipif(not SCHEMA.exists(), reason="no schema of AsyncAPI: run tests/tools")
def test_every_message_has_a_payload_and_json_a_shape(lived):
    for document in [*documents(), asyncapi(lived.setting.study, lived.setting.run)]:
        for topic, channel in document["channels"].items():
            for name, message in channel["messages"].items():
                written = message["payload"] != BINARY
                assert written or message["contentType"] != "application/json", (topic, name)
    assert OF_OPEN.messages["releases"]["studyPlan"]["payload"]["type"] == "object"


def test_the_document_is_asyncapi_3(lived):
    valid = draft("7", json.loads(SCHEMA.read_text("utf-8")))
    for document in [*documents(), asyncapi(lived.setting.study, lived.setting.run)]:
        valid.validate(document)
        broken = copy.deepcopy(document)
        broken["operations"]["receive-reports"]["action"] = "listen"
        assert not valid.is_valid(broken)


def test_every_reference_leads_somewhere_and_every_schema_is_one():
    for document in documents():
        references = []

        def walk(value, references=references):
            if isinstance(value, dict):
                references += [value["$ref"]] if isinstance(value.get("$ref"), str) else []
                value = list(value.values())
            for part in value if isinstance(value, list) else []:
                walk(part)

        walk(document)
        for reference in references:
            place = document
            for name in reference.removeprefix("#/").split("/"):
                place = place[name]
        assert references
        for schema in document["components"]["schemas"].values():
            validator("7").check_schema(schema)


def test_topics_servers_and_addresses_are_the_studys():
    document = asyncapi(OPEN, KAFKA)
    assert {n: c["address"] for n, c in document["channels"].items()} == {
        "study": "p.study",
        "reports": "p.reports",
        "dead-letters": "p.dead-letters",
        "journal": "p.journal",
        "heartbeats": "p.heartbeats",
        "releases": "q.releases",
    }
    assert document["servers"] == {
        "log": {"host": "h1:9092,h2:9092", "protocol": "kafka"},
        "public": {"host": "h3:9092", "protocol": "kafka"},
    }
    assert document["channels"]["reports"]["bindings"]["kafka"]["partitions"] == 3
    assert "servers" not in asyncapi(OPEN, FILES)
    scheduled = small_study(periods={"first": "2021-01", "every": "month", "count": 3, **SCHEDULE})
    assert CLOCK in asyncapi(scheduled, FILES)["channels"]
    panel = asyncapi(scheduled, FILES)["channels"]["releases"]["messages"]["panelRelease"]
    assert "ce_time" in panel["headers"]["required"]


def test_the_command_writes_it(tmp_path, capsys):
    file = tmp_path / "study.toml"
    file.write_text(study_toml(name="asked", releases=PAIRS))
    printed = json_output(capsys, "schema", file, "--kind", "asyncapi")
    assert printed["info"]["title"] == "The study asked"
    (written,) = json_output(
        *(capsys, "schema", file, "--kind", "asyncapi", "--out", tmp_path / "s")
    )["files"]
    assert Path(written).name == "asked.asyncapi.json"
    assert json.loads(Path(written).read_text("utf-8")) == printed


def test_a_signed_study_has_signatures_and_a_message_of_keys(tmp_path):
    key, other = (SigningKey(Ed25519PrivateKey.generate()) for _ in range(2))
    place = StudyFolder(tmp_path / "signed")
    for sent in script():
        place.send(sent)
    place.run(signer=key)
    study, run = load_study(place.file)
    contract = Contract(asyncapi(study, run.model_copy(update={"signing": {"file": "k"}})))
    plain = Contract(asyncapi(study, run))
    entry = key_entry(place.entries(), study, other, key)
    with place.log() as log, place.public(readonly=True) as published:
        read = log.read(JOURNAL, {0: 0}, 1000, 0).records
        released = published.read(RELEASES, {0: 0}, 1000, 0).records
    rotation = [*journal_records(entry, study), *Entry(entry).public_records()]
    names = Counter()
    for record in [*read, *released, *rotation]:
        topic = record.topic if record in rotation else JOURNAL if record in read else RELEASES
        (name,) = contract.fits(topic, record)
        names[name] += 1
        if topic == RELEASES and name.endswith(("Release", "Declaration", "Key")):
            bare = tuple(h for h in record.headers if h[0] != SIGNATURE)
            assert contract.fits(topic, Record(topic, record.value, record.key, bare)) == []
            assert (plain.fits(topic, record) == []) == (name == "signingKey")
    assert names["keyEntry"] == names["signingKey"] == names["studyDeclaration"] == 1
    assert names["panelRelease"] > 1


def test_weights_of_answers_are_messages_of_the_contract(tmp_path, monkeypatch):
    monkeypatch.setattr("stream_dp.answers.error_weights.RERUNS", 3)
    place = StudyFolder(tmp_path / "weighed")
    for sent in script():
        place.send(sent)
    place.run(weights=True)
    study, run = load_study(place.file)
    contract = Contract(asyncapi(study, run.model_copy(update={"weights": True})))
    with place.log() as log, place.public(readonly=True) as published:
        decided = log.read(JOURNAL, {0: 0}, 1000, 0).records
        released = published.read(RELEASES, {0: 0}, 1000, 0).records
    names = Counter()
    for topic, records in ((JOURNAL, decided), (RELEASES, released)):
        for record in records:
            (name,) = contract.fits(topic, record)
            names[name] += 1
    assert names["weightsEntry"] > 0
    assert names["weightsPart"] == 2 * names["weights"] > 0


def test_a_study_that_is_encrypted_has_sealed_messages(tmp_path):
    study, run = load_study(StudyFolder(tmp_path / "sealed").file)
    sealed = Contract(asyncapi(study, run.model_copy(update={"encryption": {"file": "k"}})))
    plain = Contract(asyncapi(study, run))
    keys = Keyring.of_text("1" * 64)
    with closing(MemoryLog()) as inner, closing(SealedLog(inner, keys, UNSEALED)) as log:
        inner.create({JOURNAL: 1, REPORTS: 1})
        log.append([Record(JOURNAL, b"{}"), *script()[0][:1]])
        (entry,) = inner.read(JOURNAL, {0: 0}, 1, 0).records
        (report,) = inner.read(REPORTS, {0: 0}, 1, 0).records
    assert (sealed.fits(JOURNAL, entry), plain.fits(JOURNAL, entry)) == (["sealed"], [])
    assert sealed.fits(REPORTS, report) == plain.fits(REPORTS, report) == ["report"]


def test_what_goes_to_and_from_an_aggregator_is_in_the_contract(tmp_path):
    place = PartsFolder(tmp_path / "parts", parts=2)
    place.send(script()[0])
    place.run()
    contract = Contract(asyncapi(*load_study(place.file)))
    with place.log() as log:
        for topic, name in ((CLOSES, "announcement"), (ORDERS, "order"), (MANIFESTS, "answer")):
            read = log.read(topic, {0: 0}, 10, 0).records
            assert [contract.fits(topic, record) for record in read] == [[name]]
