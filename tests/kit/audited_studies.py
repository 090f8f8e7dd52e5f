"""Small studies whose one release is audited."""

from __future__ import annotations

from typing import Any

from stream_dp.study.families import Family, Kind

from .kinds_of_releases import study_of

ONE_WINDOW = """
[study]
name = "trial"
unit = "person"
neighbours = "replace_one"
rho = 1
delta = 1e-6
[study.periods]
first = 1
every = "step"
count = 2
[study.population]
size = 20
[attributes.work]
values = ["no", "yes"]
missing = "no"
[[releases]]
name = "answers"
kind = "window"
attribute = "work"
width = 1
rho = 1
[run]
log = "sqlite:trial.db"
"""


def audited_study(kind: Kind, relation: str | None = None, rho: str = "1/2") -> dict[str, Any]:
    """A small study with one release of a kind, at a usual budget."""
    tables: dict[str, Any] = study_of(kind)
    release = tables["releases"][0]
    tables["study"] |= {"rho": rho}
    release |= {"rho": rho}
    if kind.family is Family.PEOPLE:
        for key in ("first", "rounds", "per_round"):
            release.pop(key, None)
        release["every"] = 2
    if kind.family is Family.SIZES:
        release["largest"] = 8  # room for four people alike
    if relation is not None:
        tables["study"]["neighbours"] = relation
    if relation == "add_remove":
        del tables["study"]["population"]
    return tables
