"""Reads columns of periods of files: cells as text, and pandas' periods as dates.

Months and weekdays in declared languages have the names that the Unicode CLDR gives them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stream_dp.errors import UserError, missing_extra, visible
from stream_dp.study import Study
from stream_dp.study.date_formats import ENGLISH_MONTHS
from stream_dp.study.period_texts import PeriodTexts

from ..celltext import DAMAGED, cell_text

if TYPE_CHECKING:
    from .column_layout import TableLayout


_WEEK = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_ENGLISH_WEEKDAYS = {name: n for n, day in enumerate(_WEEK, 1) for name in (day, day[:3])}


def month_names(languages: Sequence[str]) -> Mapping[str, int]:
    """Returns the numbers of months by their names in small letters; in English by default.

    languages: such as `de` or `pt-BR`.

    >>> month_names(["de"])["märz"]
    3

    Raises UserError for an unknown language, or for a name of two months in these languages.
    """
    return _merged(languages, ENGLISH_MONTHS, lambda locale: locale.months, 0)


def weekday_names(languages: Sequence[str]) -> Mapping[str, int]:
    """Returns the numbers of weekdays, from Monday, by their names. See `month_names`."""
    return _merged(languages, _ENGLISH_WEEKDAYS, lambda locale: locale.days, 1)


def _merged(
    languages: Sequence[str], english: Mapping[str, int], names: Any, first: int
) -> Mapping[str, int]:
    """Returns the names in all languages. Raises UserError.

    names: of a locale, by context, width and number. first: what is added to the numbers.
    """
    merged: dict[str, int] = {}
    for language in languages or ("en",):
        found = english if language == "en" else _of(names(_locale(language)), first)
        for name, number in found.items():
            if merged.setdefault(name, number) != number:
                others = ", ".join(languages[: languages.index(language)])
                raise UserError(
                    f"--language: '{name}' has another meaning in {language} than in {others};"
                    " write one of them"
                )
    return merged


def _of(names: Any, first: int) -> dict[str, int]:
    return {
        name.casefold().rstrip("."): number + first
        for context in ("format", "stand-alone")
        for width in ("abbreviated", "wide")
        for number, name in names[context][width].items()
    }


def _locale(language: str) -> Any:
    """Returns the locale of a language. Raises UserError."""
    try:
        from babel import Locale, UnknownLocaleError
    except ImportError:
        raise missing_extra(f"--language {visible(language)}: needs babel", "tables") from None
    try:
        return Locale.parse(language, sep="-")
    except (UnknownLocaleError, ValueError, TypeError):
        raise UserError(
            f"--language: '{visible(language)}' is no language of CLDR; write one like 'de'"
        ) from None


_PANDAS = "pandas.period"
_EPOCH = date(1970, 1, 1)


PERIOD = "period"  # in `--map`: the texts of periods, unless an attribute has this name


_EXACT = ("%tm", "%tq")  # formats of Stata whose numbers are months and quarters of the calendar


def texts_of_periods(
    study: Study, layout: TableLayout, file_format: str | None = None
) -> PeriodTexts:
    """Returns what the texts of periods in a file mean. Raises UserError.

    file_format: that a file of Stata has for its column of periods.
    """
    dates = layout.dates
    if dates is None and file_format is not None:
        dates = next((known for known in _EXACT if file_format.startswith(known)), None)
    meanings = None if PERIOD in study.attributes else layout.values.get(PERIOD)
    names = month_names(layout.languages)
    try:
        return PeriodTexts(study.periods, dates, layout.zone, meanings, names)
    except UserError as error:
        raise UserError(f"--{line}" for line in error.lines) from None


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
