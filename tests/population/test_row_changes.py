"""Changes of a table end in the answers of the table, or are rejected with a reason."""

import dataclasses
import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import debezium
from kit.arrivals import KEY
from kit.debezium import COLUMNS, KEYS, Table, recorded_line, recorded_table, table_name
from kit.shapes import avro_bytes
from kit.studies import attribute, small_study, window

from stream_dp.log.log import Stored
from stream_dp.population.cells import CLEARED
from stream_dp.population.shapes.decoder import ShapedDecoder
from stream_dp.study import Input

STUDY = small_study(
    attributes={
        "poverty": attribute([0, 1], missing=0),
        "work": attribute(["no", "yes"], missing="absent"),
    },
    releases=[window("w", "poverty", width=1, rho=1)],
)
MONTHS = STUDY.periods.labels
RECORDED = Path(__file__).with_name("debezium.jsonl")
NAMES = list(STUDY.attributes)
PEOPLE = ["a", "b", "7", "0", "12"]


def stored(records):
    """Records of (key, value), at the offsets from 0."""
    return [
        Stored(partition=0, offset=i, time=0, key=key, value=value, headers=())
        for i, (key, value) in enumerate(records)
    ]


def decoded(declared, records, schema=None):
    """What holds in the end, by (person, month, attribute), and how many parts are rejected.

    records: the keys and values of records.
    """
    source = None if schema is None else (lambda number: (json.dumps(schema),))
    decoder = ShapedDecoder(STUDY, KEY, Input.model_validate(declared), source)
    cells, rejected = decoder.decode(stored(records), 0)
    people = {hi: p for p, (hi, _) in zip(PEOPLE, decoder.hashes(PEOPLE).tolist(), strict=True)}
    last = {}
    for row in range(len(cells)):
        place = (
            people[int(cells.hi[row])],
            MONTHS[cells.period[row] - 1],
            NAMES[cells.attribute[row]],
        )
        at = int(cells.offset[row])
        if place not in last or last[place][0] <= at:
            last[place] = at, int(cells.code[row])
    found = {place: code for place, (_, code) in last.items() if code != CLEARED}
    return found, dict(sum((Counter(r.cells) for r in rejected), Counter()))


def one(declared, value, key=None, schema=None):
    """What a record says, by (person, month, attribute), and the reasons against it."""
    data = value if isinstance(value, bytes | None) else json.dumps(value).encode()
    key = key if isinstance(key, bytes | None) else json.dumps(key).encode()
    return decoded(declared, [(key, data)], schema)


def cleared(declared, value, key=None):
    """Whether a record clears both answers of `a` in 2021-02, and nothing is rejected."""
    first = json.dumps({"person": "a", "period": "2021-02", "poverty": 1, "work": "yes"}).encode()
    if declared.get("format") == "debezium":
        first = json.dumps({"op": "c", "before": None, "after": json.loads(first)}).encode()
    data = value if isinstance(value, bytes | None) else json.dumps(value).encode()
    key = key if isinstance(key, bytes | None) else json.dumps(key).encode()
    before, _ = decoded(declared, [(None, first)])
    assert len(before) == 2
    return decoded(declared, [(None, first), (key, data)]) == ({}, {})


# Rows with a mark.

ROW = {"person": "a", "period": "2021-02"}
FULL = {**ROW, "poverty": 1, "work": "yes"}
SAYS = {("a", "2021-02", "poverty"): 1, ("a", "2021-02", "work"): 1}


@pytest.mark.parametrize("mark", [True, "true", "TRUE", 1, "1", "t", "yes", "D", "delete"])
def test_a_row_that_is_marked_as_deleted_clears_its_answers(mark):
    assert cleared({"format": "flat"}, {**FULL, "__deleted": mark})
    assert cleared({"format": "flat", "deleted": "gone"}, {**FULL, "gone": mark})
    assert cleared({"format": "flat", "deleted": "/meta/op"}, {**FULL, "meta": {"op": mark}})


@pytest.mark.parametrize("mark", [False, "false", 0, "0", None, "c", "u", "insert"])
def test_a_row_that_is_marked_as_kept_is_a_row(mark):
    for extra in ("ignore", "refuse"):
        declared = {"format": "flat", "extra": extra}
        assert one(declared, {**FULL, "__deleted": mark}) == (SAYS, {})


