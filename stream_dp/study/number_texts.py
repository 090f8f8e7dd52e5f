"""Numbers as files and records write them: with a decimal mark, and marks of thousands.

For numbers where an answer is a whole number, the options are proposed that read them so.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from functools import cached_property
from itertools import product

from stream_dp.errors import UserError

from .attribute import Attribute

DECIMALS = (".", ",")
# By mark of thousands, the signs that are written for it.
THOUSANDS = {".": ".", ",": ",", "'": "'\u2019", " ": " \u00a0\u202f\u2009"}
SPACE = "space"  # the word for the blank
# Without declared marks: zeros that no mark of thousands has behind it.
_PLAIN = re.compile(r"0|-?[1-9][0-9]*|-?(?:0|[1-9][0-9]*)\.[0-9]*[1-9]")
_MOST_DIGITS = 17  # in front of the decimal mark of a number on a scale
_UNDECLARED = re.compile(r"(0|-?[1-9][0-9]*)\.0{1,2}")
_UNDECLARED_FRACTION = re.compile(r"(-?(?:0|[1-9][0-9]*))\.([0-9]{1,2})")


def plain_decimal(number: Decimal) -> str:
    """A number in digits, without zeros at the end.

    >>> [plain_decimal(Decimal(text)) for text in ("0.50", "12.0", "1E+2", "-0.0")]
    ['0.5', '12', '100', '0']
    """
    text = f"{number:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


@dataclass(frozen=True)
class NumberTexts:
    """How texts write whole numbers.

    decimal: the decimal mark. thousands: the mark of thousands. None is not declared.
    rounds: numbers with a fraction stand for the nearest whole number.

    Raises UserError for other marks, or for one mark for both.

    >>> [NumberTexts().whole(text) for text in ("12.0", "1.000", "12.5", "1e3", "-9.00")]
    ['12', None, None, None, '-9']
    >>> german = NumberTexts(",", ".")
    >>> [german.whole(text) for text in ("1.200", "1.200,00", "1200,0", "1.20", "1.200,5")]
    ['1200', '1200', '1200', None, None]
    """

    decimal: str | None = None
    thousands: str | None = None
    rounds: bool = False

    def __post_init__(self) -> None:
        if self.decimal is not None and self.decimal not in DECIMALS:
            raise UserError("decimal: write . or ,")
        if self.thousands is not None and self.thousands not in THOUSANDS:
            raise UserError(f"thousands: write one of . , ' or {SPACE}")
        if self.decimal is not None and self.decimal == self.thousands:
            raise UserError("decimal, thousands: write two different marks")

    @property
    def declared(self) -> bool:
        """Whether a mark is declared."""
        return (self.decimal, self.thousands) != (None, None)

    @property
    def _marked(self) -> tuple[str, str]:
        """Patterns of the digits of a whole number above 0, and of the decimal mark."""
        digits = "[1-9][0-9]*"
        if self.thousands is not None:
            digits += f"|[1-9][0-9]{{0,2}}(?:[{THOUSANDS[self.thousands]}][0-9]{{3}})+"
        return digits, self.decimal or ("," if self.thousands == "." else ".")

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        if not self.declared:
            return _UNDECLARED
        digits, decimal = self._marked
        return re.compile(rf"(0|-?(?:{digits}))(?:[{decimal}]0+)?")

    @property
    def signs(self) -> tuple[str, ...]:
        """Texts without any of these are no number with a mark."""
        if not self.declared:
            return (".",)
        return (*(self.decimal or ",."), *THOUSANDS.get(self.thousands or "", ""))

    @cached_property
    def _fraction(self) -> re.Pattern[str]:
        if not self.declared:
            return _UNDECLARED_FRACTION
        digits, decimal = self._marked
        return re.compile(rf"(-?(?:0|{digits}))[{decimal}]([0-9]+)")

    def fraction(self, text: str) -> str | None:
        """Returns a text's decimal number with a point and without end zeros, or None.

        >>> [NumberTexts().fraction(text) for text in ("12.50", "0.5", "1.500", "7")]
        ['12.5', '0.5', None, None]
        >>> [NumberTexts(",", ".").fraction(text) for text in ("1.200,50", "0,5", "0.5")]
        ['1200.5', '0.5', None]
        """
        match = self._fraction.fullmatch(text)
        if match is None:
            return None
        digits = re.sub("[^0-9-]", "", match[1])
        return plain_decimal(Decimal(f"{digits}.{match[2]}"))

    def whole(self, text: str) -> str | None:
        """Returns the digits of a text's whole number, or None if the text has no whole number."""
        match = self._pattern.fullmatch(text)
        return None if match is None else re.sub("[^0-9-]", "", match[1])


@dataclass(frozen=True)
class WholeNumbers:
    """The numbers among the answers to an attribute, as texts write them.

    texts: how they are written.
    attribute: with its answers.
    meanings: texts that have a meaning of their own.
    """

    texts: NumberTexts
    attribute: Attribute
    meanings: Collection[str] = ()

    @classmethod
    def of(
        cls, texts: NumberTexts, attribute: Attribute, meanings: Collection[str] = ()
    ) -> WholeNumbers | None:
        """The numbers of an attribute. None for an attribute without any."""
        meant = (*map(str, attribute.listed), *map(str, attribute.no_answers), *meanings)
        if attribute.number is None and not any(map(_PLAIN.fullmatch, meant)):
            return None
        return cls(texts, attribute, meanings)

    def plain(self, text: str) -> str:
        """Returns the digits of an answer that is a number, and any other text unchanged."""
        if text in self.meanings or self.attribute.takes(text):
            return text
        number_text = self.texts.whole(text)
        if number_text is None:
            number = self.texts.fraction(text)
            if number is None:
                return text
            takes = number in self.meanings or self.attribute.takes(number)
            return number if takes else self.nearest(Decimal(number)) or text
        takes = number_text in self.meanings or self.attribute.takes(number_text)
        return number_text if takes or self.attribute.number is not None else text

    def nearest(self, number: Decimal) -> str | None:
        """The digits of the nearest whole number, if it is on the attribute's scale and rounds.

        A half is rounded away from zero. None for any other number: no fraction becomes a code.
        """
        scale = self.attribute.number
        if not self.texts.rounds or scale is None or not number.is_finite():
            return None
        if number.adjusted() > _MOST_DIGITS:  # beyond every scale
            return None
        text = plain_decimal(number.quantize(Decimal(1), ROUND_HALF_UP))
        return text if isinstance(scale.read(text), int) and text not in self.meanings else None


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
