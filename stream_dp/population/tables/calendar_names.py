"""Names of months and weekdays in declared languages, as the Unicode CLDR has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stream_dp.errors import UserError, missing_extra, visible
from stream_dp.study.date_formats import ENGLISH_MONTHS

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
