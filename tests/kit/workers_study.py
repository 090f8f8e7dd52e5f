"""A study of workers with a table of people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kit.studies import MARKER, study_toml


def workers_toml(
    *,
    rho: int,
    attributes: Mapping[str, Any],
    releases: Sequence[Mapping[str, Any]],
    months: int = 1,
    relation: str = "add_remove",
) -> str:
    """The study file, with logs in files and workers that are started by hand.

    relation: those of replacement protect 500 people.
    """
    return study_toml(
        name="workers",
        unit="person",
        neighbours=relation,
        rho=rho,
        periods={"first": "2021-01", "every": "month", "count": months, **MARKER},
        size=None if relation == "add_remove" else 500,
        attributes=attributes,
        releases=releases,
        run={"log": "sqlite:workers.db", "public": "sqlite:workers-public.db", "worker": False},
    )
