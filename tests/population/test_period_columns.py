"""Columns that name periods: pandas' periods."""

import json

import pyarrow as pa
import pytest

from stream_dp.errors import UserError
from stream_dp.population.celltext import DAMAGED
from stream_dp.population.tables.period_columns import period_column
from stream_dp.study.period_texts import PeriodTexts
from stream_dp.study.periods import Periods

MONTHS = Periods(every="month", first="2021-01", count=12)
QUARTERS = Periods(every="quarter", first="2021-Q1", count=8)
WEEKS = Periods(every="week", first="2020-W53", count=10)
YEARS = Periods(every="year", first="2021", count=3)


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
