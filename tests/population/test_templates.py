"""Reports that share a template, decoded together: as if each were decoded by itself."""

import io
import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kit.arrivals import KEY, OPEN, broken, reports, rows, stored
from kit.studies import attribute, small_study, window

from stream_dp.log.log import Stored, memory_bytes
from stream_dp.log.records import Records
from stream_dp.population import report_decoding as decoding
from stream_dp.population.cells import RejectedRecord
from stream_dp.population.population import Population
from stream_dp.population.report_decoding import LARGEST_REPORT, Decoder
from stream_dp.population.templates import divide

FOLDED = small_study(
    periods={"first": "2001", "every": "year", "count": 4},
    ids={"case": "fold", "unicode": "NFKC"},
    attributes={"a": attribute([0, 1, 2], missing=0), "b": attribute(["x"], missing="absent")},
    releases=[window("w", "a", width=1, rho=1)],
)

HEADS = st.sampled_from(
    [
        b'{"person":"',
        b'{"person": "',
        b'{"period":"2002","person":"',
        b'{"values":{"a":1},"period":2001,"person": "',
        b'{"values":{"person":"',
        b'{"values":{"b":"person":"',
        b'{"x":{"person":"a"},"person":"',
        b'{"x":["person","person":"',
        b'{"person":"y","person":"',
        b'["person":"',
        b' \n{"person":"',
        b'{"person":7,"a":"',
        b'{"person":',
        b'\xff{"person":"',
        b'"person":"',
        b"",
    ]
)
IDS = st.sampled_from(
    [
        *(b"x", b"y", b"p1", b"p2", b" p1 ", b"P1", b"", b"   ", b"n" * 256, b"n" * 257, b"\x7f"),
        *(
            "ünï".encode(),
            "ﬁ".encode(),
            b"\xc3",
            b"\\u0041",
            b"\\",
            b"a\nb",
            b"\x00",
            b'a"b',
            b"{}",
        ),
    ]
) | st.text(max_size=4).map(lambda text: text.encode("utf-8", "surrogatepass"))
TAILS = st.sampled_from(
    [
        b'","period":"2001","values":{"a":1}}',
        b'", "period": 2002, "values": {"a": 2, "b": "x"}}',
        b'","period":"2001","values":{"b":null,"c":0}}',
        b'","period":"2000","values":{"a":1}}',
        b'","period":"2001","values":{"a":7,"b":"y"}}',
        b'","period":"2001","values":{"a":1,"z":1}}',
        b'","period":"2001","values":{}}',
        b'","period":"2001","values":{"a":1},"person":"x"}',
        b'","period":"2001","values":{"a":1},"person":"p2"}',
        b'","person":"p2","period":"2001","values":{"a":1}}',
        b'","period":"2001","values":{"a":1}} ',
        b'","period":"2001","values":{"a":1}}\n\t',
        b'","period":"2001","values":{"a":1}},{}',
        b'","period":"2001","values":{"a":1}',
        b'"},"period":"2001"}',
        b'"},"person":"p1","period":"2001","values":{"a":1}}',
        b'"}}',
        b'":1},"period":"2001","person":"p1"}',
        b'","period":"2001","values":{"a":1},"\xff":1}',
        b'","x":' + b"[" * 2000 + b'1,"period":"2001","values":{"a":1}}',
        b'","x":"' + b"n" * LARGEST_REPORT + b'","period":"2001","values":{"a":1}}',
        b'"',
        b"",
    ]
)
TEXTS = st.one_of(
    st.builds(lambda head, name, tail: head + name + tail, HEADS, IDS, TAILS),
    reports.map(lambda report: json.dumps(report).encode()),
    reports.map(lambda report: json.dumps(report, separators=(",", ":")).encode()),
    broken,
)
HEADERS = st.sampled_from([(), (), (), None, (("h", b"v"),), (("h", b"v" * LARGEST_REPORT),)])
KEYS = st.sampled_from([None, None, b"k", b"k" * (LARGEST_REPORT - 40), b"k" * LARGEST_REPORT])
RECORDS = st.lists(st.tuples(TEXTS, HEADERS, KEYS), max_size=20)


