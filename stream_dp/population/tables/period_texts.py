"""Reads texts of periods: labels in other spellings, dates, and pandas' periods.

Each text is read alone, by fixed rules that depend on the study only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Any

import pyarrow as pa

from stream_dp.errors import UserError
from stream_dp.study.periods import Periods

from ..celltext import DAMAGED, cell_text

# Other spellings of a label, by the length of the study's periods; the groups are year and number.
_SPELLINGS = {
    "week": (r"(\d{4})[-/ ]?[Ww](\d{2})",),
    "month": (r"(\d{4})(?:[-/.]|[- ]?[Mm])?(\d{2})",),
    "quarter": (r"(\d{4})[-/ ]?[Qq]([1-4])", r"[Qq](?P<number>[1-4])[-/ ](?P<year>\d{4})"),
}
_LABELS = {"week": "{}-W{}", "month": "{}-{}", "quarter": "{}-Q{}"}
_CLOCK = r"(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?: ?(?:Z|[+-]\d{2}:?\d{2}))?)?"
_DATES = (
    re.compile(r"(\d{4})-(\d{2})-(\d{2})" + _CLOCK),
    re.compile(r"(\d{4})/(\d{2})/(\d{2})"),
    re.compile(r"(\d{4})(\d{2})(\d{2})"),
)
_WEEK_DATE = re.compile(r"(\d{4})-W(\d{2})-([1-7])")
_PANDAS = "pandas.period"
_EPOCH = date(1970, 1, 1)


class PeriodTexts:
    """The labels of a study's periods by the texts that name them.

    dates: the format of dates other than ISO 8601, as `strptime` reads it.

    >>> texts = PeriodTexts(Periods(every="month", first="2021-01", count=12))
    >>> [texts.label(text) for text in ("2021-01", "2021-01-31", "202103", "2021M04", "May")]
    ['2021-01', '2021-01', '2021-03', '2021-04', 'May']
    """

    def __init__(self, periods: Periods, dates: str | None = None) -> None:
        self._periods, self._dates = periods, dates
        self.label: Callable[[str], str] = lru_cache(1 << 16)(self._label)

    def is_period(self, text: str) -> bool:
        """Tells whether a text names a period of this length, of the study or not."""
        return self._named(text) is not None

    def _label(self, text: str) -> str:
        """Returns the label of the study's period with this text, else the text."""
        if text in self._periods.numbers:
            return text
        label = self._named(text)
        return label if label in self._periods.numbers else text

    def _named(self, text: str) -> str | None:
        """Returns the label of the period with this text, of the study or not.

        Returns None if the text names no period.
        """
        length, text = self._periods.every, text.strip()
        if length == "step":
            return text if re.fullmatch(r"[0-9]{1,9}", text) else None
        if length == "year" and re.fullmatch(r"[0-9]{4}", text):
            return text
        for spelling in _SPELLINGS.get(length, ()):
            if match := re.fullmatch(spelling, text, re.ASCII):
                named = match.groupdict() or {"year": match[1], "number": match[2]}
                return _LABELS[length].format(named["year"], named["number"])
        try:
            day = self._day(text)
            return None if day is None else self._periods.label_of(day)
        except ValueError:
            return None

    def _day(self, text: str) -> date | None:
        """Parses a date. Raises ValueError for a date outside of the calendar."""
        if self._dates is not None:
            try:
                return datetime.strptime(text, self._dates).date()
            except ValueError:
                pass
        for shape in _DATES:
            if match := shape.fullmatch(text):
                return date(*map(int, match.groups()))
        if match := _WEEK_DATE.fullmatch(text):
            return date.fromisocalendar(int(match[1]), int(match[2]), int(match[3]))
        return None


def check_date_format(text: str) -> str:
    """Checks the format of `--dates`, with year, month and day. Raises UserError."""
    try:
        day = date(2031, 11, 23)
        if datetime.strptime(day.strftime(text), text).date() == day:
            return text
    except (ValueError, re.error):
        pass
    raise UserError("--dates: write a format such as '%d.%m.%Y', with year, month and day")


def period_column(column: pa.Array, field: pa.Field) -> pa.Array:
    """Converts a column of periods to text, pandas' PeriodDtype to dates. Raises UserError."""
    frequency = _pandas_frequency(field)
    if frequency is None:
        return cell_text(column, field.name, DAMAGED)
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    first_day = _FIRST_DAYS.get(frequency)
    if first_day is None:
        raise UserError(
            f"column '{field.name}': holds pandas periods of frequency {frequency}, which are no"
            " days, ISO weeks, months, calendar quarters or years; write dates or text"
        )
    days = [None if n is None else _day(n, first_day) for n in column.to_pylist()]
    return pa.array(days, pa.string())


def _day(ordinal: int, first_day: Callable[[int], date]) -> str:
    """Returns the first day of a period, or `DAMAGED` outside of every calendar."""
    try:
        return first_day(ordinal).isoformat()
    except (OverflowError, ValueError):
        return DAMAGED


def _pandas_frequency(field: pa.Field) -> str | None:
    """Returns the frequency of pandas' periods.

    Returns None for another column, and an empty text for an unknown frequency.
    """
    kind: Any = field.type
    if isinstance(kind, pa.BaseExtensionType) and kind.extension_name == _PANDAS:
        serialized = kind.__arrow_ext_serialize__()
    elif (field.metadata or {}).get(b"ARROW:extension:name") == _PANDAS.encode():
        serialized = field.metadata.get(b"ARROW:extension:metadata", b"")
    else:
        return None
    try:
        return str(json.loads(serialized)["freq"])
    except (ValueError, KeyError, TypeError):
        return ""


def _month(ordinal: int) -> date:
    return date(1970 + ordinal // 12, ordinal % 12 + 1, 1)


# By pandas' frequency: the first day of a period from its ordinal, which counts from 1970.
_FIRST_DAYS: dict[str, Callable[[int], date]] = {
    "D": lambda n: _EPOCH + timedelta(days=n),
    "W-SUN": lambda n: _EPOCH + timedelta(days=7 * (n - 1) - 3),
    "M": _month,
    "Q-DEC": lambda n: _month(3 * n),
    "A-DEC": lambda n: date(1970 + n, 1, 1),
    "Y-DEC": lambda n: date(1970 + n, 1, 1),
}
