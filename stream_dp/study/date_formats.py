"""Formats of dates: what `--dates` and the key `dates` say about the texts of periods.

A format decides alone which texts it reads and what they mean. No locale, clock or other text has
a part in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo

from stream_dp.errors import UserError

from .periods import PeriodUnit

ENGLISH_MONTHS: Mapping[str, int] = {
    name: number
    for number, month in enumerate(
        "January February March April May June July August September October November"
        " December".lower().split(),
        1,
    )
    for name in (month, month[:3], *(["sept"] if month == "september" else []))
}
ANY = "{}"  # in a format: text without a meaning
OFFSET = r"(?:Z|UTC|GMT|[+-][0-9]{2}(?::?[0-9]{2})?)"

# By what a text names, the lengths of periods that it decides.
_DAYS: tuple[PeriodUnit, ...] = ("day", "week", "month", "quarter", "year")
_DECIDES: Mapping[PeriodUnit, tuple[PeriodUnit, ...]] = {
    "minute": ("minute", "hour", *_DAYS),
    "hour": ("hour", *_DAYS),
    "day": _DAYS,
    "week": ("week",),
    "month": ("month", "quarter", "year"),
    "quarter": ("quarter", "year"),
    "year": ("year",),
    "step": (),
}
_ROMAN = {"i": 1, "ii": 2, "iii": 3, "iv": 4}
_WORD = r"[^\W\d_]+\.?"
# By directive, its pattern between other texts.
_DIRECTIVES = {
    **dict.fromkeys("YG", "[0-9]{4}"),
    **dict.fromkeys("mdVHIMS", "[0-9]{1,2}"),
    **dict.fromkeys("aA", _WORD),
    "y": "[0-9]{2}",
    "j": "[0-9]{1,3}",
    "q": "0?[1-4]|IV|I{1,3}",
    "u": "[1-7]",
    "f": "[0-9]{1,9}",
    "p": r"[AP]\.?M\.?",
    "z": f" ?{OFFSET}",
}
# By directive, its pattern beside further digits, if it has another one.
_BESIDE_DIGITS = {
    **dict.fromkeys("mdVHIMS", "[0-9]{2}"),
    "j": "[0-9]{3}",
    "q": "[1-4]",
    "z": OFFSET,
}
_MONTH_NAMES = ("b", "B", "h")
_NO_DIGITS = ("a", "A", "p", "z", *_MONTH_NAMES)
_HELP = (
    "write a format such as '%d.%m.%Y', '%b %Y', '%m/%Y', '%Y Q%q' or '%G-%V', with {} for text"
    " without a meaning"
)


@dataclass(frozen=True)
class Moment:
    """A day, with the clock where a text has one, or an instant with its distance from UTC.

    unit: the length of the shortest period that the text decides.
    """

    written: datetime
    unit: PeriodUnit = "day"
    instant: datetime | None = None

    def local(self, zone: tzinfo | None) -> datetime:
        """The time in a zone. A time without an instant, or without a zone, stays as written."""
        if self.instant is None or zone is None:
            return self.written
        return self.instant.astimezone(zone).replace(tzinfo=None)

    def universal(self, zone: tzinfo | None) -> datetime:
        """The time of UTC; `zone` is that of a time without a distance from UTC.

        Raises ValueError without either, and for a time of which the zone has two or none.
        """
        instant = self.instant
        if instant is None:
            if zone is None:
                raise ValueError("zone")
            first, second = (self.written.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
            if first.utcoffset() != second.utcoffset():
                raise ValueError("clocks change")
            instant = first
        return instant.astimezone(UTC).replace(tzinfo=None)


Reader = Callable[[str], Moment | None]


def date_reader(text: str, every: PeriodUnit, months: Mapping[str, int] = ENGLISH_MONTHS) -> Reader:
    """Returns the function that reads texts by a format.

    text: directives of `strptime`, `%q` for a quarter and `{}` for text without a meaning; or the
        name of numbers that count time, see `NUMBERS`.
    every: the length of the study's periods, which the format has to decide.
    months: the numbers of months by their names in small letters.

    The function returns None for every other text, and raises ValueError or OverflowError outside
    of the calendar.

    >>> date_reader("%b %Y", "month")("Jan 2021").written
    datetime.datetime(2021, 1, 1, 0, 0)
    >>> date_reader("%tm", "month")("732").written
    datetime.datetime(2021, 1, 1, 0, 0)

    Raises UserError for a format that does not decide a period of this length.
    """
    if every == "step":
        raise UserError(
            "dates: the periods are steps, which no date names; write --map period:TEXT=STEP"
        )
    if (number := NUMBERS.get(text)) is not None:
        names: PeriodUnit = number[0]
        read = _number_reader(number[1])
    else:
        fields, pattern = _compiled(text, months)
        names = _named_unit(text, fields)
        read = _text_reader(pattern, months)
    if every not in _DECIDES[names]:
        raise UserError(f"dates: '{text}' names a {names}, which decides no {every}; {_HELP}")
    return read


def _compiled(text: str, months: Mapping[str, int]) -> tuple[set[str], re.Pattern[str]]:
    """Returns the directives of a format and its pattern. Raises UserError."""
    tokens = re.findall(r"%.|\{\}|\s+|.", text, re.DOTALL)
    fields: set[str] = set()
    pattern = ""
    for i, token in enumerate(tokens):
        last_token, next_token = (
            tokens[i - 1] if i else "",
            tokens[i + 1] if i + 1 < len(tokens) else "",
        )
        if token == ANY:
            # A number beside it is not cut.
            pattern += "(?:(?<![0-9])|(?![0-9])).*(?:(?<![0-9])|(?![0-9]))"
        elif token.isspace():
            pattern += r"\s+"
        elif token == "%%":
            pattern += "%"
        elif token[0] == "%" and len(token) == 2:
            field = "b" if token[1] in _MONTH_NAMES else token[1]
            if field in fields:
                raise UserError(
                    f"dates: '{text}' has {token} twice; write {ANY} for the one without a meaning"
                )
            if field == "b":
                names = sorted(map(re.escape, months), key=len, reverse=True)
                piece = f"(?:{'|'.join(names)})\\.?"
            elif field in _DIRECTIVES:
                beside = _is_digits(last_token) or _is_digits(next_token)
                piece = (_BESIDE_DIGITS if beside else {}).get(field, _DIRECTIVES[field])
            else:
                raise UserError(f"dates: '{token}' in '{text}' is not read; {_HELP}")
            fields.add(field)
            pattern += piece if field in ("a", "A") else f"(?P<{field}>{piece})"
        elif token == "%":
            raise UserError(f"dates: '{text}' ends in a lone %; {_HELP}")
        else:
            pattern += re.escape(token)
    return fields, re.compile(pattern, re.IGNORECASE | re.DOTALL)


def _is_digits(token: str) -> bool:
    """Tells whether a piece of a format stands for digits."""
    if token.startswith("%"):
        return token != "%%" and token[1:] not in _NO_DIGITS
    return token.isdecimal()


def _named_unit(text: str, fields: set[str]) -> PeriodUnit:
    """What the texts of a format name. Raises UserError."""
    year, month = fields & {"Y", "y"}, fields & {"m", "b"}
    if len(fields & {"Y", "y", "G"}) > 1:
        raise UserError(
            f"dates: '{text}' has two years; write {ANY} for the one without a meaning, such as"
            " '%Y/{}' for the first and '{}/%y' for the last"
        )
    if len(month) > 1:
        raise UserError(f"dates: '{text}' has two months; write {ANY} for one of them")
    if "V" in fields and not month and (year or "G" in fields):
        return _shortest(fields) if "u" in fields else "week"
    if "j" in fields and year:
        return _shortest(fields)
    if year and month:
        return _shortest(fields) if "d" in fields else "month"
    if year and "d" not in fields:
        return "quarter" if "q" in fields else "year"
    raise UserError(f"dates: '{text}' names no period; {_HELP}")


def _shortest(fields: Container[str]) -> PeriodUnit:
    """The shortest period that a day with these directives decides."""
    if "H" not in fields and not ("I" in fields and "p" in fields):
        return "day"
    return "minute" if "M" in fields else "hour"


def _text_reader(pattern: re.Pattern[str], months: Mapping[str, int]) -> Reader:
    def read(text: str) -> Moment | None:
        match = pattern.fullmatch(text)
        return None if match is None else moment_of(match.groupdict(), months)

    return read


def moment_of(fields: Mapping[str, str | None], months: Mapping[str, int]) -> Moment:
    """The moment, or the first day, that texts of directives name.

    Raises ValueError outside of the calendar.
    """

    def number(name: str, default: int) -> int:
        text = fields.get(name)
        return default if text is None else int(text)

    year = number("Y", number("G", -1))
    if year < 0:
        year = number("y", 0)
        year += 1900 if year >= 69 else 2000  # as POSIX has it
    if fields.get("V") is not None:
        day = date.fromisocalendar(year, number("V", 1), number("u", 1))
    elif fields.get("j") is not None:
        day = date(year, 1, 1) + timedelta(days=number("j", 1) - 1)
        if day.year != year:
            raise ValueError("day of the year")
    else:
        name, quarter = fields.get("b"), fields.get("q")
        month = number("m", 1) if name is None else months[name.casefold().rstrip(".")]
        if quarter is not None:
            month = 3 * (_ROMAN.get(quarter.lower()) or int(quarter)) - 2
        day = date(year, month, number("d", 1))
    hour = number("H", number("I", 0))
    minute = number("M", 0)
    ends_day = (hour, minute, number("S", 0)) == (24, 0, 0)
    if ends_day:
        hour, minute = 23, 59  # of the day that is written; it names no hour
    half = fields.get("p")
    if half is not None:
        if not 1 <= hour <= 12:
            raise ValueError("hour")
        hour = hour % 12 + 12 * (half[0] in "pP")
    if (second := number("S", 0)) > 60:  # 60 is a leap second
        raise ValueError("second")
    moment = datetime(day.year, day.month, day.day, hour, minute, min(second, 59))
    offset = fields.get("z")
    return Moment(
        moment,
        "day" if ends_day else _shortest([n for n, text in fields.items() if text is not None]),
        None if offset is None else moment.replace(tzinfo=_offset(offset.strip())),
    )


def _offset(text: str) -> timezone:
    """The distance from UTC. Raises ValueError."""
    if text[0] not in "+-":
        return UTC
    digits = text[1:].replace(":", "").ljust(4, "0")
    minutes = 60 * int(digits[:2]) + int(digits[2:])
    return timezone(timedelta(minutes=-minutes if text[0] == "-" else minutes))


def _number_reader(moment: Callable[[int], Moment]) -> Reader:
    def read(text: str) -> Moment | None:
        integral, _, rest = text.partition(".")
        if not re.fullmatch(r"-?[0-9]{1,19}", integral) or rest.strip("0"):
            return None
        return moment(int(integral))

    return read


_UNIX = datetime(1970, 1, 1)
_STATA = datetime(1960, 1, 1)


def _days(since: datetime) -> Callable[[int], Moment]:
    return lambda n: Moment(since + timedelta(days=n))


def _fraction_of_second(parts: int) -> Callable[[int], Moment]:
    def moment(n: int) -> Moment:
        written = _UNIX + timedelta(seconds=n // parts)
        return Moment(written, "minute", written.replace(tzinfo=UTC))

    return moment


def _stata_month(n: int) -> Moment:
    return Moment(datetime(1960 + n // 12, n % 12 + 1, 1))


def _stata_week(n: int) -> Moment:
    # Stata's weeks begin on 1 January. The fourth day lies in the ISO week with most of its days.
    return Moment(datetime(1960 + n // 52, 1, 1) + timedelta(days=7 * (n % 52) + 3))


# Numbers that count time, by their names in Stata, in Avro and in spreadsheets: what they name, and
# the moment of a number.
NUMBERS: Mapping[str, tuple[PeriodUnit, Callable[[int], Moment]]] = {
    "%td": ("day", _days(_STATA)),
    "%tw": ("week", _stata_week),
    "%tm": ("month", _stata_month),
    "%tq": ("quarter", lambda n: _stata_month(3 * n)),
    "%tc": ("minute", lambda n: Moment(_STATA + timedelta(seconds=n // 1000), "minute")),
    "excel": ("day", _days(datetime(1899, 12, 30))),
    "date": ("day", _days(_UNIX)),
    "timestamp-seconds": ("minute", _fraction_of_second(1)),
    "timestamp-millis": ("minute", _fraction_of_second(10**3)),
    "timestamp-micros": ("minute", _fraction_of_second(10**6)),
    "timestamp-nanos": ("minute", _fraction_of_second(10**9)),
}