@pytest.mark.parametrize("mark", ["maybe", 2, 1.5, [], {}, "2021-02-03", ""])
def test_a_mark_that_says_neither_is_rejected(mark):
    assert one({"format": "flat"}, {**FULL, "__deleted": mark}) == ({}, {"deleted": 1})


def test_a_column_of_answers_is_no_mark():
    declared = {"format": "flat", "attributes": {"work": "__deleted"}}
    assert one(declared, {**ROW, "__deleted": "yes"}) == ({("a", "2021-02", "work"): 1}, {})


def test_a_marked_row_that_is_cut_down_clears_nothing():
    """What Debezium fills in for columns that PostgreSQL did not write."""
    row = {"id": 4, "person": "", "period": "2021-02", "poverty": 0, "__deleted": "true"}
    assert one({"format": "flat"}, row, {"id": 4}) == ({}, {"before": 1})
    row = {**row, "person": 0}
    assert one({"format": "flat"}, row, {"id": 4}) == ({}, {"before": 1})
    row = {**row, "person": "a", "period": None}
    assert one({"format": "flat"}, row, {"id": 4, "person": "a"}) == ({}, {"before": 1})
    # A key that has both says it.
    assert cleared({"format": "flat"}, {"__deleted": "true"}, ROW)


def test_rows_with_a_mark_and_another_key_may_move_in_silence():
    row, declared = {**FULL, "__deleted": "false"}, {"format": "flat"}
    assert one(declared, row, {"id": 4}) == ({}, {"before": 1})
    assert one({**declared, "before": "fixed"}, row, {"id": 4}) == (SAYS, {})
    for key in (None, b"a", b"", b"\xff", [1], ROW, {"schema": None, "payload": ROW}):
        assert one(declared, row, key) == (SAYS, {})


# Tombstones.


@pytest.mark.parametrize(
    ("shape", "value"),
    [
        ("flat", None),
        ("flat", b"null"),
        ("connect", None),
        ("connect", b"null"),
        ("connect", b'{"schema": {"type": "struct"}, "payload": null}'),
        ("cloudevents", None),
        ("json-registry", None),
        ("json-registry", b"\0\0\0\0\7null"),
    ],
)
def test_a_record_without_a_value_does_what_is_declared(shape, value):
    declared = {"format": shape}
    key = json.dumps(ROW).encode()
    assert one(declared, value, key) == ({}, {"deleted": 1})
    assert one({**declared, "tombstone": "ignore"}, value, key) == ({}, {})
    withdraws = {**declared, "tombstone": "withdraw"}
    says = {"person": "a", "period": "2021-02", "poverty": 1}
    first = {
        "flat": json.dumps(says),
        "connect": json.dumps({"schema": None, "payload": says}),
        "json-registry": "\0\0\0\0\7" + json.dumps(says),
    }.get(shape)
    records = [] if first is None else [(key, first.encode())]
    assert decoded(withdraws, [*records, (key, value)]) == ({}, {})
    for other in (None, b"a", b"{}", b"x", b'{"person": "a"}', b'{"person": "a", "period": null}'):
        assert one(withdraws, value, other) == ({}, {"deleted": 1})
    enveloped = {"schema": {"type": "struct"}, "payload": ROW}
    for again in (enveloped, b"\0\0\0\0\7" + key):
        assert decoded(
            withdraws,
            [*records, (again if isinstance(again, bytes) else json.dumps(again).encode(), value)],
        ) == ({}, {})


def test_tombstones_that_withdraw_need_rows_with_the_same_key():
    declared = {"format": "flat", "tombstone": "withdraw"}
    assert one(declared, FULL, ROW) == (SAYS, {})
    assert one(declared, FULL, {"id": 4}) == ({}, {"before": 1})
    assert one(declared, FULL, b"a") == (SAYS, {})


def test_a_tombstone_of_avro_has_a_key_in_avro():
    names = ("person", "period")
    fields = [{"name": name, "type": "string"} for name in names]
    schema = {"type": "record", "name": "Key", "fields": fields}
    key = avro_bytes(schema, {"person": "a", "period": "2021-02"})
    declared = {"format": "avro", "schemas": "s", "tombstone": "withdraw"}
    decoder = ShapedDecoder(
        STUDY, KEY, Input.model_validate(declared), lambda number: (json.dumps(schema),)
    )
    cells, rejected = decoder.decode(stored([(key, None), (b"a", None)]), 0)
    assert (cells.code.tolist(), cells.period.tolist()) == ([CLEARED] * 2, [2, 2])
    assert [r.cells for r in rejected] == [{"deleted": 1}]
    assert decoder.close_period().schemas.keys() == {7}


