"""Periods: labels of every unit, and the moments at which they close and are released."""

from datetime import date, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from stream_dp.study.period_texts import PeriodTexts
from stream_dp.study.periods import Periods, Schedule, duration_seconds

HOUR = 3600


def utc(*when):
    return datetime(*when, tzinfo=ZoneInfo("UTC")).timestamp()


@pytest.mark.parametrize(
    ("every", "first", "labels"),
    [
        ("minute", "2020-12-31T23:59Z", ["2020-12-31T23:59Z", "2021-01-01T00:00Z"]),
        ("hour", "2024-02-28T23Z", ["2024-02-28T23Z", "2024-02-29T00Z", "2024-02-29T01Z"]),
        ("day", "2024-02-28", ["2024-02-28", "2024-02-29", "2024-03-01"]),
        ("day", "2023-02-28", ["2023-02-28", "2023-03-01"]),
        ("day", "2021-12-31", ["2021-12-31", "2022-01-01"]),
        ("week", "2020-W52", ["2020-W52", "2020-W53", "2021-W01"]),
        ("week", "2021-W52", ["2021-W52", "2022-W01"]),
        ("week", "2024-W52", ["2024-W52", "2025-W01"]),
        ("month", "2021-11", ["2021-11", "2021-12", "2022-01", "2022-02"]),
        ("quarter", "2021-Q3", ["2021-Q3", "2021-Q4", "2022-Q1"]),
        ("year", "1999", ["1999", "2000", "2001"]),
        ("step", "1", ["1", "2", "3"]),
        ("step", "41", ["41", "42"]),
        ("step", "-1", ["-1", "0", "1"]),
    ],
)
def test_labels(every, first, labels):
    periods = Periods(first=first, every=every, count=len(labels))
    assert list(periods.labels) == labels
    assert periods.numbers == {label: i for i, label in enumerate(labels, 1)}


@given(st.dates(date(1900, 1, 1), date(2200, 1, 1)), st.integers(1, 800))
def test_calendar_labels_are_consecutive_and_iso(first, count):
    days = Periods(first=first.isoformat(), every="day", count=count)
    assert days.labels[-1] == (first + timedelta(days=count - 1)).isoformat()
    year, week, _ = first.isocalendar()
    weeks = Periods(first=f"{year:04d}-W{week:02d}", every="week", count=count)
    year, week, _ = (first + timedelta(weeks=count - 1)).isocalendar()
    assert weeks.labels[-1] == f"{year:04d}-W{week:02d}"
    months = Periods(first=f"{first:%Y-%m}", every="month", count=count)
    number = first.year * 12 + first.month - 1 + count - 1
    assert months.labels[-1] == f"{number // 12:04d}-{number % 12 + 1:02d}"
    for periods in (days, weeks, months):
        assert len(set(periods.labels)) == count


@pytest.mark.parametrize(
    ("every", "first"),
    [
        ("minute", "2021-01-31T05:07"),
        ("minute", "2021-01-31T05:60Z"),
        ("hour", "2021-01-31T24Z"),
        ("hour", "2021-01-31T05"),
        ("hour", "2021-01-31"),
        ("hour", "9999-12-31T22Z"),
        ("day", "2021-02-29"),
        ("day", "2021-01"),
        ("week", "2021-W53"),
        ("week", "2021-W00"),
        ("week", "2021-05"),
        ("month", "2021-13"),
        ("month", "2021-00"),
        ("month", "2021-1"),
        ("month", "2021-01-01"),
        ("quarter", "2021-Q5"),
        ("year", "21"),
        ("year", "0000"),
        ("step", "--1"),
        ("step", "one"),
        ("day", "9999-12-31"),
    ],
)
def test_a_first_period_that_does_not_exist_is_refused_with_an_example(every, first):
    with pytest.raises(ValidationError, match=f"must name an? {every} such as '"):
        Periods(first=first, every=every, count=2)


def test_a_first_period_may_be_a_number_or_a_date():
    assert Periods(first=2021, every="year", count=1).labels == ("2021",)
    assert Periods(first=1, every="step", count=1).labels == ("1",)
    assert Periods(first=date(2021, 1, 31), every="day", count=1).labels == ("2021-01-31",)


