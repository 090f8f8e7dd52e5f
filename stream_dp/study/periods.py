"""Periods: the calendar units of a study, with their labels and times of closing."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    field_validator,
    model_validator,
)

MOST_OPEN = 600  # periods of a study without a horizon
WITHOUT_HORIZON = "a study with periods.count = 'open' has no last period"
PeriodUnit = Literal["minute", "hour", "day", "week", "month", "quarter", "year", "step"]
# Their periods are those of UTC: where clocks change, an hour of local time is there twice.
CLOCK_UNITS: tuple[PeriodUnit, ...] = ("minute", "hour")

_SHAPE = {
    "minute": r"(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2})Z",
    "hour": r"(\d{4})-(\d{2})-(\d{2})T(\d{2})Z",
    "day": r"(\d{4})-(\d{2})-(\d{2})",
    "week": r"(\d{4})-W(\d{2})",
    "month": r"(\d{4})-(\d{2})",
    "quarter": r"(\d{4})-Q([1-4])",
    "year": r"(\d{4})",
    "step": r"(-?\d{1,9})",
}
EXAMPLES: dict[PeriodUnit, str] = {
    "minute": "2021-01-31T05:07Z",
    "hour": "2021-01-31T05Z",
    "day": "2021-01-31",
    "week": "2021-W05",
    "month": "2021-01",
    "quarter": "2021-Q1",
    "year": "2021",
    "step": "1",
}
# Characters of an ISO date and time that name a period.
_LENGTHS = {"year": 4, "month": 7, "day": 10, "hour": 13, "minute": 16}
_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}


def duration_seconds(text: str) -> int:
    """The length of '3d', '12h', '30m' or '10s' in seconds. Raises ValueError on anything else."""
    match = re.fullmatch(r"(\d{1,6})([dhms])", text)
    if match is None:
        raise ValueError("write a length of time as '3d', '12h', '30m' or '10s'")
    return int(match[1]) * _UNITS[match[2]]


class Schedule(BaseModel):
    """Close by the calendar: `grace` after `at` (local time) on the day the period ends.

    Hours and minutes close `grace` after their end.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    zone: str
    """The time zone of `at`, such as `Europe/Lisbon`."""
    at: time = time(0)
    """The local time of day, on the day after the period's last. Hours and minutes have none."""
    grace: str = "0s"
    """How long after `at` reports are still accepted: `3d`, `12h`, `30m`, `10s`."""
    delay: str = "1h"
    """The time from the close to publication. It must be longer than the longest close, because
    otherwise the moment of publication follows the volume of reports."""

    @field_validator("zone")
    @classmethod
    def _known(cls, zone: str) -> str:
        try:
            ZoneInfo(zone)
        except (KeyError, ValueError, OSError):
            raise ValueError("not a time zone; write one like 'Europe/Lisbon' or 'UTC'") from None
        return zone

    @field_validator("at", mode="before")
    @classmethod
    def _time_of_day(cls, at: object) -> object:
        if isinstance(at, str) and re.fullmatch(r"\d{2}:\d{2}(:\d{2})?", at):
            return at
        if isinstance(at, time) and at.tzinfo is None:
            return at
        raise ValueError("write a time of day such as 06:00:00; the zone stands in 'zone'")

    @field_validator("grace", "delay")
    @classmethod
    def _length(cls, text: str) -> str:
        duration_seconds(text)
        return text


