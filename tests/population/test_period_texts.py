"""Texts and columns that name periods: dates, other spellings, pandas' periods."""

import json
from datetime import date

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dp.errors import UserError
from stream_dp.population.celltext import DAMAGED
from stream_dp.population.tables.period_texts import PeriodTexts, check_date_format, period_column
from stream_dp.study.periods import Periods

MONTHS = Periods(every="month", first="2021-01", count=12)
QUARTERS = Periods(every="quarter", first="2021-Q1", count=8)
WEEKS = Periods(every="week", first="2020-W53", count=10)
DAYS = Periods(every="day", first="2021-01-01", count=40)
YEARS = Periods(every="year", first="2021", count=3)
STEPS = Periods(every="step", first="1", count=5)


@pytest.mark.parametrize(
    ("periods", "text", "label"),
    [
        (MONTHS, "2021-01", "2021-01"),
        (MONTHS, "2021-01-31", "2021-01"),
        (MONTHS, "2021-03-31", "2021-03"),
        (MONTHS, "20210331", "2021-03"),
        (MONTHS, "2021/03/31", "2021-03"),
        (MONTHS, "2021-03-31 00:00:00", "2021-03"),
        (MONTHS, "2021-03-31T23:59:59.999999999Z", "2021-03"),
        (MONTHS, "2021-03-31 23:59+02:00", "2021-03"),
        (MONTHS, "202103", "2021-03"),
        (MONTHS, "2021M03", "2021-03"),
        (MONTHS, "2021/03", "2021-03"),
        (MONTHS, "2021.03", "2021-03"),
        (QUARTERS, "2021Q1", "2021-Q1"),
        (QUARTERS, "2021 q4", "2021-Q4"),
        (QUARTERS, "Q2/2022", "2022-Q2"),
        (QUARTERS, "2021-06-30", "2021-Q2"),
        (WEEKS, "2021W05", "2021-W05"),
        (WEEKS, "2021-W05-7", "2021-W05"),
        (WEEKS, "2021-01-03", "2020-W53"),
        (WEEKS, "2021-01-04", "2021-W01"),
        (DAYS, "20210105", "2021-01-05"),
        (DAYS, "2021-01-05 12:00:00", "2021-01-05"),
        (YEARS, "2022-12-31", "2022"),
    ],
)
def test_texts_that_name_a_period(periods, text, label):
    assert PeriodTexts(periods).label(text) == label
    assert PeriodTexts(periods).label(f" {text} ") == label


@pytest.mark.parametrize(
    ("periods", "text"),
    [
        (MONTHS, "2022-01"),
        (MONTHS, "2022-01-31"),
        (MONTHS, "2021-02-30"),
        (MONTHS, "2021-13"),
        (MONTHS, "31.01.2021"),
        (MONTHS, "01/02/2021"),
        (MONTHS, "2021.1"),
        (MONTHS, "2021Q1"),
        (MONTHS, "1"),
        (MONTHS, "٢٠٢١-٠١"),
        (QUARTERS, "2021-02"),
        (QUARTERS, "2021Q5"),
        (WEEKS, "2021-W05-8"),
        (YEARS, "2021-01"),
        (STEPS, "2021-01-01"),
        (STEPS, "01"),
        (STEPS, "9"),
    ],
)
def test_texts_that_name_none_stay_as_they_are(periods, text):
    assert PeriodTexts(periods).label(text) == text


@given(st.text(max_size=12), st.sampled_from([MONTHS, QUARTERS, WEEKS, DAYS, YEARS, STEPS]))
def test_any_text_is_a_label_or_stays(text, periods):
    label = PeriodTexts(periods).label(text)
    assert label == text or label in periods.numbers


@given(st.dates(date(2021, 1, 1), date(2021, 2, 9)))
def test_every_day_lies_in_its_period(day):
    for periods in (MONTHS, QUARTERS, DAYS, YEARS):
        label = PeriodTexts(periods).label(day.isoformat())
        assert label == periods.label_of(day)
        assert label in periods.numbers


def test_dates_in_a_declared_order():
    assert PeriodTexts(MONTHS, "%d.%m.%Y").label("31.03.2021") == "2021-03"
    assert PeriodTexts(MONTHS, "%m/%d/%Y").label("02/01/2021") == "2021-02"
    assert PeriodTexts(MONTHS, "%d.%m.%Y").label("2021-04") == "2021-04"
    assert PeriodTexts(MONTHS, "%d.%m.%Y").label("99.03.2021") == "99.03.2021"


@pytest.mark.parametrize("text", ["%d.%m", "x", "", "%", "%Q", "%Y", "%d.%m.%Y(", "\0"])
def test_formats_that_give_no_date_are_refused(text):
    if text == "%d.%m.%Y(":
        assert check_date_format(text) == text
        return
    with pytest.raises(UserError, match="--dates: write a format"):
        check_date_format(text)


def pandas_field(frequency):
    metadata = {
        "ARROW:extension:name": "pandas.period",
        "ARROW:extension:metadata": json.dumps({"freq": frequency}),
    }
    return pa.field("period", pa.int64(), metadata=metadata)


@pytest.mark.parametrize(
    ("periods", "frequency", "ordinal", "label"),
    [
        (MONTHS, "M", 612, "2021-01"),
        (MONTHS, "M", 614, "2021-03"),
        (MONTHS, "D", 18717, "2021-03"),
        (QUARTERS, "Q-DEC", 205, "2021-Q2"),
        (YEARS, "A-DEC", 52, "2022"),
        (YEARS, "Y-DEC", 52, "2022"),
        (WEEKS, "W-SUN", 2663, "2021-W01"),
    ],
)
def test_pandas_periods(periods, frequency, ordinal, label):
    column = pa.array([ordinal, None])
    first, missing = period_column(column, pandas_field(frequency)).to_pylist()
    assert PeriodTexts(periods).label(first) == label
    assert missing is None


@pytest.mark.parametrize(("frequency", "ordinal"), [("h", 1), ("Q-JAN", 1), ("", 0)])
def test_pandas_periods_of_another_calendar_are_refused(frequency, ordinal):
    with pytest.raises(UserError, match="column 'period': holds"):
        period_column(pa.array([ordinal]), pandas_field(frequency))


def test_a_pandas_period_out_of_every_calendar_is_none_and_holds_no_other_back():
    column = period_column(pa.array([612, 10**9, 613]), pandas_field("M"))
    assert column.to_pylist() == ["2021-01-01", DAMAGED, "2021-02-01"]