@pytest.mark.parametrize(
    ("text", "length"), [("3d", 259200), ("12h", 43200), ("30m", 1800), ("10s", 10), ("0s", 0)]
)
def test_lengths_of_time(text, length):
    assert duration_seconds(text) == length


@pytest.mark.parametrize("text", ["", "3", "d", "3 d", "-1h", "1.5h", "3w", "1h30m", "3D"])
def test_other_lengths_of_time_are_refused(text):
    with pytest.raises(ValueError, match="'3d', '12h'"):
        duration_seconds(text)
    with pytest.raises(ValidationError, match="'3d', '12h'"):
        Schedule(zone="UTC", grace=text)


def test_the_longest_time_from_a_periods_first_moment_to_its_close():
    months = {"first": "2026-01", "every": "month", "count": 3}
    assert Periods(**months).longest == 31 * 86400
    late = Schedule(zone="UTC", at="06:30:00", grace="3d")
    assert Periods(**months, close=late).longest == 34 * 86400 + 6.5 * 3600
    assert Periods(first=1, every="step", count=3).longest == 0


def test_a_marker_has_no_close_time_and_a_release_time_at_the_end_of_the_period():
    months = Periods(first="2021-11", every="month", count=3)
    assert [months.close_time(i) for i in (1, 2, 3)] == [None] * 3
    ends = [utc(2021, 12, 1), utc(2022, 1, 1), utc(2022, 2, 1)]
    assert [months.release_time(i) for i in (1, 2, 3)] == ends
    steps = Periods(first="1", every="step", count=3)
    assert steps.release_time(1) is None


@pytest.mark.parametrize(
    ("every", "first", "end"),
    [
        ("minute", "2024-02-28T23:59Z", (2024, 2, 29)),
        ("hour", "2024-02-28T22Z", (2024, 2, 28, 23)),
        ("day", "2024-02-28", (2024, 2, 29)),
        ("week", "2020-W53", (2021, 1, 4)),
        ("month", "2021-12", (2022, 1, 1)),
        ("quarter", "2021-Q4", (2022, 1, 1)),
        ("year", "2023", (2024, 1, 1)),
    ],
)
def test_every_unit_closes_when_it_ends(every, first, end):
    periods = Periods(first=first, every=every, count=1, close={"zone": "UTC", "delay": "0s"})
    assert periods.close_time(1) == periods.release_time(1) == utc(*end)


@pytest.mark.parametrize(("every", "seconds"), [("hour", HOUR), ("minute", 60)])
@settings(max_examples=30)
@given(
    # Clocks change in Lisbon within the last two days, and on Lord Howe within those before.
    st.datetimes(datetime(1990, 1, 1), datetime(2035, 1, 1))
    | st.datetimes(datetime(2021, 10, 1), datetime(2021, 10, 2, 15))
    | st.datetimes(datetime(2021, 10, 30), datetime(2021, 10, 31)),
    st.integers(1, 60),
    st.sampled_from(["UTC", "Europe/Lisbon", "Australia/Lord_Howe", "Asia/Kolkata"]),
)
def test_hours_and_minutes_are_unique_in_every_zone_and_close_at_their_end(
    every, seconds, first, count, zone
):
    form = "%Y-%m-%dT%HZ" if every == "hour" else "%Y-%m-%dT%H:%MZ"
    close = {"zone": zone, "grace": "30s", "delay": "10s"}
    periods = Periods(first=f"{first:{form}}", every=every, count=count, close=close)
    start = datetime.strptime(periods.first, form).replace(tzinfo=ZoneInfo("UTC")).timestamp()
    assert len(periods.numbers) == count
    for i, label in enumerate(periods.labels):
        moment = datetime.fromtimestamp(start + i * seconds, ZoneInfo("UTC"))
        assert label == f"{moment:{form}}"
        assert periods.close_time(i + 1) == start + (i + 1) * seconds + 30
        assert periods.release_time(i + 1) == periods.close_time(i + 1) + 10
        assert periods.days(i + 1) == (moment.date(), moment.date())
        # What a report may write instead: local time with its distance from UTC.
        local = moment.astimezone(ZoneInfo(zone)).isoformat()
        assert PeriodTexts(periods).label(local) == label
    assert periods.longest == seconds + 30


