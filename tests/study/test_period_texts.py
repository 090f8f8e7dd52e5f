"""Texts that name periods: labels, other spellings, dates and declared formats."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dp.errors import UserError
from stream_dp.study.period_texts import PeriodTexts, require_period
from stream_dp.study.periods import Periods

MONTHS = Periods(every="month", first="2021-01", count=12)
QUARTERS = Periods(every="quarter", first="2021-Q1", count=8)
WEEKS = Periods(every="week", first="2020-W53", count=10)
DAYS = Periods(every="day", first="2021-01-01", count=40)
YEARS = Periods(every="year", first="2021", count=3)
STEPS = Periods(every="step", first="1", count=5)
# Lisbon's clocks go back from 02:00 to 01:00 at the hour 01Z.
HOURS = Periods(every="hour", first="2021-10-30T22Z", count=12)
MINUTES = Periods(every="minute", first="2021-01-31T05:00Z", count=90)


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
        (HOURS, "2021-10-31T01:59:59Z", "2021-10-31T01Z"),
        (HOURS, "2021-10-31 01:30+01:00", "2021-10-31T00Z"),
        (HOURS, "2021-10-31T01+00", "2021-10-31T01Z"),
        (MINUTES, "2021-01-31T05:07:59.9Z", "2021-01-31T05:07Z"),
        (MINUTES, "2021-01-31T11:00+05:30", "2021-01-31T05:30Z"),
    ],
)
def test_texts_that_name_a_period(periods, text, label):
    assert PeriodTexts(periods).label(text) == label
    assert PeriodTexts(periods).label(f" {text} ") == label


@pytest.mark.parametrize(
    ("periods", "text"),
    [
        (HOURS, "2021-10-31"),
        (HOURS, "2021-10-31T05"),
        (HOURS, "2021-10-31 05:00"),
        (HOURS, "2021-10-31T12Z"),
        (MINUTES, "2021-01-31T05Z"),
        (MINUTES, "2021-01-31 05:07"),
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


@pytest.mark.parametrize("text", ["%d.%m", "x", "", "%", "%Q", "%H:%M", "\0", "%Y-%Y", "%Y/%y"])
def test_formats_that_name_no_period_are_refused(text):
    with pytest.raises(UserError, match="dates: '"):
        PeriodTexts(MONTHS, text)


@pytest.mark.parametrize(
    ("periods", "text"), [(DAYS, "%m/%Y"), (MONTHS, "%Y"), (WEEKS, "%m/%Y"), (MONTHS, "%G-%V")]
)
def test_formats_of_longer_units_are_refused(periods, text):
    with pytest.raises(UserError, match="which decides no"):
        PeriodTexts(periods, text)


def test_a_study_of_steps_has_no_dates():
    with pytest.raises(UserError, match="--map period:TEXT=STEP"):
        PeriodTexts(STEPS, "%Y")


@pytest.mark.parametrize("text", ["2021-01-31", "2021-13-13", "2021/01/31", "20210131"])
def test_a_declared_order_leaves_no_text_to_the_other_order(text):
    assert PeriodTexts(MONTHS, "%Y-%d-%m").label(text) == text


def test_a_declared_order_reads_what_iso_would_read_otherwise():
    assert PeriodTexts(MONTHS, "%Y-%d-%m").label("2021-01-02") == "2021-02"
    assert PeriodTexts(DAYS, "%Y-%d-%m").label("2021-01-02") == "2021-02-01"


@pytest.mark.parametrize("text", ["10121", "202101", "202102", "20210131"])
def test_digits_without_gaps_are_read_at_full_width_alone(text):
    assert PeriodTexts(MONTHS, "%d%m%y").label(text) == text
    assert PeriodTexts(MONTHS, "%d%m%y").label("310121") == "2021-01"
    assert PeriodTexts(MONTHS, "%d%m%y").label("2021-02") == "2021-02"


def test_typed_dates_are_read_beside_a_declared_format():
    for text in ("2021-03-31", "2021-03-31 00:00:00"):
        assert PeriodTexts(MONTHS, "%d.%m.%Y").label(text) == "2021-03"
        assert PeriodTexts(MONTHS, "%Y-%m-%d").label(text) == "2021-03"


def test_text_without_a_meaning_never_cuts_a_number():
    texts = PeriodTexts(YEARS, "{}%Y")
    assert texts.label("wave 2021") == "2021"
    assert texts.label("12021") == "12021"


def test_meanings_of_texts():
    meanings = {"baseline": "1", "wave{}": "{}", "Jan": "02"}
    texts = PeriodTexts(STEPS, meanings=meanings)
    found = [texts.label(t) for t in ("baseline", "wave3", "wave 03", "Jan", "wave9", "4", "w")]
    assert found == ["1", "3", "3", "2", "wave9", "4", "w"]
    with pytest.raises(UserError, match="map: 'period:x=9': not one of the study's, 1 to 5"):
        PeriodTexts(STEPS, meanings={"x": "9"})


def test_a_label_names_no_period_where_each_has_a_text():
    texts = PeriodTexts(STEPS, meanings={"0": "1", "6": "2", "12": "3", "18": "4", "24": "5"})
    found = [texts.label(t) for t in ("0", "06", "12.0", "24", "18 ")]
    assert found == ["1", "2", "3", "5", "4"]
    assert not {texts.label(t) for t in ("1", "2", "7", "x")} & STEPS.numbers.keys()
    odd = PeriodTexts(STEPS, meanings={"1": "1", "3": "2", "5": "3", "7": "4", "9": "5"})
    assert [odd.label(t) for t in ("1", "3", "5", "7", "9")] == [*"12345"]
    assert odd.label("4") not in STEPS.numbers


def test_two_digits_name_the_year_of_the_study_that_ends_with_them():
    years = Periods(every="year", first="1998", count=4)
    assert [PeriodTexts(years).label(t) for t in ("98", "00", "1.0", "01.0", " 99")] == [
        "1998",
        "2000",
        "1.0",
        "2001",
        "1999",
    ]
    century = Periods(every="year", first="1950", count=101)
    assert PeriodTexts(century).label("50") == "50"
    assert PeriodTexts(years, "%Y").label("98") == "98"


def test_days_of_a_zone():
    berlin = PeriodTexts(MONTHS, zone="Europe/Berlin")
    assert berlin.label("2021-01-31T23:00:00Z") == "2021-02"
    assert berlin.label("2021-01-31 22:59:00+00:00") == "2021-01"
    assert berlin.label("2021-01-31 23:30") == "2021-01"
    assert PeriodTexts(MONTHS, "timestamp-millis", "Europe/Berlin").label("1612134000000") == (
        "2021-02"
    )
    assert PeriodTexts(MONTHS).label("2021-01-31T23:00:00Z") == "2021-01"


def test_a_schedule_has_the_zone_of_its_study():
    close = {"zone": "Europe/Berlin"}
    periods = Periods(every="month", first="2021-01", count=12, close=close)
    assert PeriodTexts(periods).label("2021-01-31T23:00:00Z") == "2021-02"
    assert PeriodTexts(periods, zone="UTC").label("2021-01-31T23:00:00Z") == "2021-01"


@pytest.mark.parametrize(
    ("text", "lacks"),
    [
        ("2021-01-31T23:30:00-05:00", True),
        ("2021-01-31 23:30Z", True),
        ("2021-01-15", False),
        ("2021-01-31 23:30", False),
        ("2021-01", False),
    ],
)
def test_texts_that_lack_a_zone(text, lacks):
    assert PeriodTexts(MONTHS).lacks_zone(text) == lacks
    assert not PeriodTexts(MONTHS, zone="UTC").lacks_zone(text)


def test_unknown_zones_are_refused():
    with pytest.raises(UserError, match="zone: 'Berlin' is not a time zone"):
        PeriodTexts(MONTHS, zone="Berlin")


def test_steps_below_zero():
    texts = PeriodTexts(Periods(every="step", first="-2", count=4))
    assert [texts.label(t) for t in ("-2", "-1.0", "0", "-0", "1")] == ["-2", "-1", "0", "0", "1"]


def test_a_required_period_is_one_of_the_study():
    assert require_period(QUARTERS, "2021q3") == "2021-Q3"
    with pytest.raises(UserError, match="period '2024Q1': not one of the study's, 2021-Q1 to"):
        require_period(QUARTERS, "2024Q1")


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("2021-10-31 00:30", "2021-10-30T23Z"),
        ("2021-10-31 01:30", None),  # this time was there twice
        ("2021-10-31 02:00", "2021-10-31T02Z"),
        ("2021-10-31 01:30+01:00", "2021-10-31T00Z"),
        ("2021-10-31", None),
    ],
)
@pytest.mark.parametrize("dates", [None, "%Y-%m-%d %H:%M{}"])
def test_a_local_time_names_an_hour_where_the_zone_has_it_once(text, label, dates):
    if dates is not None and "+" in text:
        dates = "%Y-%m-%d %H:%M%z"
    assert PeriodTexts(HOURS, dates, zone="Europe/Lisbon").label(text) == (label or text)


@pytest.mark.parametrize("text", ["2021-01-31T24:00Z", "2021-01-31 24:00:00+01:00"])
def test_the_end_of_a_day_names_the_day_and_no_hour(text):
    """It would be the first hour of the next day."""
    hours = PeriodTexts(Periods(every="hour", first="2021-01-31T00Z", count=48, close="marker"))
    days = PeriodTexts(Periods(every="day", first="2021-01-31", count=2, close="marker"))
    assert hours.label(text) == text
    assert days.label(text) == "2021-01-31"


def test_a_time_that_the_clocks_skip_names_no_hour():
    spring = Periods(every="hour", first="2021-03-28T00Z", count=4)
    texts = PeriodTexts(spring, zone="Europe/Lisbon")
    assert texts.label("2021-03-28 01:30") == "2021-03-28 01:30"
    assert texts.label("2021-03-28 02:30") == "2021-03-28T01Z"


@pytest.mark.parametrize("dates", ["%Y-%m-%d", "date", "%tm", "%G-%V"])
def test_a_format_without_a_clock_decides_no_hour(dates):
    with pytest.raises(UserError, match="which decides no hour"):
        PeriodTexts(HOURS, dates)
