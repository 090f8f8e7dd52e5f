"""Periods of files: declared formats, meanings, zones, and what files of Stata and SPSS say."""

import datetime

import pandas
import pyarrow as pa
import pytest
from kit.studies import SCHEDULE, attribute, small_study, window

from stream_dp.errors import UserError
from stream_dp.population.tables import TableLayout, judge_table, read_reports
from stream_dp.population.tables.value_texts import Codings

pyreadstat = pytest.importorskip("pyreadstat")


def study(every="month", first="2021-01", **more):
    return small_study(
        name="files",
        size=10,
        periods={"every": every, "first": first, "count": 4, **more},
        attributes={"work": attribute(["no", "yes"], missing="absent")},
        releases=[window("w", "work", width=1, rho=1)],
    )


@pytest.fixture
def periods(tmp_path):
    """Returns the periods of a file's rows, or of a column."""

    def read(texts, declared=None, **layout):
        path = texts
        if isinstance(texts, list):
            path = tmp_path / "t.csv"
            rows = "".join(f'{i},"{text}",yes\n' for i, text in enumerate(texts))
            path.write_text(f"person,period,work\n{rows}")
        layout = TableLayout(**layout)
        batches = read_reports(path, declared or study(), layout)
        return [period for batch in batches for _, period, _ in batch]

    return read


def test_options_that_say_what_texts_of_periods_mean(periods):
    assert periods(["Jan-21", "2021-02"], dates="%b-%y") == ["2021-01", "2021-02"]
    assert periods(["janv. 2021"], languages=("fr",)) == ["2021-01"]
    named = {"period": {"baseline": "1", "wave {}": "{}"}}
    assert periods(["baseline", "wave 3"], study("step", "1"), values=named) == ["1", "3"]
    assert periods(["-2", "-1", "1"], study("step", "-2")) == ["-2", "-1", "1"]


@pytest.mark.parametrize(
    ("layout", "fault"),
    [
        ({"dates": "%d"}, "--dates: '%d' names no period; write a format"),
        ({"zone": "Berlin"}, "--zone: 'Berlin' is not a time zone"),
        ({"languages": ("xx",)}, "--language: 'xx' is no language"),
        ({"languages": ("hr", "cs")}, "has another meaning in cs than in hr; write one"),
        ({"values": {"period": {"x": "2020"}}}, "--map: 'period:x=2020': not one of the study's"),
    ],
)
def test_options_that_mean_nothing_are_refused(periods, layout, fault):
    with pytest.raises(UserError, match="--") as refused:
        periods(["2021-01"], **layout)
    assert fault in str(refused.value)


MIDNIGHTS = [
    datetime.datetime(2020, 12, 31, 23, tzinfo=datetime.UTC),
    datetime.datetime(2021, 1, 31, 23, tzinfo=datetime.UTC),
]


@pytest.fixture(params=["text", "parquet"])
def midnights(request, tmp_path):
    """A file of the first moments of Berlin's months, in UTC."""
    columns = {"person": ["a", "b"], "period": MIDNIGHTS, "work": ["yes", "no"]}
    if request.param == "text":
        path = tmp_path / "t.csv"
        columns["period"] = [moment.isoformat() for moment in MIDNIGHTS]
        pandas.DataFrame(columns).to_csv(path, index=False)
        return path
    path = tmp_path / "t.parquet"
    pa.parquet.write_table(pa.table(columns), path)
    return path


def test_a_zone_decides_the_day_of_a_moment(periods, midnights):
    assert periods(midnights, zone="Europe/Berlin") == ["2021-01", "2021-02"]
    scheduled = study(**(SCHEDULE | {"zone": "Europe/Berlin"}))
    assert periods(midnights, scheduled) == ["2021-01", "2021-02"]
    assert periods(midnights)[1] == "2021-01"


def test_moments_without_a_zone_are_counted(midnights):
    judgement = judge_table(midnights, study(), TableLayout())
    assert (judgement.zoneless.cells, judgement.zoneless.first_row) == (2, 1)
    judgement = judge_table(midnights, study(), TableLayout(zone="Europe/Berlin"))
    assert judgement.zoneless.cells == 0


@pytest.mark.parametrize(
    ("form", "number", "every", "first"),
    [("%tm", 732, "month", "2021-01"), ("%tq", 244, "quarter", "2021-Q1")],
)
def test_periods_of_stata_are_read_by_their_format(tmp_path, periods, form, number, every, first):
    path = tmp_path / "t.dta"
    frame = pandas.DataFrame({"person": [1], "period": [float(number)], "work": ["yes"]})
    pyreadstat.write_dta(frame, path, variable_format={"period": form})
    assert periods(path, study(every, first)) == [first]


def test_weeks_of_stata_are_not_taken_for_weeks_of_iso(tmp_path, periods):
    path = tmp_path / "t.dta"
    frame = pandas.DataFrame({"person": [1], "period": [3172.0], "work": ["yes"]})
    pyreadstat.write_dta(frame, path, variable_format={"period": "%tw"})
    weeks = study("week", "2020-W53")
    assert periods(path, weeks) == ["3172"]
    assert periods(path, weeks, dates="%tw") == ["2021-W01"]


@pytest.fixture
def waves(tmp_path):
    """Returns a file of SPSS with labels of waves."""

    def write(labels):
        path = tmp_path / "t.sav"
        frame = pandas.DataFrame({"person": [1, 2], "period": [1.0, 2.0], "work": ["yes", "no"]})
        pyreadstat.write_sav(frame, path, variable_value_labels={"period": labels})
        return path

    return write


def test_labels_of_waves_are_periods(periods, waves):
    path = waves({1: "Jan 2021", 2: "Feb 2021"})
    assert periods(path) == ["2021-01", "2021-02"]
    named = {"period": {"first wave": "1", "second wave": "2"}}
    path = waves({1: "first wave", 2: "second wave"})
    assert periods(path, study("step", "1")) == ["1", "2"]
    assert periods(path, values={"period": {"{} wave": "2021-02"}}) == ["2021-02"] * 2
    with pytest.raises(UserError, match="--labels period takes"):
        periods(path, study("step", "1"), values=named)


def test_codes_and_labels_that_are_both_periods_are_refused(periods, waves):
    path, steps = waves({1: "2", 2: "3"}), study("step", "1")
    with pytest.raises(UserError, match="--labels period takes 1 for 2, --codes period for 1"):
        periods(path, steps)
    chosen = [Codings(labels=frozenset({"period"})), Codings(codes=frozenset({"period"}))]
    assert [periods(path, steps, codings=codings) for codings in chosen] == [["2", "3"], ["1", "2"]]


def test_a_header_whose_texts_need_a_format_names_the_format(tmp_path, periods):
    path = tmp_path / "w.csv"
    path.write_text("person,Jan-21,Feb-21\na,yes,no\n")
    with pytest.raises(UserError, match="or --dates '%b-%y'"):
        periods(path, attribute="work")
    assert periods(path, attribute="work", dates="%b-%y") == ["2021-01", "2021-02"]
