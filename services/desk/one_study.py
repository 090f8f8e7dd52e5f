"""The study behind a call in a notebook: its budget, and its faults as those of arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction

from stream_dp.errors import UserError
from stream_dp.privacy.zcdp import rho_within
from stream_dp.study import Study
from stream_dp.study.call_arguments import Number, exact_delta, exact_rho
from stream_dp.studyfile import parse_study

# By the beginning of a key of a study file, the argument of a call.
_ARGUMENTS = (
    (re.compile(r"^attributes\.([^:]+)\.missing\b"), r"missing['\1']"),
    (re.compile(r"^attributes\.([^:]+)\.(number|bins)\b"), r"bins['\1']"),
    (re.compile(r"^attributes\.([^:.]+)(\.values)?"), r"values['\1']"),
    (re.compile(r"^releases\[\d+\]\.?"), ""),
    (re.compile(r"^study\.(periods\.|population\.)?"), ""),
)


def budget(rho: Number | None, epsilon: Number | None, delta: Number) -> tuple[Fraction, Fraction]:
    """rho, and delta. Raises UserError unless one of rho and epsilon is given, and sound."""
    exact = exact_delta(delta)
    if (rho is None) == (epsilon is None):
        raise UserError("rho, epsilon: give one of the two")
    if epsilon is None:
        return exact_rho("rho", rho), exact
    return rho_within(exact_rho("epsilon", epsilon), exact), exact


def one_study(
    attributes: Mapping[str, object],
    releases: Sequence[Mapping[str, object]],
    *,
    unit: str,
    neighbours: str,
    rho: Fraction,
    delta: Fraction,
    size: int | None,
    periods: Mapping[str, object],
) -> Study:
    """A study with these releases, which share rho equally. Raises UserError."""
    head = {
        "name": "notebook",
        "unit": unit,
        "neighbours": neighbours,
        "rho": str(rho),
        "delta": str(delta),
        "periods": dict(periods),
        "population": {} if size is None else {"size": size},
    }
    share = str(rho / max(1, len(releases)))
    try:
        return parse_study(
            {
                "study": head,
                "attributes": dict(attributes),
                "releases": [{**release, "rho": share} for release in releases],
            }
        )
    except UserError as error:
        raise UserError(map(_argument, error.lines)) from None


def _argument(line: str) -> str:
    for pattern, name in _ARGUMENTS:
        line = pattern.sub(name, line)
    return line
