"""Files with a JSON object in each line."""

import gzip
import json

import pytest
from kit.tables import AS_WRITTEN, STUDY

from stream_dp.errors import UserError
from stream_dp.population.tables import TableLayout, judge_table

FLAT = b'{"person": "a", "period": "2021-01", "poverty": "1"}'
REPORT = b'{"person": "a", "period": "2021-01", "values": {"poverty": "1"}}'
ROW = ("a", "2021-01", {"poverty": "1"})


@pytest.mark.parametrize("line", [FLAT, REPORT, b"\xef\xbb\xbf" + FLAT, b"\n \n" + FLAT + b"\r\n"])
@pytest.mark.parametrize("name", ["t.jsonl", "T.NDJSON", "t.jsonl.gz"])
def test_a_line_is_a_row(read, line, name):
    assert read(gzip.compress(line) if name.endswith("gz") else line, name) == [ROW]


def test_members_that_some_lines_lack_and_wide_tables(read):
    lines = b'{"person": 7}\n{"2021-01": "1", "person": 8.0}\n{"person": "09", "2021-02": null}'
    assert read(lines, "t.jsonl", attribute="poverty") == [("8", "2021-01", {"poverty": "1"})]


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("true", "true"),
        ("1", "1"),
        ("1.0", "1"),
        ("1.50", "1.50"),
        ("12345678901234567890123", "12345678901234567890123"),
        ("1.23e11", "1.23E+11"),
        ("Infinity", "Infinity"),
        ('"\\ud83d\\ude00"', "\N{GRINNING FACE}"),
        ('"\\ud83d"', "\ufdd0"),
        ("[1]", "\ufdd0"),
        ('{"a": 1}', "\ufdd0"),
    ],
)
def test_texts_of_cells(read, cell, text):
    line = f'{{"person": "a", "period": "2021-01", "poverty": {cell}}}'
    assert read(line, "t.jsonl") == [("a", "2021-01", {"poverty": text})]


@pytest.mark.parametrize("cell", ["null", "NaN", '""'])
def test_empty_cells(read, cell):
    assert read(f'{{"person": "a", "period": "2021-01", "poverty": {cell}}}', "t.jsonl") == []


@pytest.mark.parametrize(
    "line",
    [
        b"1",
        b"[]",
        b"{",
        b"nothing",
        FLAT + FLAT,
        b'{"person": "a", "person": "b"}',
        b'{"person": "a", "poverty": "no", "values": {"poverty": "1"}}',
        b"[" * 100_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b'{"person": "' + b"x" * (1 << 18) + b'"}',
        b'{"person": "' + b"x" * (1 << 23) + b'"}',
        b'{\xff"person": "b"}',
    ],
)
def test_a_line_that_cannot_be_read_changes_no_other(tmp_path, line):
    path = tmp_path / "t.jsonl"
    path.write_bytes(FLAT + b"\n" + line + b"\n" + FLAT.replace(b'"a"', b'"b"'))
    judgement = judge_table(path, STUDY, TableLayout(), closed=0)
    assert judgement.cells - judgement.faulty == 2
    assert [(reason, at.first_row) for (_, reason), at in judgement.faults.items()] == [
        ("unreadable", 2)
    ]


def test_a_number_with_an_exponent_is_a_damaged_id(read):
    line = FLAT.replace(b'"a"', b"1.23e11")
    assert read(line, "t.jsonl") == [("", "2021-01", {"poverty": "1"})]
    kept = read(line, "t.jsonl", study=AS_WRITTEN)
    assert kept == [("1.23E+11", "2021-01", {"poverty": "1"})]


@pytest.mark.parametrize("content", [b"", b"\n", b"[]", b"{}"])
def test_a_file_without_members_is_refused(read, content):
    with pytest.raises(UserError, match="write a JSON object in each line"):
        read(content, "t.jsonl")


def test_a_file_of_too_many_members_is_refused(read):
    lines = (json.dumps({f"m{i}": 1}) for i in range(20_000))
    with pytest.raises(UserError, match="different members"):
        read("\n".join(lines), "t.jsonl")
