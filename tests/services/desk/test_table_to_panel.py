"""A long table in, panels out, in one call."""

import datetime

import numpy as np
import pyarrow as pa
import pytest

import stream_dp

MONTHS = ["2026-01", "2026-02", "2026-03"]
PEOPLE = 60
RNG = np.random.default_rng(3)
LONG = {
    "id": np.repeat(np.arange(PEOPLE), 3),
    "month": MONTHS * PEOPLE,
    "work": RNG.choice(["yes", "no"], 3 * PEOPLE).tolist(),
    "home": RNG.integers(0, 2, 3 * PEOPLE),
}
SOUND = {
    "person": "id",
    "period": "month",
    "first": "2026-01",
    "count": 3,
    "width": 2,
    "neighbours": "replace_one",
    "delta": 1e-6,
    "simulation_seed": 1,
}


def window(columns, **arguments):
    return stream_dp.window(pa.table(columns), **{**SOUND, "rho": 1000, **arguments})


def test_every_column_has_a_panel():
    public = window(LONG, values={"work": ["yes", "no"], "home": [0, 1]})
    assert public.rho == 1000
    assert [release.rho for release in public.study.releases] == [500, 500]
    truth = np.reshape(np.array(LONG["work"]) == "yes", (PEOPLE, 3)).sum(axis=0)
    panel = public["work"].panel.table()
    assert [panel[month].to_pylist().count("yes") for month in MONTHS] == truth.tolist()
    assert public["home"].panel.values == (0, 1)
    assert public.public.verify()
    assert (
        public.reading[-1] == "work, home: every person has an answer in every period, as declared"
    )
    assert [line.split() for line in public.reading[:-1]] == [
        ["column", "meaning", "texts"],
        ["id", "person", "as", "they", "stand"],
        ["month", "period", "months", "such", "as", "2026-01,", "or", "dates", "in", "them"],
        ["work", "attribute", "work", "as", "they", "stand"],
        ["home", "attribute", "home", "as", "they", "stand"],
    ]


@pytest.mark.parametrize(
    ("first", "dates"),
    [
        ("2026-01", [(2026, 1, 9), (2026, 2, 1), (2026, 3, 31)]),
        ("2026-Q1", [(2026, 1, 9), (2026, 4, 1), (2026, 9, 30)]),
        ("2026-W01", [(2026, 1, 1), (2026, 1, 5), (2026, 1, 14)]),
        ("2026-01-01", [(2026, 1, 1), (2026, 1, 2), (2026, 1, 3)]),
        ("2026", [(2026, 1, 1), (2027, 1, 2), (2028, 1, 3)]),
    ],
)
@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("ns")])
def test_dates_are_periods(first, dates, kind):
    days = pa.array([datetime.datetime(*day) for day in dates] * 2).cast(kind)
    table = {"id": [1] * 3 + [2] * 3, "month": days, "work": ["y", "n", "y"] * 2}
    public = window(table, first=first, values={"work": ["y", "n"]}, width=1)
    assert [c.to_pylist() for c in public.panel.table().columns[1:]] == [
        ["y", "y"],
        ["n", "n"],
        ["y", "y"],
    ]


def test_times_in_utc_are_a_warning_or_have_the_days_of_a_zone():
    times = [datetime.datetime(2026, m, 1, 22, 30) - datetime.timedelta(days=1) for m in (2, 3)]
    times += [datetime.datetime(2026, 1, 9)]
    table = {"id": [1, 1, 1], "month": pa.array(times).cast(pa.timestamp("us", "UTC"))}
    table |= {"work": ["y", "n", "y"]}
    given = {"first": "2026-01", "values": {"work": ["y", "n"]}, "missing": "n", "width": 1}
    with pytest.warns(UserWarning, match="3 times have an offset or are in UTC"):
        window(table, **given)
    public = window(table, **given, reading={"zone": "Asia/Tokyo"})
    assert [c.to_pylist() for c in public.panel.table().columns[1:]] == [["y"], ["y"], ["n"]]


def test_nobody_answers_is_absent_or_the_declared_value():
    table = {"id": [1, 2, 2], "month": ["1", "1", "2"], "work": ["y", "y", "n"]}
    steps = {"first": 1, "count": 2, "values": {"work": ["y", "n"]}, "width": 1}
    absent = window(table, **steps, missing="absent").panel.table()
    assert sorted(absent["2"].to_pylist()) == ["absent", "n"]
    declared = window(table, **steps, missing={"work": "n"}).panel.table()
    assert declared["2"].to_pylist() == ["n", "n"]


def test_cells_that_do_not_count_are_a_warning():
    table = {**LONG, "work": ["perhaps", *LONG["work"][1:]]}
    with pytest.warns(UserWarning, match="1 of 180 cells"):
        window(table, values={"work": ["yes", "no"]}, missing="absent")


def test_faults_name_the_arguments():
    with pytest.raises(stream_dp.UserError, match=r"^values\['work'\]: one symbol"):
        window(LONG, values={"work": ["yes"]}, missing={"work": "yes"})
    with pytest.raises(stream_dp.UserError, match=r"^width: "):
        window(LONG, values={"work": ["yes", "no"]}, width=9)


def test_answers_that_contradict_each_other_are_a_warning():
    table = {name: [*cells, *cells] for name, cells in LONG.items()}
    with pytest.warns(UserWarning, match="180 cells repeat an earlier one"):
        window(table, values={"work": ["yes", "no"]})


def test_texts_are_read_as_stated():
    days = {"2026-01": "15.01.26", "2026-02": "01.02.26", "2026-03": "28.03.26"}
    texts = {**LONG, "month": [days[month] for month in LONG["month"]]}
    texts["home"] = [f"{home},0" for home in LONG["home"]]
    how = {"dates": "%d.%m.%y", "decimal": ",", "nobody": ["59"]}
    with pytest.warns(UserWarning, match="3 rows of nobody"):
        public = window(texts, values={"home": [0, 1]}, neighbours="add_remove", reading=how)
    truth = LONG["home"].reshape(PEOPLE, 3)[:-1].sum(axis=0)
    answers = [public.estimate("home=1", month, count=True) for month in MONTHS]
    assert [answer.value for answer in answers] == pytest.approx(truth.tolist(), abs=1)
    with pytest.warns(UserWarning, match="3 rows of nobody"):
        assert window(texts, values={"home": [0, 1]}, reading=how).study.size == PEOPLE - 1
    assert "dates as %d.%m.%y" in public.reading[2]
    assert "nobody: 59" in public.reading[1]


@pytest.mark.parametrize(
    ("reading", "line"),
    [
        ({"date": "%d"}, "reading: has no 'date'; there are dates, zone, "),
        ({"decimal": 1.5}, "reading: write texts"),
        ({"values": "a"}, "reading: write texts"),
        ("dates", "reading: must be a mapping"),
        ({"dates": "%q"}, "reading['dates']"),
        ({"zone": "Berlin"}, "zone"),
    ],
)
def test_what_cannot_be_read_is_refused(reading, line):
    with pytest.raises(stream_dp.UserError) as refused:
        window(LONG, values={"home": [0, 1]}, reading=reading)
    assert line in str(refused.value)