def test_hours_have_no_time_of_day_at_which_they_close():
    with pytest.raises(ValidationError, match="at: every hour closes at its end; leave 'at' out"):
        Periods(first="2021-01-31T05Z", every="hour", count=2, close={"zone": "UTC", "at": "06:00"})


def test_grace_and_delay_follow_the_local_time():
    close = {"zone": "America/New_York", "at": "06:30", "grace": "2d", "delay": "15m"}
    months = Periods(first="2021-01", every="month", count=12, close=close)
    assert months.close_time(1) == utc(2021, 2, 3, 11, 30)
    assert months.close_time(6) == utc(2021, 7, 3, 10, 30)
    assert all(months.release_time(i) == months.close_time(i) + 900 for i in range(1, 13))


def test_daylight_saving_moves_the_close_by_an_hour():
    """Lisbon, 2021: clocks go forward on 28 March and back on 31 October, at 01:00 UTC."""
    days = Periods(first="2021-01-01", every="day", count=365, close={"zone": "Europe/Lisbon"})
    closes = [days.close_time(i) for i in range(1, 366)]
    gaps = {days.labels[i]: closes[i] - closes[i - 1] for i in range(1, 365)}
    odd = {label: gap / HOUR for label, gap in gaps.items() if gap != 24 * HOUR}
    assert odd == {"2021-03-28": 23, "2021-10-31": 25}


@pytest.mark.parametrize(
    ("zone", "year"),
    [
        ("Pacific/Apia", 2011),  # without 30 December
        ("Australia/Lord_Howe", 2021),  # half an hour
        ("Antarctica/Troll", 2021),  # two hours
        ("Africa/Casablanca", 2021),  # around Ramadan
        ("Africa/Cairo", 2023),  # at midnight
    ],
)
def test_no_change_of_the_clocks_lets_a_period_close_before_an_earlier_one(zone, year):
    for at in ("00:00", "00:30", "02:15", "23:59"):
        close = {"zone": zone, "at": at}
        days = Periods(first=f"{year}-01-01", every="day", count=365, close=close)
        closes = [days.close_time(i) for i in range(1, 366)]
        assert all(0 <= b - a <= 48 * HOUR for a, b in pairwise(closes))
        assert any(b - a != 24 * HOUR for a, b in pairwise(closes))


def test_local_times_that_are_skipped_or_repeated_have_one_moment():
    close = {"zone": "Europe/Berlin", "at": time(2, 30)}
    days = Periods(first="2021-01-01", every="day", count=365, close=close)
    assert days.close_time(days.numbers["2021-03-27"]) == utc(2021, 3, 28, 1, 30)
    assert days.close_time(days.numbers["2021-10-30"]) == utc(2021, 10, 31, 0, 30)


@pytest.mark.parametrize("zone", ["", "Mars/Olympus", "../etc/passwd", "Europe", "/etc/localtime"])
def test_unknown_zones_are_refused(zone):
    with pytest.raises(ValidationError, match="not a time zone"):
        Schedule(zone=zone)


def test_steps_have_no_calendar():
    with pytest.raises(ValidationError, match="calendar periods"):
        Periods(first="1", every="step", count=3, close={"zone": "UTC"})


@pytest.mark.parametrize("at", [9, 32400, "09:00+02:00", "09:00Z"])
def test_a_closing_time_is_a_local_time_of_day(at):
    """Not a number of seconds, and not in a zone of its own that the schedule would ignore."""
    with pytest.raises(ValidationError):
        Schedule(zone="Europe/Lisbon", at=at)


@pytest.mark.parametrize(("count", "words"), [(1, "one period, 3"), (2, "2 periods, 3 to 4")])
def test_the_extent_in_words(count, words):
    assert Periods(every="step", first="3", count=count).extent == words
