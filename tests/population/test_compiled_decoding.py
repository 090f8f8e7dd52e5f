"""The compiled decoder gives the same as the decoder in Python, which is the definition."""

import hashlib
import random

import numpy as np
import pytest
from kit.arrivals import KEY, OPEN, rows
from kit.fuzzed_reports import fuzzed_study, fuzzed_values
from kit.studies import attribute, small_study, window

from stream_dp.compiled import compiled_reader
from stream_dp.log.log import Stored
from stream_dp.population.report_decoding import LARGEST_REPORT, Decoder

native = compiled_reader()
pytestmark = pytest.mark.skipif(native is None, reason="the compiled reader is not installed")

STUDIES = {
    "plain": fuzzed_study(),
    "as written": fuzzed_study(as_written=True),
    "untrimmed": fuzzed_study(trim=False),
    "folded": fuzzed_study(case="fold", unicode="NFC"),
    "nobody": fuzzed_study(nobody=["p1", "7"], case="fold"),
    "all": fuzzed_study(nobody=[], case="fold", unicode="NFKC"),
}


def stored(values):
    return [
        Stored(partition=i % 3, offset=i, time=0, key=None, value=value, headers=())
        for i, value in enumerate(values)
    ]


def both(study, records, closed=0):
    """The decoder with and the decoder without the compiled reader, on the same records."""
    compiled, python = Decoder(study, KEY), Decoder(study, KEY)
    python._compiled = None
    results = []
    for decoder in (compiled, python):
        cells, rejected = decoder.decode(records, closed)
        results.append((rows(cells), {r.row: r.cells for r in rejected}, len(rejected)))
    return results


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.parametrize("closed", [0, 2])
def test_fuzzed_reports_give_the_same(name, closed):
    draw = np.random.default_rng(closed)
    for size in (*[1, 7, 700] * 2, 3000):
        records = stored(fuzzed_values(draw, size).to_pylist())
        compiled, python = both(STUDIES[name], records, closed)
        assert compiled == python


def test_usual_reports_never_reach_python(monkeypatch):
    monkeypatch.setattr(Decoder, "_decode_uncompiled", None)
    texts = [b'{"person":"p%d","period":"2001","values":{"a":1}}' % i for i in range(50)]
    texts += [
        b' {"values":{"b":"y" , "a":null},\n"period":2002, "person":%d } ' % i for i in range(9)
    ]
    texts.append('{"person":"Jürgen","period":"2004","values":{"c":0}}'.encode())
    cells, rejected = Decoder(OPEN, KEY).decode(stored(texts), 0)
    assert (len(cells), rejected) == (50 + 18 + 1, [])


def test_cells_come_by_partition_record_and_attribute():
    texts = [b'{"person":"p","period":"2001","values":{"c":1,"a":2,"b":"x"}}'] * 5
    cells, _ = Decoder(OPEN, KEY).decode(stored(texts), 0)
    assert cells.attribute.tolist() == [0, 1, 2] * 5
    assert cells.partition.tolist() == np.repeat([0, 0, 1, 1, 2], 3).tolist()
    assert cells.offset.tolist() == np.repeat([0, 3, 1, 4, 2], 3).tolist()


def test_equal_endings_are_decoded_equally():
    """Values after person and period are looked up among those of earlier reports."""
    draw, texts = random.Random(26), []
    ends = ["", "}}", "} }", ',"a":1}}', "}}x", '},"period":"2001"}', ',"b":"y"}}']
    for i in range(3000):
        text = f'{{"person":"{i}","period":"200{draw.randint(1, 4)}","values":{{"a":{i % 3}'
        text = text[: draw.choice([len(text), len(text), -6])]
        texts.append((text + draw.choice(ends)).encode())
    compiled, python = both(OPEN, stored(texts))
    assert compiled == python
    assert 0 < compiled[2] < 3000


def test_codes_beyond_two_bytes():
    numbers = {"number": {"least": 0, "most": 39_999, "step": 1}, "bins": [1], "missing": 0}
    study = small_study(
        periods={"first": "2001", "every": "year", "count": 4},
        attributes={"a": numbers, "b": attribute([0, 1], missing=0)},
        releases=[window("w", "b", width=1, rho=1)],
    )
    values = (0, 39_999, 7, 32_768, 40_000)
    texts = [b'{"person":"p","period":"2001","values":{"a":%d,"b":1}}' % code for code in values]
    compiled, python = both(study, stored(texts))
    assert compiled == python
    assert len(compiled[0]) == 9


@pytest.mark.parametrize("person", ["p", "p" * 127, "p" * 128, "p" * 129, "é" * 256, "ü" * 65])
def test_hashes_are_keyed_blake2b(person):
    text = f'{{"person":"{person}","period":"2001","values":{{"a":1}}}}'.encode()
    digest = hashlib.blake2b(person.encode(), key=KEY, digest_size=16).digest()
    for count in (1, 8, 11):  # alone, and eight at once
        cells, _ = Decoder(OPEN, KEY).decode(stored([text] * count), 0)
        assert set(cells.hi.tolist()) == {int.from_bytes(digest[:8], "big")}
        assert set(cells.lo.tolist()) == {int.from_bytes(digest[8:], "big")}


@pytest.mark.parametrize("length", range(0, 300, 7))
def test_ids_of_every_length(length):
    texts = [
        f'{{"person":"{"n" * length}{i}","period":"2001","values":{{"a":1}}}}'.encode()
        for i in range(5)
    ]
    compiled, python = both(OPEN, stored(texts))
    assert compiled == python


def test_sizes_keys_and_headers_are_judged_alike():
    good = b'{"person":"p","period":"2001","values":{"a":1}}'
    records = [
        Stored(0, i, 0, key, value, headers)
        for i, (key, value, headers) in enumerate(
            [
                (None, good, ()),
                (b"k" * LARGEST_REPORT, good, ()),
                (None, good, None),
                (None, good, (("h", b"v" * LARGEST_REPORT),)),
                (None, good + b" " * LARGEST_REPORT, ()),
                (None, None, ()),
                (b"k", good, (("h", b"v"),)),
            ]
        )
    ]
    compiled, python = both(OPEN, records)
    assert compiled == python
    assert len(compiled[0]) == 2


def test_numbers_are_read_as_numbers_and_as_texts():
    study = fuzzed_study()
    texts = [b'{"person":"p","period":"2001","values":{"n":%d}}' % n for n in range(-110, 111)]
    texts += [b'{"person":"p","period":"2001","values":{"n":"%d"}}' % n for n in range(-110, 111)]
    compiled, python = both(study, stored(texts))
    assert compiled == python
    assert len(compiled[0]) == 82 + 2 * 3  # with two special codes and one of no answer


def test_columns_that_do_not_fit_are_refused():
    decoder = native.Decoder(KEY, [("a", {b"1": 1}, None)], {}, None, False)
    content = np.zeros(4, np.uint8)
    one, bounds = np.zeros(1, np.int64), np.array([0, 9], np.int64)
    for wrong in (bounds, bounds[::-1].copy(), np.array([-1, 2]), bounds[:1]):
        with pytest.raises(ValueError, match=r"bounds|length"):
            decoder.decode(content, wrong, np.ones(1, np.uint8), one, one, 0)
    with pytest.raises(ValueError, match="a key has"):
        native.Decoder(b"", [], {}, None, False)
