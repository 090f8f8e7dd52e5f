"""Periods in records: texts, numbers, and numbers that count the time since 1970."""

from __future__ import annotations

import re
from enum import Enum
from functools import cache, lru_cache

from stream_dp.study.date_formats import NUMBERS
from stream_dp.study.period_texts import PeriodTexts
from stream_dp.study.periods import CLOCK_UNITS, Periods

from .column_types import TIMES


class Odd(Enum):
    """Stands for a value other than text, whole numbers and null. Every attribute rejects it.

    ZONELESS: stands for a time whose period only a zone would decide.
    """

    VALUE = "odd"
    ZONELESS = "zoneless"


LOCAL = "local-"  # in the name of a type: the time has no zone
_EARLIEST, _LATEST = "Etc/GMT+12", "Etc/GMT-14"  # the clocks that are the furthest apart
_UTC = re.compile(r"[^Tt ]+[Tt ]([0-9:.,]+) ?(?:[Zz]|UTC|GMT|[+-]00(?::?00)?)")
_DAY = {"millis": 86_400_000, "micros": 86_400_000_000, "nanos": 86_400_000_000_000}
_DAY["seconds"] = 86_400


def counts_time(dates: str | None) -> bool:
    """Whether the key `dates` names numbers that count time, not a format of texts."""
    return dates is not None and (dates in NUMBERS or dates in TIMES)


class PeriodValues:
    """The labels of a study's periods by the values in a column.

    dates: a format of texts, or what numbers count: see the key `dates` of `[run.input]`.
    zone: the zone whose days count for times in UTC; by default the zone of the study's schedule.

    Without a zone a time in UTC counts in two cases: at midnight it stands for a date, and in the
    midst of a period it lies in the same period everywhere.
    """

    def __init__(self, periods: Periods, dates: str | None, zone: str | None) -> None:
        self._periods, self._zone = periods, zone
        self._kind = dates if counts_time(dates) else None
        self._format = None if counts_time(dates) else dates
        self._texts = PeriodTexts(periods, self._format, zone)
        self._labels, self._as_they_stand = periods.numbers, dates is None
        self._readers = cache(self._reader)
        self._text = lru_cache(1 << 16)(self._text_label)

    def label(self, value: object, kind: str) -> object:
        """Returns the label of the period that a value names.

        A value that names none is returned as it is, a number that counts time as None. A time
        whose period only a zone would decide is Odd.ZONELESS.

        kind: of the column's type. What the key `dates` declares comes first.
        """
        if value.__class__ is str:
            if self._as_they_stand and value in self._labels:
                return value
            return self._text(value)
        if value.__class__ is not int:
            return value
        kind = self._kind or kind
        if kind not in TIMES and kind not in NUMBERS:
            return value
        if self._periods.every == "step":
            return None
        return self._number_label(str(value), kind)

    def _number_label(self, text: str, kind: str) -> str | Odd | None:
        """The label of a number that counts time."""
        if self._periods.every in CLOCK_UNITS and kind.startswith((LOCAL, "date", "excel")):
            return self._local_label(text, kind)
        if kind.startswith(LOCAL):
            return self._known(self._readers(kind.removeprefix(LOCAL), "UTC").label(text))
        if self._texts.zone is None and kind.startswith("timestamp-"):
            midnight = int(text) % _DAY[kind.removeprefix("timestamp-")] == 0
            return self._everywhere(text, kind, midnight=midnight)
        return self._known(self._readers(kind, self._zone).label(text))

    def _local_label(self, text: str, kind: str) -> str | Odd | None:
        """The label of the hour or minute of local time that a number counts; None for days."""
        if not kind.startswith(LOCAL):
            return None
        if self._texts.zone is None:
            return Odd.ZONELESS
        try:
            written = NUMBERS[kind.removeprefix(LOCAL)][1](int(text)).written
        except OverflowError:
            return None
        return self._known(self._readers(None, self._zone).label(written.isoformat(" ")))

    def _text_label(self, text: str) -> str | Odd | None:
        if self._kind is not None and re.fullmatch("-?[0-9]+", text, re.ASCII):
            return self.label(int(text), "")  # type: ignore[return-value]
        utc = None if self._texts.zone is not None else _UTC.fullmatch(text.strip())
        if utc is None or self._periods.every == "step":
            return self._texts.label(text)
        return self._everywhere(text, self._format, midnight=not utc[1].strip("0:.,"))

    def _everywhere(self, text: str, dates: str | None, *, midnight: bool) -> str | Odd | None:
        """The label of a time in UTC without a declared zone."""
        zones = ("UTC", "UTC") if midnight else (_EARLIEST, _LATEST)
        first, last = (self._readers(dates, zone).label(text) for zone in zones)
        return self._known(first) if first == last else Odd.ZONELESS

    def _known(self, label: str) -> str | None:
        return label if label in self._labels else None

    def _reader(self, dates: str | None, zone: str | None) -> PeriodTexts:
        return PeriodTexts(self._periods, dates, zone)