def one_by_one(decoder, records, closed):
    """What each record gives by itself, decoded as a whole."""
    cells, typed, irregular = [], [], []
    for place, record in enumerate(records):
        large = (
            record.headers is None
            or memory_bytes(record.key, record.value, record.headers) > LARGEST_REPORT
        )
        sized = np.array([record.value is not None and not large])
        some, refused = decoder._decode_by_record(Records.of([record]), sized, [0], closed)
        cells += rows(some)
        if refused:
            regular = True
            try:
                decoder._decode(record.value)
            except Exception:
                regular = False
            of = typed if sized[0] and regular else irregular
            of.append(RejectedRecord(place, refused[0].cells))
    return sorted(cells), [*typed, *irregular]


@pytest.fixture(scope="module", autouse=True)
def _always_together():
    """One report is enough for a template."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoding, "_SHARED", 0)
        yield


@pytest.mark.parametrize("study", [OPEN, FOLDED], ids=["open", "folded"])
@settings(max_examples=100, deadline=None)
@given(RECORDS, st.integers(0, 3))
@example([(b'{"person":"x","period":"2001","values":{"a":1}}', (), None)] * 2, 0)
@example([(b'{"person":"x","period":"2001","values":{"a":1},"person":"x"}', (), None)], 0)
@example([(b'{"person":"p","period":"2001","values":{"a":1},"person":"x"}', (), None)], 0)
def test_reports_are_decoded_as_if_each_were_alone(study, several, closed):
    records = [
        Stored(partition=i % 3, offset=i, time=0, key=key, value=value, headers=headers)
        for i, (value, headers, key) in enumerate(several)
    ]
    decoder = Decoder(study, KEY)
    cells, rejected = decoder.decode(records, closed)
    assert (rows(cells), rejected) == one_by_one(Decoder(study, KEY), records, closed)


@settings(max_examples=30, deadline=None)
@given(st.lists(TEXTS, max_size=60), st.lists(st.integers(1, 20), min_size=1, max_size=5))
def test_the_snapshot_is_the_same_to_the_byte(values, sizes):
    records = [stored(value, i, i % 2) for i, value in enumerate(values)]
    saved = []
    for together in (True, False):
        decoder, population, start = Decoder(OPEN, KEY), Population(OPEN), 0
        while start < len(records):
            batch = records[start : start + sizes[start % len(sizes)]]
            with pytest.MonkeyPatch.context() as patch:
                if not together:
                    patch.setattr(decoding, "_SHARED", 1 << 30)
                population.fold(*decoder.decode(batch, 0))
            start += len(batch)
        population.save(before := io.BytesIO())
        population.close()
        population.save(after := io.BytesIO())
        saved.append((before.getvalue(), after.getvalue()))
    assert saved[0] == saved[1]


def test_usual_reports_share_templates_however_they_are_written(monkeypatch):
    monkeypatch.setattr(Decoder, "_decode_by_record", None)
    for separators in ((",", ":"), (", ", ": ")):
        written = [
            {"person": f"p{i}", "period": 2001 + i % 4, "values": {"a": i % 3}} for i in range(99)
        ]
        texts = [json.dumps(report, separators=separators).encode() for report in written]
        cells, rejected = Decoder(OPEN, KEY).decode([stored(t, i) for i, t in enumerate(texts)], 0)
        assert (len(cells), rejected) == (99, [])


def test_few_reports_of_a_template_are_decoded_one_by_one(monkeypatch):
    monkeypatch.setattr(decoding, "_SHARED", 4)
    monkeypatch.setattr(Decoder, "_template", None)
    texts = [b'{"person":"p","period":2001,"values":{"a":1,"b":"%d"}}' % i for i in range(100)]
    _, rejected = Decoder(OPEN, KEY).decode([stored(t, i) for i, t in enumerate(texts)], 0)
    assert [one.cells for one in rejected] == [{"value": 1}] * 100


@settings(max_examples=100, deadline=None)
@given(st.lists(TEXTS.filter(lambda value: value is not None), max_size=20))
def test_pieces_are_those_of_the_value(values):
    divided = divide(pa.array(values, pa.large_binary()))
    for row, name, length, place in zip(
        divided.rows, divided.ids.to_pylist(), divided.lengths, divided.template, strict=True
    ):
        head, tail = divided.templates[place]
        assert head + name + tail == values[row]
        assert len(name) == length
        assert name.isascii()
        assert not {ord('"'), ord("\\")} & set(name)
        assert min(name, default=32) >= 32
    assert (np.diff(divided.rows) > 0).all()
