"""Dates, times, decimals and floats of records are read by their types, or as declared."""

import json
from decimal import Decimal

import pytest
from kit.arrivals import KEY
from kit.shapes import avro_bytes
from kit.studies import attribute, small_study, window

from stream_dp.log.log import Stored
from stream_dp.population.shapes.decoder import ShapedDecoder
from stream_dp.study import Input

VALUES = {
    "poverty": attribute([0, 1], missing=0),
    "day": attribute(["2021-02-01", "2021-02-02"], missing="absent"),
}
RELEASES = [window("w", "poverty", width=1, rho=1)]


def study(**periods):
    declared = {"every": "month", "first": "2021-01", "count": 12, **periods}
    return small_study(attributes=VALUES, releases=RELEASES, periods=declared)


MONTHS = study()
STEPS = study(every="step", first="1", count=12)
YEARS = study(every="year", first="1970", count=80)
DAYS = study(every="day", first="2021-02-01", count=28)


def decoded(declared, value, of=MONTHS, schema=None):
    """The periods and codes of cells, and the reasons."""
    source = None if schema is None else (lambda number: (json.dumps(schema),))
    decoder = ShapedDecoder(of, KEY, Input.model_validate(declared), source)
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    record = Stored(partition=0, offset=0, time=0, key=None, value=data, headers=())
    cells, rejected = decoder.decode([record], 0)
    periods = [of.periods.labels[number - 1] for number in cells.period.tolist()]
    return list(zip(periods, cells.code.tolist(), strict=True)), rejected and rejected[0].cells


ZONE = "a zone decides"


def month_of(value, of=MONTHS, **declared):
    """The label of the period that a flat row's value names; None or ZONE if it is rejected."""
    row = {"person": "a", "period": value, "poverty": 1}
    cells, reasons = decoded({"format": "flat", **declared}, row, of)
    assert bool(cells) != bool(reasons)
    assert reasons in ([], {"period": 1}, {"zone": 1})
    return cells[0][0] if cells else {"period": None, "zone": ZONE}[next(iter(reasons))]


DAY = 18659  # 2021-02-01
NOON = 86_400 * DAY + 43_200  # of that day
UNITS = {"seconds": 1, "millis": 10**3, "micros": 10**6, "nanos": 10**9}
LATE = 86_400 * DAY - 3600  # 23:00 of the day before, in UTC: midnight of Berlin


@pytest.mark.parametrize(
    ("value", "declared"),
    [
        ("2021-02", {}),
        ("2021-02-15", {}),
        ("2021-02-15T12:00:00Z", {}),
        ("2021-02-01T00:00:00.000000Z", {}),
        ("2021-02-01T00:30:00+01:00", {}),
        ("Feb 2021", {}),
        ("15.02.2021", {"dates": "%d.%m.%Y"}),
        (DAY, {"dates": "date"}),
        (float(DAY), {"dates": "date"}),
        (str(DAY), {"dates": "date"}),
        *((unit * NOON, {"dates": f"timestamp-{name}"}) for name, unit in UNITS.items()),
        *((unit * 86_400 * DAY, {"dates": f"timestamp-{name}"}) for name, unit in UNITS.items()),
        *(
            (UNITS[name] * NOON, {"dates": f"local-timestamp-{name}"})
            for name in ("millis", "micros", "nanos")
        ),
        (1000 * LATE, {"dates": "timestamp-millis", "zone": "Europe/Berlin"}),
        ("2021-01-31T23:00:00Z", {"zone": "Europe/Berlin"}),
        ("2021-01-31 23:00:00+00:00", {"zone": "Europe/Berlin"}),
    ],
)
def test_a_period_is_a_text_or_a_number_that_counts_time(value, declared):
    assert month_of(value, **declared) == "2021-02"