class Periods(BaseModel):
    """The horizon: `count` periods from `first`, and the rule for closing periods."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    every: PeriodUnit
    """The length of a period; `step` stands for numbers without a calendar. Hours and minutes are
    those of UTC, so that every label is unique where clocks change."""
    count: Annotated[int, Field(ge=1, le=10_000, strict=True)]
    """The number of periods: the horizon. `"open"`: the study has no horizon, and ends when nobody
    closes another period. It publishes totals, at most 600 periods of them."""
    open: Literal[True] | None = None
    """Whether the study has no horizon; in a study file `count = "open"`."""
    first: str
    """The first period, as ISO writes it (`2021-01-31T05:07Z`, `2021-01-31T05Z`, `2021-01-31`,
    `2021-W05`, `2021-01`, `2021-Q1`, `2021`), or a number with `every = "step"`."""
    close: Annotated[
        Annotated[Literal["marker"], Tag("word")] | Annotated[Schedule, Tag("table")],
        Discriminator(lambda close: "word" if isinstance(close, str) else "table"),
    ] = "marker"
    """`"marker"`: an operator closes a period with `stream-dp close`. `"schedule"`: the calendar
    does, by the keys `zone`, `at`, `grace` and `delay` beside this one."""
    delay: str | None = None
    """The time from a marker to publication, such as `"1h"`. It must be longer than the longest
    close. Without a delay a release is published as soon as all reports are read, so the moment
    follows the volume of reports."""

    @model_validator(mode="before")
    @classmethod
    def _without_horizon(cls, keys: object) -> object:
        """The largest number of periods, where a study file declares none."""
        if isinstance(keys, dict) and keys.get("count") == "open":
            return keys | {"count": MOST_OPEN, "open": True}
        return keys

    @field_validator("open")
    @classmethod
    def _counts_all(cls, is_open: bool | None, info: ValidationInfo) -> bool | None:
        if is_open and info.data.get("count") != MOST_OPEN:
            raise ValueError("goes with count = 'open' alone")
        return is_open

    @field_validator("first", mode="before")
    @classmethod
    def _text(cls, first: object) -> object:
        return period_text(first)

    @field_validator("first")
    @classmethod
    def _label_is_sound(cls, first: str, info: ValidationInfo) -> str:
        unit = info.data.get("every")
        if unit is not None:
            try:
                _start(unit, first, 0), _start(unit, first, info.data.get("count", 1))
            except (ValueError, OverflowError):
                article = "an" if unit == "hour" else "a"
                raise ValueError(f"must name {article} {unit} such as '{EXAMPLES[unit]}'") from None
        return first

    @field_validator("close")
    @classmethod
    def _calendar(
        cls, close: Literal["marker"] | Schedule, info: ValidationInfo
    ) -> Literal["marker"] | Schedule:
        if isinstance(close, Schedule) and info.data.get("every") == "step":
            raise ValueError("a schedule needs calendar periods; with every = 'step' use 'marker'")
        every = info.data.get("every")
        if isinstance(close, Schedule) and every in CLOCK_UNITS and close.at != time(0):
            raise ValueError(f"at: every {every} closes at its end; leave 'at' out")
        return close

    @field_validator("delay")
    @classmethod
    def _length(cls, text: str | None, info: ValidationInfo) -> str | None:
        if text is not None:
            duration_seconds(text)
            if isinstance(info.data.get("close"), Schedule):
                raise ValueError("a schedule has its own delay")
        return text

    @property
    def extent(self) -> str:
        """The number of periods, the first and the last, in words."""
        if self.open:
            return f"no horizon, at most {self.count} periods from {self.labels[0]} on"
        if self.count == 1:
            return f"one period, {self.labels[0]}"
        return f"{self.count} periods, {self.labels[0]} to {self.labels[-1]}"

    @property
    def horizon(self) -> str:
        """The number of periods in words."""
        return (
            f"{'at most ' if self.open else ''}{self.count} {self.every}{'s' * (self.count != 1)}"
        )

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The labels of the periods in order: ISO dates, or numbers for steps."""
        return tuple(self._label(i) for i in range(self.count))

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Period number, from 1, by label."""
        return {label: i + 1 for i, label in enumerate(self.labels)}

    def start(self, number: int) -> datetime | None:
        """The first moment of a period, without a zone; None for steps.

        It is midnight of a day, and of UTC for hours and minutes.
        """
        return None if self.every == "step" else self._start(number - 1)

    def days(self, number: int) -> tuple[date, date] | None:
        """The first and the last day of a period; None for steps."""
        if self.every == "step":
            return None
        last = self._start(number) - timedelta(microseconds=1)
        return self._start(number - 1).date(), last.date()

    @cached_property
    def longest(self) -> float:
        """The longest time from a period's first moment to its close, in seconds; 0 for steps.

        With markers the grace is the operator's, and is not in it.
        """
        if self.every == "step":
            return 0.0
        starts = [self._start(number) for number in range(self.count + 1)]
        length = max(end - start for start, end in pairwise(starts)).total_seconds()
        if not isinstance(self.close, Schedule):
            return length
        at = timedelta(hours=self.close.at.hour, minutes=self.close.at.minute)
        return length + at.total_seconds() + duration_seconds(self.close.grace)

    def close_time(self, number: int) -> float | None:
        """The time of the close of period `number`, in Unix seconds; None with markers."""
        if not isinstance(self.close, Schedule):
            return None
        end = self._start(number)
        if self.every in CLOCK_UNITS:
            moment = end.replace(tzinfo=UTC)
        else:
            moment = datetime.combine(end, self.close.at, ZoneInfo(self.close.zone))
        return moment.timestamp() + duration_seconds(self.close.grace)

    def release_time(self, number: int) -> float | None:
        """The scheduled time of a period's releases, in Unix seconds: a public constant.

        With a schedule, a fixed delay after the close. With markers, midnight UTC at the end of
        the period, with any delay: the time of the marker is the operator's and is not
        published. None for steps.
        """
        if isinstance(self.close, Schedule):
            close_time = self.close_time(number)
            assert close_time is not None
            return close_time + duration_seconds(self.close.delay)
        if self.every == "step":
            return None
        return self._start(number).replace(tzinfo=UTC).timestamp()

    def _start(self, offset: int) -> datetime:
        return _start(self.every, self.first, offset)

    def _label(self, offset: int) -> str:
        if self.every == "step":
            return str(int(self.first) + offset)
        return self.label_of(self._start(offset))

    def label_of(self, moment: datetime) -> str:
        """The label of the calendar period around a moment, inside or outside the horizon.

        moment: of local time; of UTC for hours and minutes.

        Raises ValueError for steps, which have no calendar.
        """
        if self.every == "step":
            raise ValueError("step")
        if self.every == "week":
            year, week, _ = moment.isocalendar()
            return f"{year:04d}-W{week:02d}"
        if self.every == "quarter":
            return f"{moment.year:04d}-Q{(moment.month + 2) // 3}"
        text = moment.isoformat()
        if self.every in CLOCK_UNITS:
            return f"{text[: _LENGTHS[self.every]]}Z"
        return text[: _LENGTHS[self.every]]


def period_text(label: object) -> object:
    """A period from a study file, a number or a date, in text."""
    return str(label) if isinstance(label, (int, date)) else label


def _start(unit: PeriodUnit, first: str, offset: int) -> datetime:
    """First moment of the period `offset` periods after `first`.

    Raises ValueError, OverflowError.
    """
    match = re.fullmatch(_SHAPE[unit], first)
    if match is None:
        raise ValueError("shape")
    a, *rest = (int(group) for group in match.groups())
    match unit:
        case "minute" | "hour":
            length = timedelta(minutes=1) if unit == "minute" else timedelta(hours=1)
            return datetime.fromisoformat(first).replace(tzinfo=None) + offset * length
        case "day":
            return datetime(a, rest[0], rest[1]) + timedelta(days=offset)
        case "week":
            monday = datetime.fromisocalendar(a, rest[0], 1)
            return monday + timedelta(weeks=offset)
        case "year":
            return datetime(a + offset, 1, 1)
        case "step":
            return datetime.min
    months = rest[0] - 1 if unit == "month" else 3 * (rest[0] - 1)
    if not 0 <= months < 12:
        raise ValueError("month")
    months += offset * (3 if unit == "quarter" else 1)
    return datetime(a + months // 12, months % 12 + 1, 1)
