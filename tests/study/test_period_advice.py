"""The option that is advised for texts of periods reads them, and shows none of them."""

import re
import shlex

import pytest

from stream_dp.study.period_texts import PeriodTexts, period_advice
from stream_dp.study.periods import Periods

MONTHS = Periods(every="month", first="2021-01", count=4)
QUARTERS = Periods(every="quarter", first="2021-Q1", count=4)
WEEKS = Periods(every="week", first="2021-W01", count=8)
YEARS = Periods(every="year", first="2020", count=4)
STEPS = Periods(every="step", first="1", count=4)

ADVISED = [
    (MONTHS, ["Jan-21", "Feb-21"], "--dates '%b-%y'"),
    (MONTHS, ["21-01"], "--dates '%y-%m'"),
    (MONTHS, ["2021.1"], "--dates '%Y.%m'"),
    (MONTHS, ["2021-01-00"], "--dates '%Y-%m-00'"),
    (MONTHS, ["2021-1-5", "2021-2-13"], "--dates '%Y-%m-%d'"),
    (MONTHS, ["13.1.2021"], "--dates '%d.%m.%Y'"),
    (MONTHS, ["01.02.2021"], "--dates '%d.%m.%Y' or --dates '%m.%d.%Y'"),
    (MONTHS, ["31/01/2021 23:30"], "--dates '%d/%m/%Y {}'"),
    (MONTHS, ["310121", "150221"], "--dates '%d%m%y'"),
    (MONTHS, ["2021年1月"], "--dates '%Y年%m月'"),
    (MONTHS, ["732", "733"], "--dates '%tm'"),
    (MONTHS, ["22281", "22312"], "--dates '%td'"),
    (MONTHS, ["44197", "44228"], "--dates 'excel'"),
    (MONTHS, ["1609502400"], "--dates 'timestamp-seconds'"),
    (MONTHS, ["1609502400000"], "--dates 'timestamp-millis'"),
    (MONTHS, ["2021-12", "Dec 2021"], "they name others than 2021-01 to 2021-04"),
    (MONTHS, ["first month"], "--map 'period:TEXT=2021-01'"),
    (QUARTERS, ["2021:1"], "--dates '%Y:%q'"),
    (QUARTERS, ["2021 K1"], "--dates '%Y K%q'"),
    (QUARTERS, ["T1 2021", "T2 2021"], "--dates 'T%q %Y'"),
    (QUARTERS, ["1. Quartal 2021"], "--dates '%q. Quartal %Y'"),
    (QUARTERS, ["FY2021Q1"], "--dates 'FY%YQ%q'"),
    (QUARTERS, ["I/2021", "IV/2021"], "--dates '%q/%Y'"),
    (QUARTERS, ["2021M03"], "--dates '%YM%m'"),
    (WEEKS, ["KW 5/2021"], "--dates 'KW %V/%Y'"),
    (WEEKS, ["3172"], "--dates '%tw'"),
    (YEARS, ["FY2021"], "--dates 'FY%Y'"),
    (YEARS, ["2020/21", "2021/22"], "--dates '%Y/{}' or --dates '{}/%y'"),
    (YEARS, ["2021*"], "--dates '%Y*'"),
    (YEARS, ["'21"], """--dates ''"'"'%y'"""),
    (YEARS, ["Anna 2021"], "--dates '{} %Y'"),
    (STEPS, ["wave1", "wave2"], "--map 'period:wave{}={}'"),
    (STEPS, ["T01"], "--map 'period:T{}={}'"),
    (STEPS, ["baseline"], "--map 'period:TEXT=1'"),
    (STEPS, ["Anna1"], "--map 'period:TEXT=1'"),
]


def options_in(advice):
    found = re.findall(r"--(dates|map) ((?:'[^']*'|\"[^\"]*\")+)", advice)
    return [(name, shlex.split(quoted)[0]) for name, quoted in found]


@pytest.mark.parametrize(("periods", "texts", "advice"), ADVISED)
def test_the_advised_option_reads_the_texts(periods, texts, advice):
    shown = period_advice(periods, texts)
    assert advice in shown
    for name, option in options_in(shown):
        if name == "dates":
            reading = PeriodTexts(periods, option)
        else:
            text, _, label = option.removeprefix("period:").rpartition("=")
            reading = PeriodTexts(periods, meanings={text.replace("TEXT", texts[0]): label})
        assert reading.label(texts[0]) in periods.numbers
    assert "Anna" not in shown


def test_texts_of_several_kinds_are_told_of_the_others():
    shown = period_advice(MONTHS, ["Jan-21", "Feb-21", "?"])
    assert shown == "--dates '%b-%y'; for others --map 'period:TEXT=2021-01'"


def test_a_time_whose_day_in_its_zone_is_outside_is_no_other_format():
    """2021-01-01 in Berlin's summer time is a day of 2020 in UTC; day and month are not swapped."""
    shown = period_advice(MONTHS, ["2021-01-01T00:00:00+02:00", "2050-01-01"])
    assert shown.startswith("they name others than")
    assert "'%b-%y'" in period_advice(MONTHS, ["2021-01-01T00:00:00+02:00", "Jan-21"])


@pytest.mark.parametrize("texts", [["Q1.21", "Q2.21"], ["1Q.21", "2Q.21"]])
def test_a_number_beside_the_word_of_its_unit_has_no_other_meaning(texts):
    shown = period_advice(QUARTERS, texts)
    assert "%q" in shown
    assert "%m" not in shown