@pytest.mark.parametrize(
    ("value", "declared"),
    [
        ("02/01/2021", {}),
        (DAY, {}),
        (1000 * NOON, {}),
        (None, {}),
        (True, {"dates": "date"}),
        (2021.5, {}),
        (10**18, {"dates": "date"}),
        (-(10**30), {"dates": "timestamp-millis"}),
        (DAY, {"dates": "timestamp-nanos"}),
    ],
)
def test_another_period_is_rejected(value, declared):
    assert month_of(value, **declared) is None


@pytest.mark.parametrize(
    ("value", "declared"),
    [
        (1000 * LATE, {"dates": "timestamp-millis"}),
        ("2021-01-31T23:00:00Z", {}),
        ("2021-02-01T05:00:00.000Z", {}),
    ],
)
def test_a_time_whose_month_a_zone_decides_needs_one(value, declared):
    assert month_of(value, **declared) == ZONE
    for zone, month in (("UTC", value != "2021-02-01T05:00:00.000Z"), ("Asia/Tokyo", False)):
        expected = "2021-01" if month else "2021-02"
        assert month_of(value, **declared, zone=zone) == expected


def test_the_zone_of_a_schedule_counts():
    close = {"zone": "America/New_York"}
    assert month_of("2021-02-01T00:00:00Z", study(close=close)) == "2021-01"
    assert month_of("2021-02-01T00:00:00Z", study(close=close), zone="UTC") == "2021-02"
    # A time without a zone stays.
    local = {"dates": "local-timestamp-millis"}
    assert month_of(86_400_000 * DAY, study(close=close), **local) == "2021-02"


def test_whole_floats_are_numbers():
    assert month_of(2021.0, YEARS) == "2021"
    assert month_of(3.0, STEPS) == "3"
    assert month_of(3, STEPS) == "3"
    row = {"person": 12.0, "period": "2021-02", "poverty": 1.0}
    whole = {**row, "person": "12", "poverty": 1}
    assert decoded({"format": "flat"}, row) == decoded({"format": "flat"}, whole)
    assert decoded({"format": "flat"}, {**row, "person": 2.0**60})[1] == {"person": 1}
    assert decoded({"format": "flat"}, {**row, "person": 12.5})[1] == {"person": 1}
    report = {"person": 12.0, "period": "2021-02", "values": {"poverty": 1.0}}
    assert decoded(
        {"format": "cloudevents", "rows": "report"},
        {"specversion": "1.0", "id": "1", "source": "/", "type": "t", "data": report},
    ) == decoded({"format": "flat"}, whole)


def avro(period, *, person=("string", "a"), day=None):
    """A row of Avro, with the types of its columns."""
    columns = {"person": person, "period": period, "poverty": ("int", 1)}
    if day is not None:
        columns["day"] = day
    fields = [{"name": name, "type": kind} for name, (kind, _) in columns.items()]
    schema = {"type": "record", "name": "Row", "fields": fields}
    return schema, {name: value for name, (_, value) in columns.items()}


def stored_as(kind):
    """The type without its logical type, so that the writer takes the stored value."""
    if isinstance(kind, dict):
        return {k: v for k, v in kind.items() if k != "logicalType"}
    return [stored_as(part) for part in kind] if isinstance(kind, list) else kind


def read_avro(schema, value, of=MONTHS, **declared):
    fields = [{**field, "type": stored_as(field["type"])} for field in schema["fields"]]
    data = avro_bytes({**schema, "fields": fields}, value)
    return decoded({"format": "avro", "schemas": "s", **declared}, data, of, schema)


def connect_name(kind, name):
    return {"type": kind, "connect.version": 1, "connect.name": name}


