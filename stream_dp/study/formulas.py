"""Detects texts that spreadsheets would read as formulas."""

from __future__ import annotations

import re

FAULT = "must not begin with '=', '+', '-', '@', a tab or an end of line: spreadsheets run formulas"
# After blanks, which some spreadsheets leave out; also as East Asian keyboards write them.
_FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n]")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


def is_formula(text: str) -> bool:
    """Whether a spreadsheet may run the text as a formula. Numbers are safe, even -1."""
    return _FORMULA.match(text) is not None and _NUMBER.fullmatch(text) is None
