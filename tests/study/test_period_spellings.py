"""Usual spellings of periods: nine of ten are read as they are, or with one option."""

import pytest

from stream_dp.population.tables.period_columns import month_names
from stream_dp.study.period_texts import PeriodTexts
from stream_dp.study.periods import Periods

AS_IT_IS = None  # needs no option
REFUSED = "no option"
FRENCH = "--language fr"

# By length: the first period, the label of every text, and the texts with the option they need:
# a format of --dates, a meaning of --map, or a language.
MONTHS = {
    "2021-01": AS_IT_IS,
    "2021-1": AS_IT_IS,
    "2021/1": AS_IT_IS,
    "01/2021": AS_IT_IS,
    "1/2021": AS_IT_IS,
    "01.2021": AS_IT_IS,
    "Jan 2021": AS_IT_IS,
    "Jan-21": "%b-%y",
    "January 2021": AS_IT_IS,
    "2021 Jan": AS_IT_IS,
    "2021 M1": AS_IT_IS,
    "2021m1": AS_IT_IS,
    "2021M1": AS_IT_IS,
    "M01 2021": AS_IT_IS,
    "2021.01": AS_IT_IS,
    "2021.1": "%Y.%m",
    "2021_01": AS_IT_IS,
    "2021 01": AS_IT_IS,
    "21-01": "%y-%m",
    "202101": AS_IT_IS,
    "202101.0": AS_IT_IS,
    "2021-01-00": "%Y-%m-00",
    "2021-01-15T00:00:00": AS_IT_IS,
    "2021-01-15 00:00:00.000": AS_IT_IS,
    "2021-01-15T00:00:00.000Z": AS_IT_IS,
    "2021-1-5": "%Y-%m-%d",
    "15 Jan 2021": AS_IT_IS,
    "15JAN2021": AS_IT_IS,
    "15jan2021 10:30:00": AS_IT_IS,
    "Jan 15, 2021": AS_IT_IS,
    "Fri, 15 Jan 2021 10:00:00 GMT": "%a, %d %b %Y %H:%M:%S %z",
    "2021/01/15 00:00": AS_IT_IS,
    "20210115 00:00": AS_IT_IS,
    "20210115T000000": AS_IT_IS,
    "1.1.2021": "%d.%m.%Y",
    "01/31/2021": "%m/%d/%Y",
    "2021年1月": "%Y年%m月",
    "janv. 2021": FRENCH,
    "15 janvier 2021": FRENCH,
    "1609502400": "timestamp-seconds",
    "1609502400000": "timestamp-millis",
    "732": "%tm",
    "22281": "%td",
    "44211": "excel",
    "Jan/21": "%b/%y",
    "2021-Jan": AS_IT_IS,
    "Jan2021": AS_IT_IS,
    "2021-01-15T10:00:00+05": AS_IT_IS,
    "2021-01-15T10:00:00 UTC": AS_IT_IS,
    "2021-01-15 10:00:00 PM": AS_IT_IS,
    "2021-01-15 24:00": AS_IT_IS,
    "２０２１-０１": AS_IT_IS,
    "Month 1 of 2021": "Month %m of %Y",
    "first month": "{first month=2021-01}",
}
QUARTERS = {
    "2021-Q1": AS_IT_IS,
    "2021Q1": AS_IT_IS,
    "2021q1": AS_IT_IS,
    "Q1 2021": AS_IT_IS,
    "Q1-2021": AS_IT_IS,
    "Q1/2021": AS_IT_IS,
    "Q12021": AS_IT_IS,
    "1Q2021": AS_IT_IS,
    "1Q21": "%qQ%y",
    "2021 Q1": AS_IT_IS,
    "2021.1": "%Y.%q",
    "2021:1": "%Y:%q",
    "2021-1": "%Y-%q",
    "2021 K1": "%Y K%q",
    "T1 2021": "T%q %Y",
    "2021-03-31": AS_IT_IS,
    "2021M03": "%YM%m",
    "202103": "%Y%m",
    "1. Quartal 2021": "%q. Quartal %Y",
    "1st quarter 2021": "%q{} quarter %Y",
    "FY2021Q1": "FY%YQ%q",
    "FY21 Q1": "FY%y Q%q",
    "Q1 FY2021": "Q%q FY%Y",
    "2021-Q01": AS_IT_IS,
    "2021Q1p": "%YQ%q{}",
    "I/2021": "%q/%Y",
    "2021-I": "%Y-%q",
    "244": "%tq",
    "Jan-Mar 2021": "%b-{} %Y",
    "Mar 2021": "%b %Y",
}
WEEKS = {
    "2021-W05": AS_IT_IS,
    "2021W05": AS_IT_IS,
    "2021w5": AS_IT_IS,
    "2021-W5": AS_IT_IS,
    "2021 W05": AS_IT_IS,
    "W05 2021": AS_IT_IS,
    "W5/2021": AS_IT_IS,
    "W05-2021": AS_IT_IS,
    "2021-W05-1": AS_IT_IS,
    "2021-02-01": AS_IT_IS,
    "20210201": AS_IT_IS,
    "1 Feb 2021": AS_IT_IS,
    "2021-05": "%G-%V",
    "202105": "%G%V",
    "5/2021": "%V/%Y",
    "05/21": "%V/%y",
    "KW 5/2021": "KW %V/%Y",
    "KW05 2021": "KW%V %G",
    "Week 5, 2021": "Week %V, %Y",
    "2021-week-05": "%Y-week-%V",
    "01/02/2021": "%d/%m/%Y",
    "3176": "%tw",
    "week ending 7 Feb 2021": "week ending %d %b %Y",
}
YEARS = {
    "2021": AS_IT_IS,
    "2021.0": AS_IT_IS,
    "21": AS_IT_IS,
    "21.0": AS_IT_IS,
    "FY2021": "FY%Y",
    "2021/22": "%Y/{}",
    "2020/21": "{}/%y",
    "2021-22": "%Y-{}",
    "2021-2022": "%Y-{}",
    "2021-06-30": AS_IT_IS,
    "AY2021": "AY%Y",
    "2021*": "%Y{}",
    "wave 2021": "wave %Y",
    "'21": "'%y",
    "2021 ": AS_IT_IS,
    "２０２１": AS_IT_IS,
    "30 Jun 2021": AS_IT_IS,
    "Jun 2021": "%b %Y",
    "202106": "%Y%m",
}
STEPS = {
    "1": AS_IT_IS,
    "01": AS_IT_IS,
    "1.0": AS_IT_IS,
    "wave1": "{wave{}={}}",
    "Wave 1": "{Wave {}={}}",
    "W1": "{W{}={}}",
    "t1": "{t{}={}}",
    "T01": "{T{}={}}",
    "baseline": "{baseline=1}",
    "I": "{I=1}",
    "1 ": AS_IT_IS,
    "1st": "{{}st={}}",
}
SPELLINGS = {
    "month": ("2021-01", MONTHS),
    "quarter": ("2021-Q1", QUARTERS),
    "week": ("2021-W05", WEEKS),
    "year": ("2021", YEARS),
    "step": ("1", STEPS),
}


def texts_with(every, option):
    first = SPELLINGS[every][0]
    periods = Periods(every=every, first=first, count=8)
    if option is AS_IT_IS:
        return PeriodTexts(periods)
    if option == FRENCH:
        return PeriodTexts(periods, months=month_names(["fr"]))
    if option.startswith("{") and "=" in option:
        text, _, label = option[1:-1].rpartition("=")
        return PeriodTexts(periods, meanings={text: label})
    return PeriodTexts(periods, option)


@pytest.mark.parametrize(
    ("every", "text", "option"),
    [(every, text, option) for every, (_, s) in SPELLINGS.items() for text, option in s.items()],
)
def test_a_spelling_is_read_with_the_option_that_it_needs(every, text, option):
    assert texts_with(every, option).label(text) == SPELLINGS[every][0]
    if option is not AS_IT_IS:
        assert texts_with(every, AS_IT_IS).label(text) != SPELLINGS[every][0]
