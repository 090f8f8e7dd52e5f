"""Avro schemas that refer to others: from a registry and from files, the same reports."""

import hashlib
import json

import pytest
from kit.arrivals import KEY, OPEN
from kit.registry import registry
from kit.shapes import NUMBER, avro_bytes
from kit.studies import study_toml

from stream_dp.errors import Inconsistent
from stream_dp.log.log import Stored, Unavailable
from stream_dp.population.shapes.decoder import ShapedDecoder
from stream_dp.population.shapes.record_contents import AvroSchema
from stream_dp.services.intake.schema_source import Registry, schema_source
from stream_dp.services.storage.deployment import Deployment
from stream_dp.study import Input

ANSWER = {"type": "enum", "name": "Answer", "namespace": "org.a", "symbols": ["no", "yes"]}


def record(name, **fields):
    declared = [{"name": name, "type": kind} for name, kind in fields.items()]
    return {"type": "record", "name": name, "namespace": "org.a", "fields": declared}


# Row uses both others, and Who uses Answer too.
WHO = record("Who", id="string", sure="Answer")
ROW = record("Row", who="org.a.Who", month="string", a="Answer")
EITHER = ["null", "org.a.Answer", "org.a.Row"]
# The same bytes, by one schema that defines everything.
ALONE = record("Row", who=record("Who", id="string", sure=ANSWER), month="string", a="org.a.Answer")

VALUE = {"who": {"id": "p1", "sure": "no"}, "month": "2001", "a": "yes"}
DECLARED = {"format": "avro", "person": "/who/id", "period": "month", "values": {"yes": 1, "no": 0}}


def stored(value, offset=0):
    return Stored(partition=0, offset=offset, time=0, key=None, value=value, headers=())


ROWS = [stored(avro_bytes(ALONE, VALUE))]
EITHERS = [stored(ROWS[0].value[:5] + b"\4" + ROWS[0].value[5:])]  # the third of a union


def decoder(source):
    return ShapedDecoder(OPEN, KEY, Input.model_validate({**DECLARED, "schemas": "s"}), source)


@pytest.fixture
def server():
    with registry() as server:
        yield server


def fill(server, main=ROW, answer=ANSWER):
    """A registry in which each schema refers to what it uses."""
    to_answer = server.give_version("answers/of a", 3, answer)
    to_who = server.give_version("who", 1, WHO, references=[to_answer])
    server.give(NUMBER, main, references=[to_who, to_answer])


def asked(server):
    return Registry(server.url, sleep=lambda seconds: None)(NUMBER)


def folder_source(folder, main=ROW):
    """The same schemas as files."""
    (folder / "schemas").mkdir()
    for name, schema in {NUMBER: main, "org.a.Who": WHO, "org.a.Answer": ANSWER}.items():
        (folder / "schemas" / f"{name}.avsc").write_text(json.dumps(schema))
    path = folder / "study.toml"
    path.write_text(study_toml(run={"input": {"format": "avro", "schemas": "schemas"}}))
    return schema_source(Deployment.load(path).run.input, folder)


@pytest.mark.parametrize(("main", "records"), [(ROW, ROWS), (EITHER, EITHERS), ("org.a.Row", ROWS)])
def test_reports_are_read_by_schemas_that_refer_to_others(main, records, server, tmp_path):
    if main is ROW:
        fill(server)
    else:
        fill(server, main)
        body = server.answers[f"/schemas/ids/{NUMBER}"][1]
        others = body["references"]
        to_row = server.give_version("row", 1, ROW, references=others)
        body["references"] = [to_row, *others]
    files = folder_source(tmp_path, main)
    (tmp_path / "schemas" / "org.a.Row.avsc").write_text(json.dumps(ROW))
    expected, _ = decoder(lambda number: (json.dumps(ALONE),)).decode(ROWS, 0)
    assert expected.code.tolist() == [1]
    sources = [lambda number: asked(server), files]
    for source in sources:
        cells, rejected = decoder(source).decode(records, 0)
        assert (cells.code.tolist(), rejected) == ([1], [])
        assert cells.period.tolist() == expected.period.tolist()
    assert len({AvroSchema(*source(NUMBER)).sha256 for source in sources}) == 1


