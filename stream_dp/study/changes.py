"""What differs between two declarations, in the words of the study file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_MOST = 8
_LISTS = ("releases", "batches")
_SECTIONS = ("attributes", "groups", *_LISTS)


def changed_keys(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """The keys whose values differ, such as 'study.rho, releases.quarters.width'.

    before, after: as `Study.canonical` writes them.
    """
    keys = list(_differing(_laid_out(before), _laid_out(after), ""))
    if not keys:
        return "the order of its releases"
    more = f" and {len(keys) - _MOST} more" if len(keys) > _MOST else ""
    return ", ".join(keys[:_MOST]) + more


def _laid_out(declared: Mapping[str, Any]) -> dict[str, Any]:
    """The declaration as a study file has it, releases by their names."""
    head = {key: value for key, value in declared.items() if key not in _SECTIONS}
    periods = head.get("periods")
    if isinstance(periods, dict) and isinstance(periods.get("close"), dict):
        head["periods"] = {**periods, **periods["close"], "close": "schedule"}
    releases = [release for key in _LISTS for release in declared.get(key) or ()]
    return {
        "study": head,
        "attributes": declared.get("attributes", {}),
        "groups": declared.get("groups", {}),
        "releases": {release["name"]: release for release in releases},
    }


def _differing(before: Any, after: Any, place: str) -> Iterator[str]:
    """Each key that differs; of what one of them lacks, the outermost."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            where = f"{place}.{key}" if place else key
            if key in before and key in after:
                yield from _differing(before[key], after[key], where)
            else:
                yield where
    elif before != after:
        yield place
