"""Reads ids by their form: damaged ids, ids in a program's form, and ids that are nobody's.

Each id is judged alone. A spreadsheet shows a long number as 1.23E+11, keeps 15 of its digits, and
takes 3-1 for a date: several people share what is left. Such an id is damaged. An id in the form of
a program, such as ="0012" or 1001.0, is read without it, and an id with blanks at its ends too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from functools import cache

# Of Unicode, with those of no width, which some programs put at the ends of a text.
BLANKS = (
    "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \x85\xa0\u1680"
    "\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
    "\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"
)
_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_GERMAN_MONTHS = "Jan|Feb|Mrz|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez"
_DAMAGED = (
    r"[+-]?[0-9]+(?:[.,][0-9]+)?[eE]\+[0-9]{2,3}",  # of a spreadsheet, of R and of pandas
    r"[+-]?[1-9][0-9]{14}0+",  # 15 digits are kept
    r"[0-9]{16,}[.,]0{1,2}",
    rf"[0-9]{{1,2}}-(?:{_MONTHS})|(?:{_MONTHS})-[0-9]{{2}}",
    rf"[0-9]{{1,2}}\. (?:{_GERMAN_MONTHS})|(?:{_GERMAN_MONTHS}) [0-9]{{2}}",
    r"#(?:N/A|NV|REF!|BEZUG!|VALUE!|WERT!|NAME\?|DIV/0!|NUM!|ZAHL!|NULL!|SPILL!|CALC!)",
    r"#{2,}|Err:5[0-9]{2}",
)
_PROGRAMS = (
    r'="([^"]*)"',  # of a spreadsheet's export, for a text of digits
    r"'([0-9]+)",
    r"(0|[1-9][0-9]{0,14})[.,]0{1,2}",  # of pandas, for a whole number beside an empty cell
)
_DATES = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[ T][0-9:.]+)?",
    r"[0-9]{1,2}[./-][0-9]{1,2}[./-][0-9]{4}",
    rf"[0-9]{{1,2}}-(?:{_MONTHS})-[0-9]{{2,4}}",
)
# Of letters alone, for nobody and for totals; the compiled reader has them too.
WORDS = frozenset(
    [
        *("na", "nan", "null", "none", "nil", "undefined", "missing", "unknown", "unbekannt"),
        *("total", "subtotal", "grandtotal", "sum", "summe", "gesamt", "gesamtsumme", "insgesamt"),
        *("ensemble", "all", "alle", "test", "dummy", "anonym", "anonymous"),
    ]
)
_NOBODY = (
    *WORDS,
    r"[-.?]{1,3}|n/a|n\.a\.|k\.a\.|<na>|\\n|(?:grand|sub) total",
)
_NUMBERS = (r"-[0-9]+", "0+", "9{4,}")


_KEPT_DIGITS = 15  # by a spreadsheet
_is_joined = re.compile(r"[A-Za-z]?[0-9]+(?:[-_/][0-9]+)+").fullmatch
_WHOLE = re.compile(r"(-?\d{1,15})\.0+")  # as pandas writes whole numbers beside an empty cell
_EXPONENT = re.compile(r"[eE]\+?([0-9]{1,3})$")


class IdForm(StrEnum):
    """A form of ids that needs a look.

    nobody: a word for nobody. number: a number that may stand for nobody.
    """

    BLANK = "blank"
    DAMAGED = "damaged"
    PROGRAM = "program"
    DATE = "date"
    NOBODY = "nobody"
    NUMBER = "number"
    PADDED = "padded"


def _any(*patterns: str) -> str:
    return "|".join(f"(?:{pattern})" for pattern in patterns)


_BLANK = f"[{BLANKS}]"
# Every id with a form: for a regular expression of Python or of RE2.
ANY_FORM = "^(?:" + _any(
    *(*_DAMAGED, *_PROGRAMS, *_DATES, *_NUMBERS, f"(?i:{_any(*_NOBODY)})"),
    *(f"{_BLANK}*", rf"{_BLANK}[\s\S]*", rf"[\s\S]*{_BLANK}"),
) + ")$"  # fmt: skip


@cache  # compiled for the first id: a command that reads no ids would wait for it
def _matcher(patterns: tuple[str, ...], flags: int = 0) -> Callable[[str], re.Match[str] | None]:
    """Matches whole texts by any of the patterns."""
    return re.compile(_any(*patterns), flags).fullmatch


@cache
def _form_finder() -> Callable[[str], re.Match[str] | None]:
    return re.compile(ANY_FORM).search


def read_id(text: str) -> tuple[str, IdForm | None]:
    """Reads an id by its form.

    Returns the id, empty for a damaged one and for blanks, and its form; None for a form that needs
    no look. A word for nobody stays as it is.

    >>> [read_id(text)[0] for text in ("7", '="0012"', " 1001.0", "1.23E+11", "NA")]
    ['7', '0012', '1001', '', 'NA']
    """
    if not _form_finder()(text):
        return text, None
    core = text.strip(BLANKS)
    form = None if core == text else IdForm.PADDED
    while program := _matcher(_PROGRAMS)(core):
        core, form = program[program.lastindex or 1].strip(BLANKS), IdForm.PROGRAM
    if not core:
        return "", IdForm.BLANK
    if _matcher(_DAMAGED)(core):
        return "", IdForm.DAMAGED
    if core.isascii() and _matcher(_NOBODY, re.ASCII | re.IGNORECASE)(core):
        return core, IdForm.NOBODY
    if form is None and _matcher(_DATES)(core):
        form = IdForm.DATE
    elif form is None and _matcher(_NUMBERS)(core):
        form = IdForm.NUMBER
    return core, form


def text_of_number(digits: str) -> str:
    """The text of a number in JSON: a whole number without zeros behind the point.

    An exponent is written as spreadsheets do, so that such an id is damaged.
    """
    whole = _WHOLE.fullmatch(digits)
    return whole[1] if whole else _EXPONENT.sub(lambda e: f"E+{e[1]:0>2}", digits)


def is_usual(text: str) -> bool:
    """Tells whether an id certainly has no form, from a quick look."""
    if text.isalnum() and text.isascii():
        if text.isalpha():
            return text.lower() not in WORDS
        return len(text) <= _KEPT_DIGITS or not text.isdecimal()
    if len(text) <= _KEPT_DIGITS:
        return _is_joined(text) is not None
    has_letters = text.upper() != text.lower()
    return has_letters and "+" not in text and text[0].isalnum() and text[-1].isalnum()