AVRO_PERIODS = [
    ({"type": "int", "logicalType": "date"}, DAY),
    (["null", {"type": "int", "logicalType": "date"}], DAY),
    *(
        ({"type": "long", "logicalType": f"{local}timestamp-{name}"}, UNITS[name] * NOON)
        for local in ("", "local-")
        for name in ("millis", "micros", "nanos")
    ),
    (connect_name("int", "io.debezium.time.Date"), DAY),
    (connect_name("long", "io.debezium.time.Timestamp"), 1000 * NOON),
    (connect_name("long", "io.debezium.time.MicroTimestamp"), 10**6 * 86_400 * DAY),
    (connect_name("long", "io.debezium.time.NanoTimestamp"), 10**9 * NOON),
    ({**connect_name("int", "org.apache.kafka.connect.data.Date"), "logicalType": "date"}, DAY),
]


@pytest.mark.parametrize(("kind", "value"), AVRO_PERIODS)
def test_avro_says_what_numbers_count(kind, value):
    row = avro((kind, value))
    assert read_avro(*row) == ([("2021-02", 1)], [])
    # Steps have no days, whatever the number is.
    assert read_avro(*row, STEPS) == ([], {"period": 1})
    assert read_avro(*avro((kind, 3)), STEPS) == ([], {"period": 1})
    # What is declared comes first.
    assert read_avro(*row, dates="timestamp-seconds") == ([], {"period": 1})


def test_debeziums_times_have_no_zone():
    for kind, expected in (
        (connect_name("long", "io.debezium.time.Timestamp"), "2021-01"),
        ({"type": "long", "logicalType": "timestamp-millis"}, "2021-02"),
    ):
        row = avro((kind, 1000 * LATE))
        assert read_avro(*row, zone="Europe/Berlin")[0] == [(expected, 1)]


@pytest.mark.parametrize(
    ("kind", "value", "person"),
    [
        ("double", 12.0, "12"),
        ("float", 12.0, "12"),
        ("float", 123456792.0, None),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 0}, b"\x0c", "12"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 1}, b"\x78", "12"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 1}, b"\xff", "-0.1"),
        ("bytes", b"\x0c", None),
        ({"type": "string", "logicalType": "uuid"}, "7f-1", "7f-1"),
    ],
)
def test_avro_ids(kind, value, person):
    row = avro(("string", "2021-02"), person=(kind, value))
    if person is None:
        assert read_avro(*row) == ([], {"person": 1})
        return
    decoders = [
        ShapedDecoder(
            MONTHS,
            KEY,
            Input.model_validate({"format": "avro", "schemas": "s"}),
            lambda number, schema=schema: (json.dumps(schema),),
        )
        for schema in (row[0], avro(("string", "2021-02"))[0])
    ]
    values = (row[1], {**row[1], "person": person})
    kinds = (stored_as(kind), "string")
    hashes = []
    for decoder, value_of, stored_kind in zip(decoders, values, kinds, strict=True):
        schema = avro(("string", "2021-02"), person=(stored_kind, None))[0]
        data = avro_bytes(schema, value_of)
        record = Stored(partition=0, offset=0, time=0, key=None, value=data, headers=())
        cells, rejected = decoder.decode([record], 0)
        assert rejected == []
        hashes.append(cells.hi.tolist())
    assert hashes[0] == hashes[1]


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 0}


def test_avro_answers():
    schema, value = avro(("string", "2021-02"), day=({"type": "int", "logicalType": "date"}, DAY))
    schema["fields"][2]["type"] = DECIMAL
    value["poverty"] = b"\x01"
    assert read_avro(schema, value) == ([("2021-02", 1), ("2021-02", 0)], [])
    value["poverty"] = b"\x02"
    assert read_avro(schema, value)[1] == {"value": 1}
    mapped = read_avro(schema, value, values={"poverty": {"2": 1}})
    assert mapped == ([("2021-02", 1), ("2021-02", 0)], [])


DECIMAL_KIND = {
    "type": "bytes",
    "name": "org.apache.kafka.connect.data.Decimal",
    "parameters": {"scale": "1"},
}


