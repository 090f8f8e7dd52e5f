"""Names of months in declared languages, as the Unicode CLDR has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stream_dp.errors import UserError, missing_extra, visible
from stream_dp.study.date_formats import ENGLISH_MONTHS


def month_names(languages: Sequence[str]) -> Mapping[str, int]:
    """Returns the numbers of months by their names in small letters; in English by default.

    languages: such as `de` or `pt-BR`.

    >>> month_names(["de"])["märz"]
    3

    Raises UserError for an unknown language, or for a name of two months in these languages.
    """
    if not languages:
        return ENGLISH_MONTHS
    names: dict[str, int] = {}
    for language in languages:
        for name, number in _names(language).items():
            if names.setdefault(name, number) != number:
                raise UserError(
                    f"--language: '{name}' is another month in {language} than in"
                    f" {', '.join(languages[: languages.index(language)])}; write one of them"
                )
    return names


def _names(language: str) -> Mapping[str, int]:
    """Returns the months' names in a language. Raises UserError."""
    if language == "en":
        return ENGLISH_MONTHS
    try:
        from babel import Locale, UnknownLocaleError
    except ImportError:
        raise missing_extra(f"--language {visible(language)}: needs babel", "tables") from None
    try:
        months = Locale.parse(language, sep="-").months
    except (UnknownLocaleError, ValueError, TypeError):
        raise UserError(
            f"--language: '{visible(language)}' is no language of CLDR; write one like 'de'"
        ) from None
    return {
        name.casefold().rstrip("."): number
        for context in ("format", "stand-alone")
        for width in ("abbreviated", "wide")
        for number, name in months[context][width].items()
    }
