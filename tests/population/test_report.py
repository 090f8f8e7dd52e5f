"""Reports: which cells each one gives, which reason what fails is given."""

import json

import numpy as np
import pytest
from kit.studies import small_study, window

from stream_dp.log.log import Stored
from stream_dp.population.cells import CLEARED, EMPTY, REASONS, Cells
from stream_dp.population.report_decoding import Decoder


def make(periods, attributes):
    first = next(iter(attributes))
    return small_study(
        name="reports",
        periods=periods,
        size=10,
        attributes=attributes,
        releases=[window("w", first, width=1, rho=1)],
    )


STUDY = make(
    {"first": "2021-01", "every": "month", "count": 4},
    {
        "poverty": {"values": [0, 1], "missing": 0},
        "work": {"values": ["no", "half day", "12"], "missing": "absent"},
        "age.group": {"values": [10, 20], "missing": 10},
    },
)
DECODER = Decoder(STUDY, bytes(32))


def decode(*reports, closed=0, decoder=DECODER):
    """Cells as (attribute, code), and what was rejected, of reports as text or as values."""
    texts = [r if isinstance(r, (bytes, type(None))) else json.dumps(r).encode() for r in reports]
    records = [
        Stored(partition=3, offset=10 + i, time=0, key=None, value=text, headers=())
        for i, text in enumerate(texts)
    ]
    return decoder.decode(records, closed)


def outcome(values, person="ann", period="2021-02", closed=0):
    cells, rejected = decode({"person": person, "period": period, "values": values}, closed=closed)
    codes = sorted(zip(cells.attribute.tolist(), cells.code.tolist(), strict=True))
    return codes, rejected[0].cells if rejected else {}


@pytest.mark.parametrize(
    ("values", "cells", "reasons"),
    [
        ({"poverty": 1}, [(0, 1)], {}),
        ({"poverty": "1"}, [(0, 1)], {}),
        ({"poverty": 0, "work": "no", "age.group": 20}, [(0, 0), (1, 0), (2, 1)], {}),
        ({"work": "half day"}, [(1, 1)], {}),
        ({"work": 12}, [], {"value": 1}),
        ({"work": "12"}, [(1, 2)], {}),
        ({"work": "absent"}, [(1, 3)], {}),
        ({"poverty": None}, [(0, CLEARED)], {}),
        ({"poverty": None, "work": None}, [(0, CLEARED), (1, CLEARED)], {}),
        ({"poverty": 2}, [], {"value": 1}),
        ({"poverty": "absent"}, [], {"value": 1}),
        ({"poverty": ""}, [], {"value": 1}),
        ({"poverty": " 1"}, [], {"value": 1}),
        ({"poverty": True}, [], {"value": 1}),
        ({"poverty": 1.0}, [(0, 1)], {}),
        ({"poverty": 1.5}, [], {"value": 1}),
        ({"poverty": [1]}, [], {"value": 1}),
        ({"poverty": {"a": 1}}, [], {"value": 1}),
        ({"poverty": 10**30}, [], {"value": 1}),
        ({"poverty": 2, "work": "no"}, [(1, 0)], {"value": 1}),
        ({"poverty": 2, "work": "none", "age.group": 10}, [(2, 0)], {"value": 2}),
        ({"income": 1}, [], {"attribute": 1}),
        ({"income": 1, "poverty": 1}, [(0, 1)], {"attribute": 1}),
        ({"income": 1, "poverty": 9, "work": 1.5}, [], {"attribute": 1, "value": 2}),
        ({"Poverty": 1}, [], {"attribute": 1}),
        ({}, [], {"unreadable": 1}),
    ],
)
def test_values(values, cells, reasons):
    assert outcome(values) == (cells, reasons)


@pytest.mark.parametrize(
    "person", ["", " ", "null", "1.23E+11", "n" * 257, None, True, 1.5, [], {}, 2**63, -(2**63)]
)
def test_persons_who_cannot_be(person):
    for values, count in (({"poverty": 1}, 1), ({"poverty": 1, "work": 9.5, "income": 2}, 3)):
        assert outcome(values, person=person) == ([], {"person": count})