def connect_row(columns):
    """A row in Kafka Connect's JSON: by column, its schema and its value."""
    fields = [{**kind, "field": name} for name, (kind, _) in columns.items()]
    payload = {name: value for name, (_, value) in columns.items()}
    return {"schema": {"type": "struct", "fields": fields}, "payload": payload}


def test_kafka_connect_says_what_numbers_count():
    text, whole = {"type": "string"}, {"type": "int32"}
    variable = {"type": "struct", "name": "io.debezium.data.VariableScaleDecimal"}
    columns = {"person": (text, "a"), "period": (text, "2021-02"), "poverty": (whole, 1)}
    expected = decoded({"format": "connect"}, connect_row(columns))
    assert expected == ([("2021-02", 1)], [])
    for changed in (
        {"period": ({"type": "int32", "name": "io.debezium.time.Date"}, DAY)},
        {
            "period": (
                {"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp"},
                1000 * NOON,
            )
        },
        {"period": ({"type": "int64", "name": "io.debezium.time.MicroTimestamp"}, 10**6 * NOON)},
        {
            "period": (
                {"type": "string", "name": "io.debezium.time.ZonedTimestamp"},
                "2021-02-02T22:30:00.000000Z",
            )
        },
        {"poverty": (DECIMAL_KIND, "Cg==")},
        {"poverty": (DECIMAL_KIND, 1.0)},
        {"poverty": (variable, {"scale": 1, "value": "Cg=="})},
        {"poverty": ({"type": "double"}, 1.0)},
    ):
        assert decoded({"format": "connect"}, connect_row(columns | changed)) == expected
    # Below the top level, and in a schema that says something else than the value is.
    deep = {
        "schema": {
            "type": "struct",
            "fields": [
                {
                    "field": "m",
                    "type": "struct",
                    "fields": [{"field": "d", "type": "int32", "name": "io.debezium.time.Date"}],
                }
            ],
        },
        "payload": {"person": "a", "m": {"d": DAY}, "poverty": 1},
    }
    assert decoded({"format": "connect", "period": "/m/d"}, deep) == expected
    for schema in ({}, {"fields": 3}, {"fields": [1, {}, {"field": "period", "parameters": 5}]}, 7):
        row = {**connect_row(columns), "schema": schema}
        assert decoded({"format": "connect"}, row) == expected
    for odd in ("!", "Cg", "", [1], {"scale": "x", "value": "Cg=="}):
        row = connect_row(columns | {"poverty": (DECIMAL_KIND, odd)})
        assert decoded({"format": "connect"}, row) == ([], {"value": 1})


@pytest.mark.parametrize("value", [1200.5, "1200.50", (DECIMAL_KIND, "LuU=")])
def test_fractions_are_rounded_where_it_is_declared(value):
    pay = {"number": {"least": 0, "most": 5000}, "bins": [1201], "missing": 0}
    periods = {"every": "month", "first": "2021-01", "count": 12}
    of = small_study(attributes=VALUES | {"pay": pay}, releases=RELEASES, periods=periods)
    kind, value = value if isinstance(value, tuple) else ({}, value)
    row = connect_row({"person": ({}, "a"), "period": ({}, "2021-02"), "pay": (kind, value)})
    assert decoded({"format": "connect"}, row, of) == ([], {"value": 1})
    whole = connect_row({"person": ({}, "a"), "period": ({}, "2021-02"), "pay": ({}, 1201)})
    read = decoded({"format": "connect"}, whole, of)
    assert decoded({"format": "connect", "round": True}, row, of) == read != ([], [])


DATE_KIND = {"type": "int32", "name": "org.apache.kafka.connect.data.Date"}
VARIABLE = {"type": "struct", "name": "io.debezium.data.VariableScaleDecimal"}


