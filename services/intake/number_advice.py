"""The options that read a table's numbers where an answer is a whole number. CONFIDENTIAL."""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import product

from stream_dp.study import Attribute
from stream_dp.study.number_texts import DECIMALS, SPACE, THOUSANDS, NumberTexts, WholeNumbers

_NUMBER = re.compile(r"-?[0-9][0-9., '\u00a0\u202f\u2009\u2019]*")


def number_advice(attribute: Attribute, texts: Collection[str]) -> str | None:
    """The options for reading most of these texts as answers; None without an option.

    texts: that are no answers as they stand.
    """
    counted: dict[NumberTexts, int] = {}
    written = {*"".join(texts)}
    decimals = (None, *(mark for mark in DECIMALS if mark in written))
    of_thousands = (None, *(m for m, signs in THOUSANDS.items() if written & {*signs}))
    for decimal, thousands, rounds in product(decimals, of_thousands, (False, True)):
        if decimal is None or decimal != thousands:
            number_texts = NumberTexts(decimal, thousands, rounds)
            numbers = WholeNumbers.of(number_texts, attribute)
            read = 0 if numbers is None else sum(attribute.takes(numbers.plain(t)) for t in texts)
            counted[number_texts] = read
    count = max(counted.values(), default=0)
    if not count:
        return None
    most = [number_texts for number_texts, read in counted.items() if read == count]
    fewest = min(map(_option_count, most))
    options = [_option_words(n) for n in most if _option_count(n) == fewest]
    return " or ".join(options) + (", whichever the file has" if options[1:] else "")


def range_advice(attribute: Attribute, texts: Collection[str]) -> str | None:
    """The declaration of a number in place of several whole numbers that are listed.

    texts: that are no answers as they stand. None if one is no number, or no number is listed.
    """
    listed = [value for value in attribute.listed if isinstance(value, int)]
    if len(listed) < max(3, len(attribute.listed)) or not all(map(_NUMBER.fullmatch, texts)):
        return None
    return f"number = {{ least = {min(listed)}, most = {max(listed)} }} and bins"


def _option_count(texts: NumberTexts) -> int:
    return (texts.decimal is not None) + (texts.thousands is not None) + texts.rounds


def _option_words(texts: NumberTexts) -> str:
    """The options in the words of a command."""
    options = []
    if texts.decimal is not None:
        options.append(f"--decimal {texts.decimal}")
    if texts.thousands is not None:
        quoted = {" ": SPACE, "'": '"\'"'}.get(texts.thousands, texts.thousands)
        options.append(f"--thousands {quoted}")
    if texts.rounds:
        options.append("--round")
    return " ".join(options)
