"""Judging a table: it says of every cell what the decoder does, and it knows strange ids."""

import csv
import re
import uuid
from collections import Counter

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.examples import SHARED
from kit.studies import attribute, small_study, window

from stream_dp.log.log import Stored
from stream_dp.population.report_decoding import Decoder
from stream_dp.population.tables import TableLayout, judge_table
from stream_dp.population.tables.id_shapes import IdShapes
from stream_dp.services.intake.sending import encoded_reports


def study(**more):
    return small_study(
        name="judged",
        size=10,
        attributes={
            "poverty": attribute([0, 1], missing=0),
            "work": attribute(["no", "half day"], missing="absent"),
        },
        releases=[window("w", "poverty", width=1, rho=1)],
        **more,
    )


STUDY = study()
FOLDING = study(ids={"case": "fold"})
words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\0"), max_size=4)
persons = st.sampled_from(["", " ", "007", "ann", "x" * 256, "x" * 257, "ß" * 200]) | words
periods = (
    st.sampled_from(["2021-01", "2021-02", "202103", "2021-03-31", "2021-04", "2022-01", "", "May"])
    | words
)
values = st.sampled_from(["0", "1", "2", "1.0", "no", "half day", "absent", "Yes", ""]) | words
long_rows = st.lists(st.tuples(persons, periods, values, values), max_size=8)
wide_rows = st.lists(st.tuples(persons, values, values, values), max_size=8)


def decoded(path, study, layout, closed):
    """How many cells the decoder accepts, and the rejected ones by reason."""
    accepted, rejected = 0, Counter()
    for batch in encoded_reports(path, study, layout, quiet=True):
        records = [
            Stored(partition=0, offset=i, time=0, key=None, value=value, headers=())
            for i, (_, value) in enumerate(batch)
        ]
        cells, refused = Decoder(study, bytes(32)).decode(records, closed)
        accepted += len(cells)
        for record in refused:
            rejected.update(record.cells)
    return accepted, rejected


@settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=SHARED,
)
@given(data=st.data(), closed=st.integers(0, 3), wide=st.booleans(), folded=st.booleans())
def test_a_cell_is_judged_as_the_decoder_does(tmp_path, data, closed, wide, folded):
    """What is judged sound is accepted, what is not is rejected for that reason; cell by cell."""
    declared = FOLDING if folded else STUDY
    header = ["person", *(["2021-01", "2021-02", "202103"] if wide else ["period"])]
    header += [] if wide else ["poverty", "work"]
    rows = data.draw(wide_rows if wide else long_rows)
    texts = data.draw(st.sampled_from([{}, {"poverty": {"Yes": "1", "2": ""}}]))
    layout = TableLayout(attribute="poverty" if wide else None, values=texts)
    path = tmp_path / f"{uuid.uuid4().hex}.csv"
    cut = data.draw(st.sets(st.integers(0, max(len(rows) - 1, 0))), "rows that are cut")
    written = [row[:-1] if i in cut else row for i, row in enumerate(rows)]
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([header, *written])
    judgement = judge_table(path, declared, layout, closed=closed)
    accepted, rejected = decoded(path, declared, layout, closed)
    assert judgement.rejected == rejected
    assert judgement.cells == accepted + rejected.total()
    for (_, reason), place in judgement.faults.items():
        row = rows[place.first_row - 1]
        assert any(row[1:]) or place.first_row - 1 in cut, reason


def judged(tmp_path, text, known=None, **layout):
    path = tmp_path / "table.csv"
    path.write_text(text)
    return judge_table(path, STUDY, TableLayout(**layout), known_shapes=known)


def test_where_a_fault_is_first(tmp_path):
    text = (
        "person,period,poverty,work\na,2021-01,1,no\nb,2021-01,7,x\nc,2021-01,8,no\n,2021-02,1,\n"
    )
    faults = judged(tmp_path, text).faults
    shown = {place: (fault.cells, fault.first_row) for place, fault in faults.items()}
    assert shown == {
        ("poverty", "value"): (2, 2),
        ("work", "value"): (1, 2),
        ("person", "person"): (1, 4),
    }


def test_a_fault_is_placed_across_batches(tmp_path):
    count = 150_000
    people = [f"p{i}" for i in range(count)]
    values = ["1"] * count
    values[140_000] = values[149_999] = "7"
    path = tmp_path / "table.parquet"
    columns = {"person": people, "period": ["2021-01"] * count, "poverty": values}
    pa.parquet.write_table(pa.table(columns), path)
    (fault,) = judge_table(path, STUDY, TableLayout()).faults.values()
    assert (fault.cells, fault.first_row) == (2, 140_001)


@given(st.lists(st.text(alphabet="0129azAZ-/. ä٣", min_size=1), min_size=1))
def test_the_shape_of_an_id_is_its_own(ids):
    """Bytes of ASCII and other texts are read by different ways."""

    def shape(text):
        return re.sub(r"[^\W\d_]+", "a", re.sub("[0-9]+", "9", text))

    assert {name for name, _, _ in IdShapes.of(ids).counts} == {*map(shape, ids)}


def strange(known, ids):
    shapes = IdShapes.of(ids)
    return [(fault.count, fault.width) for fault in shapes.faults(IdShapes.of(known))]