# Debezium's changes.


def debezium_change(operation, old=None, after=None, key=None, **declared):
    change = {"op": operation, "before": old, "after": after, "source": {}}
    return one({"format": "debezium", **declared}, change, key)


@pytest.mark.parametrize("operation", ["c", "u", "r"])
def test_a_change_is_the_row_after_it(operation):
    before, after = {**FULL, "poverty": 0}, {**FULL, "work": None}
    expected = {("a", "2021-02", "poverty"): 1}, {}
    assert debezium_change(operation, before, after) == expected
    if operation != "u":
        assert debezium_change(operation, None, after) == expected


def test_an_update_without_its_old_row_is_rejected():
    for key in (None, {"id": 4}, ROW):
        assert debezium_change("u", None, FULL, key) == ({}, {"before": 1})
        assert debezium_change("u", None, FULL, key, before="fixed") == (SAYS, {})
    for old in ({"id": 4}, {**FULL, "person": None}, {**FULL, "period": ""}):
        assert debezium_change("u", old, FULL, {"id": 4}) == ({}, {"before": 1})
    zero = {**FULL, "person": 0}
    assert debezium_change("u", zero, FULL, {"id": 4}) == ({}, {"before": 1})
    assert debezium_change("u", zero, FULL, {"person": 0})[1] == {}


def test_a_deletion_clears_the_answers_of_the_row():
    change = {"op": "d", "before": FULL, "after": None}
    for key in (None, {"id": 4}, ROW):
        assert cleared({"format": "debezium"}, change, key)
    assert cleared({"format": "debezium"}, {**change, "before": ROW})
    # The key has what the old row does not have.
    assert cleared({"format": "debezium"}, {**change, "before": None}, ROW)
    assert cleared({"format": "debezium"}, {**change, "before": {**FULL, "period": None}}, ROW)
    for old in (None, {"id": 4}, {**FULL, "person": None}, {**FULL, "period": ""}, {"poverty": 1}):
        assert debezium_change("d", old, None, {"id": 4}) == ({}, {"before": 1})


def test_an_update_that_moves_a_row_clears_what_it_said_before():
    assert debezium_change("u", FULL, {**FULL, "person": "b"}) == (
        {("b", "2021-02", "poverty"): 1, ("b", "2021-02", "work"): 1},
        {},
    )
    first = {"op": "c", "before": None, "after": FULL}
    moved = {"op": "u", "before": FULL, "after": {**ROW, "period": "2021-03", "poverty": 9}}
    records = [(None, json.dumps(change).encode()) for change in (first, moved)]
    assert decoded({"format": "debezium"}, records) == ({}, {"value": 1})


def test_a_tombstone_behind_a_change_is_passed_over():
    for value in (None, b"null", b'{"schema": null, "payload": null}'):
        assert one({"format": "debezium"}, value, b"a") == ({}, {})
    record = Stored(partition=0, offset=0, time=0, key=None, value=None, headers=None)
    decoder = ShapedDecoder(STUDY, KEY, Input.model_validate({"format": "debezium"}))
    assert decoder.decode([record], 0)[1][0].cells == {"unreadable": 1}


# The bytes of the connector.


def test_tables_of_the_kit_write_what_the_connector_writes():
    recorded = [json.loads(line) for line in RECORDED.read_text("utf-8").splitlines()]
    written = [
        recorded_line(form, table_name(key, full=full), *record)
        for form in ("wrapped", "marked", "tombstones", "wrapped_schemas")
        for key in KEYS
        for full in (False, True)
        for record in recorded_table(form, key, full=full)
    ]
    assert len(written) == len(recorded)
    for one_written, one_recorded in zip(written, recorded, strict=True):
        assert one_written == one_recorded


