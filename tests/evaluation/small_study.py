"""A small study, with a window and a cumulative release, and a simulated panel for it."""

from __future__ import annotations

from typing import Any

from stream_dp.evaluation import simulate
from stream_dp.panel import Symbols
from stream_dp.study import Study
from stream_dp.studyfile import parse


def study(size: int = 2000, count: int = 6, width: int = 2, rho: str = "1/50") -> Study:
    return parse(raw(size, count, width, rho))


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
    return {"poor": simulate.panel(11, size, count, 2, 0.8)}
