"""Tables that are read and encoded column by column: equal to reading them row by row."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_dp.population.tables import TableLayout, table_reading, text_records
from stream_dp.services.intake.sending import encoded_reports
from stream_dp.studyfile import parse_study

STUDY = parse_study(
    {
        "study": {
            "name": "columns",
            "unit": "person",
            "neighbours": "replace_one",
            "rho": 1,
            "delta": "1e-6",
            "periods": {"first": "2021-01", "every": "month", "count": 2},
            "population": {"size": 100},
        },
        "attributes": {
            "poor": {"values": [0, 1], "missing": 0},
            "job": {"values": ["yes", "no"], "missing": "yes"},
        },
        "releases": [
            {"name": "w", "kind": "window", "width": 1, "attribute": "poor", "rho": 1},
        ],
    }
)
LONG = "person,period,poor,job\n"
cells = st.sampled_from(
    [
        *("p1", "p2", "", "1", "0", "yes", " p1", "2021-01"),
        *('"no"', '""', '"', 'a"b', '"a"b', '"a,b"', '"a""b"', "\\"),
        *("ä", "\ufdd0", "\t", "\x00", "\x0b", "\u2028", "x" * 300, "y" * 66_000),
    ]
)
lines = st.lists(st.lists(cells, min_size=3, max_size=5).map(",".join), max_size=8)


def sent(path, layout, by_columns):
    with pytest.MonkeyPatch.context() as patch:
        if not by_columns:
            nothing = lambda *arguments: None  # noqa: E731
            patch.setattr(table_reading, "_plain_records", nothing)
            patch.setattr(text_records.TextRecords, "_column_by_column", nothing)
        try:
            return [r for b in encoded_reports(path, STUDY, layout, quiet=True) for r in b]
        except Exception as error:
            return str(error)


@settings(max_examples=150, deadline=None)
@given(lines, st.sampled_from(["\n", "\r\n", "\r"]), st.booleans(), st.booleans())
def test_columns_send_what_rows_send(tmp_path_factory, lines, end, wide, ended):
    header = "person,2021-01,2021-02\n" if wide else LONG
    layout = TableLayout(attribute="poor" if wide else None)
    path = tmp_path_factory.getbasetemp() / "t.csv"
    text = (header + "\n".join(lines) + "\n" * ended).replace("\n", end)
    path.write_text(text, encoding="utf-8", newline="")
    assert sent(path, layout, True) == sent(path, layout, False)


@pytest.mark.parametrize("quoted", [False, True])
def test_plain_tables_go_by_columns(tmp_path, monkeypatch, quoted):
    """The property above is not empty."""
    monkeypatch.setattr(text_records.TextRecords, "_line_by_line", None)
    monkeypatch.setattr(table_reading, "report_record", None)
    path, text = tmp_path / "t.csv", '"{}"' if quoted else "{}"
    rows = [[f"p{i}", "2021-01", str(i % 2), "no" if i % 3 else ""] for i in range(50)]
    path.write_text(LONG + "\n".join(",".join(map(text.format, row)) for row in rows))
    records = [r for b in encoded_reports(path, STUDY, TableLayout(), quiet=True) for r in b]
    assert len(records) == 50
    assert records[0] == ("p0", b'{"person":"p0","period":"2021-01","values":{"poor":"0"}}')


EVENTS = parse_study(
    {
        "study": {
            **{"name": "diary", "unit": "person", "neighbours": "replace_one", "rho": 1},
            **{"delta": "1e-6", "population": {"size": 100}},
            "periods": {"first": "2021-01", "every": "month", "count": 2},
        },
        "attributes": {
            "age": {"values": ["young", "old"], "missing": "young"},
            "mode": {"values": ["walk", "car"], "missing": "absent", "slots": 3},
        },
        "releases": [{"name": "w", "kind": "window", "width": 1, "attribute": "age", "rho": 1}],
    }
)


def test_a_row_of_an_event_fills_its_slot(tmp_path):
    """Rows of one person fill several slots; a row without a number is no report."""
    path = tmp_path / "trips.csv"
    path.write_text(
        "person,period,trip,mode,age\n"
        "p1,2021-01,1,walk,old\np1,2021-01,03,car,\np1,2021-02,2.0,car,\n"
        "p2,2021-01,4,car,\np2,2021-01,0,car,\np2,2021-01,,car,old\np2,2021-01,two,car,\n"
    )
    sent = [
        (key, msgspec.json.decode(value))
        for batch in encoded_reports(path, EVENTS, TableLayout(event="trip"))
        for key, value in batch
    ]
    reports = [report for key, report in sent if key]
    assert [(r["person"], r["period"], r["values"]) for r in reports] == [
        ("p1", "2021-01", {"age": "old", "mode_1": "walk"}),
        ("p1", "2021-01", {"mode_3": "car"}),
        ("p1", "2021-02", {"mode_2": "car"}),
    ]
    assert [record["row"] for key, record in sent if not key] == [4, 5, 6, 7]
    assert all("values" not in record for key, record in sent if not key)


def test_a_file_of_slots_needs_no_option(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text("person,period,mode_1,mode_3\np1,2021-01,walk,car\n")
    ((_, value),) = (r for b in encoded_reports(path, EVENTS, TableLayout()) for r in b)
    assert msgspec.json.decode(value)["values"] == {"mode_1": "walk", "mode_3": "car"}
