"""Records of every shape give the same cells and the same reasons as the plain reports in them."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.arrivals import KEY, OPEN, names, people, plain_values, reports, rows, stored
from kit.shapes import shapes
from kit.studies import attribute, small_study, window

from stream_dp.log.log import Stored
from stream_dp.population.cells import CLEARED
from stream_dp.population.population import Population
from stream_dp.population.report_decoding import LARGEST_REPORT, Decoder
from stream_dp.population.shapes.decoder import ShapedDecoder
from stream_dp.study import Input

NAMES = ("a", "b", "c", "d", "A")
SHAPES = shapes(NAMES)


def decoder(shape, study=OPEN):
    """The decoder of a shape; its schema has whatever id is asked for."""
    source = None if shape.schema is None else (lambda number: (json.dumps(shape.schema),))
    return ShapedDecoder(study, KEY, shape.input, source)


def packed(shape, several):
    pairs = [shape.pack(report) for report in several]
    return [
        Stored(partition=0, offset=i, time=0, key=None, value=value, headers=headers)
        for i, (value, headers) in enumerate(pairs)
    ]


def plain(several):
    return [stored(json.dumps(report).encode(), i) for i, report in enumerate(several)]


def compared(cells, rejected):
    return rows(cells), sorted((r.row, sorted(r.cells.items())) for r in rejected)


# What Avro can carry too.
narrow = st.fixed_dictionaries(
    {
        "person": people | st.sampled_from(["", "n" * 257, True, 1.5, None, 2**63 - 1]),
        "period": st.sampled_from(["2001", "2002", 2001, "2000", "", None, 2001.0, True]),
        "values": st.dictionaries(
            names | st.sampled_from(["d", "A"]),
            plain_values | st.sampled_from([True, 1.0, 2**40, "", "z"]),
            max_size=4,
        ),
    }
)
anything = reports.filter(lambda r: "" not in r["values"])


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_is_what_the_plain_reports_are(name):
    shape = SHAPES[name]
    kind = narrow if shape.schema else anything

    @settings(max_examples=12)
    @given(st.lists(kind, max_size=6), st.integers(0, 2))
    def same(several, closed):
        if name == "avro":  # whose rows have every column
            every = dict.fromkeys(NAMES)
            several = [{**report, "values": every | report["values"]} for report in several]
        ours = decoder(shape).decode(packed(shape, several), closed)
        assert compared(*ours) == compared(*Decoder(OPEN, KEY).decode(plain(several), closed))
        populations = [Population(OPEN), Population(OPEN)]
        populations[0].fold(*ours)
        populations[1].fold(*Decoder(OPEN, KEY).decode(plain(several), closed))
        assert populations[0].accounting == populations[1].accounting

    same()


STUDY = small_study(
    attributes={
        "poverty": attribute([0, 1], missing=0),
        "work": attribute(["no", "yes"], missing="absent"),
    },
    releases=[window("w", "poverty", width=1, rho=1)],
)


def decoded(declared, value, headers=(), key=None):
    """Cells as (person's place among a, b, c; period; attribute; code), and the reasons."""
    record = Stored(partition=0, offset=5, time=0, key=key, value=value, headers=headers)
    cells, rejected = ShapedDecoder(STUDY, KEY, Input.model_validate(declared)).decode([record], 0)
    known = [hi for hi, _ in Decoder(STUDY, KEY).hashes(["a", "b", "c"]).tolist()]
    cells = zip(
        (known.index(hi) for hi in cells.hi.tolist()),
        cells.period.tolist(),
        cells.attribute.tolist(),
        cells.code.tolist(),
        strict=True,
    )
    assert len(rejected) <= 1
    return sorted(cells), rejected[0].cells if rejected else {}


def flat(row, **declared):
    return decoded({"format": "flat", **declared}, json.dumps(row).encode())


ROW = {"person": "a", "period": "2021-02"}


def test_columns_have_the_declared_names():
    mapping = {"person": "SSUID", "period": "MONTH", "attributes": {"poverty": "THINC"}}
    row = {"SSUID": "a", "MONTH": "2021-02", "THINC": 1, "work": "yes"}
    assert flat(row, **mapping) == ([(0, 2, 0, 1)], {})
    assert flat(row, **mapping, extra="refuse") == ([(0, 2, 0, 1)], {"attribute": 1})
    assert flat({**row, "poverty": 0}, **mapping, extra="refuse")[1] == {"attribute": 2}


def test_columns_may_lie_deeper():
    mapping = {"person": "/who/id", "attributes": {"poverty": "/a~1b/c~0d", "work": "/list/0"}}
    row = {"who": {"id": "b"}, "period": "2021-01", "a/b": {"c~d": 1}, "list": ["yes"]}
    assert flat(row, **mapping) == ([(1, 1, 0, 1)], {})
    assert flat(row, **mapping, extra="refuse") == ([(1, 1, 0, 1)], {})
    assert flat({**row, "who": "b"}, **mapping) == ([], {"unreadable": 1})


@pytest.mark.parametrize(
    ("value", "code"),
    [("Yes", 1), ("No", 0), (True, 1), (1.5, 0), (7, 1), ("1", 1), (0, 0), (None, CLEARED)],
)
def test_values_are_mapped_by_their_text(value, code):
    values = {"Yes": 1, "No": 0, "true": 1, "1.5": 0, "7": 1}
    for declared in (values, {"poverty": values}):
        assert flat({**ROW, "poverty": value}, values=declared) == ([(0, 2, 0, code)], {})


def test_a_table_of_values_holds_for_its_attribute_alone():
    values = {"Y": 1, "work": {"Y": "yes"}}
    assert flat({**ROW, "poverty": "Y", "work": "Y"}, values=values) == (
        [(0, 2, 0, 1), (0, 2, 1, 1)],
        {},
    )
    assert flat({**ROW, "poverty": "y"}, values=values) == ([], {"value": 1})


def test_a_row_without_a_column_says_nothing_of_it():
    assert flat({**ROW, "work": "no"}) == ([(0, 2, 1, 0)], {})
    assert flat(ROW) == ([], {"unreadable": 1})
    assert flat({"period": "2021-02", "poverty": 1}) == ([], {"unreadable": 1})


def debezium(operation, before=None, after=None, **more):
    change = {"op": operation, "before": before, "after": after, **more}
    return decoded({"format": "debezium"}, json.dumps(change).encode())


def test_what_is_no_change_of_a_row_is_not_read():
    for operation in ("t", "m", "", None, 1, [], {}):
        assert debezium(operation, ROW, {**ROW, "poverty": 1}) == ([], {"unreadable": 1})
    for value in (b"{}", b"[]", b"1", b'{"payload": 1}', b'{"op": "c"}', b"x"):
        assert decoded({"format": "debezium"}, value) == ([], {"unreadable": 1})


def test_the_size_is_that_of_the_record_as_it_came():
    row = json.dumps({**ROW, "poverty": 1, "note": ""})
    room = LARGEST_REPORT - len(row)
    for more, expected in ((0, ([(0, 2, 0, 1)], {})), (1, ([], {"unreadable": 1}))):
        value = row.replace('"note": ""', f'"note": "{"x" * (room + more)}"').encode()
        assert decoded({"format": "flat"}, value) == expected
        assert decoded({"format": "flat"}, value[:-9] + value[-1:], key=b"x" * 9)[1] != {}


EVENT = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
REPORT = {"person": "a", "period": "2021-02", "values": {"poverty": 1}}


@pytest.mark.parametrize(
    ("event", "headers"),
    [
        ({**EVENT, "specversion": "2.0", "data": REPORT}, ()),
        ({**EVENT, "specversion": 1.0, "data": REPORT}, ()),
        ({"data": REPORT}, ()),
        (EVENT, ()),
        ([EVENT], ()),
        ({**EVENT, "data": json.dumps(REPORT)}, ()),
        ({**EVENT, "data": REPORT, "datacontenttype": "text/csv"}, ()),
        ({**EVENT, "data": REPORT, "datacontenttype": 7}, ()),
        ({**EVENT, "data_base64": "!!!"}, ()),
        ({**EVENT, "data_base64": 5}, ()),
        ({**EVENT, "data_base64": ""}, ()),
        ({**EVENT, "data": REPORT}, (("content-type", b"application/cloudevents+avro"),)),
        ({**EVENT, "data": REPORT}, (("content-type", b"application/cloudevents-batch+json"),)),
        (REPORT, (("ce_specversion", b"0.3"),)),
        (REPORT, (("ce_specversion", b"1.0"), ("content-type", b"application/avro"))),
        (REPORT, (("ce_specversion", b"1.0"), ("content-type", b"\xff"))),
    ],
)
def test_what_is_no_event_of_json_is_not_read(event, headers):
    declared = {"format": "cloudevents", "rows": "report"}
    assert decoded(declared, json.dumps(event).encode(), headers) == ([], {"unreadable": 1})
    assert decoded(declared, json.dumps({**EVENT, "data": REPORT}).encode())[1] == {}


@pytest.mark.parametrize("number", [0, 7, 2**32 - 1])
def test_json_of_a_registry_is_read_whatever_its_id(number):
    report = b'{"person": "a", "period": "2021-02", "values": {"poverty": 1}}'
    declared = {"format": "json-registry", "rows": "report"}
    head = b"\0" + number.to_bytes(4, "big")
    expected = decoded({}, report)
    assert len(expected[0]) == 1
    assert decoded(declared, head + report) == expected
    # Without the five bytes, with a magic byte of another kind, with the index that Protobuf has.
    for value in (report, b"\1" + head[1:] + report, head + b"\0" + report, head):
        assert decoded(declared, value) == ([], {"unreadable": 1})
