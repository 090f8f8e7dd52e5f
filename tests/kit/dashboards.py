"""The shipped dashboards and what they ask Prometheus."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

GRAFANA = Path(__file__).parents[2] / "deploy" / "grafana"


def board(name: str) -> Any:
    return json.loads((GRAFANA / name).read_text("utf-8"))


def panels(name: str) -> list[Any]:
    """The panels of a board, without the rows' titles."""
    return [panel for panel in board(name)["panels"] if panel["type"] != "row"]


def expressions(name: str) -> list[str]:
    """Every expression of a board."""
    return [target["expr"] for panel in panels(name) for target in panel["targets"]]


def filled(expression: str, study: str) -> str:
    """An expression as Grafana sends it, for a study and a scrape each second."""
    return expression.replace("$__rate_interval", "1m").replace("$study", study)
