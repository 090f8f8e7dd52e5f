"""Avro by schemas of others: hostile bytes and schemas; what a period that is read again uses."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.arrivals import KEY, OPEN, rows
from kit.shapes import AVRO_REPORT, NUMBER, avro_bytes, avro_row

from stream_dp.errors import Inconsistent
from stream_dp.log.log import Stored, Unavailable
from stream_dp.population.shapes import record_contents as schemas_module
from stream_dp.population.shapes.decoder import ShapedDecoder
from stream_dp.population.shapes.record_contents import AvroSchema, ReadAs, SchemaUse
from stream_dp.study import Input

DECLARED = Input(format="avro", rows="report", schemas="schemas")
REPORT = {"person": "p1", "period": "2001", "values": {"a": 1, "b": "x"}}
VALUE = avro_bytes(AVRO_REPORT, REPORT)


class Source:
    """Schemas by id that a test changes; `down` is one that does not answer."""

    def __init__(self, texts):
        self.texts, self.asked, self.down = texts, [], False

    def __call__(self, number):
        if self.down:
            raise Unavailable("schema registry: no answer")
        self.asked.append(number)
        text = self.texts.get(number)
        return None if text is None else (text,)


def source(*numbers, schema=AVRO_REPORT):
    return Source({n: json.dumps(schema) for n in numbers or (NUMBER,)})


def decoder(texts, declared=DECLARED):
    return ShapedDecoder(OPEN, KEY, declared, texts)


def numbered(number, offset=0, partition=0, report=REPORT):
    return Stored(
        partition=partition,
        offset=offset,
        time=0,
        key=None,
        value=avro_bytes(AVRO_REPORT, report, number),
        headers=(),
    )


def decoded(value, texts=None):
    cells, rejected = decoder(texts or source()).decode(
        [Stored(partition=0, offset=0, time=0, key=None, value=value, headers=())], 0
    )
    return len(cells), rejected[0].cells if rejected else {}


UNREADABLE = (0, {"unreadable": 1})


def test_every_cut_of_a_record_is_unreadable():
    assert decoded(VALUE) == (2, {})
    for length in range(len(VALUE)):
        assert decoded(VALUE[:length]) == UNREADABLE, length
    assert decoded(VALUE + b"\0") == UNREADABLE


@settings(max_examples=300)
@given(st.binary(max_size=60))
def test_any_bytes_give_cells_or_a_reason(data):
    for value in (data, b"\0\0\0\0\7" + data):
        cells, reasons = decoded(value)
        assert cells or reasons


@pytest.mark.parametrize(
    "value",
    [
        b"\1\0\0\0\7" + VALUE[5:],
        b"\0\0\0\0\7" + b"\xff" * 60_000,
        # A text of 2**62 bytes, and one of a negative length.
        b"\0\0\0\0\7\x08" + b"\xfe" * 8 + b"\x7f",
        b"\0\0\0\0\7\x08\x01",
        # Text that is not UTF-8.
        b"\0\0\0\0\7\x08\x02\xff" + VALUE[9:],
        json.dumps(REPORT).encode(),
    ],
)
def test_bytes_that_do_not_fit_are_unreadable(value):
    assert decoded(value) == UNREADABLE


def nested(levels):
    schema = "long"
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


def doubling(levels):
    """A schema whose values have 2**levels parts of no bytes each."""
    kind = {"type": "record", "name": "r0", "fields": [{"name": "x", "type": "null"}]}
    for i in range(1, levels):
        fields = [{"name": "x", "type": kind}, {"name": "y", "type": f"r{i - 1}"}]
        kind = {"type": "record", "name": f"r{i}", "fields": fields}
    return kind


def wide(fields, kind):
    """A record of a number with many more fields."""
    several = [{"name": f"x{i}", "type": kind} for i in range(fields)]
    number = {"name": "n", "type": "int"}
    return {"type": "record", "name": "W", "fields": [number, *several]}


ITSELF = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "next", "type": ["null", "Node"]}],
}
EMPTY_RECORD = {"type": "record", "name": "E", "fields": []}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "{}",
        "[]" * 2,
        "[" * 100_000,
        json.dumps("nothing"),
        json.dumps({"type": "record"}),
        json.dumps({"type": "record", "name": "R", "fields": 5}),
        json.dumps(ITSELF),
        json.dumps(nested(100)),
        json.dumps(doubling(30)),
        json.dumps({"type": "array", "items": "null"}),
        json.dumps({"type": "array", "items": EMPTY_RECORD}),
        json.dumps({"type": "array", "items": {"type": "fixed", "name": "f", "size": 0}}),
        json.dumps({"type": "array", "items": wide(20, "null")}),
        json.dumps({"type": "array", "items": ["null", wide(40, "null")]}),
        json.dumps({"type": "map", "values": wide(40, "null")}),
        json.dumps({**AVRO_REPORT, "doc": "x" * 1_000_000}),
    ],
)
def test_schemas_that_are_none_or_could_fill_memory_are_refused(text):
    with pytest.raises(ValueError):
        AvroSchema(text)
    assert decoded(VALUE, Source({NUMBER: text})) == UNREADABLE


def test_schemas_within_bounds_are_read():
    assert AvroSchema(json.dumps(nested(40))).read(b"\0") == []
    assert AvroSchema('["null", "long"]').read(b"\0") is None
    optional = {"type": "array", "items": wide(1000, ["null", "string"])}
    assert AvroSchema(json.dumps(optional)).read(b"\0") == []
    twice = {
        "type": "record",
        "name": "n.R",
        "fields": [
            {"name": "a", "type": {"type": "enum", "name": "E", "symbols": ["x", "y"]}},
            {"name": "b", "type": "E"},
        ],
    }
    assert AvroSchema(json.dumps(twice)).read(b"\2\0") == {"a": "y", "b": "x"}


def test_a_schema_is_asked_for_once():
    texts = source(3)
    several = decoder(texts)
    for offset in range(0, 9, 3):
        records = [numbered(3, offset), numbered(3, offset + 1), numbered(4, offset + 2)]
        several.decode(records, 0)
    # One that is not known may be registered meanwhile.
    assert texts.asked == [3, 4, 4, 4]


def test_a_source_that_does_not_answer_stops_before_anything_is_decoded():
    texts = source(3)
    several = decoder(texts)
    texts.down = True
    with pytest.raises(Unavailable):
        several.decode([numbered(3)], 0)
    texts.down = False
    cells, rejected = several.decode([numbered(3)], 0)
    assert (len(cells), rejected) == (2, [])
    texts.down = True
    assert len(several.decode([numbered(3, 1)], 0)[0]) == 2


# What a closed period was read with.


def closed(several, *batches):
    """The cells and rejected records of batches, and how they were read."""
    decoded = [several.decode(batch, 0) for batch in batches]
    return decoded, several.close_period()


def as_read(decoded):
    cells = sorted(row for part, _ in decoded for row in rows(part))
    return cells, sum(sum(one.cells.values()) for _, several in decoded for one in several)


def test_a_period_names_the_schemas_that_something_was_read_with():
    texts = source(3, 4, 5)
    texts.texts[6] = json.dumps(avro_row(["x"]))
    several = decoder(texts)
    _, read_as = closed(several, [numbered(3), numbered(5, 1), numbered(6, 2), numbered(9, 3)])
    assert read_as.mapping == DECLARED.hash
    assert read_as.schemas.keys() == {3, 5}
    _, read_as = closed(several, [numbered(4, 4)])
    assert read_as.schemas.keys() == {4}


def test_a_period_that_is_read_again_is_what_it_was():
    """Whatever the source says by then."""
    texts = source(3)
    several = decoder(texts)
    records = [numbered(3, 0), numbered(4, 1), numbered(4, 0, partition=1)]
    later = [numbered(4, 2), numbered(3, 1, partition=1), numbered(8, 3)]
    first = several.decode(records, 0)
    texts.texts[4] = json.dumps(AVRO_REPORT)
    second = several.decode(later, 0)
    read_as = several.close_period()
    assert read_as.schemas[4].since == {0: 2, 1: 1}
    assert read_as.schemas[3].since == {}
    texts.texts[8] = json.dumps(AVRO_REPORT)
    again = decoder(texts)
    again.repeat(read_as)
    # In one batch now, and then in the order of the log.
    for batches in ([[*records, *later]], [records, later]):
        decoded = [again.decode(batch, 0) for batch in batches]
        assert as_read(decoded) == as_read([first, second])
    again.go_on([None, read_as])
    assert len(again.decode([numbered(8, 9)], 0)[0]) == 2


def test_a_schema_that_changed_under_its_id_is_refused():
    _, read_as = closed(decoder(source(3)), [numbered(3)])
    other = source(3, schema={**AVRO_REPORT, "doc": "other"})
    for texts in (other, source(4), Source({3: "x"})):
        again = decoder(texts)
        again.repeat(read_as)
        with pytest.raises(Inconsistent, match="schema 3"):
            again.decode([numbered(3)], 0)
    again = decoder(other)
    again.go_on([read_as])
    with pytest.raises(Inconsistent, match="schema 3"):
        again.decode([numbered(3)], 0)


def test_the_same_schema_written_otherwise_is_the_same():
    _, read_as = closed(decoder(source(3)), [numbered(3)])
    again = decoder(Source({3: json.dumps(AVRO_REPORT, indent=2, sort_keys=True)}))
    again.repeat(read_as)
    assert len(again.decode([numbered(3)], 0)[0]) == 2


def test_a_period_that_was_read_otherwise_is_not_read_again():
    ours = decoder(source())
    other = ReadAs(Input(format="flat").hash)
    for read_as in (None, other):
        with pytest.raises(Inconsistent, match=r"run\.input"):
            ours.repeat(read_as)
    assert Input().hash == ""
    assert Input(format="flat").hash == Input(format="flat", rows="flat").hash != DECLARED.hash
    moved = Input(format="avro", rows="report", registry="http://r")
    assert moved.hash == DECLARED.hash


def test_the_number_of_schemas_has_no_bound_but_in_memory(monkeypatch):
    """Whether a record is read does not depend on the ids of others, nor on their order."""
    monkeypatch.setattr(schemas_module, "KEPT", 20_000)
    ids = [*range(1, 1101), *range(1100, 0, -1), 9999]
    records = [numbered(n, offset) for offset, n in enumerate(ids)]
    alone = {n: decoder(source(n)).decode([numbered(n)], 0)[0].code.tolist() for n in (1, 1100)}
    for size in (7, len(records)):
        several = decoder(source(*range(1, 1101)))
        batches = [records[start : start + size] for start in range(0, len(records), size)]
        decoded, read_as = closed(several, *batches)
        assert as_read(decoded)[1] == 1
        assert sum(len(cells) for cells, _ in decoded) == 2200 * len(alone[1])
        assert list(read_as.schemas) == list(range(1, 1101))
        assert 0 < len(several._schemas._kept) < 20
        again = decoder(source(*range(1, 1101)))
        again.repeat(read_as)
        assert as_read([again.decode(records, 0)]) == as_read(decoded)
    assert alone[1] == alone[1100]


def test_a_dropped_schema_that_is_gone_or_another_is_never_guessed(monkeypatch):
    monkeypatch.setattr(schemas_module, "KEPT", 1)
    texts = source(3, 4)
    several = decoder(texts)
    several.decode([numbered(3), numbered(4, 1)], 0)
    kept = texts.texts.pop(3)
    with pytest.raises(Unavailable, match=r"schema 3: .* start again"):
        several.decode([numbered(3, 2)], 0)
    for number in range(2):
        texts.texts[3] = json.dumps({**AVRO_REPORT, "doc": "other"})
        with pytest.raises(Inconsistent, match="schema 3"):
            several.decode([numbered(3, 2 + number)], 0)
        texts.texts[3] = kept
        several.decode([numbered(4, 2)], 0)
        several.close_period()  # also in a later period


def test_a_schema_beyond_a_limit_is_asked_for_once():
    texts = Source({})
    texts.texts[3] = json.dumps({**AVRO_REPORT, "doc": "x" * 1_000_000})
    several = decoder(texts)
    for offset in range(3):
        cells, (rejected,) = several.decode([numbered(3, offset)], 0)
        assert (len(cells), rejected.cells) == (0, {"unreadable": 1})
    assert texts.asked == [3]


def test_a_schema_is_known_from_a_position_on():
    use = SchemaUse("", {0: 5})
    assert [use.known_at(0, 4), use.known_at(0, 5), use.known_at(1, 0)] == [False, True, True]
