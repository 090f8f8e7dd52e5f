"""`strata` and `waves`: one declaration in a study file for a release of every value.

`strata = "region"` declares a release NAME-VALUE with `where = { region = VALUE }` for each value.
`waves = { by = "wave", every = 6, length = 12 }` also gives each its own periods: the i-th wave,
counted from 0, begins i * every periods after the first and lasts `length`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from stream_dp.json_object import Json
from stream_dp.study.field_types import NAME_PATTERN
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