@pytest.mark.parametrize(
    "column",
    [
        *(({}, x) for x in (1e28, 1e30, 1e308, -1e300, 5000.5, "1" * 40 + ".5", "x!", [1.5])),
        *((VARIABLE, {"scale": scale, "value": "x!"}) for scale in (2, -2, 99)),
        (VARIABLE, {"scale": -60, "value": "Lu8="}),
        (DATE_KIND, 20_000),
        (DECIMAL_KIND, "x!"),
    ],
)
def test_what_cannot_be_rounded_is_one_rejected_cell(column):
    pay = {"number": {"least": 0, "most": 5000}, "bins": [1201], "missing": 0}
    periods = {"every": "month", "first": "2021-01", "count": 12}
    of = small_study(attributes=VALUES | {"pay": pay}, releases=RELEASES, periods=periods)
    row = connect_row({"person": ({}, "a"), "period": ({}, "2021-02"), "pay": column})
    assert decoded({"format": "connect", "round": True}, row, of) == ([], {"value": 1})


def test_a_decimal_is_exact():
    number = Decimal("12345678901234567890.5")
    data = int(number * 10).to_bytes(10, "big", signed=True)
    declared = {"format": "avro", "schemas": "s", "values": {"poverty": {str(number): 1}}}
    schema, value = avro(("string", "2021-02"))
    schema["fields"][2]["type"] = {**DECIMAL, "scale": 1, "precision": 22}
    value["poverty"] = data
    plain = {**schema, "fields": [*schema["fields"][:2], {"name": "poverty", "type": "bytes"}]}
    assert decoded(declared, avro_bytes(plain, value), MONTHS, schema) == ([("2021-02", 1)], [])


def test_the_day_of_a_time_needs_a_zone_in_a_study_of_days():
    assert month_of("2021-02-03T12:00:00Z", DAYS) == ZONE
    assert month_of("2021-02-03T00:00:00Z", DAYS) == "2021-02-03"
    assert month_of("2021-02-03T23:30:00Z", DAYS, zone="Europe/Berlin") == "2021-02-04"


PAY = small_study(
    neighbours="add_remove",
    size=None,
    rho=4,
    attributes={
        **{"poverty": attribute([0, 1], missing=0), "told": attribute(["y", "n"], missing="n")},
        "pay": {
            **{"number": {"least": 0, "most": 5000}, "bins": [1000], "missing": "absent"},
            "special": [-9],
        },
    },
    releases=[
        *RELEASES,
        {"name": "p", "kind": "rap", "attributes": ["pay", "poverty"], "rho": 1, "every": 1},
    ],
)


@pytest.mark.parametrize(
    ("declared", "pay", "code"),
    [
        ({}, "1200.0", 1200),
        ({}, 1200.0, 1200),
        ({}, "-9.00", 5001),
        ({}, "1,200", None),
        ({}, "1.000", None),
        ({}, "1200.50", None),
        ({"thousands": ","}, "1,200", 1200),
        ({"thousands": " "}, "1\u00a0200", 1200),
        ({"decimal": ",", "thousands": "."}, "1.200,00", 1200),
        ({"decimal": ","}, "1200,0", 1200),
        ({"decimal": ",", "values": {"poverty": {"x": 1}}}, "1200,0", 1200),
    ],
)
def test_numbers_with_marks_are_read_as_in_files(declared, pay, code):
    row = {"person": "a", "period": "2021-01", "poverty": "1.0", "told": "y", "pay": pay}
    if declared.get("decimal") == "," or declared.get("thousands") == ".":
        row["poverty"] = "1,0"
    cells, reasons = decoded({"format": "flat", **declared}, row, PAY)
    assert [code for _, code in cells] == [1, 0, *([] if code is None else [code])]
    assert reasons == ([] if code is not None else {"value": 1})


def test_mapped_numbers_may_have_marks():
    row = {"person": "a", "period": "2021-01", "told": "2.0"}
    declared = {"format": "flat", "values": {"told": {"1": "y", "2": "n"}}}
    assert decoded(declared, row, PAY)[0] == [("2021-01", 1)]
