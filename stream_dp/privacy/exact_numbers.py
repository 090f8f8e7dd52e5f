"""Numbers of costs and noise, exactly: a Fraction of whatever number a caller writes."""

from __future__ import annotations

import re
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from numbers import Rational
from typing import Any

Number = Fraction | Decimal | int | float | str

# Powers of ten are kept small: 1e99999999 would be a fraction of a hundred million digits.
_NUMBER = r"-?\d{1,60}(/\d{1,60})?|-?\d*\.?\d{1,60}([eE][+-]?\d{1,3})?"


def exact_number(name: str, value: object) -> Fraction:
    """The number as a Fraction. A float stands for the decimal number that Python prints.

    name: of the argument, for errors. Raises ValueError for what is no number.

    >>> exact_number("rho", 0.01), exact_number("rho", "1/200")
    (Fraction(1, 100), Fraction(1, 200))
    """
    if isinstance(value, float):  # of NumPy, too
        value = repr(float(value))
    if not isinstance(value, bool) and isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    if isinstance(value, Decimal | str) and re.fullmatch(_NUMBER, str(value)):
        with suppress(ZeroDivisionError):
            return Fraction(value)
    raise ValueError(f"{name}: must be a number such as 0.01 or '1/100', not {value!r}")


def exact_field(default: Fraction | None = None) -> Any:
    """A field of a dataclass: takes any number and holds a Fraction.

    default: of the field; None for a field without one.
    """
    return _ExactField(default)


class _ExactField:
    """The descriptor of such a field."""

    def __init__(self, default: Fraction | None) -> None:
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> Fraction:
        if instance is not None:
            number: Fraction = vars(instance)[self._name]
            return number
        if self._default is None:
            raise AttributeError(self._name)  # so a dataclass finds no default
        return self._default

    def __set__(self, instance: object, value: object) -> None:
        vars(instance)[self._name] = exact_number(self._name, value)
