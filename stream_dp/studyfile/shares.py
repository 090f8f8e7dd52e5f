"""`share`: the part of `study.rho` spent by a release, so that one number is the study's price.

A share is of all periods, or all data sets, of a release together. The gate has a share, too.
"""

from __future__ import annotations

from collections.abc import Collection
from fractions import Fraction
from typing import Any

from pydantic import TypeAdapter, ValidationError

from stream_dp.json_object import Json
from stream_dp.study.field_types import Share
from stream_dp.study.periods import Periods

SHARE = "share"
_UNKNOWN = Fraction(1, 10**12)  # where another key has a fault


_SHARES: TypeAdapter[Fraction] = TypeAdapter(Share)


def with_rho(
    raw: Any, section: str, rho: Fraction | None, data_sets: int, problems: list[str]
) -> Any:
    """A table of a study file with the `rho` that follows from its `share`.

    section: the table's key in the file, for the faults that are added to `problems`.
    rho: of the study; None if it has a fault.
    data_sets: how many the release has; 1 for a panel.
    """
    if not isinstance(raw, dict) or SHARE not in raw:
        return raw
    rest = {key: value for key, value in raw.items() if key != SHARE}
    if rivals := [key for key in ("rho", "epsilon") if key in rest]:
        problems.append(f"{section}: declare {SHARE} or {rivals[0]}, not both")
        return rest
    try:
        share = _SHARES.validate_python(raw[SHARE])
    except ValidationError as error:
        fault = error.errors(include_input=False, include_url=False)[0]["msg"]
        problems.append(f"{section}.{SHARE}: {fault.removeprefix('Value error, ')}")
        return rest | {"rho": _UNKNOWN}
    return rest | {"rho": _UNKNOWN if rho is None else share * rho / data_sets}


def number_of_data_sets(raw: Json, periods: Periods | None) -> int:
    """How many data sets a declaration has; 1 for a panel, and for periods with a fault."""
    at, every = raw.get("at"), raw.get("every")
    if isinstance(at, Collection) and not isinstance(at, str) and at:
        return len({str(label) for label in at})
    if periods is not None and type(every) is int and every > 0:
        return max(1, periods.count // every)
    return 1
