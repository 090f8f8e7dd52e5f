"""One rule of ids for files, for every decoder of streams, and for every log."""

import json
import random
import uuid
from contextlib import closing

import pyarrow as pa
import pyarrow.parquet
import pytest
from kit.arrivals import KEY
from kit.tables import AS_WRITTEN, STUDY

from stream_dp.compiled import compiled_reader
from stream_dp.log.kafka import KafkaLog
from stream_dp.log.log import Stored
from stream_dp.log.records import RecordColumns
from stream_dp.log.sqlite import SqliteLog
from stream_dp.population import id_index
from stream_dp.population.id_index import normal_ids, unusual_rows
from stream_dp.population.report_decoding import Decoder
from stream_dp.population.shapes.decoder import ShapedDecoder
from stream_dp.population.tables import TableLayout
from stream_dp.services.intake.sending import encoded_reports
from stream_dp.study.declared_sections import Ids
from stream_dp.study.id_forms import WORDS, is_usual, read_id
from stream_dp.study.run_settings import Input
from stream_dp.study.topics import REPORTS

# By id as it arrives, the person, empty for none.
IDS = {
    **dict.fromkeys(["1.23E+11", "1,23E+11", "1e+05", "1234567890123450000", "-1.2E+11"], ""),
    **dict.fromkeys(["3-Jan", "Mar-05", "03. Mrz", "#N/A", "#REF!", "########", "Err:502"], ""),
    **dict.fromkeys(["NA", "n/a", "null", "None", ".", "Total", "Grand total", r"\N", "test"], ""),
    **dict.fromkeys([" ", "\u00a0\u200b", "", '=""', '="1.23E+11"', " NA ", "x" * 257], ""),
    **{'="0012"': "0012", "'0012": "0012", "12.0": "12", "12,00": "12", '="12.0"': "12"},
    **{" 7": "7", "7\u00a0": "7", "a b\t": "a b", "\ufeff7b": "7b", " '0012": "0012"},
    **{text: text for text in ("0", "-1", "007", "99999999", "12E5", "1E-05", "O'Brien", "h1/2")},
    **{text: text for text in ("123456789012345", "123456789012340", "1234567890123456", "3-JAN")},
    **{text: text for text in ("ana", "Jürgen", "h-1", "abc-12", "1.5", "2021-03-01", "a@b.org")},
    **{text: text for text in ("7f9c2ba4-e88f-11ec-8fea-0242ac120002", "x" * 256, "Januar", "n-a")},
}
PLAIN, ODD = {"poverty": 1}, {"poverty": 1, "age": 3}  # an undeclared attribute too


def stored(values):
    return [Stored(0, i, 0, None, value, ()) for i, value in enumerate(values)]


def people(decoder, records):
    """The hashes of persons by record, None for a rejected one."""
    cells, rejected = decoder.decode(records, 0)
    reasons = {r.row: r.cells for r in rejected}
    columns = (cells.offset, cells.hi, cells.lo)
    hashes = {offset: (hi, lo) for offset, hi, lo in zip(*map(list, columns), strict=True)}
    for record in records:
        alone = reasons.get(record.offset, {}).get("person", 0) > 0
        assert alone != (record.offset in hashes)
    return [hashes.get(record.offset) for record in records]


def expected(study=STUDY):
    decoder = Decoder(study, KEY)
    return [
        tuple(decoder._hasher.hashes(pa.array([p.encode()], pa.large_binary()))[0].tolist())
        if p
        else None
        for p in IDS.values()
    ]


def uncompiled(study):
    decoder = Decoder(study, KEY)
    decoder._compiled = None
    return decoder


@pytest.mark.parametrize("values", [PLAIN, ODD], ids=["typed", "irregular"])
@pytest.mark.parametrize("make", [Decoder, lambda study, _: uncompiled(study)], ids=["c", "py"])
def test_a_stream_of_reports(make, values):
    reports = [{"person": p, "period": "2021-01", "values": values} for p in IDS]
    for ascii_only in (True, False):  # with and without escapes
        records = stored(json.dumps(r, ensure_ascii=ascii_only).encode() for r in reports)
        assert people(make(STUDY, KEY), records) == expected()


def test_reports_that_share_a_template():
    text = '{"person":"ID","period":"2021-01","values":{"poverty":1}}'
    plain = {
        i: p for i, p in IDS.items() if i.isascii() and i.isprintable() and not {*'"\\'} & {*i}
    }
    wanted = dict(zip(IDS, expected(), strict=True))
    assert people(uncompiled(STUDY), stored(text.replace("ID", i).encode() for i in plain)) == [
        wanted[i] for i in plain
    ]


