"""Checks of the arguments of all mechanisms."""

from __future__ import annotations

from fractions import Fraction

from stream_dp.study.families import RELATIONS


def check_arguments(
    *, rho: object, neighbours: object, horizon: object, failure: object, rows: object
) -> None:
    """Raises ValueError for an unsound argument, with a sentence that names the argument."""
    if isinstance(rho, bool) or not isinstance(rho, Fraction | int) or rho <= 0:
        raise ValueError(f"rho: must be a Fraction above 0, such as Fraction(1, 100), not {rho!r}")
    if neighbours not in RELATIONS:
        raise ValueError(f"neighbours: must be one of {', '.join(RELATIONS)}, not {neighbours!r}")
    check_whole("horizon", horizon)
    if not isinstance(failure, Fraction) or not 0 < failure < 1:
        raise ValueError(f"failure: must be a Fraction between 0 and 1, not {failure!r}")
    if rows is not None:
        check_whole("rows", rows, 0)


def check_whole(name: str, number: object, least: int = 1) -> None:
    """Raises ValueError unless the argument is a whole number from `least` on."""
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise ValueError(f"{name}: must be a whole number from {least} on, not {number!r}")
