"""Finds an option for reading texts of unknown periods.

The option shows no text of a file: only directives, marks between them and words that are usual
beside periods.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from itertools import islice, product

from stream_dp.errors import UserError

from .date_formats import ANY, ENGLISH_MONTHS, NUMBERS
from .period_texts import PeriodTexts
from .periods import CLOCK_UNITS, EXAMPLES, Periods

_MOST_FORMATS = 400  # tried for a text
_TOKENS = re.compile(r"[0-9]+|[^\W\d_]+|[\W_]+?(?=\w|$)|_+")
# Words beside periods; no other word of a file is shown.
_WORD = re.compile(
    "d|day|w|wk|week|kw|m|month|q|k|quarter|quartal|kvartal|trimestre|p|y|yr|year|fy|ay|cy|semester|"
    "term|period|t|time|s|step|stage|phase|r|round|v|visit|session|wave",
    re.IGNORECASE,
)
_DIRECTIVES = {
    1: ("%q", "%d", "%m", "%V"),
    2: ("%q", "%d", "%m", "%y", "%V"),
    3: ("%j",),
    4: ("%Y",),
    5: ("%y%j",),
    6: ("%d%m%y", "%m%d%y", "%y%m%d", "%Y%m", "%m%Y", "%Y%V"),
    7: ("%Y%j",),
    8: ("%d%m%Y", "%m%d%Y", "%Y%m%d"),
}
# A number beside the word of its unit has another meaning: Q3 is no March.
_OF_ANOTHER_UNIT = re.compile(
    r"(?<![%\w])(?:q|quarter|quartal|kvartal|trimestre)[ ._-]?%[dmVj]|%[dmVj][ ._-]?q(?![a-z])"
    r"|(?<![%\w])(?:w|wk|week|kw)[ ._-]?%[dmqj]|(?<![%\w])(?:m|month)[ ._-]?%[dqVj]",
    re.IGNORECASE,
)
_CLOCK = re.compile(r"[T ][0-9]{1,2}:[0-9]{2}.*", re.DOTALL)


def period_advice(
    periods: Periods, texts: Collection[str], months: Mapping[str, int] = ENGLISH_MONTHS
) -> str:
    """Says which option reads texts that name no period of the study.

    texts: of the column of periods.
    months: the numbers of months by their names in small letters.
    """
    labels = periods.labels
    mapping = f"--map 'period:TEXT={labels[0]}'"
    plain = PeriodTexts(periods)
    # A time with an offset has the day of a zone, which `plain` does not know.
    outside = {
        text
        for text in texts
        if plain.is_period(text)
        and (plain.label(text) not in periods.numbers or plain.lacks_zone(text))
    }
    others = f"they name others than {labels[0]} to {labels[-1]}; leave their rows out"
    if texts and len(outside) == len({*texts}):
        return others
    texts = [text for text in texts if text not in outside]
    readers = _counted(periods, texts, months)
    if not readers and periods.every in CLOCK_UNITS:
        example = f"{EXAMPLES['minute'].removesuffix('Z')}+01:00"
        return f"{labels[0]} to {labels[-1]}; write a time with its distance from UTC: {example}"
    if not readers:
        return f"{labels[0]} to {labels[-1]}; say what a text of the file means: {mapping}"
    count = max(len(named) for named in readers.values())
    best = [option for option, named in readers.items() if len(named) == count]
    plainest = min(option.count(ANY) for option in best)
    meanings: dict[tuple[tuple[str, str], ...], str] = {}
    for option in best:
        if option.count(ANY) == plainest:
            meanings.setdefault(tuple(sorted(readers[option].items())), option)
    advice = " or ".join(islice(meanings.values(), 2))
    return advice if count == len(texts) else f"{advice}; for others {mapping}"


def _counted(
    periods: Periods, texts: Collection[str], months: Mapping[str, int]
) -> dict[str, dict[str, str]]:
    """Returns, by option, the periods of the study by the texts that it reads."""
    readers: dict[str, dict[str, str]] = {}
    shapes = Counter(re.sub("[0-9]", "0", text) for text in texts)
    for shape, _ in shapes.most_common(5):
        example = next(text for text in texts if re.sub("[0-9]", "0", text) == shape)
        for option, reading in _options(periods, example.strip(), months):
            if option not in readers and (named := _named(periods, reading, texts)):
                readers[option] = named
    return readers


def _named(periods: Periods, reading: PeriodTexts, texts: Collection[str]) -> dict[str, str]:
    labels = {text: reading.label(text) for text in texts}
    return {text: label for text, label in labels.items() if label in periods.numbers}


def _options(
    periods: Periods, text: str, months: Mapping[str, int]
) -> Iterator[tuple[str, PeriodTexts]]:
    """Yields possible options for a text, with their meanings."""
    if periods.every == "step":
        if template := _template(text):
            option = _quoted(f"period:{template}={ANY}")
            yield f"--map {option}", PeriodTexts(periods, meanings={template: ANY})
        return
    formats = NUMBERS if re.fullmatch(r"-?[0-9]+(\.0+)?", text) else ()
    for form in islice([*formats, *_formats(periods, text, months)], _MOST_FORMATS):
        try:
            yield f"--dates {_quoted(form)}", PeriodTexts(periods, form, months=months)
        except UserError:
            continue


def _quoted(text: str) -> str:
    return shlex.quote(text) if "'" in text else f"'{text}'"


def _template(text: str) -> str:
    """Returns the template of a text with one number beside a usual word, or an empty text."""
    pieces = _TOKENS.findall(text)
    numbers = [piece for piece in pieces if piece.isdecimal()]
    letters = [piece for piece in pieces if piece[0].isalpha()]
    if len(numbers) != 1 or not all(map(_WORD.fullmatch, letters)):
        return ""
    return "".join(ANY if piece.isdecimal() else piece for piece in pieces)


def _formats(periods: Periods, text: str, months: Mapping[str, int]) -> Iterator[str]:
    """Yields formats that may read a text."""
    clocks = [("", text)]
    if clock := _CLOCK.search(text):
        mark = clock[0][0]
        clocks = [(f"{mark}{ANY}", text[: clock.start()])]
    for end, rest in clocks:
        pieces = _TOKENS.findall(rest)
        for choice in product(*(_choices(periods, piece, months) for piece in pieces)):
            form = re.sub(r"(\{\}[\s]*)+(?=\{\})", "", "".join(choice)) + end
            if _OF_ANOTHER_UNIT.search(form) is None:
                yield form


def _choices(periods: Periods, piece: str, months: Mapping[str, int]) -> tuple[str, ...]:
    """Returns the meanings that a piece of a text may have in a format."""
    if piece.isdecimal() and piece.isascii():
        directives = _DIRECTIVES.get(len(piece), ())
        if periods.every != "week":
            directives = tuple(d for d in directives if "%V" not in d)
        if periods.every != "quarter":
            directives = tuple(d for d in directives if "%q" not in d)
        zero = (piece,) if not piece.strip("0") else ()
        return (*directives, *zero, ANY)
    folded = piece.casefold()
    if folded in months:
        return ("%b",)
    if periods.every == "quarter" and re.fullmatch("i{1,3}|iv", folded):
        return ("%q", piece)
    if piece[0].isalpha():
        sign = not piece.isascii() and len(piece) == 1  # such as the sign for a year
        return (piece,) if sign or _WORD.fullmatch(piece) else (ANY,)
    return (piece.replace("%", "%%"),)