def test_records_of_a_declared_shape():
    shape = Input(format="flat", person="id", period="month")
    records = stored(json.dumps({"id": p, "month": "2021-01", "poverty": 1}).encode() for p in IDS)
    assert people(ShapedDecoder(STUDY, KEY, shape), records) == expected()


@pytest.fixture(params=["sqlite", "kafka"])
def log(request, tmp_path):
    """A log with a topic of reports."""
    if request.param == "sqlite":
        log = SqliteLog(tmp_path / "log.db")
    else:
        server = {"bootstrap.servers": request.getfixturevalue("kafka")}
        log = KafkaLog(f"test-{uuid.uuid4().hex}", server, replication=1)
    log.create({REPORTS: 1})
    with closing(log):
        yield log


@pytest.mark.parametrize("name", ["t.parquet", "t.jsonl"])
def test_a_file_through_a_log(log, tmp_path, name):
    path, ids = tmp_path / name, list(IDS)
    rows = [{"person": p, "period": "2021-01", "poverty": 1} for p in ids]
    if name == "t.parquet":
        pa.parquet.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("\n".join(map(json.dumps, rows)))
    for batch in encoded_reports(path, STUDY, TableLayout(), quiet=True):
        log.append(RecordColumns(REPORTS, batch.keys, batch.values, ()))
    records = log.read(REPORTS, {0: 0}, 1000, 30).records
    assert people(Decoder(STUDY, KEY), records) == expected()


def test_numbers_are_ids_by_their_digits():
    tokens = {
        "7": "7",
        "12.0": "12",
        "1.23E+11": "",
        "1e5": "",
        "1234567890123456.0": "",
        "1.5": "",
    }
    texts = (f'{{"person":{t},"period":"2021-01","values":{{"poverty":1}}}}' for t in tokens)
    found = people(Decoder(STUDY, KEY), stored(text.encode() for text in texts))
    assert [person is not None for person in found] == [p != "" for p in tokens.values()]


def test_ids_that_are_right_as_they_stand():
    ids = [i for i in IDS if 0 < len(i) <= 256]
    reports = [{"person": p, "period": "2021-01", "values": PLAIN} for p in ids]
    for decoder in (Decoder(AS_WRITTEN, KEY), uncompiled(AS_WRITTEN)):
        cells, rejected = decoder.decode(stored(json.dumps(r).encode() for r in reports), 0)
        assert (len(set(cells.hi.tolist())), rejected) == (len(ids), [])


@pytest.mark.parametrize("rule", [STUDY.id_rule, Ids(case="fold"), Ids(unicode="NFKC")])
def test_a_slice_of_a_column_has_the_normal_forms_of_its_ids(rule):
    texts = [*IDS, "7b", *IDS]
    column = pa.array(texts, pa.string())
    for start, count in ((0, len(texts)), (11, 40), (len(IDS), 1), (len(texts) - 9, 9), (5, 0)):
        ids = column.slice(start, count).cast(pa.large_binary())
        normal = [person.decode() for person in normal_ids(ids, rule).to_pylist()]
        assert normal == rule.normals(texts[start : start + count])


def test_a_slice_of_a_large_column_is_looked_at_alone(monkeypatch):
    looked_at, kinds = [], id_index._KINDS

    class Kinds:
        def __getitem__(self, content):
            looked_at.append(len(content))
            return kinds[content]

    monkeypatch.setattr(id_index, "_KINDS", Kinds())
    ids = pa.array([f"n{i:05}" for i in range(1000)]).slice(900, 50).cast(pa.large_binary())
    assert not unusual_rows(ids).size
    assert looked_at == [300]


def test_a_quick_look_never_passes_an_id_with_a_form():
    draw, letters = random.Random(41), "0019aeENnJjul-_/:@.,+#'= T"
    texts = [*IDS, *WORDS, *map(str.title, WORDS), "a-b", "N/A", "an-na", "an.na", "k.a."]
    texts += ["".join(draw.choices(letters, k=draw.randint(1, 18))) for _ in range(20_000)]
    texts = [text for text in texts if text.isascii()]
    ids = pa.array([text.encode() for text in texts], pa.large_binary())
    looked_at = {*unusual_rows(ids).tolist()}
    for row, text in enumerate(texts):
        if row not in looked_at or is_usual(text):
            assert read_id(text)[0] == text
            assert STUDY.id_rule.normal(text) == text
    native = compiled_reader()
    if native is None:
        pytest.skip("the compiled reader is not installed")
    reports = [{"person": p, "period": "2021-01", "values": PLAIN} for p in texts]
    records = stored(json.dumps(r).encode() for r in reports)
    assert people(Decoder(STUDY, KEY), records) == people(uncompiled(STUDY), records)
