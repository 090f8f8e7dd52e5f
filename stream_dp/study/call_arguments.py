"""Checks of the arguments of functions in Python, with errors that name the argument."""

from __future__ import annotations

from fractions import Fraction
from numbers import Integral
from typing import Any

from pydantic import TypeAdapter, ValidationError

from stream_dp.errors import UserError
from stream_dp.privacy.exact_numbers import Number as Number

from .families import RELATIONS, Neighbours
from .field_types import Probability, Rho


def exact_rho(name: str, value: Number | None) -> Fraction:
    """The given number, above 0. A float stands for Python's printed decimal number.

    name: of the argument, for errors. Raises UserError.

    >>> exact_rho("rho", 0.1)
    Fraction(1, 10)
    """
    return _exact(name, value, Rho)


def exact_delta(value: Number | None) -> Fraction:
    """The number that was written, between 0 and 1. Raises UserError."""
    return _exact("delta", value, Probability)


def checked_relation(neighbours: str) -> Neighbours:
    """The neighbouring relation. Raises UserError for another word."""
    for relation in RELATIONS:
        if relation == neighbours:
            return relation
    listed = ", ".join(f"'{relation}'" for relation in RELATIONS)
    raise UserError(
        f"neighbours: must be one of {listed}; it decides what is protected, so there is no default"
    )


def checked_whole(name: str, value: object, least: int = 1) -> int:
    """The whole number of an argument. Raises UserError for another value, or one below `least`."""
    if value is True or value is False or not isinstance(value, Integral) or value < least:
        raise UserError(f"{name}: must be a whole number from {least} on")
    return int(value)


def _exact(name: str, value: Any, kind: Any) -> Fraction:
    """A number as a Fraction. kind: with its bounds."""
    try:
        number: Fraction = TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        fault = error.errors(include_input=False, include_url=False)[0]["msg"]
        raise UserError(f"{name}: {fault.removeprefix('Value error, ')}") from None
    return number
