"""The periods of wide columns by the texts of their names: named, in order, or refused."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dp.errors import UserError
from stream_dp.population.tables.column_order import ColumnOrder
from stream_dp.study.period_texts import PeriodTexts
from stream_dp.study.periods import Periods

MONTHS = Periods(every="month", first="2021-01", count=24)
YEAR = Periods(every="month", first="2021-01", count=12)
QUARTERS = Periods(every="quarter", first="2021-Q3", count=4)
DAYS = Periods(every="day", first="2021-02-01", count=7)
YEARS = Periods(every="year", first="1998", count=4)
STEPS = Periods(every="step", first="1", count=6)


def assign(periods, texts, start="", languages=()):
    order = ColumnOrder(periods, PeriodTexts(periods), languages)
    found = {f"x_{text}": text for text in texts}
    return list(order.assign("x_{}", found, start).values())


@pytest.mark.parametrize(
    ("periods", "texts", "labels"),
    [
        (MONTHS, "2021-04 2021-01 2021-03", "2021-04 2021-01 2021-03"),
        (MONTHS, "2021.04.01 2021.02.01", "2021-04 2021-02"),
        (MONTHS, "Apr2021 Jan2022", "2021-04 2022-01"),
        (YEAR, "apr aug dec feb jan", "2021-04 2021-08 2021-12 2021-02 2021-01"),
        (MONTHS, "jan feb mar", "2021-01 2021-02 2021-03"),
        (MONTHS, "1 2 3", "2021-01 2021-02 2021-03"),
        (MONTHS, "0 1 2", "2021-01 2021-02 2021-03"),
        (MONTHS, "M01 M02 M03", "2021-01 2021-02 2021-03"),
        (QUARTERS, "2022Q1 2021Q4", "2022-Q1 2021-Q4"),
        (QUARTERS, "Q3 Q4 Q1 Q2", "2021-Q3 2021-Q4 2022-Q1 2022-Q2"),
        (QUARTERS, "Q1 Q3", "2022-Q1 2021-Q3"),
        (DAYS, "Fri Mon", "2021-02-05 2021-02-01"),
        (YEARS, "98 99 00 01", "1998 1999 2000 2001"),
        (YEARS, "2000 1998", "2000 1998"),
        (STEPS, "1 2 3", "1 2 3"),
        (STEPS, "2 3 4", "2 3 4"),
        (STEPS, "1.0 2.0", "1 2"),
        (STEPS, "T1 T2 T3", "1 2 3"),
        (STEPS, "T0 T1 T2", "1 2 3"),
        (STEPS, "I II III IV V", "1 2 3 4 5"),
        (STEPS, "a b c", "1 2 3"),
        (STEPS, "wa wb wc", "1 2 3"),
        (STEPS, "c d e", "3 4 5"),
        (STEPS, "Mon Tue Wed", "1 2 3"),
        (STEPS, "Nov Dec Jan", "1 2 3"),
        (STEPS, "2009 2010 2011", "1 2 3"),
        (STEPS, "98 99 00", "1 2 3"),
        (STEPS, "baseline 6m 12m 24m", "1 2 3 4"),
        (STEPS, "bl fu1 fu2", "1 2 3"),
        (STEPS, "pre post followup", "1 2 3"),
    ],
)
def test_columns_have_the_periods_that_their_texts_tell(periods, texts, labels):
    assert assign(periods, texts.split()) == labels.split()


def test_names_of_months_in_a_declared_language():
    assert assign(YEAR, ["mai", "märz"], languages=["de"]) == ["2021-05", "2021-03"]


def test_a_first_period_puts_numbers_in_order():
    assert assign(MONTHS, ["4", "5"], "2021-04") == ["2021-04", "2021-05"]
    assert assign(STEPS, ["3", "4"], "1") == ["1", "2"]
    assert assign(MONTHS, ["1", "2"], "Apr 2021") == ["2021-04", "2021-05"]


REFUSED = [
    (MONTHS, "apr feb jan"),
    (MONTHS, "feb mar"),
    (MONTHS, "hours jan feb mar"),
    (MONTHS, "Fri Mon Thu"),
    (MONTHS, "4 5 6"),
    (MONTHS, "2018 2019 2020"),
    (MONTHS, "2020-12 2021-01"),
    (MONTHS, "02 01 03"),
    (MONTHS, "6m 12m"),
    (QUARTERS, "Q2 Q1 Q5"),
    (YEARS, "97 98"),
    (YEARS, "2017 2018"),
    (STEPS, "T1 T2 T10 T3"),
    (STEPS, "1 2 4"),
    (STEPS, "1.0 2.0 4.0"),
    (STEPS, "5 6 7"),
    (STEPS, "I II IV"),
    (STEPS, "a b d"),
    (STEPS, "bl fu1 fu3"),
    (STEPS, "post pre"),
    (STEPS, "24m 12m"),
    (STEPS, "red green"),
    (STEPS, "Mon Wed"),
    (STEPS, "0.5 1.5"),
]


@pytest.mark.parametrize(("periods", "texts"), REFUSED)
def test_columns_whose_texts_tell_no_order_are_refused_with_an_option_that_works(periods, texts):
    names = texts.split()
    with pytest.raises(UserError, match="do not tell their periods") as refused:
        assign(periods, names)
    for option in re.findall("--columns '([^']*)'", str(refused.value)):
        chosen = dict(pair.rsplit("=", 1) for pair in option.split(","))
        for source, meant in chosen.items():
            if meant.endswith("..."):
                stem = source.partition("{}")[0].removeprefix("x_")
                rest = [n.removeprefix(stem) for n in names if f"x_{n}" not in chosen]
                assert assign(periods, rest, meant.removesuffix("..."))
            elif meant not in ("", "{}"):
                assert meant in periods.numbers
                assert source.removeprefix("x_") in names


@given(st.permutations(["1", "2", "3", "4", "5"]), st.sampled_from(["", "T", "wave", "x."]))
def test_numbers_out_of_order_are_never_taken_in_the_order_of_the_file(numbers, stem):
    for periods in (MONTHS, STEPS, YEARS):
        try:
            labels = assign(periods, [stem + number for number in numbers])
        except UserError:
            continue
        assert labels == sorted(labels)
        assert numbers == sorted(numbers)
