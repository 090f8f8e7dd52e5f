"""A small study, with a window and a cumulative release, and a simulated panel for it."""

from __future__ import annotations

from typing import Any

import numpy as np
from kit.markov_panels import markov_panel

from stream_dp.panel import Symbols
from stream_dp.study import Study
from stream_dp.studyfile import parse_study

PAPER = {"strategy": "histogram", "padded": True}


def study(
    size: int = 2000, count: int = 6, width: int = 2, rho: str = "1/50", **window: Any
) -> Study:
    """The study; `window` are further fields of its window release, `PAPER` those of the paper."""
    declared = raw(size, count, width, rho)
    declared["releases"][0] |= window
    return parse_study(declared)


def together(size: int = 2000, count: int = 6, rho: str = "1/50") -> Study:
    """The study with a third release: one panel for both classes of queries."""
    declared = raw(size, count, 2, rho)
    window, total = declared["releases"]
    joint = {**window, **total, "name": "both", "kind": "joint"}
    declared["releases"].append(joint)
    return parse_study(declared)


def coming_and_going(size: int = 600, count: int = 6) -> tuple[Study, dict[str, Symbols]]:
    """A study of people who come and go, under add_remove, and a simulated panel for it."""
    declared = raw(size, count)
    declared["study"]["neighbours"] = "add_remove"
    del declared["study"]["population"]
    declared["attributes"]["poor"]["missing"] = "absent"
    for release in declared["releases"]:
        release["rows"] = size + 100
    there = markov_panel(12, n=size, periods=count, symbols=2, stay=0.7)
    return parse_study(declared), {"poor": np.where(there == 1, truth(size, count)["poor"], 2)}


def raw(size: int = 2000, count: int = 6, width: int = 2, rho: str = "1/50") -> dict[str, Any]:
    window = {"name": "pairs", "kind": "window", "attribute": "poor", "width": width, "rho": rho}
    total = {"name": "totals", "kind": "cumulative", "attribute": "poor", "event": [1], "rho": rho}
    return {
        "study": {
            "name": "small",
            "unit": "person",
            "neighbours": "replace_one",
            "rho": 1,
            "delta": "1/1000000",
            "periods": {"first": "2021-01", "every": "month", "count": count},
            "population": {"size": size},
        },
        "attributes": {"poor": {"values": [0, 1], "missing": 0}},
        "releases": [window, total],
    }


def truth(size: int = 2000, count: int = 6) -> dict[str, Symbols]:
    return {"poor": markov_panel(11, n=size, periods=count, symbols=2, stay=0.8)}