@pytest.mark.parametrize("person", ["n" * 256, "0", 0, -7, 2**63 - 1, "ünï\u0000", "nulla"])
def test_persons_who_can_be(person):
    assert outcome({"poverty": 1}, person=person) == ([(0, 1)], {})


@pytest.mark.parametrize(
    "period", ["2020-12", "2021-05", "2021", "2021-1", "", "2021-02 ", 2021, None, True, 1.0, []]
)
def test_periods_that_are_not_the_studys(period):
    assert outcome({"poverty": 1, "work": "no"}, period=period) == ([], {"period": 2})


@pytest.mark.parametrize("closed", range(5))
def test_closed_periods_are_late(closed):
    for number in range(1, 5):
        result = outcome({"poverty": 1, "work": "no"}, period=f"2021-0{number}", closed=closed)
        late = ([], {"late": 2})
        assert result == (late if number <= closed else ([(0, 1), (1, 0)], {}))


def test_a_fault_of_the_person_goes_before_one_of_the_period_and_that_before_the_values():
    assert outcome({"poverty": 9}, person="", period="x") == ([], {"person": 1})
    assert outcome({"poverty": 9}, period="x") == ([], {"period": 1})
    assert outcome({"poverty": 9}, closed=4) == ([], {"late": 1})


@pytest.mark.parametrize(
    ("every", "first", "numbers"),
    [("step", 3, [3, 4]), ("year", "2021", [2021, 2022])],
)
def test_periods_may_be_numbers_where_their_names_are(every, first, numbers):
    study = make(
        {"first": first, "every": every, "count": 2}, {"a": {"values": [0, 1], "missing": 0}}
    )
    decoder = Decoder(study, bytes(32))
    for period in (*numbers, *map(str, numbers)):
        cells, rejected = decode(
            {"person": "p", "period": period, "values": {"a": 1}}, decoder=decoder
        )
        assert rejected == []
        assert cells.period.tolist() == [int(period) - numbers[0] + 1]


def test_columns_hold_where_each_cell_came_from():
    cells, rejected = decode(
        {"person": "ann", "period": "2021-04", "values": {"poverty": 1, "work": "no"}},
        b"nonsense",
        {"person": "bob", "period": "2021-01", "values": {"poverty": 0, "other": 1}},
    )
    assert cells.partition.tolist() == [3, 3, 3]
    assert sorted(cells.offset.tolist()) == [10, 10, 12]
    assert sorted(cells.period.tolist()) == [1, 4, 4]
    assert [(r.row, r.cells) for r in rejected] == [(1, {"unreadable": 1}), (2, {"attribute": 1})]
    assert [c.dtype for c in cells.columns()] == [c.dtype for c in EMPTY.columns()]


def test_what_is_more_in_a_report_is_no_fault():
    text = {"id": 7, "person": "p", "period": "2021-01", "values": {"poverty": 1}, "at": [1.5]}
    cells, rejected = decode(text)
    assert len(cells) == 1
    assert rejected == []


def test_no_records_give_no_cells():
    cells, rejected = decode()
    assert len(cells) == 0
    assert rejected == []
    assert len(Cells.joined([])) == 0


def test_hashes_are_stable():
    # A change of these would make a new person of everybody in a study that runs.
    hashes = Decoder(STUDY, bytes(range(32))).hashes(["ann", "7", "ünï"])
    again = Decoder(STUDY, bytes(range(32))).hashes(["ünï", "ann"])
    assert np.array_equal(hashes[[2, 0]], again)
    assert [f"{hi:016x}{lo:016x}" for hi, lo in hashes.tolist()] == [
        "87ed6be2beaffedf03ac4604ba903bf0",
        "63c47b3459dceea0f2b1069197899362",
        "65fde842d43efffe776127780db1ef6c",
    ]


def test_many_hashes_differ_in_both_halves():
    hashes = DECODER.hashes([str(i) for i in range(20_000)])
    assert len(set(hashes[:, 0].tolist())) == len(set(hashes[:, 1].tolist())) == 20_000
    assert abs((hashes[:, 0] >> np.uint64(63)).mean() - 0.5) < 0.02


def test_every_reason_has_words():
    assert all(words and not words.endswith(".") for words in REASONS.values())
