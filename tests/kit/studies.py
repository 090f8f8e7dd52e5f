"""A small valid study, changed by keywords: the tables and the text of its file, and the study."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from datetime import time
from decimal import Decimal
from typing import Any

from stream_dp.study import Study
from stream_dp.studyfile import parse_study

Table = dict[str, Any]


def attribute(values: Sequence[Any], missing: Any, **more: Any) -> Table:
    """The table of an attribute. missing: `absent`, a value, or `{"carry": True, "first": ...}`."""
    return {"values": list(values), "missing": missing, **more}


def window(name: str, attribute: str | Sequence[str], width: int, rho: Any, **more: Any) -> Table:
    """The table of a release of windows of `width` periods."""
    return {
        **{"name": name, "kind": "window", "attribute": attribute, "width": width},
        **{"rho": rho, **more},
    }


def cumulative(name: str, attribute: str, event: Sequence[Any], rho: Any, **more: Any) -> Table:
    """The table of a release of totals of the periods in which a value of `event` was reported."""
    return {
        **{"name": name, "kind": "cumulative", "attribute": attribute, "event": list(event)},
        **{"rho": rho, **more},
    }


def joint(
    name: str, attribute: str, width: int, event: Sequence[Any], rho: Any, **more: Any
) -> Table:
    """The table of a release of windows and totals from one panel."""
    return {
        **{"name": name, "kind": "joint", "attribute": attribute, "width": width},
        **{"event": list(event), "rho": rho, **more},
    }


MARKER = {"close": "marker"}
SCHEDULE = {"close": "schedule", "zone": "UTC", "at": time(6), "grace": "3d", "delay": "1h"}
MONTHS = {"first": "2021-01", "every": "month", "count": 3}
STEPS = {"first": 1, "every": "step", "count": 3}
BINARY = {"poverty": attribute([0, 1], missing=0)}
PAIRS = [window("pairs", "poverty", width=2, rho=1)]


def study_tables(
    *,
    periods: Mapping[str, Any] = MONTHS,
    size: int | None = 50,
    closed: bool = False,
    attributes: Mapping[str, Table] = BINARY,
    groups: Mapping[str, Any] | None = None,
    places: Mapping[str, Any] | None = None,
    releases: Sequence[Mapping[str, Any]] = PAIRS,
    run: Mapping[str, Any] | None = None,
    **study: Any,
) -> Table:
    """The tables of a study file.

    periods: `[study.periods]`.
    size: the number of people; None where it is private (`neighbours = "add_remove"`).
    closed: whether nobody enters after the first period.
    attributes: the table of each attribute by its name.
    groups: `[groups]`, with `attributes` and `roles` as tables in it.
    places: `[places]`.
    releases: a table for each `[[releases]]`.
    run: `[run]`.
    study: the other keys of `[study]`: name, unit, neighbours, rho, delta.
    """
    head = {"name": "small", "unit": "person", "neighbours": "replace_one", "rho": 1, "delta": 1e-6}
    population = {} if size is None else {"population": {"size": size}}
    if closed:
        population = {"population": {"closed": True}}
    return {
        "study": {**head, **study, "periods": dict(periods), **population},
        "attributes": dict(attributes),
        **({"groups": dict(groups)} if groups else {}),
        **({"places": dict(places)} if places else {}),
        "releases": [dict(release) for release in releases],
        **({"run": dict(run)} if run else {}),
    }


def study_toml(**changes: Any) -> str:
    """The text of a study file, of the keywords of `study_tables`: a key and its value a line."""
    return "\n".join(_sections("", study_tables(**changes))).lstrip() + "\n"


def toml_lines(table: Mapping[str, Any]) -> str:
    """The keys and values of a table as lines of TOML."""
    return "\n".join(_sections("", table))


def on_kafka(text: str, address: str) -> str:
    """The text of a study file whose logs are files, with both of them on one broker.

    text: its last table is `[run]`.
    address: `kafka://host:port/prefix` of the confidential log.
    """
    text = re.sub(r'"sqlite:[^"]*-public\.db"', f'"{address}-public"', text)
    text = re.sub(r'"sqlite:[^"]*"', f'"{address}"', text)
    return f"{text}replication = 1\ninsecure = true\n"


def small_study(**changes: Any) -> Study:
    """The study of that file."""
    return parse_study(tomllib.loads(study_toml(**changes), parse_float=Decimal))


def _sections(path: str, table: Mapping[str, Any]) -> list[str]:
    """The lines of a table: its values, then the tables in it under a heading each."""
    lines, sections = [], []
    for key, value in table.items():
        name = key if key.isidentifier() else json.dumps(key)
        inner = f"{path}.{name}" if path else name
        if isinstance(value, Mapping):
            below = _sections(inner, value)
            heading = [] if below and below[0] == "" else ["", f"[{inner}]"]
            sections += [*heading, *below]
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            for entry in value:
                sections += ["", f"[[{inner}]]", *_sections(inner, entry)]
        else:
            lines.append(f"{name} = {_literal(value)}")
    return lines + sections


def _literal(value: Any) -> str:
    """A value in TOML, which writes numbers, strings and lists as JSON does."""
    if isinstance(value, float):
        return repr(value).replace("e-0", "e-")
    return value.isoformat() if isinstance(value, time) else json.dumps(value)
