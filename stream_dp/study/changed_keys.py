"""The differing keys of two study declarations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stream_dp.json_object import Json

_MOST = 8  # keys that are listed by name
_LISTS = ("releases", "batches")
_SECTIONS = ("attributes", "groups", "places", *_LISTS)


def changed_keys(first: Mapping[str, object], second: Mapping[str, object]) -> str:
    """The keys with different values, for example 'study.rho, releases.quarters.width'.

    first, second: declarations as `Study.canonical` writes them.
    """
    keys = list(_differing_keys(_as_in_file(first), _as_in_file(second), ""))
    if not keys:
        return "the order of its releases"
    further = f" and {len(keys) - _MOST} more" if len(keys) > _MOST else ""
    return ", ".join(keys[:_MOST]) + further


def _as_in_file(declared: Mapping[str, Any]) -> Json:
    """The declaration by section of a study file, with releases by name."""
    head = {key: value for key, value in declared.items() if key not in _SECTIONS}
    periods = head.get("periods")
    if isinstance(periods, dict) and isinstance(periods.get("close"), dict):
        head["periods"] = {**periods, **periods["close"], "close": "schedule"}
    releases = [release for key in _LISTS for release in declared.get(key) or ()]
    return {
        "study": head,
        "attributes": declared.get("attributes", {}),
        "groups": declared.get("groups", {}),
        "places": declared.get("places", {}),
        "releases": {release["name"]: release for release in releases},
    }


def _differing_keys(first: object, second: object, path: str) -> Iterator[str]:
    """Yields the paths of keys with different values; for a missing table, the table's path."""
    if isinstance(first, dict) and isinstance(second, dict):
        for key in {**first, **second}:
            key_path = f"{path}.{key}" if path else key
            if key in first and key in second:
                yield from _differing_keys(first[key], second[key], key_path)
            else:
                yield key_path
    elif first != second:
        yield path
