"""Which keys of a study file differ between two declarations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_MOST = 8  # keys that are listed by name
_LISTS = ("releases", "batches")
_SECTIONS = ("attributes", "groups", "places", *_LISTS)


def changed_keys(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """The keys whose values differ, such as 'study.rho, releases.quarters.width'.

    before, after: as `Study.canonical` writes them.
    """
    keys = list(_differing_keys(_as_in_file(before), _as_in_file(after), ""))
    if not keys:
        return "the order of its releases"
    more = f" and {len(keys) - _MOST} more" if len(keys) > _MOST else ""
    return ", ".join(keys[:_MOST]) + more


def _as_in_file(declared: Mapping[str, Any]) -> dict[str, Any]:
    """The declaration in the sections of a study file, releases by their names."""
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


def _differing_keys(before: Any, after: Any, place: str) -> Iterator[str]:
    """The keys whose values differ; of a table that one side lacks, the table's own key."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            where = f"{place}.{key}" if place else key
            if key in before and key in after:
                yield from _differing_keys(before[key], after[key], where)
            else:
                yield where
    elif before != after:
        yield place
