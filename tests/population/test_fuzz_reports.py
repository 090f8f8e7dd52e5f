"""The decoder: every record gives cells or a reason, whatever arrives."""

import json
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from kit.arrivals import KEY, OPEN, raw, reports, rows, stored
from kit.studies import attribute, small_study, window

from stream_dp.population.cells import CLEARED, REASONS
from stream_dp.population.report_decoding import Decoder

# The decoder.


@settings(max_examples=150)
@given(st.lists(raw, max_size=12), st.integers(0, 3))
def test_every_record_gives_cells_or_a_reason(batch, closed):
    records = [stored(value, i) for i, value in enumerate(batch)]
    cells, rejected = Decoder(OPEN, KEY).decode(records, closed)
    for one in rejected:
        assert set(one.cells) <= set(REASONS)
        assert all(count > 0 for count in one.cells.values())
    assert len({one.row for one in rejected}) == len(rejected)
    assert set(cells.offset.tolist()) | {one.row for one in rejected} == set(range(len(batch)))
    assert (cells.period > closed).all()
    assert (cells.code[cells.attribute == 0] != 3).all()
    assert set(cells.code.tolist()) <= {0, 1, 2, CLEARED}


@settings(max_examples=100)
@given(st.lists(raw, min_size=1, max_size=8), st.integers(0, 3))
def test_a_record_does_not_change_what_its_neighbours_give(batch, closed):
    decoder = Decoder(OPEN, KEY)
    records = [stored(value, i) for i, value in enumerate(batch)]
    cells, rejected = decoder.decode(records, closed)
    alone = [decoder.decode([record], closed) for record in records]
    assert rows(cells) == sorted(row for one, _ in alone for row in rows(one))
    reasons = {one.row: one.cells for one in rejected}
    assert reasons == {i: rejected[0].cells for i, (_, rejected) in enumerate(alone) if rejected}


@settings(max_examples=200)
@given(reports.filter(lambda r: r["values"]), st.integers(0, 3))
def test_both_paths_of_the_decoder_agree(report, closed):
    # An attribute that is not declared sends a report the long way; it fails like the report
    # does as a whole, or else by itself.
    decoder = Decoder(OPEN, KEY)
    longer = {**report, "values": {**report["values"], "undeclared": 1}}
    plain, why = decoder.decode([stored(json.dumps(report).encode())], closed)
    odd, why_odd = decoder.decode([stored(json.dumps(longer).encode())], closed)
    assert rows(plain) == rows(odd)
    reasons = Counter(why[0].cells if why else {})
    reason = next((r for r in reasons if r in {"person", "period", "late"}), "attribute")
    assert reasons + Counter({reason: 1}) == Counter(why_odd[0].cells)


def test_the_same_number_of_a_year_is_the_same_period_on_both_paths():
    early = small_study(
        periods={"first": "0999", "every": "year", "count": 2},
        attributes={"a": attribute([0, 1], missing=0)},
        releases=[window("w", "a", width=1, rho=1)],
    )
    decoder = Decoder(early, KEY)
    for period in (999, "0999", 1000, "1000", "999"):
        plain = {"person": "p", "period": period, "values": {"a": 1}}
        odd = {"person": "p", "period": period, "values": {"a": 1, "z": 1}}
        sizes = [len(decoder.decode([stored(json.dumps(x).encode())], 0)[0]) for x in (plain, odd)]
        assert sizes[0] == sizes[1], period


def test_of_an_attribute_that_is_there_twice_the_last_value_counts():
    decoder = Decoder(OPEN, KEY)
    for extra in (b"", b', "z": 1'):
        text = b'{"person": "p", "period": "2001", "values": {"a": 1, "a": 2%s}}' % extra
        cells, _ = decoder.decode([stored(text)], 0)
        assert cells.code.tolist() == [2]


def test_ids_are_text_and_hashed_with_the_key():
    def hashes(person, key=KEY):
        text = json.dumps({"person": person, "period": "2001", "values": {"a": 1}})
        cells, _ = Decoder(OPEN, key).decode([stored(text.encode())], 0)
        return cells.hi.tolist(), cells.lo.tolist()

    assert hashes(7) == hashes("7")
    assert hashes("7") != hashes("07")
    assert hashes("p") == hashes("p ") != hashes("P")
    assert hashes("p") != hashes("p", bytes(32))
    assert hashes("\u00e9") != hashes("e\u0301")
    assert len(hashes("n" * 256)[0]) == 1
    assert len(hashes("n" * 257)[0]) == 0
