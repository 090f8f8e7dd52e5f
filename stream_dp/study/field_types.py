"""The field types of declarations: exact numbers, names that no spreadsheet runs, and symbols."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from stream_dp.privacy.exact_numbers import exact_number

ABSENT = "absent"  # the symbol of nobody, or of a person without an answer
SymbolName = int | str
FAULT = "must not begin with '=', '+', '-', '@', a tab or an end of line: spreadsheets run formulas"
# After blanks, which some spreadsheets leave out; also as East Asian keyboards write them.
_FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n]")
_PLAIN_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


def is_formula(text: str) -> bool:
    """Whether a spreadsheet may run the text as a formula. Numbers are safe, even -1."""
    return _FORMULA.match(text) is not None and _PLAIN_NUMBER.fullmatch(text) is None


def _fraction(value: object) -> Fraction:
    """A number of a study file, exactly. Raises ValueError."""
    try:
        return exact_number("", value)
    except ValueError:
        raise ValueError("write a number such as 0.005, or a fraction such as '1/200'") from None


def _positive(value: object) -> Fraction:
    """A number from 1e-12 to 1e6, exactly. Raises ValueError."""
    number = _fraction(value)
    if number <= 0:
        raise ValueError("must be above 0")
    if not Fraction(1, 10**12) <= number <= 10**6:
        raise ValueError("must lie between 1e-12 and 1e6: less is no answer, more no privacy")
    return number


def _number(suits: Callable[[Fraction], bool], fault: str) -> BeforeValidator:
    """An exact number that suits; ValueError with `fault` for others."""

    def check(value: object) -> Fraction:
        number = _fraction(value)
        if not suits(number):
            raise ValueError(fault)
        return number

    return BeforeValidator(check)


def _only(declared: bool) -> BeforeValidator:
    """`declared` or None: the other truth value and a missing key are the same declaration."""

    def check(value: object) -> object:
        if value is not None and not isinstance(value, bool):
            raise ValueError("must be true or false")
        return declared if value is declared else None

    return BeforeValidator(check)


def matching(pattern: str, fault: str) -> Callable[[str], str]:
    """A check for a whole text: raises ValueError with `fault` unless it matches `pattern`."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(fault)
        return text

    return check


def _no_formula(text: str) -> str:
    """A text without a formula of a spreadsheet."""
    if is_formula(text):
        raise ValueError(FAULT)
    return text


_exact = PlainSerializer(str, return_type=str)
Rho = Annotated[Fraction, BeforeValidator(_positive), _exact]
Probability = Annotated[
    Fraction, _number(lambda n: 0 < n < 1, "must lie between 0 and 1, and be neither"), _exact
]
Share = Annotated[Fraction, _number(lambda n: 0 < n <= 1, "must be above 0 and at most 1"), _exact]
Multiple = Annotated[
    Fraction, _number(lambda n: 0 <= n <= 100, "must lie between 0 and 100"), _exact
]
Weight = Annotated[
    Fraction,
    _number(lambda n: Fraction(1, 100) <= n <= 100, "must lie between 0.01 and 100"),
    _exact,
]
Flag = Annotated[Literal[True] | None, _only(True)]
UnlessOff = Annotated[Literal[False] | None, _only(False)]
NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
Name = Annotated[str, Field(pattern=f"^{NAME_PATTERN}$")]
Symbol = (
    Annotated[int, Field(strict=True)]
    | Annotated[
        str,
        Field(strict=True, max_length=64, pattern=r"^[^|?=&\x00-\x1f]+$"),
        AfterValidator(_no_formula),
    ]
)


class Declaration(BaseModel):
    """A frozen section of a study file, without unknown keys."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        arbitrary_types_allowed=True,
        serialize_by_alias=True,
    )