PERSONS = {
    "text": (COLUMNS[1], {p: p for p in PEOPLE}),
    "bigint": (
        debezium.Column("person", 0, {"type": "int64", "optional": False}),
        {p: int(p) for p in PEOPLE if p.isdigit()},
    ),
    "numeric": (
        debezium.Column("person", "AA==", COLUMNS[7].schema),
        {"7": "Bw==", "0": "AA==", "12": "DA=="},
    ),
}
SHOWN = MONTHS[:3]
DAYS = dict(zip(SHOWN, (18628, 18659, 18687), strict=True))
PERIODS = {
    "text": (COLUMNS[2], {m: m for m in SHOWN}, None),
    "date": (debezium.Column("month", 0, COLUMNS[5].schema), DAYS, "date"),
    "timestamp": (
        debezium.Column("month", 0, COLUMNS[6].schema),
        {m: 86_400_000_000 * day for m, day in DAYS.items()},
        "local-timestamp-micros",
    ),
}


@st.composite
def tables(draw):
    """A table after changes, with the answers in it, and what is declared of its records."""
    schemas = draw(st.booleans())
    key = draw(st.sampled_from([("id",), ("person", "month"), ("person",)]))
    kinds = ["text", "bigint", *(["numeric"] if schemas else [])]
    person, ids = PERSONS[draw(st.sampled_from(kinds))]
    if not schemas:  # a zero that is filled in looks like this id
        ids = {p: i for p, i in ids.items() if p != "0"}
    # What a column's default is only a schema says.
    named = [p for p in PERIODS if schemas or key != ("person",) or p != "text"]
    month, labels, dates = PERIODS[draw(st.sampled_from(named))]
    seen = dataclasses.replace(COLUMNS[6], name="seen")
    columns = (COLUMNS[0], person, month, COLUMNS[3], COLUMNS[4], seen)
    full, form = draw(st.booleans()), draw(st.sampled_from(["wrapped", "marked", "tombstones"]))
    table = Table(columns, key, full, form, schemas)
    place = st.fixed_dictionaries(
        {"person": st.sampled_from(list(ids)), "month": st.sampled_from(list(labels))}
    )
    answers = st.fixed_dictionaries(
        {"poverty": st.sampled_from([0, 1]), "work": st.sampled_from([None, "no", "yes"])}
    )
    held = []  # the same rows, with the ids and the labels of the study

    def change(row, number):
        """A change that leaves every key alone in the table; None where there is none."""
        others = [r for i, r in enumerate(held) if i != number]
        taken = {(r["person"], r["month"]) for r in others}
        keys = {tuple(r[name] for name in key) for r in others}
        new = tuple(row[name] for name in key) in keys or (row["person"], row["month"]) in taken
        return None if new else row

    def written(row):
        return {**row, "person": ids[row["person"]], "month": labels[row["month"]]}

    for step in range(draw(st.integers(1, 8))):
        action = draw(st.sampled_from(["insert", "place", "answers", "id", "delete"]))
        if action == "insert" or not held:
            row = {"id": step + 1, **draw(place), **draw(answers), "seen": 1612137600000000}
            if change(row, None) is not None:
                held.append(row)
                table.insert(written(row))
            continue
        number = draw(st.integers(0, len(held) - 1))
        if action == "delete":
            held.pop(number)
            table.delete(number)
            continue
        more = {"id": {"id": 100 + step}}.get(action) or draw(
            place if action == "place" else answers
        )
        row = held[number] | more
        if change(row, number) is not None:
            held[number] = row
            table.update(number, written(row))
    declared = {"format": "connect" if schemas else "flat", "period": "month"}
    if form == "wrapped":
        declared["format"] = "debezium"
    if form == "tombstones":
        declared["tombstone"] = "withdraw"
    if not schemas and dates is not None:
        declared["dates"] = dates
    codes = {"no": 0, "yes": 1, 0: 0, 1: 1}
    found = {
        (row["person"], row["month"], name): codes[row[name]]
        for row in held
        for name in NAMES
        if row[name] is not None
    }
    return table, declared, found


@given(tables())
def test_changes_end_in_the_answers_of_the_table_or_are_rejected(drawn):
    table, declared, answers = drawn
    found, rejected = decoded(declared, table.records)
    placed = set(table.key) == {"person", "month"}
    assert set(rejected) <= {"before", "deleted"}
    if (table.full and table.form == "wrapped") or (placed and table.form != "wrapped"):
        assert not rejected
    if not rejected:
        assert found == answers
    if placed and table.form == "wrapped":
        assert decoded({**declared, "before": "fixed"}, table.records) == (answers, {})
