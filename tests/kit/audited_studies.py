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
    if kind.family in (Family.PEOPLE, Family.HOUSEHOLDS):
        release["every"] = 2
    if kind.family is Family.SIZES:
        release["largest"] = 8  # room for four people alike
    if relation is not None:
        tables["study"]["neighbours"] = relation
    if relation == "add_remove":
        del tables["study"]["population"]
    return tables


def gated_study(kind: Kind) -> dict[str, Any]:
    """The small study of a kind with a gate, and with a second data set that learns of the first.

    The gate has a tenth of rho 1/2.
    """
    tables = audited_study(kind)
    release = tables["releases"][0]
    release |= {"rho": "9/20"}
    if kind.data_set is not None:
        release |= {"every": 1, "rho": "9/40"}
    tables["study"]["gate"] = {"rho": "1/20", "least": "1/2"}
    return tables


def mixed_study() -> dict[str, Any]:
    """Two panels, two tables, of which the second learns from the first and the panels, a gate."""
    tables = gated_study(Kind.TABLE)
    panels = [audited_study(kind)["releases"][0] for kind in (Kind.WINDOW, Kind.CUMULATIVE)]
    rhos = {"name": "patterns", "rho": "1/10"}, {"name": "totals", "rho": "1/10"}
    tables["releases"][0]["rho"] = "1/8"
    tables["releases"] += [panel | rho for panel, rho in zip(panels, rhos, strict=True)]
    return tables