def test_each_is_asked_for_once_and_by_its_escaped_name(server):
    fill(server)
    assert [json.loads(text) for text in asked(server)] == [ANSWER, WHO, ROW]
    paths = [path for path, _ in server.asked]
    subjects = ("who/versions/1", "answers%2Fof%20a/versions/3")
    assert paths == [f"/schemas/ids/{NUMBER}", *(f"/subjects/{s}?deleted=true" for s in subjects)]


def test_a_schema_alone_has_the_hash_that_it_had():
    """Closed periods have it."""
    text = json.dumps(ALONE, sort_keys=True)
    assert AvroSchema(json.dumps(ALONE)).sha256 == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("fault", ["unknown", "kind", "itself", "many", "large"])
def test_references_that_cannot_be_had_make_a_report_unreadable(fault, server):
    fill(server)
    path = "/subjects/who/versions/1?deleted=true"
    body = server.answers[path][1]
    if fault == "unknown":
        server.answers[path] = 404, {"error_code": 40402}
    elif fault == "kind":
        body["schemaType"] = "PROTOBUF"
    elif fault == "itself":
        body["references"] = [{"name": "who", "subject": "who", "version": 1}]
    elif fault == "large":
        for one in server.answers.values():
            one[1]["schema"] += " " * 400_000
    else:
        several = [server.give_version(f"s{i}", 1, "long") for i in range(100)]
        body["references"] += several
    assert asked(server) == (None if fault == "unknown" else ())
    cells, (rejected,) = decoder(lambda number: asked(server)).decode(ROWS, 0)
    assert (len(cells), rejected.cells) == (0, {"unreadable": 1})


@pytest.mark.parametrize(
    "references", [5, [5], [{}], [{"subject": 5, "version": 1}], [{"subject": "s", "version": "1"}]]
)
def test_references_that_are_none_are_no_answer(references, server):
    server.give(NUMBER, ROW, references=references)
    with pytest.raises(Unavailable, match="something else"):
        asked(server)


def test_a_reference_that_gets_no_answer_refuses_nothing(server):
    fill(server)
    server.answers["/subjects/who/versions/1?deleted=true"] = 404, b"<html>no such page</html>"
    with pytest.raises(Unavailable, match=f"schema {NUMBER}; reports wait"):
        asked(server)


def test_a_file_that_is_not_there_is_read_once_it_is(tmp_path):
    source = folder_source(tmp_path)
    missing = tmp_path / "schemas" / "org.a.Answer.avsc"
    text = missing.read_text()
    missing.unlink()
    several = decoder(source)
    assert len(several.decode(ROWS, 0)[0]) == 0
    missing.write_text(text)
    assert len(several.decode([stored(ROWS[0].value, offset=1)], 0)[0]) == 1
    (use,) = several.close_period().schemas.values()
    assert use.since == {0: 1}


@pytest.mark.parametrize("name", ["../study", "a/b", ""])
def test_a_name_never_leaves_the_folder(name, tmp_path):
    source = folder_source(tmp_path, record("Row", who=name))
    (tmp_path / "study.avsc").write_text(json.dumps(WHO))
    assert len(decoder(source).decode(ROWS, 0)[0]) == 0


def test_files_that_use_each_other_are_no_schema(tmp_path):
    source = folder_source(tmp_path)
    for here, there in (("Who", "Answer"), ("Answer", "Who")):
        path = tmp_path / "schemas" / f"org.a.{here}.avsc"
        path.write_text(json.dumps(record(here, next=there)))
    assert len(decoder(source).decode(ROWS, 0)[0]) == 0


def test_another_schema_behind_a_reference_is_refused(server):
    fill(server)
    first = decoder(lambda number: asked(server))
    first.decode(ROWS, 0)
    read_as = first.close_period()
    fill(server, answer={**ANSWER, "symbols": ["yes", "no"]})
    again = decoder(lambda number: asked(server))
    again.repeat(read_as)
    with pytest.raises(Inconsistent, match=f"schema {NUMBER}"):
        again.decode(ROWS, 0)