@pytest.mark.parametrize(
    ("known", "ids", "faults"),
    [
        (["0007", "0012", "1234"], ["7", "12", "1234"], [(2, 4)]),
        ([], ["0007", "12"], [(1, 4)]),
        (["7", "12", "1234"], ["0007", "0012"], [(2, None)]),
        (["p0007"], ["0007"], [(1, None)]),
        (["7", "12"], ["7.0", "12.0"], [(2, None)]),
        (["0007"], ["0008", "12345"], []),
        (["7", "12"], ["123456", "0"], []),
        (["ann", "bob"], ["cy", "Дима"], []),
        (["p1", "p2"], ["p1", "p3", "p12345"], []),
        ([], ["p1", "17", "x-9"], []),
        (["a", "1", "a1", "1a", "a-1", "1-a", "a1a", "1a1", "a.1"], ["@"], []),
    ],
)
def test_ids_of_another_shape(known, ids, faults):
    assert strange(known, ids) == faults


def test_ids_that_lost_their_zeros_get_them_back(tmp_path):
    known = IdShapes.of(["0007", "0012"])
    text = "person,period,poverty\n7,2021-01,1\n12,2021-01,0\n"
    judgement = judged(tmp_path, text, known)
    assert not judgement.faults
    (fault,) = judgement.strange
    assert (fault.count, fault.first_row, fault.width) == (2, 1, 4)
    assert not judged(tmp_path, text, known, id_width=4).strange


@pytest.mark.parametrize("wide", [False, True])
def test_a_row_that_makes_too_large_a_report_is_one_unreadable_cell(tmp_path, wide):
    header = "person,2021-01,2021-02" if wide else "person,period,work"
    for text, large in (("y" * 70_000, True), ("\x01" * 11_000, True), ("y" * 60_000, False)):
        content = f"{header}\na,2021-01,no\nb,2021-01,{text}\n"
        layout = {"attribute": "work"} if wide else {}
        judgement = judged(tmp_path, content, **layout)
        assert judgement.rejected["unreadable"] == large
        path = tmp_path / "table.csv"
        accepted, rejected = decoded(path, STUDY, TableLayout(**layout), 0)
        assert rejected == judgement.rejected
        assert judgement.cells == accepted + rejected.total()
        for batch in encoded_reports(path, STUDY, TableLayout(**layout), quiet=True):
            assert all(len(key.encode()) + len(value) < 64_000 for key, value in batch)


def test_what_is_told_of_each_faulty_cell(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(
        "person,period,poverty,work\na,2021-01,7,no\nb,2021-01\n,May,1,\nc,2021-01,1,x\n"
    )
    told = []
    judge_table(path, STUDY, TableLayout(), tell=lambda *fault: told.append(fault))
    assert sorted(told) == [
        (1, "poverty", "value", "7"),
        (2, "", "unreadable", "b,2021-01"),
        (3, "person", "person", ""),
        (4, "work", "value", "x"),
    ]


def test_columns_that_are_left_out_are_named_and_doubtful_ones_refused(tmp_path):
    header = judged(tmp_path, "person,period,poverty,age\na,2021-01,1,30\n").header
    assert (header.left_out, header.faults) == (("age",), ())
    header = judged(tmp_path, "person,period,work,Povrty\na,2021-01,no,1\n").header
    assert "--columns 'Povrty=poverty'" in header.faults[0]
    wide = "person,2021-01,2022-01\na,1,1\n"
    header = judged(tmp_path, wide, attribute="poverty").header
    assert "--columns '2022-01='" in header.faults[0]
    columns = {"2022-01": ""}
    assert not judged(tmp_path, wide, attribute="poverty", columns=columns).header.faults


@settings(max_examples=40, deadline=None, suppress_health_check=SHARED)
@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from(["a", "A ", "b"]),
            st.sampled_from(["2021-01", "202101", "2021-02", "2029-01"]),
            st.sampled_from(["0", "1", "", "9"]),
            st.sampled_from(["no", ""]),
        ),
        max_size=8,
    )
)
def test_repeated_cells_are_those_that_a_later_row_replaces(rows, tmp_path):
    """Against a dictionary of cells, by the reports that would be sent and count."""
    path = tmp_path / f"{uuid.uuid4().hex}.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([["person", "period", "poverty", "work"], *rows])
    seen, expected = set(), Counter()
    for batch in encoded_reports(path, FOLDING, TableLayout(), quiet=True):
        for i, (_, value) in enumerate(batch):
            cells, _ = Decoder(FOLDING, bytes(32)).decode(
                [Stored(partition=0, offset=i, time=0, key=None, value=value, headers=())], 0
            )
            for cell in zip(*(c.tolist() for c in cells.columns()[:4]), strict=True):
                expected["cells"] += cell in seen
                seen.add(cell)
    repeated = judge_table(path, FOLDING, TableLayout()).repeated
    assert sum(place.cells for place in repeated.values()) == expected["cells"]


def test_the_first_row_of_a_repeated_cell_is_named(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text("person,2021-01,2021-02\na,1,0\nb,,1\na,,1\nb,1,1\n")
    repeated = judge_table(path, STUDY, TableLayout(attribute="poverty")).repeated
    assert {c: (p.cells, p.first_row) for c, p in repeated.items()} == {"2021-02": (2, 3)}
