"""Numbers in the population: from reports of every shape to codes wider than a byte."""

import io
import json

import numpy as np
import pytest
from kit.arrivals import stored
from kit.shapes import shapes
from kit.studies import attribute, small_study

from stream_dp.log.log import Stored
from stream_dp.population.cells import CLEARED
from stream_dp.population.population import Population
from stream_dp.population.report_decoding import Decoder
from stream_dp.population.shapes.decoder import ShapedDecoder
from stream_dp.population.tables import TableLayout
from stream_dp.population.tables.cell_judging import judge_table
from stream_dp.services.contract.report_schemas import report_schema

KEY = bytes(32)
NAMES = ("a", "b", "c")
STUDY = small_study(
    name="numbers",
    neighbours="add_remove",
    rho=4,
    size=None,
    periods={"first": "2001", "every": "year", "count": 4},
    attributes={
        "a": attribute([0, 1], missing=0),
        "b": {
            **{"number": {"least": -9000, "most": 1400000, "step": 100}, "bins": [0]},
            "missing": "absent",
        },
        "c": {
            "number": {"least": 0, "most": 99999},
            "bins": [1000],
            "missing": {"carry": True, "first": 7},
            "special": [-9, 100000],
            "missing_codes": [-8, "no"],
        },
    },
    releases=[
        {"name": "p", "kind": "rap", "attributes": list(NAMES), "rho": 1, "every": 1},
    ],
)


def report(person, year, **values):
    return {"person": person, "period": year, "values": values}


def decode(*reports, decoder=None):
    records = [stored(json.dumps(r).encode(), i) for i, r in enumerate(reports)]
    return (decoder or Decoder(STUDY, KEY)).decode(records, 0)


@pytest.mark.parametrize(
    ("values", "cells", "reasons"),
    [
        ({"b": -9000, "c": "99999"}, [(1, 0), (2, 99999)], {}),
        ({"b": 1400000}, [(1, 14090)], {}),
        ({"b": "absent", "c": None}, [(1, 14091), (2, CLEARED)], {}),
        ({"a": 1, "b": 50, "c": -1}, [(0, 1)], {"step": 1, "range": 1}),
        ({"a": 2, "b": "50", "c": "x"}, [], {"value": 2, "step": 1}),
        ({"a": 1.0, "b": 100.0, "c": 1.5}, [(0, 1), (1, 91)], {"value": 1}),
        ({"b": True, "x": 3, "c": 4}, [(2, 4)], {"value": 1, "attribute": 1}),
        ({"c": -9}, [(2, 100000)], {}),
        ({"c": "100000"}, [(2, 100001)], {}),
        ({"c": -8}, [(2, CLEARED)], {}),
        ({"c": "no"}, [(2, CLEARED)], {}),
        ({"c": "-7"}, [], {"range": 1}),
        ({"b": -9}, [], {"step": 1}),
        ({"b": 10**30, "c": 10**18}, [], {"value": 1, "range": 1}),
    ],
)
def test_cells_of_a_report(values, cells, reasons):
    own, rejected = decode(report("ann", "2001", **values))
    assert sorted(zip(own.attribute.tolist(), own.code.tolist(), strict=True)) == cells
    assert (rejected[0].cells if rejected else {}) == reasons


@pytest.mark.parametrize("name", sorted(shapes(NAMES)))
def test_every_shape_gives_the_same_cells(name):
    shape = shapes(NAMES)[name]
    schema = shape.schema
    source = None if schema is None else (lambda number: (json.dumps(schema),))
    decoder = ShapedDecoder(STUDY, KEY, shape.input, source)
    reports = [
        report("ann", "2001", a=1, b=-100, c=5),
        report("bob", "2001", a=1, b=-150, c=100001),
    ]
    records = []
    for i, one in enumerate(reports):
        value, headers = shape.pack(one)
        records.append(
            Stored(partition=0, offset=i, time=0, key=None, value=value, headers=headers)
        )
    cells, rejected = decoder.decode(records, 0)
    plain, plainly = decode(*reports)
    assert sorted(cells.code.tolist()) == sorted(plain.code.tolist()) == [1, 1, 5, 89]
    assert [r.cells for r in rejected] == [r.cells for r in plainly] == [{"step": 1, "range": 1}]


def test_a_table_is_judged_as_the_decoder_does(tmp_path):
    file = tmp_path / "table.csv"
    texts = ["0", "-100", "50", "1400100", "100.0", "absent", "", "-0", "9" * 30]
    rows = [f"p{i},2001,{text}" for i, text in enumerate(texts)]
    file.write_text("\n".join(["person,period,b", *rows]))
    judgement = judge_table(file, STUDY, TableLayout())
    assert judgement.rejected == {"step": 1, "range": 1, "value": 2}
    assert judgement.faults["b", "value"].first_row == 8
    sent = ["100" if text == "100.0" else text for text in texts if text]  # whole in a file
    _, rejected = decode(*(report(f"p{i}", "2001", b=t) for i, t in enumerate(sent)))
    assert sum(sum(r.cells.values()) for r in rejected) == 4


def test_codes_are_as_wide_as_their_attribute_and_snapshots_keep_them():
    people = [f"p{i}" for i in range(300)]
    population = Population(STUDY)
    reports = [report(p, "2001", a=1, b=100 * (i - 90), c=99999 - i) for i, p in enumerate(people)]
    decoder = Decoder(STUDY, KEY)
    population.fold(*decode(*reports, decoder=decoder))
    later = [report(p, "2002", b=1400000, c=None) for p in people]
    population.fold(*decode(*later, decoder=decoder))
    file = io.BytesIO()
    population.save(file)
    again = Population.load(STUDY, io.BytesIO(file.getvalue()))
    hashes = decoder.hashes(people)
    for one in (population, again):
        first, second = one.close(), one.close()
        types = [first.symbols[name].dtype for name in NAMES]
        assert types == [np.uint8, np.uint16, np.uint32]
        slots = one.slots(hashes[:, 0], hashes[:, 1])
        assert first.symbols["b"][slots].tolist() == list(range(300))
        assert first.symbols["c"][slots].tolist() == [99999 - i for i in range(300)]
        assert (second.symbols["b"] == 14090).all()
        assert second.symbols["c"][slots].tolist() == [99999 - i for i in range(300)]
        assert (one.close().symbols["b"] == 14091).all()


def test_the_schema_of_reports_has_the_scale():
    answer = report_schema(STUDY)["properties"]["values"]["properties"]["b"]
    assert answer["anyOf"][0] == {
        **{"type": "integer", "minimum": -9000, "maximum": 1400000, "multipleOf": 100}
    }
    assert "steps of 100" in answer["description"]
