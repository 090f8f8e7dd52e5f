"""The options that read a table's numbers where an answer is a whole number. CONFIDENTIAL."""

from __future__ import annotations

from collections.abc import Collection
from fractions import Fraction
from itertools import product

from stream_dp.study import Attribute
from stream_dp.study.number_texts import DECIMALS, SPACE, THOUSANDS, NumberTexts, WholeNumbers


def number_advice(attribute: Attribute, texts: Collection[str]) -> str | None:
    """The options for reading most of these texts as answers; None without an option.

    texts: that are no answers as they stand.
    """
    counted: dict[tuple[str | None, str | None], int] = {}
    written = {*"".join(texts)}
    decimals = (None, *(mark for mark in DECIMALS if mark in written))
    of_thousands = (None, *(m for m, signs in THOUSANDS.items() if written & {*signs}))
    for decimal, thousands in product(decimals, of_thousands):
        if decimal != thousands:
            numbers = WholeNumbers.of(NumberTexts(decimal, thousands), attribute)
            read = 0 if numbers is None else sum(attribute.takes(numbers.plain(t)) for t in texts)
            counted[decimal, thousands] = read
    count = max(counted.values(), default=0)
    if not count:
        return None
    fewest = min(_marks(marks) for marks, read in counted.items() if read == count)
    best = [m for m, read in counted.items() if read == count and _marks(m) == fewest]
    options = [_option_words(*marks) for marks in best]
    return " or ".join(options) + (", whichever the file has" if options[1:] else "")


def _marks(marks: tuple[str | None, str | None]) -> int:
    """How many marks are declared."""
    return sum(mark is not None for mark in marks)


def _option_words(decimal: str | None, thousands: str | None) -> str:
    """The options in the words of a command."""
    options = []
    if decimal is not None:
        options.append(f"--decimal {decimal}")
    if thousands is not None:
        quoted = {" ": SPACE, "'": '"\'"'}.get(thousands, thousands)
        options.append(f"--thousands {quoted}")
    return " ".join(options)


def has_fractions(texts: Collection[str]) -> bool:
    """Whether a text is a number with a fraction, with either decimal mark."""
    for text in texts:
        digits = text.removeprefix("-").replace(",", ".")
        whole, point, rest = digits.partition(".")
        if point and (whole + rest).isdecimal() and Fraction(f"{whole or 0}.{rest or 0}") % 1:
            return True
    return False
