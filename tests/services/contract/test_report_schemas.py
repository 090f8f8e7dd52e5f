"""Schemas of reports: they accept what the decoder accepts, and nothing else that they can tell."""

import json
from functools import cache
from pathlib import Path

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.arrivals import KEY, OPEN, reports, rows, stored
from kit.commands import json_output, refusal
from kit.json_schemas import draft, validator
from kit.shapes import avro_bytes
from kit.study_file import TEXT

from stream_dp.log.log import Stored
from stream_dp.population.report_decoding import Decoder
from stream_dp.population.shapes.decoder import ShapedDecoder
from stream_dp.services.contract.report_schemas import report_avro, report_schema
from stream_dp.study import Input

SCHEMA = report_schema(OPEN)
CELLS = SCHEMA["properties"]["values"]["properties"]


@cache
def valid():
    return draft("202012", SCHEMA)


@settings(max_examples=200)
@given(reports)
def test_the_schema_accepts_what_the_decoder_accepts(report):
    _, rejected = Decoder(OPEN, KEY).decode([stored(json.dumps(report).encode())], 0)
    assert valid().is_valid(report) == (not rejected)


@settings(max_examples=200)
@given(reports)
def test_cell_by_cell(report):
    framed = valid().is_valid({**report, "values": {"a": 1}})
    usable = sorted(
        list(OPEN.attributes).index(name)
        for name, value in report["values"].items()
        if framed and name in CELLS and draft("202012", CELLS[name]).is_valid(value)
    )
    cells, _ = Decoder(OPEN, KEY).decode([stored(json.dumps(report).encode())], 0)
    assert sorted(cells.attribute.tolist()) == usable


def test_the_schema_is_one():
    validator("202012").check_schema(SCHEMA)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
avro_reports = st.fixed_dictionaries(
    {
        "person": st.sampled_from(["p1", "", 7, "n" * 257]),
        "period": st.sampled_from(["2001", 2002, "2009"]),
        "values": st.dictionaries(
            st.sampled_from(["a", "b", "c", "d"]), st.sampled_from([None, 0, "1", "x", 9]) | texts
        ),
    }
)


@given(avro_reports)
def test_reports_in_avro_are_read_as_the_plain_ones(report):
    schema = report_avro(OPEN)
    declared = Input(format="avro", rows="report", schemas="schemas")
    decoder = ShapedDecoder(OPEN, KEY, declared, lambda number: (json.dumps(schema),))
    ours = decoder.decode(
        [
            Stored(
                partition=0,
                offset=0,
                time=0,
                key=None,
                value=avro_bytes(schema, report),
                headers=(),
            )
        ],
        0,
    )
    plain = Decoder(OPEN, KEY).decode([stored(json.dumps(report).encode())], 0)
    assert rows(ours[0]) == rows(plain[0])
    assert ours[1] == plain[1]


@pytest.fixture
def file(tmp_path):
    (tmp_path / "study.toml").write_text(TEXT)
    return tmp_path / "study.toml"


def test_the_command_prints_one_or_writes_all(file, tmp_path, capsys):
    printed = json_output(capsys, "schema", file)
    assert draft("202012", printed).is_valid(
        {"person": 1, "period": "2021-12", "values": {"work": "part", "poverty": "1"}}
    )
    avro = json_output(capsys, "schema", file, "--kind", "avro")
    fastavro.parse_schema(avro)
    files = json_output(capsys, "schema", file, "--out", tmp_path / "schemas")["files"]
    assert [json.loads(Path(name).read_text()) for name in files[:2]] == [printed, avro]
    assert Path(files[2]).name.endswith(".asyncapi.json")
    one = json_output(capsys, "schema", file, "--kind", "avro", "--out", tmp_path / "schemas")
    assert one["files"] == files[1:2]


def test_the_command_refuses_in_one_line(file, tmp_path, capsys):
    assert "xml" in refusal(capsys, 2, "schema", file, "--kind", "xml")
    (tmp_path / "blocked").write_text("")
    (line,) = refusal(capsys, 2, "schema", file, "--out", tmp_path / "blocked").splitlines()
    assert "blocked" in line
