"""Every command and call that takes a period reads it like a file: one parser for all."""

import pyarrow as pa
import pytest
from kit.agency_files import rows, share_of_poor, text, write
from kit.studies import attribute, small_study, window

import stream_dp
from stream_dp.errors import UserError
from stream_dp.population.shapes.row_mapping import PeriodValues
from stream_dp.population.tables import TableLayout, read_reports
from stream_dp.services.desk.column_proposals import TableHeader
from stream_dp.services.desk.draft_columns import horizon
from stream_dp.study.period_texts import PeriodTexts, named_period, require_period
from stream_dp.study.periods import Periods

# By length: the first period, and texts that name it.
NAMED = {
    "month": ("2021-01", ["2021-01", "2021M1", "Jan 2021", "01/2021", "2021-01-31", "202101"]),
    "quarter": ("2021-Q1", ["2021-Q1", "2021q1", "Q1 2021", "1Q2021", "2021-03-31"]),
    "week": ("2021-W05", ["2021-W05", "2021w5", "W05 2021", "2021-02-01"]),
    "day": ("2021-01-31", ["2021-01-31", "20210131", "31 Jan 2021", "2021.01.31"]),
    "year": ("2021", ["2021", "2021.0", "2021-12-31"]),
    "step": ("-2", ["-2", "-02", "-2.0"]),
}
NO_PERIOD = {"month": "01/02/2021", "quarter": "2021-1", "week": "2021-05", "day": "31.1.2021"}


def study_of(every):
    return small_study(
        name="doors",
        size=10,
        periods={"every": every, "first": NAMED[every][0], "count": 3},
        attributes={"work": attribute(["no", "yes"], missing="absent")},
        releases=[window("w", "work", width=1, rho=1)],
    )


def in_a_column(study, word, tmp_path):
    write(path := tmp_path / "t.csv", f'person,period,work\na,"{word}",yes\n')
    return [period for batch in read_reports(path, study, TableLayout()) for _, period, _ in batch]


def of_all_rows(study, word, tmp_path):
    write(path := tmp_path / "t.csv", "person,work\na,yes\n")
    layout = TableLayout(period=word)
    return [period for batch in read_reports(path, study, layout) for _, period, _ in batch]


def in_a_header(study, word, tmp_path):
    write(path := tmp_path / "t.csv", f'person,"{word}"\na,yes\n')
    layout = TableLayout(attribute="work")
    return [period for batch in read_reports(path, study, layout) for _, period, _ in batch]


def at_the_place_of_a_pattern(study, word, tmp_path):
    write(path := tmp_path / "t.csv", f'person,"x_{word}"\na,yes\n')
    layout = TableLayout(attribute="work", columns={"x_{}": "..."})
    return [period for batch in read_reports(path, study, layout) for _, period, _ in batch]


def in_a_stream(study, word, tmp_path):
    return [PeriodValues(study.periods, None, None).label(word, "")]


def of_a_command(study, word, tmp_path):
    return [require_period(study.periods, word)]


def columns_of_init(study, word, tmp_path):
    header = TableHeader(("person", f"x_{word}"))
    assert header.period_columns("x_{}", study.periods) == {"x_{}": "..."}
    return [study.periods.first]


DOORS = [
    in_a_column,
    of_all_rows,
    in_a_header,
    at_the_place_of_a_pattern,
    in_a_stream,
    of_a_command,
    columns_of_init,
]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("every", NAMED)
def test_every_door_reads_the_texts_of_periods_alike(door, every, tmp_path):
    study, (label, texts) = study_of(every), NAMED[every]
    for word in texts:
        assert PeriodTexts(study.periods).label(word) == label
        assert door(study, word, tmp_path) == [label], word


@pytest.mark.parametrize("every", NO_PERIOD)
def test_every_door_leaves_the_same_texts(every, tmp_path):
    study, word = study_of(every), NO_PERIOD[every]
    assert in_a_column(study, word, tmp_path) == [word]
    assert in_a_stream(study, word, tmp_path) != [study.periods.first]
    for door in (of_all_rows, in_a_header, of_a_command):
        with pytest.raises(UserError):
            door(study, word, tmp_path)


def test_the_length_of_a_first_period_is_that_of_its_text():
    for every, (label, texts) in NAMED.items():
        assert named_period(texts[0]) == (every, label)
        periods, _ = horizon(f"{texts[0]}, 3")
        assert (periods.every, periods.first, periods.count) == (every, label, 3)
    assert named_period("2021Q1") == ("quarter", "2021-Q1")
    assert named_period("x") is None
    # The label of an hour or of a minute; a moment in other words names its day.
    assert named_period("2021-10-31T01Z") == ("hour", "2021-10-31T01Z")
    assert named_period("2021-10-31T01:15Z") == ("minute", "2021-10-31T01:15Z")
    assert named_period("2021-10-31 01:15") == ("day", "2021-10-31")


def test_commands_take_other_spellings(study, command, tmp_path):
    file = write(study.parent / "t.csv", text(rows("Jan 2021")))
    assert command("send", study, file)[0] == 0
    assert "2021-01 is closed" in command("close", study, "Jan 2021", "--yes")[1]
    assert command("run", study, "--until-idle")[0] == 0
    shares = {share_of_poor(command, study, word) for word in ("2021-01", "2021m1", "01/2021")}
    assert len(shares) == 1
    panel = tmp_path / "panel.csv"
    assert command("export", study, "months", panel, "--period", "January 2021")[0] == 0
    assert "2021-01" in panel.read_text()
    code, _, lines = command("close", study, "01/02/2021", "--yes")
    assert code == 2
    assert "period '01/02/2021': not one of the study's, 2021-01 to" in lines[0]


def test_calls_of_python_take_other_spellings():
    table = pa.table(
        {"id": [1, 1, 2, 2], "month": ["2026-01", "Feb 2026"] * 2, "work": list("ynyy")}
    )
    public = stream_dp.window(
        table, person="id", period="month", first="Jan 2026", count=2, width=1,
        values={"work": ["y", "n"]}, rho=1, delta=1e-6, neighbours="replace_one",
        simulation_seed=1,
    ).public  # fmt: skip
    assert public.panel("work", "January 2026").periods == ("2026-01",)
    assert public.answer("work", "work=y", "2026m2", count=True).period == "2026-02"
    assert public.release_at("work", "202602").certificate.period == "2026-02"
    with pytest.raises(UserError, match="none at period '2027-01'"):
        public.release_at("work", "2027-01")


def test_a_study_of_steps_may_begin_below_zero():
    periods = Periods(every="step", first="-2", count=4)
    assert periods.labels == ("-2", "-1", "0", "1")
