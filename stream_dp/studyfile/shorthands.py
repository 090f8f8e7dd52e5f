"""Keys of a study file that stand for others: `share`, `strata` and `waves`.

`share` is the part of `study.rho` spent by a release, so that one number is the study's price. A
share is of all periods, or all data sets, of a release together. The gate has a share, too.

`strata = "region"` declares a release NAME-VALUE with `where = { region = VALUE }` for each value.
`waves = { by = "wave", every = 6, length = 12 }` also gives each its own periods: the i-th wave,
counted from 0, begins i * every periods after the first and lasts `length`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from stream_dp.json_object import Json
from stream_dp.study.field_types import NAME_PATTERN, Share
from stream_dp.study.periods import Periods
from stream_dp.study.study import Sections

EXPANDED_KEYS = ("strata", "waves")


class Waves(BaseModel):
    """The key `waves`: a release of every value of a fixed attribute, with its periods."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    by: Annotated[str, Field(strict=True)]
    """The fixed attribute whose values are the waves."""
    every: Annotated[int, Field(ge=1, strict=True)]
    """The number of periods from the beginning of one wave to that of the next."""
    length: Annotated[int, Field(ge=1, strict=True)]
    """How many periods a wave lasts."""


def expanded_releases(
    raw: Mapping[str, Any], waves: Waves | None, sections: Sections
) -> tuple[list[Json], list[str]]:
    """The releases of a declaration, and its faults, to be put after the key in the file.

    raw: the declaration, with the key `strata` or `waves`.
    waves: the checked value of `waves`, if declared.
    sections: the sections of the file.
    """
    attributes, periods = sections.attributes, sections.periods
    rest = {key: value for key, value in raw.items() if key not in EXPANDED_KEYS}
    key, by = ("waves.by", waves.by) if waves is not None else ("strata", raw.get("strata"))
    fixed = [name for name, attribute in attributes.items() if attribute.fixed]
    rivals = [name for name in ("where", *EXPANDED_KEYS) if name in raw]
    if len(rivals) > 1:
        return [], [f": declare one of {', '.join(rivals)}"]
    if waves is not None and {"first", "last"} & raw.keys():
        return [], [".waves: each wave gets first and last of its own: leave these out"]
    if not isinstance(by, str):
        return [], [f".{key}: must be the name of one attribute, such as 'region'"]
    if by in sections.attribute_names and by not in attributes:
        return [], []  # its own faults are reported already
    if by not in sections.attribute_names:
        advice = f"; fixed are {', '.join(fixed)}" if fixed else ""
        return [], [f".{key}: no attribute '{by}' is declared{advice}"]
    if by not in fixed:
        return [], [f".{key}: declare attributes.{by} with fixed = true: a person keeps a stratum"]
    if not isinstance(raw.get("name"), str):
        return [], [".name: is required"]
    releases, values = [], attributes[by].listed
    for value in values:
        name = f"{raw['name']}-{value}"
        if re.fullmatch(NAME_PATTERN, raw["name"]) and not re.fullmatch(NAME_PATTERN, name):
            return [], [
                f".{key}: '{name}' cannot be a release's name: write the values of '{by}' with"
                " letters, digits, '.', '_' and '-'"
            ]
        releases.append({**rest, "name": name, "where": {by: value}})
    if waves is None or periods is None:
        return releases, []
    return _with_spans(releases, waves, periods.labels)


def _with_spans(
    releases: list[Json], waves: Waves, labels: tuple[str, ...]
) -> tuple[list[Json], list[str]]:
    """The releases with `first` and `last` of their waves, and the faults of these periods."""
    starts = [i * waves.every for i in range(len(releases))]
    over = starts[-1] + waves.length - len(labels)
    if over > 0:
        return [], [
            f".waves: the last of {len(releases)} waves would end {over}"
            f" period{'s' * (over > 1)} after the study: raise study.periods.count to"
            f" {len(labels) + over}, or make waves shorter or closer"
        ]
    spans = [{"first": labels[i], "last": labels[i + waves.length - 1]} for i in starts]
    return [release | span for release, span in zip(releases, spans, strict=True)], []


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
